"""Laws about names, rules and sizes, which need shapes alone.

A law is a generator of findings. It takes an `Examined`, which keeps the values that laws share.
"""

import difflib
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scutch.models.annotations import Decision, Leaf, axes_of, decide, shards, spec_of, spec_text
from scutch.models.examined import Examined
from scutch.models.findings import Finding
from scutch.models.laws import by_id
from scutch.models.layout import PARAMETERS, decisions_of, pattern, rules_of
from scutch.models.model import MeshShape, Model, mesh_text
from scutch.models.program import Constraint, Loop
from scutch.models.show import size_text

_STAR = "*"


def findings(examined: Examined) -> Iterator[Finding]:
    """The findings of all laws about annotations."""
    for leaf in examined.annotated:
        yield from _names(examined, leaf)
        for mesh in examined.meshes:
            yield from _on_mesh(examined, leaf, mesh)
    yield from _inputs(examined)
    yield from _siblings(examined)
    yield from _swapped(examined)
    for mesh in examined.meshes:
        yield from _large(examined, mesh)
    yield from _activations(examined)
    yield from _constraints(examined)
    yield from _rules(examined)


def _names(examined: Examined, leaf: Leaf) -> Iterator[Finding]:
    law = by_id("annotations/one-name-for-each-axis")
    names = leaf.names or ()
    if len(names) != len(leaf.shape):
        yield Finding(
            law,
            leaf.path,
            f"the array has {len(leaf.shape)} axes, {leaf.shape}, and {len(names)} names, {names}",
            f"write {len(leaf.shape)} names, with None for an unsharded axis"
            + "; a scan over layers needs a partition name" * (len(names) < len(leaf.shape)),
            bytes=leaf.bytes,
        )
    for name, count in Counter(each for each in names if each is not None).items():
        if count > 1:
            yield Finding(
                law,
                leaf.path,
                f"the name {name!r} stands {count} times in {names}",
                f"give the axes different names, such as {name!r} and '{name}_out'",
                bytes=leaf.bytes,
            )
    for place, one in enumerate(decisions_of(examined.model, leaf)):
        if _has_no_rule(examined, leaf, one):
            yield Finding(
                by_id("annotations/each-name-has-a-rule"),
                leaf.path,
                f"the name {one.name!r} of axis {place} has no rule"
                + _alike(one.name, [*dict(examined.model.rules)]),
                f"add the rule ({one.name!r}, None), or a mesh axis; or list the name in free=",
                bytes=leaf.bytes,
            )
        elif one.rule is None and one.lost and one.name not in examined.model.free:
            axis = examined.model.rules[one.lost[0]][1]
            decisions, wanted = decisions_of(examined.model, leaf), set(axes_of(axis))
            winners = [other.name for other in decisions if wanted & set(axes_of(other.axis))]
            yield Finding(
                by_id("annotations/names-do-not-compete"),
                leaf.path,
                f"{one.name!r} (axis {place}) loses {axis!r} to {_quoted(winners)}, so that it is "
                f"unsharded: rule {one.lost[0] + 1} comes too late or asks for a taken axis",
                f"give one of them another name, or end the rules with ({one.name!r}, None)",
                bytes=leaf.bytes,
            )


def _has_no_rule(examined: Examined, leaf: Leaf, one: Decision) -> bool:
    """Whether the name of an axis lacks a rule: it is not free, nor the mesh axis of a variable."""
    rules = {**dict(examined.model.rules), **dict(leaf.rules)}
    axes = {axis for mesh in examined.meshes for axis in mesh} if leaf.variable else ()
    known = {*rules, *examined.model.free, *axes}
    return bool(examined.model.rules) and isinstance(one.name, str) and one.name not in known


def _alike(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, [each for each in known if isinstance(each, str)], 1)
    return f"; {close[0]!r} has one" if close else ""


def _quoted(names: list[Any]) -> str:
    return ", ".join(map(repr, names)) or "another axis"


