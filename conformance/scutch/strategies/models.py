"""Linen models; see `scutch.models`."""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.boxes import KINDS
from scutch.inputs.descriptions import Layer, Lift, Model
from scutch.inputs.models import FORMS, LIFTS

RANKS = {"Dense": 2, "Scale": 1, "Mix": 2, "Shift": 0, "Place": 2, "LayerNorm": 1, "BatchNorm": 1}
"""Layers with parameters, and the number of axes of that which may be boxed."""
PLAIN = ("Dense", "Scale", "Mix", "Shift", "Place", "LayerNorm")
LAYERS = (*PLAIN, "BatchNorm", "Counter", "Sow", "Dropout")
BOXES = ("Partitioned", "LogicallyPartitioned", *KINDS)
PARTITIONS = ("layers", None, "stage")

_least = {**RANKS, "Dense": 1, "Counter": 3, "Sow": 3, "Dropout": 3}


@st.composite
def layers(
    draw: st.DrawFn, kinds: tuple[str, ...] = LAYERS, boxes: tuple[str, ...] = ("", *BOXES)
) -> Layer:
    """Single layers, their first variable boxed or not."""
    kind = draw(st.sampled_from(kinds))
    box = draw(st.sampled_from(boxes)) if kind in RANKS or kind == "Counter" else ""
    names = ("data", "model")[: RANKS.get(kind, 0)] if box else ()
    return Layer(kind, box, tuple(draw(st.sampled_from((name, None))) for name in names))


@st.composite
def lifts(
    draw: st.DrawFn,
    *,
    kinds: tuple[str, ...] = LIFTS,
    inner: tuple[str, ...] = (),
    of: st.SearchStrategy[Layer] | None = None,
    negative: bool | None = None,
    max_size: int = 2,
) -> Lift:
    """Lifted layers.

    Args:
      draw: Hypothesis's.
      kinds: The lifts to choose from.
      inner: Where given, what is lifted is itself a lift of one of these kinds.
      of: The layers.
      negative: Whether the axis of parameters is negative; either where left out.
      max_size: How many layers are lifted at most.
    """
    of = layers() if of is None else of
    if inner:
        within = lifts(kinds=inner, of=of, negative=negative, max_size=1)
        body: tuple[Any, ...] = (draw(within),)
    else:
        body = tuple(draw(st.lists(of, min_size=1, max_size=max_size)))
    rank = min(map(least_rank, body))
    axes = [*range(rank + 1), *range(-1, -rank - 2, -1)]
    axis = draw(st.sampled_from([a for a in axes if negative in (None, a < 0)]))
    taken = {layer.name for layer in body if isinstance(layer, Lift)}
    name = draw(st.sampled_from([n for n in PARTITIONS if n is None or n not in taken]))
    return Lift(draw(st.sampled_from(kinds)), body, draw(st.sampled_from((2, 3))), axis, name)


def least_rank(part: Layer | Lift) -> int:
    """The least number of axes of a parameter of a part."""
    if isinstance(part, Lift):
        return 1 + min(map(least_rank, part.layers))
    return _least[part.kind]


def models(
    of: st.SearchStrategy[Any] | None = None,
    *,
    forms: tuple[str, ...] = tuple(FORMS),
    max_size: int = 3,
) -> st.SearchStrategy[Model]:
    """Models of a few layers.

    Args:
      of: Layers and lifts to choose from; layers alone where left out.
      forms: How they are written.
      max_size: How many there are at most.
    """
    parts = st.lists(layers() if of is None else of, min_size=1, max_size=max_size).map(tuple)
    return st.builds(
        Model, parts, st.sampled_from((2, 3)), st.sampled_from((2, 4)), st.sampled_from(forms)
    )


def lifted_models(**options: Any) -> st.SearchStrategy[Model]:
    """Models of one lift; options as for `lifts`."""
    return models(lifts(**options), max_size=1, forms=("compact", "setup"))
