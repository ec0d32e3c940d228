"""A model's training on a mesh: its first state, its step, and the inputs of each step.

The *state* is a dictionary of `params`, `optimizer`, `rest`, the step's number and a key; with the
owner's own `start` and `step` it is any tree. *Annotated shardings* follow from the boxes and
variables in it: a moment of an optimizer in a parameter's box lies as the parameter does.

    training = Training.of(model)
    with training.on({"data": 8}) as there:
        state = there.start(seed=0)
        state, loss = there.step(state, *there.batch(0))
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.implementation import Implementation, SetupError
from scutch.lawkit.training import ADAM
from scutch.models.annotations import decide, is_annotated, is_variable, leaves, spec_of
from scutch.models.arrays import abstract_of, drawn, longer, zeros
from scutch.models.frameworks import Framework, framework_of, implementation_of, surroundings
from scutch.models.model import MeshShape, Model, device_count, mesh_text

WHOLE: Any = PartitionSpec()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Training:
    """A model, its optimizer and its step as pure functions, on no mesh yet.

    Args:
      model: The description.
      implementation: Its implementation.
      framework: The model as functions.
      times: By how much a random batch is larger than described.
    """

    model: Model
    implementation: Implementation
    framework: Framework
    times: int = 1

    @classmethod
    def of(cls, model: Model, make: Any = None) -> "Training":
        """The training of a description.

        Args:
          model: The description.
          make: In the place of `model.make`.
        """
        implementation = implementation_of(model)
        return cls(model, implementation, framework_of(model, implementation, make))

    @property
    def optimizer(self) -> Any:
        """The owner's optimizer, or Adam."""
        return self.model.optimizer if self.model.optimizer is not None else ADAM

    def first(self, key: Any, *inputs: Any) -> dict[str, Any]:
        """The state before the first step, as a pure function of a key.

        Args:
          key: Of random numbers.
          *inputs: Of a call of the model.
        """
        return self.started(*self.framework.init(key, *inputs), key)

    def started(self, params: Any, rest: Any, key: Any) -> dict[str, Any]:
        """The state before the first step, of variables that are made.

        Args:
          params: The trained variables.
          rest: The other variables.
          key: Of random numbers.

        Returns:
          A dictionary, as the module's docstring names its parts.
        """
        return {
            "params": params,
            "optimizer": self.optimizer.init(params),
            "rest": rest,
            "number": jnp.zeros((), "int32"),
            "key": jax.random.fold_in(key, 1000),
        }

    def loss(self, params: Any, rest: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The loss of one batch, and the variables that are not trained after it.

        Args:
          params: The trained variables.
          rest: The other variables.
          key: Of random numbers.
          *inputs: Of the call.

        Returns:
          The loss, and the other variables.
        """
        loss, (rest, _) = self.loss_and_outputs(params, rest, key, *inputs)
        return loss, rest

    def loss_and_outputs(self, params: Any, rest: Any, key: Any, *inputs: Any) -> tuple[Any, Any]:
        """The loss of one batch, and a pair: the variables that are not trained, and the outputs.

        Args:
          params: The trained variables.
          rest: The other variables.
          key: Of random numbers.
          *inputs: Of the call.

        Returns:
          The loss, and the pair.
        """
        outputs, rest = self.framework.apply(params, rest, key, *inputs)
        return self._loss_of(outputs, inputs), (rest, outputs)

    def _loss_of(self, outputs: Any, inputs: Any) -> Any:
        if self.model.loss is not None:
            return self.model.loss(outputs, *inputs)
        first = jax.tree_util.tree_leaves(outputs)[0]
        return jnp.mean(jnp.square(first.astype("float32")))

    def gradients(self, state: Any, *inputs: Any) -> tuple[Any, Any]:
        """Loss and changed variables, and the gradient of each parameter.

        Args:
          state: Of the step.
          *inputs: Of the call.
        """
        key = jax.random.fold_in(state["key"], state["number"])
        return jax.value_and_grad(self.loss, has_aux=True)(
            state["params"], state["rest"], key, *inputs
        )

    def next(self, state: Any, *inputs: Any) -> tuple[Any, Any]:
        """One step of training: the state after it, and the loss before it.

        Args:
          state: Of the step.
          *inputs: Of the call.
        """
        (loss, rest), gradients = self.gradients(state, *inputs)
        updates, optimizer = self.optimizer.update(gradients, state["optimizer"], state["params"])
        params = jax.tree_util.tree_map(
            lambda p, u: jnp.asarray(p + u).astype(p.dtype), state["params"], updates
        )
        changed = {"params": params, "optimizer": optimizer, "rest": rest}
        return {**state, **changed, "number": state["number"] + 1}, loss

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The inputs of a step without values, `times` as long along their axis of the batch."""
        if self.times == 1:
            return self.model.arguments
        names = self.model.input_names or [("batch",) for _ in self.model.arguments]
        return tuple(
            jax.tree_util.tree_map(
                functools.partial(longer, tuple(each).index("batch"), self.times), value
            )
            if "batch" in each
            else value
            for each, value in zip(names, self.model.arguments, strict=True)
        )

    def batch(self, number: int, *, seed: int = 0) -> tuple[Any, ...]:
        """The inputs of one step, from the owner or random; random ones of step 1 have extremes.

        Args:
          number: Of the step, from 0.
          seed: Of the random ones.

        Returns:
          Arrays of the host.
        """
        if self.model.batches is not None:
            made = self.model.batches(number)
            return made if isinstance(made, tuple) else (made,)
        random = np.random.default_rng([seed, number])
        return jax.tree_util.tree_map(  # type: ignore[no-any-return]
            functools.partial(drawn, random, number == 1), self.arguments
        )

    @contextlib.contextmanager
    def on(self, shape: MeshShape, devices: Sequence[Any] = ()) -> Iterator["Placed"]:
        """The training on a mesh, with its rules in force.

        Args:
          shape: The mesh shape.
          devices: Of the mesh; those that are present where there are none.

        Yields:
          The placed training.
        """
        mesh = make_mesh(shape, devices)
        with surroundings(self.implementation, self.model.rules, mesh):
            yield Placed(self, mesh)

    def shardings(self, tree: Any, mesh: Any) -> Any:
        """The annotated sharding of each box, variable or bare array, as a prefix of a tree.

        Args:
          tree: With boxes and variables in it.
          mesh: Of devices.
        """
        rules = tuple(self.model.rules)

        def sharding(value: Any) -> Any:
            if not is_annotated(self.implementation, value):
                return NamedSharding(mesh, WHOLE)
            found = leaves(self.implementation, value)
            variable = is_variable(self.implementation, value)
            if len(found) != 1:
                return NamedSharding(mesh, WHOLE)
            return NamedSharding(
                mesh, spec_of(decide(found[0].names, (*rules, *found[0].rules), variable=variable))
            )

        return jax.tree_util.tree_map(
            sharding, tree, is_leaf=lambda value: is_annotated(self.implementation, value)
        )


class Placed:
    """A training on one mesh, in whose surroundings it is used."""

    def __init__(self, training: Training, mesh: Any) -> None:
        """Keep the training and the mesh; nothing is placed yet.

        Args:
          training: The training.
          mesh: A mesh of devices.
        """
        self.training, self.mesh = training, mesh

    @property
    def present(self) -> bool:
        """Whether the devices are here; for others a step is compiled and not run."""
        return self.mesh.devices.flat[0] in jax.devices()

    @property
    def owner_starts(self) -> bool:
        """Whether the owner makes the state, and not the judge."""
        return self.training.model.start is not None

    @functools.cached_property
    def abstract(self) -> Any:
        """The state without values."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        if self.training.model.start is not None:
            return abstract_of(self.start(0))
        return jax.eval_shape(self.training.first, key, *self.training.model.arguments)

    @functools.cached_property
    def shardings(self) -> Any:
        """The annotated shardings of the state, as a prefix."""
        return self.training.shardings(self.abstract, self.mesh)

    def start(self, seed: int) -> Any:
        """The first state on the mesh: the owner's, or made in `jit` with annotated shardings."""
        key = jax.random.key(seed)
        if self.training.model.start is not None:
            return self.training.model.start(self.mesh, key)
        return self._made(key, *zeros(self.training.model.arguments))

    def taken(self, state: Any) -> Any:
        """Copy a state of another mesh onto this mesh, with the annotated shardings.

        Args:
          state: Made by the judge's own start.
        """
        return jax.device_put(state, self.shardings, may_alias=False)  # a step donates it

    @functools.cached_property
    def _made(self) -> Any:
        """The compiled function that makes the first state."""
        return jax.jit(self.training.first, out_shardings=self.shardings)

    @functools.cached_property
    def step(self) -> Any:
        """The compiled step: the owner's, or one that donates its state and keeps its shardings."""
        owner = self.training.model.step
        if owner is None:
            whole = (self.shardings, NamedSharding(self.mesh, WHOLE))
            return jax.jit(self.training.next, out_shardings=whole, donate_argnums=0)
        if hasattr(owner, "lower"):
            getattr(owner, "clear_cache", list)()  # else JAX reports no cached program
            return owner
        return jax.jit(lambda state, *inputs: owner(state, *inputs), donate_argnums=0)

    def batch(self, number: int, *, seed: int = 0) -> tuple[Any, ...]:
        """The inputs of a step, placed as their names say.

        Args:
          number: Of the step.
          seed: Of random inputs.

        Returns:
          Arrays on the mesh.
        """
        inputs = self.training.batch(number, seed=seed)
        specs = input_specs(self.training.model, tuple(self.mesh.axis_names))
        return tuple(
            jax.tree_util.tree_map(functools.partial(self._put, spec), value)
            for value, spec in zip(inputs, specs, strict=True)
        )

    def _put(self, spec: Any, value: Any) -> Any:
        fitting = PartitionSpec(*list(spec)[: np.ndim(value)])  # type: ignore[no-untyped-call]
        return jax.device_put(value, NamedSharding(self.mesh, fitting))


def input_specs(model: Model, axes: tuple[str, ...]) -> tuple[Any, ...]:
    """The spec of each input on a mesh.

    Args:
      model: The description.
      axes: The axes of the mesh.

    Returns:
      One spec for each positional argument.

    Raises:
      SetupError: There are names for another number of inputs.
    """
    if model.input_names is None:
        batch = [axis for name, axis in model.rules if name == "batch"]
        spec = PartitionSpec(batch[0] if batch else axes[0])  # type: ignore[no-untyped-call]
        return tuple(spec for _ in model.arguments)
    if len(model.input_names) != len(model.arguments):
        raise SetupError(
            f"Model(input_names={model.input_names!r})",
            f"expected the names of {len(model.arguments)} inputs, one tuple for each",
        )
    return tuple(spec_of(decide(n, tuple(model.rules), variable=False)) for n in model.input_names)


def make_mesh(shape: MeshShape, devices: Sequence[Any] = ()) -> Any:
    """A mesh with axes of type Auto.

    Args:
      shape: The mesh shape.
      devices: Of which the mesh takes the first; those that are present where there are none.

    Raises:
      SetupError: There are too few devices.
    """
    devices, count = devices or jax.devices(), device_count(shape)
    if count > len(devices):
        raise SetupError(
            f"mesh {mesh_text(shape)}",
            f"it needs {count} devices and there are {len(devices)}; `--devices {count}` makes "
            "fake ones of the host",
        )
    return Mesh(np.array(devices[:count]).reshape(tuple(shape.values())), tuple(shape))


def fitted(mesh: MeshShape) -> dict[str, int]:
    """A mesh shape with its largest axes cut until there are devices enough."""
    shape, present = dict(mesh), len(jax.devices())
    while device_count(shape) > present:
        axis = max(shape, key=lambda each: shape[each])
        shape[axis] = next(n for n in range(shape[axis] - 1, 0, -1) if shape[axis] % n == 0)
    return shape