def _on_mesh(examined: Examined, leaf: Leaf, mesh: MeshShape) -> Iterator[Finding]:
    if len(leaf.names or ()) > len(leaf.shape):
        return
    for place, (one, length) in enumerate(
        zip(decisions_of(examined.model, leaf), leaf.shape, strict=False)
    ):
        where = "" if one.rule is None else f" by rule {one.rule + 1}"
        told = _has_no_rule(examined, leaf, one)
        for axis in () if told else axes_of(one.axis):
            if axis not in mesh:
                yield Finding(
                    by_id("annotations/the-mesh-has-the-axis"),
                    leaf.path,
                    f"axis {place} ({one.name!r}) lies along {axis!r}{where}, and the mesh has "
                    f"{_quoted(list(mesh))}",
                    f"name a mesh axis, or write a rule for {axis!r}",
                    mesh_text(mesh),
                    leaf.bytes,
                )
        parts = shards((one.axis,), mesh)
        if length % parts:
            yield Finding(
                by_id("annotations/sizes-divide"),
                leaf.path,
                f"axis {place} ({one.name!r}) has length {length}, and {one.axis!r}{where} divides "
                f"it among {parts} devices",
                f"make the length a multiple of {parts}, such as {-(-length // parts) * parts}, or "
                "leave the axis unsharded",
                mesh_text(mesh),
                leaf.bytes,
            )


def _inputs(examined: Examined) -> Iterator[Finding]:
    model = examined.model
    for number, (value, spec) in enumerate(examined.inputs):
        path = f"input {number}"
        yield from _without_rule(model, model.input_names and model.input_names[number], path)
        for mesh in examined.meshes:
            yield from _indivisible(mesh, spec, value.shape, path)
    yield from _without_rule(model, model.output_names, "the output")


def _without_rule(model: Model, names: Iterable[Any] | None, path: str) -> Iterator[Finding]:
    """Each of the names that has no rule, where there are rules."""
    for name in names or ():
        if isinstance(name, str) and model.rules and name not in {*dict(model.rules), *model.free}:
            yield Finding(
                by_id("annotations/each-name-has-a-rule"),
                path,
                f"the name {name!r} has no rule",
                f"add the rule ({name!r}, None)",
            )


def _indivisible(
    mesh: MeshShape, spec: Iterable[Any], shape: Sequence[int], path: str, what: str = ""
) -> Iterator[Finding]:
    """Each axis of an array whose length its mesh axes do not divide."""
    for place, (entry, length) in enumerate(zip(spec, shape, strict=False)):
        parts = shards((entry,), mesh)
        if length % parts:
            yield Finding(
                by_id("annotations/sizes-divide"),
                path,
                f"axis {place}{what} has length {length}, and {entry!r} divides it among {parts} "
                "devices",
                f"make it a multiple of {parts}",
                mesh_text(mesh),
            )


def _siblings(examined: Examined) -> Iterator[Finding]:
    """Parameters with one path but for numbers, and one shape, and different names."""
    groups: dict[Any, list[Leaf]] = {}
    for leaf in examined.sections[PARAMETERS]:
        if _STAR in pattern(leaf.path):
            groups.setdefault((pattern(leaf.path), leaf.shape), []).append(leaf)
    for group in groups.values():
        counted = Counter(leaf.names for leaf in group)
        if len(counted) < 2 or not examined.repeated(group):
            continue
        most = max(counted, key=lambda each: (counted[each], len([*filter(None, each or ())])))
        usual = next(leaf for leaf in group if leaf.names == most)
        for leaf in group:
            if leaf.names != most:
                yield Finding(
                    by_id("annotations/siblings-lie-alike"),
                    leaf.path,
                    f"its names are {leaf.names}, and {usual.path} has {most}",
                    f"write {most} here too",
                    bytes=leaf.bytes,
                )


