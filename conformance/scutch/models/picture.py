"""JAX's own picture of an array on a mesh: which devices hold which part of it.

print(picture(model, "decoder/mlp/wi", {"fsdp": 4, "tensor": 2}))
"""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass

import jax
from jax.sharding import NamedSharding, PartitionSpec

from scutch.implementation import SetupError
from scutch.judging.readable import summary
from scutch.models.annotations import spec_of
from scutch.models.layout import Abstract, Row, layouts
from scutch.models.model import MeshShape, Model, mesh_text
from scutch.models.training import make_mesh

DRAWN = 2
"""JAX draws arrays of one or two axes."""


@dataclass(frozen=True)
class Picture:
    """An array on a mesh.

    Args:
      title: The array, its axes that are drawn, and the mesh.
      drawing: Of JAX, in characters.
    """

    title: str
    drawing: str


def pictures(
    model: Model, paths: Sequence[str], meshes: Sequence[MeshShape], found: Abstract
) -> list[list[Picture]]:
    """The pictures of some arrays, for each mesh shape.

    Args:
      model: The description.
      paths: Of single arrays, as in a layout that is not folded.
      meshes: Mesh shapes, for which devices are present.
      found: The variables of the model.

    Returns:
      For each mesh shape, a picture for each path.

    Raises:
      SetupError: There is no such array, JAX cannot draw it, or rich is not installed.
    """
    drawn = []
    for layout in layouts(model, meshes, found=found, folded=False):
        rows: dict[str, Row] = {}
        for row in layout.rows:
            rows.setdefault(row.path, row)  # of a parameter, where other state has its path
        drawn.append([_picture(path, rows, layout.mesh) for path in paths])
    return drawn


def _picture(path: str, rows: dict[str, Row], mesh: MeshShape) -> Picture:
    if path not in rows:
        like = [each for each in rows if path.rpartition("/")[2] in each][:3] or list(rows)[:3]
        raise SetupError(f"--array {path}", f"no such array; there are {', '.join(like)}, ...")
    row, where = rows[path], f"--array {path} on the mesh {mesh_text(mesh)}"
    spec = [*spec_of(row.decisions), *[None] * len(row.shape)][: len(row.shape)]
    divided = [axis for axis, entry in enumerate(spec) if entry is not None]
    if len(divided) > DRAWN or not row.shape:
        problem = f"{len(divided)} of its {len(row.shape)} axes are divided"
        raise SetupError(where, f"{problem}; JAX draws one or two axes")
    whole = [axis for axis in range(len(row.shape)) if axis not in divided]
    axes = sorted([*divided, *whole[::-1]][:DRAWN])
    sharding = NamedSharding(make_mesh(mesh), PartitionSpec(*[spec[axis] for axis in axes]))  # type: ignore[no-untyped-call]
    drawing = io.StringIO()
    try:
        with contextlib.redirect_stdout(drawing):
            jax.debug.visualize_sharding([row.shape[axis] for axis in axes], sharding)
    except Exception as error:
        raise SetupError(where, f"JAX cannot draw it: {summary(error)}") from error
    lengths = " and ".join(f"{axis} (length {row.shape[axis]})" for axis in axes)
    title = f"{path}, ax{'i' if len(axes) == 1 else 'e'}s {lengths}, on {mesh_text(mesh)}"
    return Picture(title, drawing.getvalue().rstrip())
