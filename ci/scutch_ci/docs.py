"""The command `ci/docs`: build the documentation, with the newest verdicts and figures.

Its pages are the templates in `docs/`, and pages about each requirement, each finding and each
public module. They show the results that `ci/conformance`, `ci/mutants` and `ci/nightly` wrote to
`build`. The result is one site that opens from disk without a network. Every warning of Sphinx is
an error, and so is every link inside the site that leads nowhere.
"""

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from scutch.report.document import ReportError, load

from scutch_ci import asv_site, conformance, front_page, links, mutants, pages
from scutch_ci.checkout import ROOT, NothingMeasured, environment_of, processors
from scutch_ci.front_page import Outcome
from scutch_ci.history import History
from scutch_ci.regressions import Regression

OUTPUT = ROOT / "build" / "docs"
_WAY_BACK = "".join(
    f'<li><a href="../{page}.html">{words}</a></li>'
    for page, words in (
        ("index", "scutch"),
        ("verdicts/index", "Verdicts"),
        ("requirements/index", "Requirements"),
        ("speed", "Speed"),
        ("nightly", "Nightly"),
    )
)
"""Links from asv's page to the others."""
_UNRUN = ("-D", "nb_execution_mode=off", "-D", "suppress_warnings=myst-nb.lexer")
"""Options with which the guides are not run; then the language of their cells is not known."""


def main(arguments: Sequence[str]) -> int:
    """Build the documentation.

    Args:
      arguments: The command's options.

    Returns:
      An exit code: 0 built, 1 a warning or a broken link, 2 it could not be built.
    """
    options = parsed(arguments)
    if importlib.util.find_spec("sphinx") is None:
        print('ci/docs: Sphinx is not installed: pip install "scutch[docs]"', file=sys.stderr)
        return 2
    graphs = options.found / "nightly" / "site" / "benchmarks"
    try:
        evidence = (
            evidence_of_night(options.found / "nightly")
            if options.night
            else evidence_in(options.found)
        )
    except (NothingMeasured, ReportError) as error:
        print(f"ci/docs: {error}", file=sys.stderr)
        return 2
    source, site = options.output / "source", options.output / "html"
    pages.write(evidence, source)
    if options.check:
        return int(bool(sphinx("dummy", source, options.output / "check", *_UNRUN)))
    code = sphinx("html", source, site)
    if options.external:
        code = max(code, sphinx("linkcheck", source, options.output / "linkcheck"))
    if options.night and (graphs / "index.html").exists():
        copy_graphs(graphs, site)
    broken = list(links.broken(site))
    print(*[f"broken link: {one}" for one in broken], sep="\n", end="\n" if broken else "")
    index = site / "index.html"
    print(f"site: {index}")
    if options.open:
        webbrowser.open(index.as_uri())
    return int(bool(code or broken))


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "ci/docs",
        description=__doc__,
        epilog="exit codes: 0 built, 1 a warning or a broken link, 2 it could not be built",
    )
    add = parser.add_argument
    add(
        "--from",
        dest="found",
        type=Path,
        default=ROOT / "build",
        metavar="DIR",
        help="where ci/conformance, ci/mutants and ci/nightly left what they found (build)",
    )
    add(
        "--night",
        action="store_true",
        help="show what the last nightly found, its figures and its graphs",
    )
    add(
        "--output",
        type=Path,
        default=OUTPUT,
        metavar="DIR",
        help="where the site and what is kept between builds go (build/docs)",
    )
    add(
        "--check",
        action="store_true",
        help="look for warnings only: run no guide and write no page",
    )
    add("--external", action="store_true", help="follow the links to the web, too")
    add("--open", action="store_true", help="open the site in a browser")
    options = parser.parse_args(arguments)
    options.output = options.output.resolve()
    return options


def evidence_in(folder: Path) -> pages.Evidence:
    """The reports of `ci/conformance` and the results of `ci/mutants` in a folder.

    Raises:
      ReportError: A report cannot be read.
    """
    reports = sorted(folder.glob(f"{conformance.OUTPUT.name}/*.json"), key=_reference_first)
    planted = sorted(folder.glob(f"{mutants.OUTPUT.name}/*.jsonl"), key=_reference_first)
    return pages.Evidence(
        [load(path) for path in reports],
        {path.stem: mutants.results_in(path) for path in planted},
    )


def _reference_first(path: Path) -> tuple[bool, str]:
    return not path.stem.startswith("reference"), path.stem


def evidence_of_night(state: Path) -> pages.Evidence:
    """The reports, planted faults and first page of the last nightly that came to its end.

    Args:
      state: The folder of all nights.

    Raises:
      NothingMeasured: No night has come to its end.
      ReportError: A report cannot be read.
    """
    history = History(state)
    night = next((one for one in reversed(list(history)) if one.verdict is not None), None)
    if night is None or night.verdict is None:
        raise NothingMeasured(f"no nightly in {state} has come to its end; ci/nightly runs one")
    regressed = [Regression(**one) for one in night.verdict["regressions"]]
    outcome = Outcome(regressed, night.verdict["failed"], "")
    return pages.Evidence(
        [load(path) for path in night.reports.values()],
        {name: mutants.results_in(path) for name, path in night.mutants.items()},
        front_page.fragment(history, night, outcome, "verdicts/index.html"),
    )


def copy_graphs(graphs: Path, site: Path) -> None:
    """Copy asv's site into the documentation, with the documentation's style and links to it.

    Args:
      graphs: The folder of asv's site, as a nightly publishes it.
      site: The documentation.
    """
    folder = site / graphs.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(graphs, folder)
    index = folder / "index.html"
    page = index.read_text("utf-8")
    style = '<link rel="stylesheet" href="../_static/graphs.css">'
    page = page.replace("</head>", f"{style}\n</head>", 1)
    index.write_text(page.replace(asv_site.BACK, _WAY_BACK, 1), "utf-8")


def sphinx(builder: str, source: Path, output: Path, *options: str) -> int:
    """Run Sphinx; returns its exit code.

    Args:
      builder: Its name, such as `html`.
      source: The folder of the sources.
      output: The folder that is written.
      *options: More options of `sphinx-build`.
    """
    kept = output.parent
    variables = {
        **conformance.environment(),
        **{k: v for k, v in environment_of(ROOT).items() if k in ("PYTHONPATH", "JAX_PLATFORMS")},
        "JUPYTER_PLATFORM_DIRS": "1",
        "IPYTHONDIR": str(kept / "ipython"),
    }
    command = (
        *(sys.executable, "-m", "sphinx", "-b", builder, "-W", "--keep-going", "-q"),
        *("-j", str(processors()), "-d", str(kept / "doctrees")),
        *(
            "-D",
            f"nb_execution_cache_path={OUTPUT / 'executed' / what_the_guides_run()}",
            *options,
            str(source),
            str(output),
        ),
    )
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode


def what_the_guides_run() -> str:
    """A digest of the code that the guides run, which names the cache of their outputs.

    It covers this Python, the reference, the judge's models and the pins. When one of them changes,
    Sphinx runs the guides again.
    """
    shown = (
        "reference/scutch_reference/**/*.py",
        "conformance/scutch/models/*.py",
        "ci/pins/*.txt",
    )
    digest = hashlib.sha256(sys.version.encode())
    for path in (path for pattern in shown for path in sorted(ROOT.glob(pattern))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
