"""Where every array of a model lies on a mesh, from shapes alone.

    layout = layouts(model)[0]
    layout.rows[0].path, layout.rows[0].spec, layout.total("parameters")

Parameters, the optimizer's state and the other variables are three *sections* of one layout. The
rows of repeated layers, which differ in a number of their path only, are folded into one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from scutch.implementation import Implementation
from scutch.lawkit.training import ADAM
from scutch.models.annotations import (
    Decision,
    Leaf,
    axes_of,
    decide,
    leaves,
    shards,
    spec_of,
    spec_text,
)
from scutch.models.frameworks import (
    Framework,
    collector_paused,
    framework_of,
    implementation_of,
    surroundings,
)
from scutch.models.model import MeshShape, Model, mesh_text
from scutch.models.training import make_mesh

DEVICES = 8
PARAMETERS, OPTIMIZER, OTHERS = "parameters", "optimizer", "other variables"
SECTIONS = (PARAMETERS, OPTIMIZER, OTHERS)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Abstract:
    """The variables of a model and its optimizer's state, without values, in their boxes.

    Args:
      implementation: Of the model.
      framework: The model as functions.
      params: The trained variables.
      optimizer: The optimizer's state.
      rest: The other variables.
    """

    implementation: Implementation
    framework: Framework
    params: Any
    optimizer: Any
    rest: Any

    def sections(self) -> dict[str, list[Leaf]]:
        """The leaves of each section."""
        trees = (self.params, self.optimizer, self.rest)
        found = [leaves(self.implementation, tree) for tree in trees]
        return dict(zip(SECTIONS, found, strict=True))


@dataclass(frozen=True)
class Row:
    """One array, or several of repeated layers, on one mesh.

    Args:
      section: One of `SECTIONS`.
      path: Where it stands; repeated layers have `{0..3}` in the place of the number.
      shape: Of one array.
      dtype: Of one array.
      names: One for each axis, as annotated; None if it is not.
      decisions: One for each name.
      spec: The mesh axes of each axis, as text.
      bytes: Of all arrays of the row.
      per_device: Bytes on each device.
      parts: Into how many different parts an array is divided.
      count: How many arrays.
    """

    section: str
    path: str
    shape: tuple[int, ...]
    dtype: str
    names: tuple[Any, ...] | None
    decisions: tuple[Decision, ...]
    spec: str
    bytes: int
    per_device: int
    parts: int
    count: int = 1


@dataclass(frozen=True)
class Layout:
    """Every array of a model on one mesh shape.

    Args:
      mesh: The mesh shape.
      rules: The rules that decided.
      rows: Of all sections, repeated layers folded.
    """

    mesh: Mapping[str, int]
    rules: tuple[tuple[str, Any], ...]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The mesh shape in one word."""
        return mesh_text(self.mesh)

    def section(self, name: str) -> tuple[Row, ...]:
        """The rows of one section."""
        return tuple(row for row in self.rows if row.section == name)

    def total(self, section: str, *, per_device: bool = False) -> int:
        """The bytes of a section.

        Args:
          section: One of `SECTIONS`.
          per_device: On each device, not in total.
        """
        return sum(row.per_device if per_device else row.bytes for row in self.section(section))

    def arrays(self, section: str) -> int:
        """How many arrays a section has."""
        return sum(row.count for row in self.section(section))

    def along(self, section: str) -> dict[str, int]:
        """The bytes of a section that each mesh axis divides."""
        return {
            axis: sum(
                row.bytes
                for row in self.section(section)
                if any(axis in axes_of(one.axis) for one in row.decisions)
            )
            for axis in self.mesh
        }

    def replicated(self, section: str) -> tuple[Row, ...]:
        """The rows that every device holds whole, largest first."""
        rows = [row for row in self.section(section) if row.parts == 1]
        return tuple(sorted(rows, key=lambda row: -row.bytes))

    def replicated_share(self, section: str) -> float:
        """The part of a section's bytes that every device holds whole, from 0 to 1."""
        total = self.total(section)
        return sum(row.bytes for row in self.replicated(section)) / total if total else 0.0


def abstract(model: Model) -> Abstract:
    """The variables of a model from shapes alone: nothing is computed, no device is needed."""
    implementation = implementation_of(model)
    framework = framework_of(model, implementation)
    optimizer = model.optimizer if model.optimizer is not None else ADAM

    def made(key: Any, *inputs: Any) -> Any:
        params, rest = framework.init(key, *inputs)
        return params, optimizer.init(params), rest

    params, state, rest = shapes_of(model, implementation, model.rules, made)
    return Abstract(implementation, framework, params, state, rest)


