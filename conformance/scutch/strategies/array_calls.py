"""Calls of transformed functions of plain arrays; see `scutch.engine.carriers.arrays`.

Most calls are legal. Some are illegal on purpose: an implementation must refuse every call that JAX
refuses. Those of `jit` are in `jit_calls`.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.arrays import CARRIED, STEPPED, PlainCall
from scutch.inputs.descriptions import Array, Mesh, Spec

WAYS = (
    ("position", "position", "position"),
    ("position", "position", "name"),
    ("position", "name", "name"),
    ("name", "name", "name"),
    ("position", "position", "default"),
    ("position", "default", "name"),
    ("position", "default", "default"),
)


_LINES = (
    Mesh((2,), ("data",)),
    Mesh((4,), ("data",)),
    Mesh((1,), ("data",)),
    Mesh((8,), ("data",), explicit=True),
    Mesh((2, 2), ("data", "model")),
    Mesh((2, 1), ("data", "model"), explicit=True),
)
_SHARDED: tuple[tuple[Any, Any], ...] = (
    (Array((8,)), ("data",)),
    (Array((8, 2), "int32"), ("data",)),
    (Array((2, 8)), (None, "data")),
    (Array((3,)), ()),
    (Array((8,)), ()),
    ({"a": Array((8,)), "b": [Array((8, 2))]}, ("data",)),
    ({"a": Array((8,)), "b": [Array((3,))]}, {"a": Spec(("data",)), "b": Spec(())}),
    ((Array((8,)), None), ("data",)),
)
"""Arguments of a mapped function, and the spec of each: one for all, or one for each part."""


@st.composite
def plain_shard_map_calls(
    draw: st.DrawFn, *, illegal: bool = False, unsharded: bool = False
) -> PlainCall:
    """Calls of `shard_map` of functions of plain arrays.

    Args:
      draw: Hypothesis's.
      illegal: Whether something is drawn that JAX may refuse: an option, a spec, a call by name.
      unsharded: Whether the spec of some argument is `None`.
    """
    mesh = draw(st.sampled_from(_LINES))
    result = draw(st.sampled_from(("tree", "first", "psum", "swapped", "sum", "index", "gathered")))
    (x, x_spec), (y, y_spec) = draw(st.tuples(*[st.sampled_from(_SHARDED)] * 2))
    fault = draw(st.sampled_from(("name", "spec", "output", "option", "size"))) if illegal else ""
    if fault == "size":
        x = Array((7,))
    ways = WAYS[2] if fault == "name" else draw(st.sampled_from((WAYS[4], WAYS[0])))
    specs = [_spec(x_spec), _spec(y_spec), Spec(())][: ways.count("position")]
    if fault == "spec":
        wrong = (Spec(("nope",)), Spec(("data", "data")), Spec((None, None, "data")), "data")
        place = draw(st.integers(0, len(specs) - 1))
        specs[place] = draw(st.sampled_from(wrong))
        specs = draw(st.sampled_from((specs, specs[:1], [*specs, Spec(())])))
    if unsharded:
        specs[draw(st.integers(0, len(specs) - 1))] = None
    scaled: dict[str, Any] = {
        "tree": {"x": _spec(x_spec), "y": _spec(y_spec)},
        "first": _spec(x_spec),
        "psum": (Spec(()), _spec(y_spec)),
        "swapped": [_spec(y_spec), _spec(x_spec)],
        "sum": Spec(()),
        "index": Spec(()),
        "gathered": Spec(()),
    }
    out_specs = scaled[result]
    if fault == "output":
        out_specs = draw(st.sampled_from((Spec(()), Spec(("data",)), {"nope": Spec(())}, None)))
    options = {"mesh": mesh, "in_specs": tuple(specs), "out_specs": out_specs}
    further: tuple[dict[str, Any], ...] = ({}, {}, {"check_vma": False}, {"axis_names": ("data",)})
    if fault == "option":
        further = ({"axis_names": ("nope",)}, {"nope": 1}, {"mesh": None}, {"check_vma": None})
    options |= draw(st.sampled_from(further))
    form = draw(st.sampled_from(("function", "method", "callable", "partial by name")))
    return PlainCall("shard_map", form, result, options, ((ways, (x, y, 3)),))


def _spec(names: Any) -> Any:
    """A spec for all of an argument, or the given ones for its parts."""
    return Spec(names) if isinstance(names, tuple) else names


_MAPPED: tuple[tuple[Any, Any], ...] = (
    (Array((3,)), 0),
    (Array((2, 3), "int32"), 1),
    (Array((2, 3)), -1),
    (Array((3, 2)), -2),
    (Array((2,)), None),
    (2.5, None),
    ({"a": Array((3,)), "b": [Array((2, 3))]}, {"a": 0, "b": 1}),
    ({"a": Array((3,)), "b": [Array((2,))]}, {"a": 0, "b": None}),
    ([Array((3, 3)), Array((3,))], [-1, 0]),
    ((Array((3,)), None), 0),
)
"""Arguments of a function under `vmap`, each with its axes; there are three lanes."""


_FORMS = ("function", "method", "callable")
_PARTIALS = ("partial", "partial by name")


@st.composite
def plain_vmap_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `vmap` of functions of plain arrays by position, some of which JAX refuses."""
    results = ("tree", "first", "sum", "constants", "swapped", "psum", "index", "gathered")
    result = draw(st.sampled_from(results))
    (x, x_axis), (y, y_axis) = draw(st.tuples(*[st.sampled_from(_MAPPED)] * 2))
    axes = (x_axis, y_axis, None)
    in_axes: Any = draw(st.sampled_from((axes, axes, axes, x_axis, 0, None, axes[:1], (*axes, 0))))
    out_axes: Any = draw(st.sampled_from((0, 0, -1, 1, None, 5, {"x": 0, "y": None}, (0, None))))
    options: dict[str, Any] = {"in_axes": in_axes, "out_axes": out_axes}
    options |= {"axis_name": "data"} if draw(st.sampled_from((True, True, False))) else {}
    further: tuple[dict[str, Any], ...]
    further = ({}, {}, {"axis_size": 3}, {"axis_size": 2}, {"spmd_axis_name": "data"}, {"nope": 1})
    options |= draw(st.sampled_from(further))
    form = draw(st.sampled_from((*_FORMS, "variadic")))
    return PlainCall("vmap", form, result, options, ((WAYS[0], (x, y, 3)),))


