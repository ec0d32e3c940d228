"""One function that runs a Linen module inside of any lift.

Some lifts take a class of modules, others a function and an instance of a module. Each has its own
options for the collections and streams that the module can use inside:

    module = inside(linen, "cond", Body, collections="stats", streams=True)
    module.apply({"stats": {"part": held}}, x, rngs=keys)
"""

from typing import Any

from scutch.lawkit.equality import alike

CLASSES = ("jit", "remat", "map_variables")
"""Lifts of a class, which take filters of collections and of streams."""
AXES = ("vmap", "scan")
"""Lifts along an axis, which take an axis or a rule for each collection and each stream."""
CALLS = ("vjp", "jvp", "grad", "value_and_grad", "cond", "switch")
"""Lifted calls of a function, which take filters of collections and of streams."""
LOOPS = ("while_loop",)
KINDS = (*CLASSES, *AXES, *CALLS, *LOOPS)


def _called(part: Any, x: Any) -> Any:
    return part(x)


def _summed(part: Any, x: Any) -> tuple[Any, Any]:
    """A scalar for gradients, and the output beside it."""
    output = part(x)
    return output.sum(), output


def _run(linen: Any, kind: str, body: Any, x: Any, seen: dict[str, Any], *, writes: bool) -> Any:
    """The output of the part for `x`; called in a compact method of the module around it."""
    collections, streams = seen["variables"], seen["rngs"]
    seen = {name: choice for name, choice in seen.items() if choice is not True}  # the default
    if alike(kind, "map_variables"):
        return linen.map_variables(body, "params", **seen)(name="part")(x)
    if kind in CLASSES:
        return getattr(linen, kind)(body, **seen)(name="part")(x)
    # Filters of several types stand side by side; two of them name streams that do not exist.
    names = (
        ("absent", streams, "missing") if isinstance(streams, str | linen.DenyList) else (streams,)
    )
    shared = {"split_rngs": {name: name is not streams for name in names}}
    if alike(kind, "vmap"):
        return linen.vmap(body, variable_axes={collections: None}, **shared)(name="part")(x)
    part = body(name="part")
    if alike(kind, "scan"):
        how = "variable_carry" if writes else "variable_broadcast"
        step = linen.scan(lambda part, c, x: (c, part(x)), **{how: collections}, **shared)
        return step(part, 0.0, x)[1]
    if alike(kind, "while_loop"):
        how = "carry_variables" if writes else "broadcast_variables"
        # By default nothing is carried, and all else is shared.
        default = isinstance(collections, bool) and collections is not writes
        options = shared if default else shared | {how: collections}
        return linen.while_loop(
            lambda part, state: state[0] < 1,
            lambda part, state: (1, part(state[1])),
            part,
            (0, x),
            **options,
        )[1]
    return {
        "vjp": lambda: linen.vjp(_called, part, x, **seen)[0],
        "jvp": lambda: linen.jvp(_called, part, (x,), (x,), {}, **seen)[0],
        "grad": lambda: linen.grad(_summed, part, x, has_aux=True, **seen)[1],
        "value_and_grad": lambda: linen.value_and_grad(_summed, part, x, has_aux=True, **seen)[0][
            1
        ],
        "cond": lambda: linen.cond(x.sum() > 0, _called, _called, part, x, **seen),
        "switch": lambda: linen.switch(0, [_called, _called], part, x, **seen),
    }[kind]()


def inside(
    linen: Any,
    kind: str,
    body: Any,
    collections: Any,
    streams: Any,
    *,
    writes: bool = False,
    name: str | None = None,
) -> Any:
    """A module that calls its part, named `part`, once and inside of a lift.

    Args:
      linen: The namespace of modules, of the implementation under judgment.
      kind: One of `KINDS`.
      body: The class of the part, whose call takes an array of one axis and gives one of its shape;
        under `vmap` and `scan`, entry by entry.
      collections: A filter of the collections that the lift lets in; one that can be hashed.
      streams: A filter of the streams that it lets in; one that can be hashed.
      writes: Whether `scan` and `while_loop` carry the collections; otherwise they broadcast them.
      name: The name of the module, for a module that is made inside another one.

    Returns:
      A module that returns the output of its part.
    """
    seen = {"variables": collections, "rngs": streams}

    class Outer(linen.Module):  # type: ignore[misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return _run(linen, kind, body, x, seen, writes=writes)

    return Outer(name=name)
