"""Strategies for lifted Linen modules; see `scutch.engine.carriers.linen`.

`linen_calls("vmap", "remat")` draws stacks of a layer or two under two lifts, the outermost first,
with axes and filters that are legal for them:

    LinenCall((Layer('Dense'),), (LinenLift('vmap', {'params': -1}), LinenLift('remat', {})))
"""

from typing import Any

from hypothesis import strategies as st

from scutch.engine.carriers.linen import LinenCall
from scutch.engine.lifts import LINEN
from scutch.inputs.described_models import Layer
from scutch.strategies.models import layers


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
        tuple(draw(LINEN[kind].drawn(trains=train)) for kind in kinds),
        train,
        method,
        mutable,
    )
