"""Models whose kernels lifted `shard_map` cuts over a mesh, and the specs for it.

A `Blocks` is the model of `001_` in general: a few pairs of kernels, each with a bias between them.
The first kernel of a pair is cut by columns, the second by rows, and the outputs are summed over
the mesh axis; the batch may be cut over another axis.

    Blocks((2, 1), Mesh((2, 2), ('data', 'model')), by='suffix')

has two pairs, the first with `2 * 2` columns, the second with `1 * 2`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from scutch.inputs import graphs
from scutch.inputs.descriptions import Builder, Description, Mesh
from scutch.inputs.model_variables import tree

FILTERS = ("suffix", "types", "callable", "several take it")
"""How filters choose specs: by the last key of a path, by types of variables, by functions of path
and variable, and by filters of which several take a variable."""

HELD = ("attributes", "list", "dict", "one twice")
"""Where a model has its pairs: attributes, a plain list, a plain dictionary; or it has one pair,
which it computes twice."""

WIDTH, ROWS = 3, 8


@dataclass(frozen=True, repr=False)
class Blocks(Description):
    """A model of pairs of kernels on a mesh whose axes are `model`, and maybe `data` before it.

    Args:
      pairs: For each pair, how many columns of its first kernel are on each device.
      mesh: The mesh.
      by: One of `FILTERS`, or `"state"`, for a `State` that has the spec of each variable.
      held: One of `HELD`.
      kinds: The types of the first and of the second kernel of a pair; the bias is a `Count`.
      jitted: Whether the function is under lifted `jit` before it is mapped, so that it is compiled
        as a whole.
    """

    pairs: tuple[int, ...]
    mesh: Mesh
    by: str = "suffix"
    held: str = "attributes"
    kinds: tuple[str, str] = ("Param", "BatchStat")
    jitted: bool = True

    def build(self, world: Builder) -> "BuiltBlocks":
        """The model over an implementation."""
        return BuiltBlocks(self, world, self.mesh.build(world))


@dataclass(frozen=True)
class BuiltBlocks:
    """A described model over an implementation; `model` builds new objects each time.

    Args:
      described: The description.
      world: Builds the described values for an implementation.
      mesh: Its mesh.
    """

    described: Blocks
    world: Builder
    mesh: Any

    @property
    def x(self) -> np.ndarray:
        """A batch, which every mesh divides."""
        return np.linspace(-1, 2, ROWS * WIDTH, dtype="float32").reshape(ROWS, WIDTH)

    @property
    def specs(self) -> Mapping[str, Any]:
        """The spec of each variable of a pair."""
        return {"a": _spec(None, "model"), "b": _spec("model", None), "c": _spec("model")}

    def model(self) -> Any:
        """A new model: a `Node` with its pairs, each of them a `Branch`."""
        kinds = graphs.classes(self.world.nnx)
        first, second = (kinds[kind] for kind in self.described.kinds)

        def pair(seed: int, columns: int) -> Any:
            width = columns * self.mesh.shape["model"]
            found = kinds["Branch"]()
            found.a = first(_numbers((WIDTH, width), seed))
            found.b = second(_numbers((width, WIDTH), seed + 1))
            found.c = kinds["Count"](_numbers((width,), seed + 2))
            return found

        pairs = [pair(3 * n, columns) for n, columns in enumerate(self.described.pairs)]
        model = kinds["Node"]()
        match self.described.held:
            case "attributes":
                for name, each in zip("abc", pairs, strict=False):
                    setattr(model, name, each)
            case "list":
                model.d = self.world.nnx.data(pairs)
            case "dict":
                model.d = self.world.nnx.data(dict(zip("klm", pairs, strict=False)))
            case _:
                model.a = model.b = pairs[0]
        return model

    def pairs(self, model: Any) -> list[Any]:
        """The pairs of a model, in the order in which they compute."""
        held = getattr(model, "d", None)
        if held is None:
            return [pair for name in "abc" if (pair := getattr(model, name, None)) is not None]
        return list(held.values() if isinstance(held, dict) else held)

    def forward(self, model: Any, x: Any, *, axis: str | None = None) -> Any:
        """The output of a model for a batch, whose rows it treats independently.

        Args:
          model: The model, or its shard.
          x: The batch, or a part of it.
          axis: The mesh axis over which outputs are summed; `None` for a whole model.

        Returns:
          An array of the shape of the batch.
        """
        for pair in self.pairs(model):
            inner = jax.nn.relu(x @ pair.a.get_value() + pair.c.get_value())
            x = inner @ pair.b.get_value()
            x = jax.lax.psum(x, axis) if axis else x  # type: ignore[no-untyped-call]
            x = jax.nn.tanh(x)
        return x

    def sharding(self, transforms: Any) -> Any:
        """The `StateSharding` that gives each variable its spec.

        Args:
          transforms: The namespace with `StateSharding`.
        """
        kinds, specs = graphs.classes(self.world.nnx), self.specs
        first, second = (kinds[kind] for kind in self.described.kinds)
        if self.described.by == "state":
            return transforms.StateSharding(self.state())
        filters: dict[str, dict[Any, Any]] = {
            "suffix": {_ends_with("a"): specs["a"], _ends_with("b"): specs["b"]},
            "types": {first: specs["a"], second: specs["b"]},
            "callable": {_has_rows(WIDTH): specs["a"], _has_rank(2): specs["b"]},
            "several take it": {
                _ends_with("a"): specs["a"],
                _has_rank(2): specs["b"],
                first: _spec(),
            },
        }
        return transforms.StateSharding({**filters[self.described.by], ...: specs["c"]})

    def state(self) -> Any:
        """A `State` with the spec of each variable."""
        paths = graphs.leaves(self.world.nnx, self.model())
        found = tree({path: self.specs[path[-1]] for path in paths})
        if self.described.held == "one twice":
            found["b"] = found["a"]
        return self.world.nnx.State(found)

    def mapped(
        self,
        transforms: Any,
        seen: Callable[[Any], Any] | None = None,
        *,
        returned: bool = False,
    ) -> Any:
        """The mapped function of a model and a batch, which returns the outputs.

        Args:
          transforms: The namespace with the `shard_map` under judgment.
          seen: Called with the model inside.
          returned: Whether the function returns the result of `seen` beside the outputs. It is a
            model, and is cut by the specs of the argument.

        Returns:
          The mapped function.
        """

        def work(model: Any, x: Any) -> Any:
            made = None if seen is None else seen(model)
            output = self.forward(model, x, axis="model")
            return (output, made) if returned else output

        batch = _spec("data") if "data" in self.mesh.axis_names else _spec()
        return transforms.shard_map(
            transforms.jit(work) if self.described.jitted else work,
            mesh=self.mesh,
            in_specs=(self.sharding(transforms), batch),
            out_specs=(batch, self.sharding(transforms)) if returned else batch,
        )

    def placed(self, path: tuple[Any, ...]) -> NamedSharding:
        """The sharding of the variable at a path of the model."""
        return NamedSharding(self.mesh, self.specs[path[-1]])


def _spec(*axes: Any) -> P:
    return P(*axes)  # type: ignore[no-untyped-call]


def _numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers between -1 and 1, other ones for each seed."""
    size = int(np.prod(shape))
    return np.sin(np.arange(size) * (seed + 1) + seed).astype("float32").reshape(shape)


def _ends_with(name: str) -> Callable[[Any, Any], bool]:
    return lambda path, value: path[-1] == name


def _has_rank(rank: int) -> Callable[[Any, Any], bool]:
    return lambda path, value: len(value.shape) == rank


def _has_rows(rows: int) -> Callable[[Any, Any], bool]:
    return lambda path, value: len(value.shape) == 2 and value.shape[0] == rows
