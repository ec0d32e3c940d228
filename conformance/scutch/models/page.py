"""The layout of a model as a page, which stands alone and loads nothing.

page("my_model.py:setup", layouts(model))
"""

from collections.abc import Sequence
from importlib import resources

import jinja2

from scutch.models import show
from scutch.models.layout import Layout
from scutch.models.picture import Picture
from scutch.report import site


def page(where: str, found: Sequence[Layout], drawn: Sequence[Sequence[Picture]] = ()) -> str:
    """The page of a model's layouts.

    Args:
      where: The model.
      found: A layout for each mesh shape.
      drawn: Pictures of arrays, for each mesh shape.

    Returns:
      HTML.
    """
    style = resources.files("scutch.models").joinpath("templates", "layout.css").read_text("utf-8")
    environment = site.templates(jinja2.PackageLoader("scutch.models"), style=style)
    environment.filters |= {
        "size": show.size_text,
        "shape": show.shape_text,
        "reasons": show.reasons_text,
        "sections": show.sections,
        "axes": show.axis_text,
    }
    return environment.get_template("layout.html.jinja").render(
        where=where, layouts=found, pictures=drawn or [()] * len(found), largest=show.LARGEST
    )