_DIFFERENTIABLE = (
    Array((2,)),
    Array(()),
    2.5,
    {"a": Array((2,)), "b": [Array(())]},
    (Array((2,)), None),
    Array((2,), "bfloat16"),
)
_NOT_DIFFERENTIABLE = (Array((2,), "int32"), 3, "text", Array((2,), "complex64"), [1.0, 2])


_ARGNUMS: tuple[dict[str, Any], ...] = (
    {},
    {"argnums": 0},
    {"argnums": 1},
    {"argnums": (0, 1)},
    {"argnums": (1, 0)},
    {"argnums": -1},
    {"argnums": (-2,)},
    {"argnums": 7},
    {"argnums": "x"},
)


@st.composite
def plain_grad_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `grad` and `value_and_grad` of functions of plain arrays; JAX refuses some."""
    kind = draw(st.sampled_from(("grad", "value_and_grad")))
    results = ("loss", "loss", "loss and aux", "complex loss", "tree", "nothing")
    result = draw(st.sampled_from(results))
    leaf = st.sampled_from((*_DIFFERENTIABLE, *_DIFFERENTIABLE, *_NOT_DIFFERENTIABLE))
    x, y = draw(leaf), draw(leaf)
    options = dict(draw(st.sampled_from(_ARGNUMS)))
    options |= {"has_aux": True} if result == "loss and aux" or draw(st.integers(0, 9)) == 9 else {}
    options |= draw(st.sampled_from(({}, {}, {}, {"allow_int": True}, {"holomorphic": True})))
    form = draw(st.sampled_from(_FORMS))
    return PlainCall(kind, form, result, options, ((WAYS[0], (x, y, 3)),))


@st.composite
def plain_remat_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `remat` of functions of plain arrays by position; JAX refuses some."""
    result = draw(st.sampled_from(("loss", "tree", "swapped", "nothing", "sum")))
    leaf = st.sampled_from((*_DIFFERENTIABLE, Array((2,), "int32")))
    chosen: tuple[dict[str, Any], ...] = (
        {},
        {"prevent_cse": False},
        {"static_argnums": 2},
        {"static_argnums": (1, 2)},
        {"static_argnums": -1},
        {"static_argnums": 7},
        {"nope": 1},
    )
    options = draw(st.sampled_from(chosen))
    scales: tuple[Any, ...] = (3, "text") if "static_argnums" in options else (3, 2.5)
    y = 2.5 if options.get("static_argnums") == (1, 2) else draw(leaf)
    form = draw(st.sampled_from(_FORMS))
    call = WAYS[0], (draw(leaf), y, draw(st.sampled_from(scales)))
    return PlainCall("remat", form, result, options, (call,))


