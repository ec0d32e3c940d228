"""Settings of the documentation; `ci/docs` writes its pages and builds it."""

import itertools
import re
from typing import Any

import scutch

project = "scutch"
author = "the authors of scutch"
release = scutch.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]

# ---------------------------------------------------------------- pages

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = False
copybutton_exclude = ".linenos, .gp, .go"

# ---------------------------------------------------------------- docstrings

autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints = "signature"
autodoc_type_aliases = {"Params": "Params"}
autodoc_preserve_defaults = True
add_module_names = False
default_role = "literal"  # docstrings are Markdown in this: one backtick is code
napoleon_use_ivar = True
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]


def _from_markdown(
    app: object, what: str, name: str, item: object, options: object, lines: list[str]
) -> None:
    """Let a docstring mean what it does in Markdown: an indented block is code, `Param`s a plural.

    Of what JAX itself documents, only the first sentence is shown.
    """
    if str(getattr(item, "__module__", "")).startswith("jax"):
        lines[:] = [*itertools.takewhile(str.strip, lines), "", "As JAX documents it."]
    found: list[str] = []
    said = ""  # the last line that is not blank
    for line in lines:
        begins = line.startswith("    ") and not (found and found[-1])
        if begins and not said.startswith("    ") and not _NO_CODE.search(said):
            found += [".. code-block:: python", ""]
        found.append(line)
        said = line or said
    lines[:] = _CODE.sub(_plural, "\n".join(found)).split("\n")


def _plural(code: re.Match[str]) -> str:
    """Code in a text; a letter after it is divided from it as reStructuredText wants it."""
    return rf"``{code[1]}``\ {code[2]}" if code[2] else code[0]


_NO_CODE = re.compile(r"::$|^\w+:$")  # it is code already, or the heading of a section
_CODE = re.compile(r"(?<!`)`(?!`)([^`]+)`(?!`)(\w*)")


def setup(app: Any) -> None:
    """Register what Sphinx calls."""
    app.connect("autodoc-process-docstring", _from_markdown, priority=400)


# ---------------------------------------------------------------- the look

html_theme = "furo"
html_title = "scutch"
html_static_path = ["_static"]
html_css_files = ["verdicts.css", "scutch.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_show_search_summary = False  # from disk, a browser refuses to fetch what it would quote
html_favicon = "_static/mark.svg"
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
pygments_style = "xcode"
pygments_dark_style = "github-dark"
_FONT = 'system-ui, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif'
_MONOSPACE = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace'
html_theme_options = {
    "light_logo": "mark.svg",
    "dark_logo": "mark.svg",
    "navigation_with_keys": True,
    "top_of_page_buttons": [],
    "light_css_variables": {
        "font-stack": _FONT,
        "font-stack--monospace": _MONOSPACE,
        "color-brand-primary": "#2f5d50",
        "color-brand-content": "#0a58b5",
        "color-brand-visited": "#0a58b5",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8fd0bd",
        "color-brand-content": "#7db7ff",
        "color-brand-visited": "#7db7ff",
        "color-background-primary": "#101418",
        "color-background-secondary": "#151a1f",
        "color-code-background": "#0c1013",
    },
}
