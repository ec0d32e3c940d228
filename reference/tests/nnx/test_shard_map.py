"""Functions of objects on parts of their arguments (SHM-1 to SHM-5)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from scutch_reference import errors, nnx


class Block(nnx.Module):
    """A linear map and a batch norm over the devices of an axis."""

    def __init__(self, axis_name=None):
        """Args: the axis of the batch norm."""
        rngs = nnx.Rngs(0)
        self.linear = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, axis_name=axis_name, rngs=rngs)

    def __call__(self, x):
        """Both, one after the other."""
        return self.norm(self.linear(x))


def mesh(n, name="data"):
    """A mesh of the first devices."""
    return Mesh(np.array(jax.devices()[:n]), (name,))


X = jax.random.normal(jax.random.key(0), (8, 4))


@pytest.mark.parametrize("n", [1, 2, 8])
def test_data_parallel_equals_the_plain_function(n):
    """Outputs, and the statistics that were updated inside (SHM-1, SHM-3)."""
    plain, parallel = Block(), Block("data")
    f = nnx.shard_map(
        lambda m, x: m(x), mesh=mesh(n), in_specs=(P(), P("data")), out_specs=P("data")
    )
    for _ in range(2):
        np.testing.assert_allclose(f(parallel, X), plain(X), atol=1e-5)
    np.testing.assert_allclose(parallel.norm.mean[...], plain.norm.mean[...], atol=1e-6)
    assert parallel.norm.mean.value.sharding.is_equivalent_to(NamedSharding(mesh(n), P()), 1)


@pytest.mark.parametrize("exact", [False, True])
def test_tensor_parallel_equals_the_plain_function(exact):
    """With filters and with a state of specs; the variables are sharded afterwards (SHM-2)."""
    model = nnx.List([nnx.Linear(4, 8, use_bias=False, rngs=nnx.Rngs(i)) for i in (0,)])
    model.append(nnx.Linear(8, 3, use_bias=False, rngs=nnx.Rngs(1)))
    expected = model[1](jax.nn.relu(model[0](X)))
    first, second = P(None, "model"), P("model", None)
    spec = nnx.StateSharding(
        nnx.State({0: {"kernel": first}, 1: {"kernel": second}})
        if exact
        else {nnx.PathContains(0): first, nnx.PathContains(1): second}
    )

    @nnx.shard_map(mesh=mesh(4, "model"), in_specs=(spec, P()), out_specs=P())
    def f(m, x):
        m[0].kernel[...] = m[0].kernel[...] * 1
        return jax.lax.psum(m[1](jax.nn.relu(m[0](x))), "model")

    np.testing.assert_allclose(f(model, X), expected, atol=1e-5)
    assert model[0].kernel.value.sharding.spec == first
    assert model[1].kernel.value.sharding.spec == second
    np.testing.assert_allclose(nnx.jit(lambda m, x: f(m, x))(model, X), expected, atol=1e-5)
    grads = nnx.grad(lambda m: f(m, X).sum())(model)
    plain = nnx.grad(lambda m: m[1](jax.nn.relu(m[0](X))).sum())(model)
    np.testing.assert_allclose(grads[0].kernel.value, plain[0].kernel.value, atol=1e-5)


BAD = {
    "an axis that the mesh does not have": (
        errors.MeshAxisError,
        (P("dat"), P("data")),
        P("data"),
        8,
        r"'m'\), path \('linear', 'b",
    ),
    "an unknown axis of a plain argument": (
        errors.MeshAxisError,
        (P(), P("dat")),
        P("data"),
        8,
        r"argument 1 \('x'\)",
    ),
    "an indivisible batch": (
        errors.IndivisibleSizeError,
        (P(), P("data")),
        P("data"),
        7,
        r"argument 1 \('x'\)",
    ),
    "an indivisible variable": (
        errors.IndivisibleSizeError,
        (P("data"), P("data")),
        P("data"),
        8,
        r"'linear', 'kernel'",
    ),
    "statistics that differ": (
        errors.ReplicationError,
        (P(), P("data")),
        P("data"),
        8,
        r"path \('norm', 'mean'\)",
    ),
    "no filter": (
        errors.NoFilterMatchError,
        (nnx.StateSharding({nnx.BatchStat: P()}), P()),
        P(),
        8,
        "'bias'",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_specs_are_errors_that_name_the_place(bad):
    """The argument, and the path in it (SHM-4)."""
    error, in_specs, out_specs, rows, text = bad
    if error is errors.ReplicationError and not hasattr(jax, "typeof"):
        pytest.skip("this JAX does not say along which axes a value varies")
    f = nnx.shard_map(lambda m, x: m(x), mesh=mesh(8), in_specs=in_specs, out_specs=out_specs)
    with pytest.raises(error, match=text):
        f(Block(), jnp.ones((rows, 4)))


def test_the_part_of_the_output_that_differs_is_named():
    """JAX would name the whole output (SHM-4)."""
    if not hasattr(jax, "typeof"):
        pytest.skip("this JAX does not say along which axes a value varies")
    f = nnx.shard_map(
        lambda m, x: {"rows": m.linear(x).sum(), "one": 1.0},
        mesh=mesh(8),
        in_specs=(P(), P("data")),
        out_specs=P(),
    )
    with pytest.raises(errors.ReplicationError, match=r"output, path \['rows'\]"):
        f(Block(), X)


def test_without_the_check_values_may_differ():
    """It is on to begin with, and can be turned off (SHM-5)."""
    f = nnx.shard_map(
        lambda m, x: m(x),
        mesh=mesh(2),
        in_specs=(P(), P("data")),
        out_specs=P("data"),
        check_rep=False,
    )
    assert f(Block(), X).shape == (8, 8)


def test_automatic_axes_are_left_to_the_compiler():
    """As in JAX (SHM-5)."""
    both = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))
    linear = nnx.Linear(4, 8, rngs=nnx.Rngs(0))
    expected = linear(X)
    f = nnx.shard_map(
        lambda m, x: m(x),
        mesh=both,
        in_specs=(P(), P("data")),
        out_specs=P("data"),
        auto=frozenset({"model"}),
    )
    np.testing.assert_allclose(nnx.jit(lambda m, x: f(m, x))(linear, X), expected, atol=1e-5)


def test_new_objects_and_attributes_come_out():
    """A module made inside is returned; an attribute set inside is there afterwards."""

    @nnx.shard_map(mesh=mesh(2), in_specs=(P(), P("data")), out_specs=P("data"))
    def f(m, x):
        m.seen = nnx.Variable(jax.lax.psum(x.sum(), "data"))
        return nnx.Dict(y=nnx.Param(m(x)))

    linear = nnx.Linear(4, 8, rngs=nnx.Rngs(0))
    out = f(linear, X)
    np.testing.assert_allclose(out["y"][...], linear(X), atol=1e-5)
    np.testing.assert_allclose(linear.seen[...], X.sum(), atol=1e-4)
