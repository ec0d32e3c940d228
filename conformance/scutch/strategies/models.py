"""Linen models: layers, lifts of layers, and stacks of both; see `scutch.inputs.models`.

models().example()  # such as Model((Layer('Dense'),))
lifted_models().example()  # such as Model((Lift('scan', (Layer('Scale'),)),))
"""

from typing import Any

from hypothesis import strategies as st

from scutch.inputs.boxes import KINDS
from scutch.inputs.described_models import Layer, Lift, Model
from scutch.inputs.models import FORMS, LIFTS

RANKS = {"Dense": 2, "Scale": 1, "Mix": 2, "Shift": 0, "Place": 2, "LayerNorm": 1, "BatchNorm": 1}
"""The layers whose first variable may be boxed, with the number of its axes."""

PLAIN = ("Dense", "Scale", "Mix", "Shift", "Place", "LayerNorm")
"""The layers that compute the same in training and in inference."""

LAYERS = (*PLAIN, "BatchNorm", "Counter", "Sow", "Dropout")
"""All layers, simplest first."""

BOXES = ("Partitioned", "LogicallyPartitioned", *KINDS)
"""The classes of boxes."""

PARTITIONS = ("layers", None, "stage")
"""The partition names of lifts."""

_least = {**RANKS, "Dense": 1, "Counter": 3, "Sow": 3, "Dropout": 3}
"""The least number of axes of a parameter of each layer; a large one where there is none."""


@st.composite
def layers(
    draw: st.DrawFn, kinds: tuple[str, ...] = LAYERS, boxes: tuple[str, ...] = ("", *BOXES)
) -> Layer:
    """Single layers, their first variable boxed or not.

    Args:
      draw: The function that Hypothesis passes.
      kinds: The layers to choose from.
      boxes: The classes of boxes to choose from; empty for no box.
    """
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
    """Layers that are repeated by `scan`, or mapped by `vmap`.

    Args:
      draw: The function that Hypothesis passes.
      kinds: The lifts to choose from: `scan`, `vmap`, or both.
      inner: Where given, the lift contains a single lift, of one of these kinds, and no layers.
      of: Draws the layers; where left out, `layers()`.
      negative: Whether the axis at which parameters are stacked is negative; where left out, it is
        or it is not.
      max_size: How many layers are lifted at most, without `inner`.

    Returns:
      A strategy for `Lift`s whose axis fits every parameter of the lifted layers.
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
    """The least number of axes of a parameter in a layer or a lift: where a lift may stack them."""
    if isinstance(part, Lift):
        return 1 + min(map(least_rank, part.layers))
    return _least[part.kind]


def models(
    of: st.SearchStrategy[Any] | None = None,
    *,
    forms: tuple[str, ...] = tuple(FORMS),
    max_size: int = 3,
) -> st.SearchStrategy[Model]:
    """Stacks of a few layers, with a batch of 2 or 4 rows of 2 or 3 entries.

    Args:
      of: Draws layers and lifts; where left out, `layers()`.
      forms: How the stack is written: some of `scutch.inputs.models.FORMS`.
      max_size: How many layers and lifts there are at most.

    Returns:
      A strategy for `Model`s.
    """
    parts = st.lists(layers() if of is None else of, min_size=1, max_size=max_size).map(tuple)
    return st.builds(
        Model, parts, st.sampled_from((2, 3)), st.sampled_from((2, 4)), st.sampled_from(forms)
    )


def parts(
    kinds: tuple[str, ...] = ("Dense", "Scale", "BatchNorm", "Counter", "Shift"),
    boxes: tuple[str, ...] = ("",),
) -> st.SearchStrategy[Model]:
    """Stacks of one or two layers, small enough to be the part of a module that is lifted.

    Args:
      kinds: The layers to choose from.
      boxes: The classes of boxes to choose from; empty for no box.
    """
    return models(layers(kinds, boxes), max_size=2)


def lifted_models(**options: Any) -> st.SearchStrategy[Model]:
    """Stacks of one lift; options as for `lifts`."""
    return models(lifts(**options), max_size=1, forms=("compact", "setup"))
