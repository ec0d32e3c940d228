"""The command `scutch model`: what it prints and writes.

show("my_model.py:setup", meshes=["data=4,tensor=2"], as_json=False)
"""

import json
from collections.abc import Sequence

from scutch.implementation import SetupError, find
from scutch.models import show as shown
from scutch.models.layout import layouts
from scutch.models.model import Model, parse_mesh


def show(where: str, *, meshes: Sequence[str] = (), as_json: bool = False) -> str:
    """The layout of a model, as text or JSON.

    Args:
      where: `FILE.py:NAME` or `MODULE:NAME` of a `scutch.Model`.
      meshes: Mesh shapes such as `data=4,tensor=2`; the model's own where there are none.
      as_json: Whether JSON is wanted.

    Returns:
      The text, without a line feed at its end.

    Raises:
      SetupError: It names no `Model`, or a mesh has another form.
    """
    model = find(where)
    if not isinstance(model, Model):
        raise SetupError(where, f"it is a {type(model).__name__}; expected a scutch.Model")
    found = layouts(model, [parse_mesh(mesh) for mesh in meshes])
    return json.dumps(shown.document(found), indent=1) if as_json else shown.text(found)