def _swapped(examined: Examined) -> Iterator[Finding]:
    """Arrays whose names fit the lengths that other arrays give them in another order only."""
    leaves = [leaf for leaf in examined.annotated if len(leaf.names or ()) == len(leaf.shape)]
    constrained = _constrained_lengths(examined)
    lengths: dict[Any, dict[Any, set[int]]] = {}
    for leaf in leaves:
        for name, length in zip(leaf.names or (), leaf.shape, strict=True):
            lengths.setdefault(name, {}).setdefault((leaf.names, leaf.shape), set()).add(length)
    for leaf in leaves:
        names = [name for name in leaf.names or () if isinstance(name, str)]
        own = (leaf.names, leaf.shape)  # as another array with the same mistake has them
        elsewhere = {
            name: set().union(*(each for array, each in lengths[name].items() if array != own))
            for name in names
        }
        if len(names) != len(leaf.shape) or len(set(names)) != len(names):
            continue
        unusual = [n for n, size in zip(names, leaf.shape, strict=True) if size not in elsewhere[n]]
        sizes = dict(zip(names, leaf.shape, strict=True))
        known = {name for name in names if name in constrained}
        if len(unusual) < 2 or (known and all(sizes[n] in constrained[n] for n in known)):
            continue  # the other array is the one whose names are swapped
        for order in itertools.permutations(names):
            if all(n in elsewhere[name] for name, n in zip(order, leaf.shape, strict=True)):
                yield Finding(
                    by_id("annotations/names-are-not-swapped"),
                    leaf.path,
                    f"its shape is {leaf.shape} and its names are {tuple(names)}; elsewhere "
                    + ", ".join(f"{n!r} has {min(elsewhere[n])}" for n in names),
                    f"write {order}",
                    bytes=leaf.bytes,
                )
                break


def _constrained_lengths(examined: Examined) -> dict[Any, set[int]]:
    """The lengths of constrained activations along names that alone have a mesh axis."""
    names: dict[Any, list[Any]] = {}
    for name, axis in examined.model.rules:
        names.setdefault(axes_of(axis), []).append(name)
    found: dict[Any, set[int]] = {}
    for one in examined.program.constraints:
        for axes, length in () if one.parameter else zip(one.spec, one.shape, strict=False):
            if axes and len(names.get(tuple(axes), ())) == 1:
                found.setdefault(names[tuple(axes)][0], set()).add(length)
    return found


def _large(examined: Examined, mesh: MeshShape) -> Iterator[Finding]:
    rows = [
        (leaf, shards(spec_of(decisions_of(examined.model, leaf)), mesh))
        for leaf in examined.sections[PARAMETERS]
    ]
    if all(parts == 1 for _, parts in rows):
        return  # data parallelism, in which parameters are replicated on purpose
    for leaf, parts in rows:
        if parts == 1 and leaf.bytes >= examined.model.large:
            spec = spec_text(spec_of(decisions_of(examined.model, leaf)))
            yield Finding(
                by_id("annotations/large-parameters-are-sharded"),
                leaf.path,
                f"every device holds all {size_text(leaf.bytes)}: its spec is {spec}",
                "name its axes, or raise large= if that is meant",
                mesh_text(mesh),
                leaf.bytes,
            )


def _activations(examined: Examined) -> Iterator[Finding]:
    """Names in constraints that have no rule, and constrained sizes that do not divide."""
    if examined.model.rules:
        for name, line in examined.constraint_names.items():
            if name not in {*dict(examined.model.rules), *examined.model.free}:
                yield Finding(
                    by_id("annotations/each-name-has-a-rule"),
                    line,
                    f"an activation is constrained by the name {name!r}, which has no rule"
                    + _alike(name, [*dict(examined.model.rules)]),
                    f"add the rule ({name!r}, None), or a mesh axis; or list the name in free=",
                )
    for one in examined.program.constraints:
        for mesh in () if one.parameter else examined.meshes:
            what = " of a constrained activation"
            yield from _indivisible(mesh, one.spec, one.shape, one.place, what)


