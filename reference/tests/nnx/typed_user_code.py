"""User code as a type checker sees it: `test_types.py` checks this file, strictly.

A decorated function keeps its parameters and its output, with options and without. A wrong argument
is an error: each is marked with `type: ignore`, and an unused `type: ignore` fails the check.
"""

from typing import Any, assert_type

import jax
from jax.sharding import Mesh, PartitionSpec
from scutch_reference import nnx


@nnx.jit
def plain(model: nnx.Module, x: float, *, mode: str = "train") -> int:
    """Decorated without arguments."""
    return 1


@nnx.jit(static_argnames="mode")
def with_options(model: nnx.Module, x: float, *, mode: str = "train") -> int:
    """Decorated with options."""
    return 1


class Counter(nnx.Module):
    """A model with a compiled method."""

    @nnx.jit
    def up(self, by: int) -> "Counter":
        """Count."""
        return self


def loss(model: nnx.Module, x: float) -> float:
    """The function that is differentiated."""
    return x


def calls(model: nnx.Module, counter: Counter, mesh: Mesh) -> None:
    """Every transformation, in both forms."""
    assert_type(plain(model, 1.0, mode="eval"), int)
    assert_type(with_options(model, 1.0), int)
    plain(model, "one")  # type: ignore[arg-type]
    plain(model)  # type: ignore[call-arg]
    with_options(model, 1.0, made="eval")  # type: ignore[call-arg]
    nnx.jit(loss, in_sharding=None)  # type: ignore[call-overload]
    assert_type(counter.up(2), Counter)
    counter.up("two")  # type: ignore[arg-type]
    assert_type(plain.lower(model, 1.0).compile()(model, 1.0), int)
    assert_type(plain.eval_shape(model, 1.0), int)

    spec: PartitionSpec = PartitionSpec()  # type: ignore[no-untyped-call]
    assert_type(nnx.shard_map(loss, mesh=mesh, in_specs=spec, out_specs=spec)(model, 1.0), float)
    decorated = nnx.shard_map(mesh=mesh, in_specs=spec, out_specs=spec)(loss)
    assert_type(decorated(model, 1.0), float)
    decorated(model, 1.0, 2.0)  # type: ignore[call-arg]

    assert_type(nnx.vmap(loss, in_axes=(None, 0))(model, 1.0), float)
    assert_type(nnx.vmap(in_axes=(None, 0))(loss)(model, 1.0), float)
    assert_type(nnx.scan(loss, in_axes=(None, 0), out_axes=0)(model, 1.0), float)
    assert_type(nnx.scan(in_axes=(None, 0), out_axes=0)(loss)(model, 1.0), float)
    assert_type(nnx.remat(loss)(model, 1.0), float)
    assert_type(nnx.remat()(loss)(model, 1.0), float)
    nnx.remat(loss)(model, "one")  # type: ignore[arg-type]

    assert_type(nnx.value_and_grad(loss)(model, 1.0), tuple[float, Any])
    assert_type(nnx.value_and_grad(argnums=1)(loss)(model, 1.0), tuple[float, Any])
    nnx.grad(loss)(model, "one")  # type: ignore[arg-type]
    nnx.grad(argnums=nnx.DiffState(0, nnx.Param))(loss)(model)  # type: ignore[call-arg]
    assert_type(nnx.Param(jax.numpy.zeros(2)).get_raw_value(), jax.Array)
