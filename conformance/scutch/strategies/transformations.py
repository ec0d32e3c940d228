"""Calls of transformed functions; see `scutch.inputs.transformations`.

Most calls are legal. Some are illegal on purpose: an implementation must refuse every call that JAX
refuses.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.descriptions import Array, Mesh, Spec
from scutch.inputs.transformations import (
    CARRIED,
    FORMS,
    RESULTS,
    STEPPED,
    OnDevice,
    PlainCall,
    Sharding,
)

_STATIC: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {},
    {"static_argnums": 2},
    {"static_argnames": "scale"},
    {"static_argnums": (2,)},
    {"static_argnums": [2]},
    {"static_argnames": ["scale"]},
    {"static_argnames": ("scale",)},
    {"static_argnums": 2, "static_argnames": "scale"},
    {"static_argnums": ()},
    {"static_argnames": []},
)
_NEGATIVE: tuple[dict[str, Any], ...] = tuple(
    {"static_argnums": numbers} for numbers in (-1, (-1,), [-1])
)
_DONATED: tuple[dict[str, Any], ...] = (
    {},
    {"donate_argnums": 0},
    {"donate_argnames": "x"},
    {"donate_argnums": (0,)},
    {"donate_argnums": [0, 1]},
    {"donate_argnames": ["x"]},
    {"donate_argnames": ("x", "y")},
    {"donate_argnums": 1, "donate_argnames": "x"},
    {"donate_argnums": 0, "donate_argnames": "x"},
)
_ILLEGAL: tuple[dict[str, Any], ...] = (
    {"static_argnums": 5},
    {"static_argnums": -5},
    {"static_argnames": "nope"},
    {"donate_argnums": 5},
    {"donate_argnames": "nope"},
    {"static_argnums": 0, "donate_argnums": 0},
    {"static_argnames": "x", "donate_argnums": 0},
    {"static_argnums": "scale"},
    {"static_argnames": 2},
    {"donate_argnums": 1.5},
    {"in_shardings": ()},
    {"in_shardings": (None, None, None, None)},
    {"out_shardings": {"nope": None}},
    {"in_shardings": "data"},
    {"keep_unused": None},
    {"nope": 1},
    {"backend": "nope"},
)
_WAYS = (
    ("position", "position", "position"),
    ("position", "position", "name"),
    ("position", "name", "name"),
    ("name", "name", "name"),
    ("position", "position", "default"),
    ("position", "default", "name"),
    ("position", "default", "default"),
)
_MESHES = (
    Mesh((2,), ("data",)),
    Mesh((1,), ("data",)),
    Mesh((2,), ("data",), explicit=True),
    Mesh((2, 2), ("data", "model")),
    Mesh((2, 1), ("data", "model"), explicit=True),
)
_SPECS: tuple[tuple[Any, ...], ...] = (("data",), (), ("data",))
_BAD_SPECS: tuple[tuple[Any, ...], ...] = (("data", None, None), (None, None, "data"))


_JIT_FORMS = tuple(form for form in FORMS if form != "variadic")


@st.composite
def plain_jit_calls(
    draw: st.DrawFn,
    *,
    illegal: bool = False,
    calls: int = 2,
    both: bool | None = None,
    listed: bool = False,
    negative: bool = False,
    left_out: bool = False,
) -> PlainCall:
    """Calls of jitted functions of plain arrays, with options in combination.

    Args:
      draw: Hypothesis's.
      illegal: Whether something is drawn that JAX may refuse: an option, an argument, a sharding.
      calls: How many calls there are.
      both: Whether there is one sharding for each argument beside static arguments; if `False`
        they do not come together, if left out they may.
      listed: Whether there is a list of shardings, and nothing static.
      negative: Whether static arguments are declared by negative numbers, beside shardings.
      left_out: Whether the last argument has its default; with `both`, it is the static one.

    Returns:
      A strategy for `PlainCall`s of the kind `'jit'`.
    """
    form = draw(st.sampled_from(_JIT_FORMS))
    result = draw(st.sampled_from(RESULTS))
    chosen = _NEGATIVE if negative else _STATIC[:1] if listed else _STATIC
    static = draw(st.sampled_from(chosen[4:11] if both and not negative else chosen))
    options = {**static, **draw(st.sampled_from(_DONATED))}
    options |= draw(st.sampled_from(({}, {}, {"keep_unused": True}, {"inline": True})))
    faults = draw(st.sampled_from(("option", "argument", "sharding", "static"))) if illegal else ""
    mesh = draw(st.sampled_from(_MESHES))
    x, y = draw(_arguments(mesh)), draw(_arguments(mesh, containers=negative))
    if faults == "argument":
        x = draw(st.sampled_from(("text", [Array((2,)), "text"], OnDevice(Array((3,))))))
    placed = draw(st.sampled_from(("", "in", "out", "both")))
    if faults == "sharding":
        placed = placed or "both"
    is_static = any(given is not None and given not in ((), []) for given in static.values())
    if listed:
        placed = "in"
    elif both is not None:
        placed = "both" if both else "" if is_static else placed
    scales: tuple[Any, ...] = (3, "text", 2.5) if is_static else (3, 2.5, OnDevice(Array(())))
    if faults == "static":
        scales = ("text", [1], Array((2,)))
    if placed in ("in", "both"):
        count = 2 if is_static or draw(st.booleans()) else 3
        single = False if listed else None if both is None else not both
        kind = list if listed else tuple
        options["in_shardings"] = draw(
            _in_shardings(mesh, (x, y), count, faults == "sharding", single, kind, negative)
        )
        ways = [_WAYS[0]] if (count == 3 or is_static) and not left_out else [_WAYS[4]]
        if faults == "sharding":  # A static argument that is left out is drawn with `left_out`.
            ways += [draw(st.sampled_from(_WAYS[:4] if is_static else _WAYS))]
    else:
        ways = draw(st.lists(st.sampled_from(_WAYS), min_size=1, max_size=calls))
    if placed in ("out", "both"):
        bad = faults == "sharding"
        options["out_shardings"] = draw(_out_shardings(mesh, result, form, x, y, bad))
    if faults == "option":
        options |= draw(st.sampled_from(_ILLEGAL))
    made = tuple(
        (draw(st.sampled_from(ways)), (x, y, draw(st.sampled_from(scales)))) for _ in range(calls)
    )
    return PlainCall("jit", form, result, options, made, draw(st.booleans()))


def _arguments(mesh: Mesh, *, containers: bool = False) -> st.SearchStrategy[Any]:
    """Trees of arrays whose first axis every mesh divides; containers alone, if asked for."""
    held = (
        {"a": OnDevice(Array((8,))), "b": [OnDevice(Array((8,), "int32"))]},
        (OnDevice(Array((8,))), None, Array((8,))),
    )
    if containers:
        return st.sampled_from(held)
    return st.sampled_from(
        (
            OnDevice(Array((8,))),
            OnDevice(Array((8, 2), "int32", 1)),
            *held,
            Array((8,)),
            OnDevice(Array((8,)), Sharding(mesh, ("data",))),
            OnDevice(Array((8,), seed=2), Sharding(mesh)),
        )
    )


def _shardings(mesh: Mesh, bad: bool) -> st.SearchStrategy[Any]:
    specs = (*_SPECS, *_BAD_SPECS) if bad else _SPECS
    return st.sampled_from((None, *(Sharding(mesh, spec) for spec in specs)))


@st.composite
def _of_tree(draw: st.DrawFn, mesh: Mesh, tree: Any, bad: bool, split: bool = False) -> Any:
    """A prefix of a tree: one sharding or `None` for each part, or, unless `split`, for all."""
    if isinstance(tree, dict | list | tuple) and (split or draw(st.booleans())):
        keys = tree if isinstance(tree, dict) else range(len(tree))
        parts = {key: draw(_of_tree(mesh, tree[key], bad)) for key in keys}
        return parts if isinstance(tree, dict) else type(tree)(parts.values())
    return draw(_shardings(mesh, bad))


@st.composite
def _in_shardings(
    draw: st.DrawFn,
    mesh: Mesh,
    arguments: tuple[Any, ...],
    count: int,
    bad: bool,
    single: bool | None,
    kind: type,
    split: bool,
) -> Any:
    if single or (single is None and draw(st.sampled_from((False, False, True)))):
        return draw(_shardings(mesh, bad))
    parts = [draw(_of_tree(mesh, each, bad, split)) for each in arguments]
    found = parts + [None] * (count - 2)
    return kind(found)


@st.composite
def _out_shardings(
    draw: st.DrawFn, mesh: Mesh, result: str, form: str, x: Any, y: Any, bad: bool
) -> Any:
    if result in ("sum", "constants") and not bad:
        return draw(st.sampled_from((None, Sharding(mesh))))
    match result if draw(st.booleans()) else "":
        case "tree":
            found: Any = {"x": draw(_of_tree(mesh, x, bad)), "y": draw(_of_tree(mesh, y, bad))}
        case "first":
            found = draw(_of_tree(mesh, x, bad))
        case "swapped":
            found = [draw(_of_tree(mesh, y, bad)), draw(_of_tree(mesh, x, bad))]
        case _:
            return draw(_shardings(mesh, bad))
    return (None, found) if form == "partial" else found


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
    ways = _WAYS[2] if fault == "name" else draw(st.sampled_from((_WAYS[4], _WAYS[0])))
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
    return PlainCall("vmap", form, result, options, ((_WAYS[0], (x, y, 3)),))


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
    return PlainCall(kind, form, result, options, ((_WAYS[0], (x, y, 3)),))


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
    call = _WAYS[0], (draw(leaf), y, draw(st.sampled_from(scales)))
    return PlainCall("remat", form, result, options, (call,))


@st.composite
def plain_named_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `vmap`, `grad` and `remat` with arguments by name or left out, and of partials."""
    kind = draw(st.sampled_from(("vmap", "grad", "remat")))
    ways = draw(st.sampled_from((*_WAYS[1:3], *_WAYS[4:])))
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
        return PlainCall(kind, "function", "tree", options, ((_WAYS[0], (x, y, 3)),))
    options = {"argnums": draw(st.sampled_from(([0], [1], [0, 1], [1, 0], [-1], [0, -2])))}
    leaf = st.sampled_from(_DIFFERENTIABLE)
    return PlainCall(
        kind, "function", "loss", options, ((_WAYS[0], (draw(leaf), draw(leaf), 3.0)),)
    )


@st.composite
def plain_missing_calls(draw: st.DrawFn) -> PlainCall:
    """Calls of `grad` and `remat` whose options number an argument not passed by position."""
    kind = draw(st.sampled_from(("grad", "remat")))
    number = draw(st.sampled_from((1, 2, (0, 1), (1, 2))))
    options = {"argnums" if kind == "grad" else "static_argnums": number}
    ways = draw(st.sampled_from((_WAYS[2], _WAYS[5], _WAYS[6])))
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
    return PlainCall("scan", draw(st.sampled_from(_FORMS)), result, options, ((_WAYS[0], values),))
