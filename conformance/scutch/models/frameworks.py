"""A model as a pure function that makes its variables: a Linen module or an NNX object.

`params` are the trained variables, `rest` are all others, both still in their boxes:

    framework = framework_of(model, implementation)
    params, rest = framework.init(jax.random.key(0), *inputs)
"""

import contextlib
import gc
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax

from scutch.implementation import Implementation, SetupError
from scutch.implementation import load as load_implementation
from scutch.models.model import Model


class Framework(Protocol):
    """A model as a function that makes its variables."""

    def init(self, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The trained variables and all others, from a key.

        Args:
          key: Of random numbers.
          *inputs: The positional arguments of a call.
        """
        ...


@dataclass(frozen=True)
class Linen:
    """A Linen module.

    Args:
      module: The module.
      model: The description that it is from.
    """

    module: Any
    model: Model

    def init(self, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The collection `params`, and the other collections.

        Args:
          key: Of random numbers.
          *inputs: The positional arguments of a call.
        """
        streams = {"params": key}
        for number, name in enumerate(self.model.streams):
            streams[name] = jax.random.fold_in(key, number + 1)
        variables = dict(self.module.init(streams, *inputs, **self.model.options))
        params = variables.pop("params", {})
        variables.pop("intermediates", None)
        return params, variables


class NNX:
    """An NNX object, taken apart into its parameters and its other variables."""

    def __init__(self, make: Any, model: Model, implementation: Implementation) -> None:
        """Keep what makes the object.

        Args:
          make: A function of an `Rngs`, or of nothing.
          model: The description that it is from.
          implementation: Whose NNX it is.
        """
        self.make, self.model, self.nnx = make, model, implementation.nnx

    def object(self, key: Any) -> Any:
        """The object, made from a key."""
        rngs = self.nnx.Rngs(key)
        return self.make(rngs) if inspect.signature(self.make).parameters else self.make()

    def init(self, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The parameters of the object and its other variables, as two states.

        Args:
          key: Of random numbers.
          *inputs: They are not needed: an object has its variables before it is called.
        """
        _, params, rest = self.nnx.split(self.object(key), self.nnx.Param, ...)
        return params, rest


def implementation_of(model: Model) -> Implementation:
    """The implementation that a description names, or holds."""
    chosen = model.implementation
    return load_implementation(chosen) if isinstance(chosen, str) else chosen


def framework_of(model: Model, implementation: Implementation, make: Any = None) -> Framework:
    """The framework that the owner's model is of.

    Args:
      model: The description.
      implementation: Its implementation.
      make: In the place of `model.make`.

    Returns:
      A `Linen` or an `NNX`.

    Raises:
      SetupError: The model is no Linen module, and no function that makes one or an object.
    """
    make = model.make if make is None else make
    linen, nnx = implementation.linen, implementation.nnx
    if linen is not None and isinstance(make, linen.Module):
        return Linen(make, model)
    if not callable(make):
        raise SetupError(
            f"Model({make!r})",
            f"it is a {type(make).__name__}; expected a Linen module, or a function that makes a "
            "Linen module or, of an Rngs, an NNX object",
        )
    if linen is not None and not _required(make):
        made = _made_abstractly(make)
        if isinstance(made, linen.Module):
            return Linen(made, model)
    if nnx is None:
        raise SetupError(
            f"Model({make!r})",
            f"it makes no Linen module of {implementation.name}, which claims no NNX",
        )
    return NNX(make, model, implementation)


def _made_abstractly(make: Any) -> Any:
    """What a function makes, without the arrays of an object that would be large."""
    made: list[Any] = []
    jax.eval_shape(lambda: made.append(make()))
    return made[0]


def _required(make: Any) -> bool:
    """Whether a function has a parameter without a default."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in parameters
    )


@contextlib.contextmanager
def without_mesh(implementation: Implementation) -> Iterator[None]:
    """Make variables as annotated, without a mesh on which they could be placed.

    Yields:
      Nothing.
    """
    with contextlib.ExitStack() as stack:
        if implementation.nnx is not None and hasattr(implementation.nnx, "use_eager_sharding"):
            stack.enter_context(implementation.nnx.use_eager_sharding(False))
        yield


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Trace without Python's garbage collector, which takes a sixth of the time of a large model.

    Yields:
      Nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
