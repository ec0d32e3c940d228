"""The command `scutch model`: the text that it prints, and its exit code.

show("my_model.py:setup", meshes=["data=4,tensor=2"], as_json=False)
"""

import json
from collections.abc import Sequence

from scutch.implementation import SetupError, find
from scutch.models import findings as found_in
from scutch.models import show as shown
from scutch.models.check import check as checked
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
    found = layouts(model_at(where), [parse_mesh(mesh) for mesh in meshes])
    return json.dumps(shown.document(found), indent=1) if as_json else shown.text(found)


def check(
    where: str, *, meshes: Sequence[str] = (), steps: int, seed: int, as_json: bool = False
) -> tuple[str, int]:
    """The findings in a model, as text or JSON, and the exit code.

    Args:
      where: As for `show`.
      meshes: As for `show`.
      steps: How many steps of training are run on each mesh.
      seed: Of all that is drawn.
      as_json: Whether JSON is wanted.

    Returns:
      The text, and 1 if something is to be mended.

    Raises:
      SetupError: It names no `Model`, or a mesh has another form.
    """
    verdict = checked(
        model_at(where), [parse_mesh(mesh) for mesh in meshes], steps=steps, seed=seed
    )
    text = json.dumps(found_in.document(verdict), indent=1) if as_json else found_in.text(verdict)
    return text, int(not verdict.passes)


def model_at(where: str) -> Model:
    """The model that a text names.

    Raises:
      SetupError: It names something else.
    """
    model = find(where)
    if not isinstance(model, Model):
        raise SetupError(where, f"it is a {type(model).__name__}; expected a scutch.Model")
    return model