def shapes_of(model: Model, implementation: Implementation, rules: Any, made: Any) -> Any:
    """The result of a function of a key and the inputs, without values.

    Args:
      model: The description.
      implementation: Its implementation.
      rules: The rules in force.
      made: The function. It is traced without a mesh; if that fails, under a mesh of one device,
        which a constraint by a `PartitionSpec` alone needs.

    Returns:
      Its result, with `jax.ShapeDtypeStruct` in the place of arrays.
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    axes = [*(model.meshes[0] if model.meshes else [a for _, e in model.rules for a in axes_of(e)])]
    with collector_paused():
        try:
            with surroundings(implementation, rules):
                return jax.eval_shape(made, key, *model.arguments)
        except Exception:
            if not axes:
                raise
            with surroundings(implementation, rules, make_mesh(dict.fromkeys(axes, 1))):
                return jax.eval_shape(made, key, *model.arguments)


def rules_of(model: Model, leaf: Leaf) -> tuple[tuple[str, Any], ...]:
    """The rules that decide about a leaf: the model's, and those that stand at the variable.

    Args:
      model: The description.
      leaf: One array of it.
    """
    return (*model.rules, *leaf.rules)


def decisions_of(model: Model, leaf: Leaf) -> tuple[Decision, ...]:
    """The decision on each name of a leaf.

    Args:
      model: The description.
      leaf: One array of it.
    """
    return decide(leaf.names, rules_of(model, leaf), variable=leaf.variable)


def mesh_shapes(model: Model, found: Abstract) -> tuple[MeshShape, ...]:
    """The mesh shapes of a model: the owner's, or eight devices along the axes that are annotated.

    Args:
      model: The description.
      found: Its variables.

    Returns:
      At least one mesh shape.
    """
    if model.meshes:
        return tuple(dict(mesh) for mesh in model.meshes)
    named = [axis for _, entry in model.rules for axis in axes_of(entry)]
    for leaf in found.sections()[PARAMETERS]:
        for one in decisions_of(model, leaf):
            named += axes_of(one.axis)
    axes = [axis for axis in dict.fromkeys(named) if isinstance(axis, str)] or ["data"]
    if len(axes) == 1:
        return ({axes[0]: DEVICES},)
    first, second, *others = axes
    unused = dict.fromkeys(others, 1)
    return ({first: 4, second: 2, **unused}, {first: 2, second: 4, **unused})


def layouts(
    model: Model,
    meshes: Sequence[MeshShape] = (),
    *,
    found: Abstract | None = None,
    folded: bool = True,
) -> tuple[Layout, ...]:
    """The layout of a model on each mesh shape.

    Args:
      model: The description.
      meshes: The mesh shapes; the model's own where there are none.
      found: The model's variables, if they are at hand.
      folded: Whether repeated layers are one row.

    Returns:
      One layout for each mesh shape.
    """
    found = abstract(model) if found is None else found
    sections = found.sections()
    return tuple(
        Layout(
            dict(mesh),
            tuple(tuple(rule) for rule in model.rules),
            tuple(
                row
                for name, each in sections.items()
                for row in (fold if folded else list)(
                    [_row(model, name, leaf, mesh) for leaf in each]
                )
            ),
        )
        for mesh in meshes or mesh_shapes(model, found)
    )


def _row(model: Model, section: str, leaf: Leaf, mesh: MeshShape) -> Row:
    decisions = decisions_of(model, leaf)
    spec = spec_of(decisions)
    parts, size = shards(spec, mesh), leaf.bytes
    return Row(
        section,
        leaf.path,
        leaf.shape,
        str(leaf.value.dtype),
        leaf.names,
        decisions,
        spec_text(spec),
        size,
        -(-size // parts),
        parts,
    )


def pattern(path: str) -> str:
    """A path with a star for each number: equal for the same parameter of repeated layers.

    >>> pattern("layers_11/attention/2/kernel")
    'layers_*/attention/*/kernel'
    """
    return _NUMBER.sub("*", path)


def fold(rows: Sequence[Row]) -> list[Row]:
    """Merge rows of repeated layers, which differ only in the numbers in their paths."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        key = (pattern(row.path), row.shape, row.dtype, row.names, row.spec, row.parts)
        groups.setdefault(key, []).append(row)
    return [_folded(group) for group in groups.values()]


def _folded(group: Sequence[Row]) -> Row:
    if len(group) == 1:
        return group[0]
    return replace(
        group[0],
        path=folded_path([row.path for row in group]),
        bytes=sum(row.bytes for row in group),
        per_device=sum(row.per_device for row in group),
        count=len(group),
    )


def folded_path(paths: Sequence[str]) -> str:
    """Paths that differ in numbers only, in one.

    >>> folded_path(["layer_0/kernel", "layer_1/kernel", "layer_2/kernel"])
    'layer_{0..2}/kernel'
    """
    numbers = [[int(number) for number in _NUMBER.findall(path)] for path in paths]
    ranges = [sorted(set(each)) for each in zip(*numbers, strict=True)]
    texts = iter([_range_text(each) for each in ranges])
    return _NUMBER.sub(lambda number: next(texts), paths[0])


def _range_text(numbers: Sequence[int]) -> str:
    """Some numbers in one word.

    >>> _range_text([0, 1, 2, 3]), _range_text([1, 3, 5]), _range_text([5])
    ('{0..3}', '{1,3..5}', '5')
    """
    if len(numbers) == 1:
        return str(numbers[0])
    first, second, last = numbers[0], numbers[1], numbers[-1]
    step = second - first
    if list(numbers) != list(range(first, last + 1, step)):
        return f"{{{len(numbers)} of {first}..{last}}}"
    if len(numbers) == 2:
        return f"{{{first},{second}}}"
    return f"{{{first}..{last}}}" if step == 1 else f"{{{first},{second}..{last}}}"