def _constraints(examined: Examined) -> Iterator[Finding]:
    """Repeated layers with different numbers of constraints, and scans without any of the carry."""
    law = by_id("annotations/layers-constrain-alike")
    own = [one for one in examined.program.constraints if not one.parameter]
    layers = examined.layers
    groups: dict[str, list[str]] = {}
    for layer in layers:
        groups.setdefault(pattern(layer), []).append(layer)
    for group in groups.values():
        numbers = _counts(examined, own, group)
        most = max(numbers.values(), default=0)
        for layer, number in numbers.items():
            if number != most and len({layers[each] for each in group}) == 1:
                yield Finding(
                    law,
                    layer,
                    f"it constrains {number} activations, and others of {pattern(layer)} constrain "
                    f"{most}",
                    "constrain the same activations in each layer",
                )
    for loop in examined.program.loops:
        if not own or not _stacked(examined, loop):
            continue
        carried = [shape for shape in loop.carries if len(shape) > 1]
        if carried and not set(carried) & set(loop.constrained):
            yield Finding(
                law,
                _layers_of(examined, loop) or loop.place,
                f"the scan over {loop.length} layers carries {carried[0]} and constrains no "
                "activation of that shape, although the model constrains others",
                "constrain the residual stream in the layer: x = with_logical_constraint(x, (...))",
            )


def _counts(examined: Examined, own: list[Constraint], group: list[str]) -> dict[str, int]:
    """Count the activations that each of some repeated layers constrains.

    If the program has no paths of modules, as for an NNX object, an activation belongs to the last
    layer whose parameters it depends on. The last layer is left out, because activations after it
    also depend on its parameters.
    """
    if examined.root:
        inside = [f"{one.place}/" for one in own]
        return {
            layer: sum(place.startswith(f"{examined.root}{layer}/") for place in inside)
            for layer in group
        }
    group = sorted(group, key=lambda layer: [int(number) for number in re.findall(r"\d+", layer)])
    if pattern(group[0]).count(_STAR) > 1:
        return {}  # parts of layers, which constrain as their layers do
    masks = [
        sum(
            1 << number
            for number, leaf in enumerate(examined.sections[PARAMETERS])
            if leaf.path.startswith(f"{layer}/")
        )
        for layer in group
    ]
    last = [
        max((n for n, mask in enumerate(masks) if one.made_of & mask), default=-1) for one in own
    ]
    return {layer: last.count(number) for number, layer in enumerate(group[:-1])}


def _stacked(examined: Examined, loop: Loop) -> list[Leaf]:
    """The parameters that a scan runs over, along the first axis or one that is moved there."""
    taken = {tuple(sorted(shape)) for shape in loop.inputs}
    return [
        leaf
        for leaf in examined.sections[PARAMETERS]
        if len(leaf.shape) > 1 and loop.length in leaf.shape and tuple(sorted(leaf.shape)) in taken
    ]


def _layers_of(examined: Examined, loop: Loop) -> str:
    """The path of the layers that a scan runs over: the parameters that it takes are below it."""
    parents = [posixpath.dirname(leaf.path) for leaf in _stacked(examined, loop)]
    return posixpath.commonpath(parents) if parents else ""


def _rules(examined: Examined) -> Iterator[Finding]:
    """Rules that decide about no axis."""
    rules = tuple(examined.model.rules)
    used: set[int | None] = set()
    named = set(examined.constraint_names)
    for leaf in examined.annotated:
        for one in decisions_of(examined.model, leaf):
            used.update((*one.lost, *(() if one.rule is None else (one.rule,))))
            if one.rule is not None and one.rule >= len(rules):  # it stands at the variable too
                decided = tuple(rules_of(examined.model, leaf)[one.rule])
                used.update(n for n, rule in enumerate(rules) if tuple(rule) == decided)
    for names in examined.model.input_names or ():
        used.update(one.rule for one in decide(names, rules, variable=False))
    named.update(each for each in examined.model.output_names or () if each)
    named.add("batch")
    seen: set[Any] = set()
    for number, (name, axis) in enumerate(rules):
        first = name not in seen
        seen.add(name)
        if number in used or (name in named and first):
            continue
        before = next((n for n, (other, _) in enumerate(rules) if other == name), number)
        problem = (
            f"no array has an axis of the name {name!r}"
            if before == number
            else f"rule {before + 1} for {name!r} always decides before it"
        )
        if axis is None and before != number:
            continue  # the rule for arrays on which the earlier ones lose
        yield Finding(
            by_id("annotations/every-rule-decides"),
            f"rule {number + 1}",
            f"({name!r}, {axis!r}): {problem}",
            "delete the rule, move it up, or mend the name",
        )
