"""Calls of jitted functions of plain arrays; see `scutch.engine.carriers.arrays`.

Most calls are legal. Some are illegal on purpose: an implementation must refuse every call that JAX
refuses.
"""

from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.arrays import FORMS, RESULTS, OnDevice, PlainCall, Sharding
from scutch.inputs.descriptions import Array, Mesh
from scutch.strategies.array_calls import WAYS

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
        ways = [WAYS[0]] if (count == 3 or is_static) and not left_out else [WAYS[4]]
        if faults == "sharding":  # A static argument that is left out is drawn with `left_out`.
            ways += [draw(st.sampled_from(WAYS[:4] if is_static else WAYS))]
    else:
        ways = draw(st.lists(st.sampled_from(WAYS), min_size=1, max_size=calls))
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
    return kind(parts + [None] * (count - 2))


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
