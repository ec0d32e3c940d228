"""A model as pure functions, whether it is a Linen module or an NNX object.

A *framework* makes variables from a key, and gives the outputs of a call together with the changed
variables. `params` are the trained variables, `rest` are all others, both still in their boxes:

    framework = framework_of(model, implementation)
    params, rest = framework.init(jax.random.key(0), *inputs)
    outputs, rest = framework.apply(params, rest, jax.random.key(1), *inputs)
"""

import contextlib
import gc
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax

from scutch.implementation import Implementation, SetupError
from scutch.loading import load as load_implementation
from scutch.models.model import Model


class Framework(Protocol):
    """A model as a function that makes its variables, and one that calls it."""

    def init(self, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The trained variables and all others, from a key.

        Args:
          key: Of random numbers.
          *inputs: The positional arguments of a call.
        """
        ...

    def apply(self, params: Any, rest: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The outputs of a call, and the variables that are not trained after it.

        Args:
          params: The trained variables.
          rest: The other variables.
          key: Of random numbers.
          *inputs: The positional arguments of a call.

        Returns:
          The outputs, and the other variables after the call.
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

    def apply(self, params: Any, rest: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """One call with every collection but `params` mutable.

        Args:
          params: The collection `params`.
          rest: The other collections.
          key: Of random numbers; each stream gets its own.
          *inputs: The positional arguments of the call.

        Returns:
          Its outputs, and the other collections after it.
        """
        streams = {
            name: jax.random.fold_in(key, number) for number, name in enumerate(self.model.streams)
        }
        outputs, changed = self.module.apply(
            {"params": params, **rest},
            *inputs,
            rngs=streams,
            mutable=list(rest),
            **self.model.options,
        )
        return outputs, {**rest, **dict(changed)}


class NNX:
    """An NNX object, taken apart into its parameters and its other variables."""

    def __init__(self, make: Any, model: Model, implementation: Implementation) -> None:
        """Keep the function that makes the object; it is not called yet.

        Args:
          make: A function of an `Rngs`, or without arguments.
          model: The description that it is from.
          implementation: Whose NNX it is.
        """
        self.make, self.model, self.nnx = make, model, implementation.nnx
        self._graphdef: Any = None

    def object(self, key: Any) -> Any:
        """The object, made from a key."""
        return self.of_streams(self.nnx.Rngs(key))

    def of_streams(self, rngs: Any) -> Any:
        """The object, made from an `Rngs`."""
        wanted = _parameters(self.make)
        if any(each.name == "rngs" and each.kind is each.KEYWORD_ONLY for each in wanted):
            return self.make(rngs=rngs)
        return self.make(rngs) if wanted else self.make()

    def init(self, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The parameters of the object and its other variables, as two states.

        Args:
          key: Of random numbers.
          *inputs: They are not needed: an object has its variables before it is called.
        """
        self._graphdef, params, rest = self.nnx.split(self.object(key), self.nnx.Param, ...)
        return params, rest

    def apply(self, params: Any, rest: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """One call of the object; its own streams give the random numbers.

        Args:
          params: The parameters.
          rest: The other variables, the streams of random numbers among them.
          key: It is not needed.
          *inputs: The positional arguments of the call.

        Returns:
          Its outputs, and the other variables after it.

        Raises:
          RuntimeError: `init` was never called, so that the structure is unknown.
        """
        if self._graphdef is None:
            raise RuntimeError("the object was called before it was made; expected init first")
        of_this_trace = jax.tree_util.tree_map(lambda value: value, (params, rest))
        made = self.nnx.merge(self._graphdef, *of_this_trace)
        outputs = made(*inputs, **self.model.options)
        return outputs, self.nnx.split(made, self.nnx.Param, ...)[2]

    def restored(self, state: Any, like: Any) -> Any:
        """A state of training whose variables were put into an object and read by `nnx.state`.

        Args:
          state: The judge's own, after `init`.
          like: It is not needed.
        """
        made = self.nnx.merge(self._graphdef, state["params"], state["rest"])
        params, rest = self.nnx.state(made, self.nnx.Param, ...)
        return {**state, "params": params, "rest": rest}


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
    """Call a function under `jax.eval_shape`, so that an object it makes holds no arrays."""
    made: list[Any] = []
    jax.eval_shape(lambda: made.append(make()))
    return made[0]


def _required(make: Any) -> bool:
    """Whether a function has a parameter without a default."""
    return any(
        each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in _parameters(make)
    )


def _parameters(make: Any) -> list[inspect.Parameter]:
    """The parameters of a function, or of the `__init__` of a class."""
    try:
        if not isinstance(make, type):
            return list(inspect.signature(make).parameters.values())
        own: Any = make.__init__  # type: ignore[misc]
        return list(inspect.signature(own).parameters.values())[1:]
    except (TypeError, ValueError):
        return []


@contextlib.contextmanager
def surroundings(implementation: Implementation, rules: Any, mesh: Any = None) -> Iterator[None]:
    """Call a model under rules and a mesh, as its owner does.

    Args:
      implementation: Whose rules they are.
      rules: Logical names and mesh axes.
      mesh: A mesh of devices; without one, nothing is constrained.

    Yields:
      Nothing; rules and mesh hold inside.
    """
    with contextlib.ExitStack() as stack:
        if implementation.logical is not None:
            stack.enter_context(implementation.logical.logical_axis_rules(tuple(rules)))
        if implementation.nnx is not None and hasattr(implementation.nnx, "use_eager_sharding"):
            stack.enter_context(implementation.nnx.use_eager_sharding(False))
        if mesh is not None:
            stack.enter_context(jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh)
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
