"""Linen models, described: layers, and lifts of layers.

    Model((Layer("Dense"), Lift("scan", (Layer("Dense"),))))

is a model whose second layer is repeated by `scan`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scutch.inputs import models
from scutch.inputs.descriptions import Builder, Description


@dataclass(frozen=True, repr=False)
class Layer(Description):
    """One layer of a Linen model, and how its first parameter is boxed.

    Args:
      kind: The computation, such as `Dense`; `scutch.inputs.evaluation` has them all.
      box: The box's class: one of the implementation, one of `scutch.inputs.boxes`, or `""` for no
        box.
      names: The names of the box, one for each axis.
    """

    kind: str
    box: str = ""
    names: tuple[Any, ...] = ()


@dataclass(frozen=True, repr=False)
class Lift(Description):
    """Layers of a Linen model that are repeated by `scan` or mapped by `vmap`.

    Args:
      kind: `scan` or `vmap`.
      layers: The layers, and further lifts, that are lifted.
      length: How often they are repeated or mapped, at least 1.
      axis: The axis along which parameters are stacked; other collections are stacked along axis 0.
      name: The partition name that the lift gives the new axis.
      named: Whether the lift is given a partition name at all.
      split: Whether each repetition gets keys of its own.
    """

    kind: str
    layers: tuple[Any, ...]
    length: int = 2
    axis: int = 0
    name: Any = None
    named: bool = True
    split: bool = True


@dataclass(frozen=True, repr=False)
class Model(Description):
    """A Linen model: layers and lifts, one after the other, and the batch that it is called with.

    Args:
      layers: The layers and lifts, in order.
      width: The number of columns of the batch.
      batch: The number of rows of the batch.
      form: How the module is written, one of `models.FORMS`.
    """

    layers: tuple[Layer | Lift, ...]
    width: int = 2
    batch: int = 2
    form: str = "compact"

    def build(self, builder: Builder) -> models.Instance:
        """The model over the implementation, with its batch of shape `(batch, width)`."""
        x = np.linspace(-1, 2, self.batch * self.width, dtype="float32") ** 2
        batch = x.reshape(self.batch, self.width)
        return models.Instance(self, builder.meta, builder.linen, batch)
