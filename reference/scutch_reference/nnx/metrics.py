"""Metrics: running averages over the batches of training or evaluation, as objects.

>>> import jax.numpy as jnp
>>> metrics = MultiMetric(loss=Average(), accuracy=Accuracy())
>>> logits = jnp.array([[0.0, 1.0], [1.0, 0.0]])
>>> metrics.update(values=jnp.array([1.0, 2.0]), logits=logits, labels=jnp.array([1, 1]))
>>> {name: float(value) for name, value in metrics.compute().items()}
{'loss': 1.5, 'accuracy': 0.5}
>>> metrics.reset()
>>> int(metrics.loss.count[...])
0
"""

import abc
from typing import Any

import jax.numpy as jnp
from jax import Array

from ..errors import DataError
from ..types import Leaf
from .graph import split
from .objects import Pytree
from .variables import Variable


class MetricState(Variable[Array]):
    """A number that a metric keeps."""


class Metric(Pytree):
    """The base of metrics; a subclass defines the three methods."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all batches."""

    @abc.abstractmethod
    def update(self, **kwargs: Leaf) -> None:
        """Take a batch into account.

        Args:
          **kwargs: Data about the batch, by name; the metric ignores names that it does not use.
        """

    @abc.abstractmethod
    def compute(self) -> Any:
        """Return the metric of all batches since the last `reset`."""

    def split(self, *filters: Any) -> Any:
        """Return the definition and the states of the metric; see `nnx.split`.

        Args:
          *filters: A filter for each state.
        """
        return split(self, *filters)


def _asked(name: str, given: dict[str, Leaf]) -> Array:
    """The values of this name in a batch, as an array."""
    if name not in given:
        raise DataError(
            place="the data of a batch",
            given=sorted(given),
            expected=f"data with the name {name!r}",
        )
    return jnp.asarray(given[name])


class Average(Metric):
    """The mean of all values of all batches; NaN before the first.

    Args:
      argname: The keyword of `update` under which the values are.
    """

    def __init__(self, argname: str = "values"):
        self.argname = argname
        self.total, self.count = MetricState(jnp.float32(0)), MetricState(jnp.int32(0))

    def reset(self) -> None:
        """Forget all batches."""
        self.total[...], self.count[...] = jnp.float32(0), jnp.int32(0)

    def update(self, mask: Array | None = None, **kwargs: Leaf) -> None:
        """Take the values of a batch into account.

        Args:
          mask: Booleans that broadcast to the values: which of them count.
          **kwargs: The values, a number or an array, under the keyword `argname`.

        Raises:
          DataError: The keyword `argname` is missing.
        """
        values = _asked(self.argname, kwargs)
        self.total[...] += jnp.sum(values, where=mask)
        self.count[...] += values.size if mask is None else jnp.sum(mask)

    def compute(self) -> Any:
        """Return the mean."""
        return self.total[...] / self.count[...]


class Accuracy(Average):
    """The share of examples whose label is predicted.

    Args:
      threshold: For labels 0 and 1: the logit from which on 1 is predicted. Without it, the label
        is predicted that has the largest logit.
      argname: As for `Average`; not needed.
    """

    def __init__(self, threshold: float | None = None, argname: str = "values"):
        super().__init__(argname)
        self.threshold = threshold

    def update(  # type: ignore[override]
        self, *, logits: Array, labels: Array, mask: Array | None = None, **_: Leaf
    ) -> None:
        """Take a batch into account.

        Args:
          logits: Shape (..., labels); with a threshold, the shape of `labels`.
          labels: Integers.
          mask: Booleans that broadcast to `labels`: which of them count.
          **_: Other data about the batch, which are ignored.

        Raises:
          DataError: The shapes do not fit, or the labels are no integers.
        """
        rank = labels.ndim if self.threshold is not None else labels.ndim + 1
        if logits.ndim != rank or not jnp.issubdtype(labels.dtype, jnp.integer):
            raise DataError(
                place="logits and labels",
                given=(logits, labels),
                expected=f"integers as labels, and logits with {rank} axes",
            )
        if self.threshold is None:
            right = jnp.argmax(logits, axis=-1) == labels
        else:
            right = (logits >= self.threshold) == (labels > 0)
        super().update(mask, **{self.argname: right})


class MultiMetric(Metric):
    """Several metrics as one; every metric gets all data about a batch.

    Args:
      **metrics: The metrics by name; they are attributes of this one.
    """

    def __init__(self, **metrics: Metric):
        self._metric_names = (*metrics,)
        for name, metric in metrics.items():
            setattr(self, name, metric)

    def _metrics(self) -> dict[str, Metric]:
        return {name: getattr(self, name) for name in self._metric_names}

    def reset(self) -> None:
        """Forget all batches, in all metrics."""
        for metric in self._metrics().values():
            metric.reset()

    def update(self, **updates: Leaf) -> None:
        """Take a batch into account, in all metrics.

        Args:
          **updates: Data about the batch, by name.
        """
        for metric in self._metrics().values():
            metric.update(**updates)

    def compute(self) -> dict[str, Any]:
        """Return the result of each metric, by name."""
        return {name: metric.compute() for name, metric in self._metrics().items()}
