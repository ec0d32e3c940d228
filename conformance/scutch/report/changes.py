"""The changes of a release as a page that stands alone and loads nothing.

page(summarize(record("flax", "0.12.6"), record("flax", "0.12.12")))
"""

from scutch.catalogue import by_id
from scutch.releases.changes import KINDS, replay
from scutch.releases.summary import Summary
from scutch.report import site


def page(summary: Summary) -> str:
    """The page of everything that changes from one release to another.

    Args:
      summary: Of two releases.

    Returns:
      HTML.
    """
    return site.templates().get_template("upgrade.html.jinja").render(**facts(summary))


def facts(summary: Summary) -> dict[str, object]:
    """The variables of the templates `upgrade.html.jinja` and `changes.html.jinja`."""
    return {"summary": summary, "kinds": KINDS, "entries": by_id(), "replay": replay}