@st.composite
def plain_named_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `vmap`, `grad` and `remat` with arguments by name or left out, and of partials."""
    kind = draw(st.sampled_from(("vmap", "grad", "remat")))
    ways = draw(st.sampled_from((*WAYS[1:3], *WAYS[4:])))
    options: dict[str, Any] = {}
    if kind == "vmap":
        options["in_axes"] = draw(st.sampled_from((0, (0,) * ways.count("position"))))
    elif kind == "grad":
        options["argnums"] = draw(st.sampled_from((0, -1)))
    scale = Array((3,)) if kind == "vmap" else 3
    form = draw(st.sampled_from((*_FORMS, *_PARTIALS)))
    result = "loss" if kind == "grad" else draw(st.sampled_from(("tree", "sum", "first")))
    form = form if result != "loss" or form != "partial" else "function"
    return PlainCall(kind, form, result, options, ((ways, (Array((3,)), Array((3,)), scale)),))


@st.composite
def plain_listed_calls(draw: st.DrawFn) -> PlainCall:
    """Calls with lists where JAX's documents show tuples."""
    kind = draw(st.sampled_from(("vmap", "grad")))
    (x, x_axis), (y, y_axis) = draw(st.tuples(*[st.sampled_from(_MAPPED)] * 2))
    if kind == "vmap":
        options: dict[str, Any] = {"in_axes": [x_axis, y_axis, None]}
        return PlainCall(kind, "function", "tree", options, ((WAYS[0], (x, y, 3)),))
    options = {"argnums": draw(st.sampled_from(([0], [1], [0, 1], [1, 0], [-1], [0, -2])))}
    leaf = st.sampled_from(_DIFFERENTIABLE)
    return PlainCall(kind, "function", "loss", options, ((WAYS[0], (draw(leaf), draw(leaf), 3.0)),))


@st.composite
def plain_missing_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `grad` and `remat` whose options number an argument not passed by position."""
    kind = draw(st.sampled_from(("grad", "remat")))
    number = draw(st.sampled_from((1, 2, (0, 1), (1, 2))))
    options = {"argnums" if kind == "grad" else "static_argnums": number}
    ways = draw(st.sampled_from((WAYS[2], WAYS[5], WAYS[6])))
    return PlainCall(kind, "function", "loss", options, ((ways, (2.5, 2.5, 3.0)),))


_CARRIES = (Array((2,)), {"a": Array(()), "b": Array((2,), "int32")}, Array((), "int32"))


@st.composite
def plain_scan_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `scan` of functions of plain arrays, some of which JAX refuses."""
    result = draw(st.sampled_from(STEPPED))
    carry = draw(st.sampled_from(_CARRIES))
    sliced = [(tree, axis) for tree, axis in _MAPPED if isinstance(tree, Array)]
    (x, x_axis), (y, y_axis) = draw(st.tuples(*[st.sampled_from(sliced)] * 2))
    arguments: list[tuple[Any, Any]] = [(x, x_axis), (y, y_axis), (Array(()), None)]
    if result != "slice":
        arguments[result == "y, slice"] = carry, CARRIED
    out = draw(st.sampled_from((0, 0, 1, -1)))
    ends = [out if part == "slice" else CARRIED for part in result.split(", ")]
    if draw(st.integers(0, 9)) == 9:
        ends = draw(st.sampled_from((ends[:1], [*ends, 0], [CARRIED, CARRIED], [0, 0])))
    in_axes: Any = tuple(axis for _, axis in arguments)
    further: tuple[dict[str, Any], ...] = ({}, {}, {"reverse": True}, {"unroll": 2})
    further += ({"length": 3}, {"length": 2}, {"unroll": True}, {"nope": 1})
    options = {"in_axes": in_axes, "out_axes": ends[0] if len(ends) == 1 else tuple(ends)}
    options |= draw(st.sampled_from(further))
    values = tuple(value for value, _ in arguments)
    return PlainCall("scan", draw(st.sampled_from(_FORMS)), result, options, ((WAYS[0], values),))
