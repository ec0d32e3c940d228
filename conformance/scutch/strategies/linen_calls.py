"""Strategies for lifted Linen modules; see `scutch.inputs.linen_calls`.

`linen_calls("vmap", "remat")` draws stacks of a layer or two under two lifts, the outermost first,
with axes and filters that are legal for them:

    LinenCall((Layer('Dense'),), (LinenLift('vmap', {'params': -1}), LinenLift('remat', {})))
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.described_models import Layer
from scutch.inputs.linen_calls import COLLECTIONS, SPELLINGS, LinenCall, LinenLift
from scutch.inputs.transformations import CARRIED
from scutch.strategies.models import layers

_FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"variables": True},
    {"variables": COLLECTIONS},
    {"variables": list(COLLECTIONS)},
    {"rngs": True},
    {"rngs": ["dropout", "params"]},
)


@st.composite
def linen_lifts(draw: st.DrawFn, kind: str, *, trains: bool) -> LinenLift:
    """Lifts of one kind.

    Args:
      draw: Hypothesis's.
      kind: As `LinenLift` has it.
      trains: Whether statistics and counts change, which all steps of a loop cannot share. Where
        they do not, nothing is carried.
    """
    if kind in ("jit", "remat"):
        return LinenLift(kind, options=draw(st.sampled_from(_FILTERS)))
    axes: tuple[Any, ...] = (0, -1, None, 0, 1, -2)
    options: Any
    if kind == "scan":
        changing: tuple[Any, ...] = (0, CARRIED, -1) if trains else (0, -1, None)
        given: dict[str, Any] = {"params": draw(st.sampled_from((0, -1, None, 0)))}
        given |= {c: draw(st.sampled_from(changing)) for c in COLLECTIONS[1:]}
        options = draw(st.sampled_from(({}, {}, {"reverse": True}, {"unroll": 2})))
        return LinenLift(kind, given, spelled=draw(st.sampled_from(SPELLINGS)), options=options)
    given = {c: draw(st.sampled_from(axes)) for c in COLLECTIONS}
    x, out = draw(st.sampled_from((0, None, -1, 1))), draw(st.sampled_from((0, 0, -1, 1)))
    options = draw(st.sampled_from(({}, {}, {"axis_name": "lanes"}, {"spmd_axis_name": "data"})))
    return LinenLift(kind, given, x, out, draw(st.sampled_from(SPELLINGS)), options)


@st.composite
def linen_calls(
    draw: st.DrawFn,
    *kinds: str,
    of: st.SearchStrategy[Layer] | None = None,
    max_size: int = 2,
) -> LinenCall:
    """Lifted stacks of layers.

    Args:
      draw: Hypothesis's.
      kinds: Of the lifts, the outermost first.
      of: Layers to choose from; unboxed ones of every kind where left out.
      max_size: How many there are at most.

    Returns:
      A strategy of descriptions.
    """
    names = ("Dense", "Scale", "BatchNorm", "Counter", "Shift")
    of = layers(names, ("",)) if of is None else of
    train = draw(st.booleans())
    changed: tuple[Any, ...] = (["batch_stats", "counts"], True, ("batch_stats", "counts"))
    mutable = draw(st.sampled_from(changed)) if train else False
    method = "__call__" if "scan" in kinds else draw(st.sampled_from(("__call__", "doubled")))
    return LinenCall(
        tuple(draw(st.lists(of, min_size=1, max_size=max_size))),
        tuple(draw(linen_lifts(kind, trains=train)) for kind in kinds),
        train,
        method,
        mutable,
    )
