"""Gradients, vmap, scan and remat of functions of objects."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scutch_reference import errors, nnx

optax = pytest.importorskip("optax")


class Net(nnx.Module):
    """A little of everything."""

    def __init__(self, rngs):
        """Make the layers."""
        self.linear = nnx.Linear(4, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        """All of it."""
        return self.dropout(self.norm(self.linear(x)))


X = jax.random.normal(jax.random.key(1), (8, 4))


def loss(m):
    """A scalar."""
    return ((m(X) - 1) ** 2).mean()


def test_a_training_step_is_the_same_eagerly_and_compiled():
    """Parameters, statistics, seeds and the optimizer's state."""

    def step(m, optimizer):
        value, grads = nnx.value_and_grad(loss)(m)
        optimizer.update(m, grads)
        return value

    worlds = []
    for run in (step, nnx.jit(step), nnx.jit(step, donate_argnums=(0, 1))):
        m = Net(nnx.Rngs(0))
        optimizer = nnx.Optimizer(m, optax.sgd(1e-2, momentum=0.9), wrt=nnx.Param)
        values = [float(run(m, optimizer)) for _ in range(3)]
        assert int(optimizer.step[...]) == 3
        state = nnx.split((m, optimizer), nnx.RngKey, ...)[2]
        worlds.append((values, jax.tree.leaves(state)))
    for values, leaves in worlds[1:]:
        np.testing.assert_allclose(values, worlds[0][0], rtol=1e-4)
        for a, b in zip(leaves, worlds[0][1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_gradients_are_those_of_the_functional_form():
    """By number, by filter, with auxiliary output; objects in it stay themselves."""
    m = Net(nnx.Rngs(0))
    m.eval()
    definition, parameters, rest = nnx.split(m, nnx.Param, ...)
    expected = jax.grad(lambda p: loss(nnx.merge(definition, p, rest)))(parameters)
    found = nnx.grad(loss)(m)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    (only, scale), aux = nnx.grad(
        lambda m, s: (loss(m) * s, m),
        argnums=(nnx.DiffState(0, nnx.PathContains("kernel")), 1),
        has_aux=True,
    )(m, 2.0)
    assert nnx.to_flat_state(only).paths == (("linear", "kernel"),)
    assert aux is m
    np.testing.assert_allclose(scale, loss(m), rtol=1e-5)
    again = nnx.grad(nnx.remat(loss))(m)
    np.testing.assert_allclose(again.linear.kernel.value, expected.linear.kernel.value, atol=1e-6)


def stack(n=3):
    """Layers in one object, each with the axis name `layers`."""

    @nnx.vmap(transform_metadata={nnx.PARTITION_NAME: "layers"})
    def create(key):
        init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("in", "out"))
        return nnx.Linear(4, 4, kernel_init=init, rngs=nnx.Rngs(key))

    return create(jax.random.split(jax.random.key(0), n))


def test_scan_over_layers_is_the_unrolled_loop():
    """Values and gradients; the axis has its name outside, and none inside."""
    layers = stack()
    assert layers.kernel.out_sharding == ("layers", "in", "out")
    assert layers.kernel.shape == (3, 4, 4)

    @nnx.scan(
        in_axes=(0, nnx.Carry),
        out_axes=nnx.Carry,
        transform_metadata={nnx.PARTITION_NAME: "layers"},
    )
    def forward(layer, x):
        assert layer.kernel.out_sharding == ("in", "out")
        return jnp.tanh(layer(x))

    def unrolled(layers, x):
        for i in range(3):
            x = jnp.tanh(x @ layers.kernel[...][i] + layers.bias[...][i])
        return x

    np.testing.assert_allclose(forward(layers, X), unrolled(layers, X), atol=1e-6)
    assert layers.kernel.out_sharding == ("layers", "in", "out")
    left, right = (nnx.grad(lambda m, f=f: f(m, X).sum())(layers) for f in (forward, unrolled))
    np.testing.assert_allclose(left.kernel.value, right.kernel.value, atol=1e-5)
    np.testing.assert_allclose(nnx.jit(forward)(layers, X), unrolled(layers, X), atol=1e-6)


def test_scan_carries_stacks_and_shares_by_filter():
    """A shared variable that a step changes is refused."""

    class Step(nnx.Module):
        def __init__(self):
            self.total = nnx.BatchStat(jnp.zeros(()))
            self.rows = nnx.Param(jnp.arange(3.0))
            self.shared = nnx.Cache(jnp.array(2.0))

        def __call__(self, x):
            self.total[...] += self.rows[...] * self.shared[...] * x
            self.rows[...] = self.rows[...] + 1
            return self.total[...]

    axes = nnx.StateAxes({nnx.BatchStat: nnx.Carry, nnx.Param: 0, ...: None})
    step = Step()
    out = nnx.scan(Step.__call__, in_axes=(axes, None), out_axes=0)(step, 1.0)
    np.testing.assert_array_equal(out, [0, 2, 6])
    assert float(step.total[...]) == 6
    np.testing.assert_array_equal(step.rows[...], [1, 2, 3])
    with pytest.raises(errors.LiftingError, match=r"path \('shared',\)"):
        nnx.scan(lambda m, x: m.shared.set_value(x), in_axes=(None, 0), out_axes=0)(step, X)


def test_a_carried_object_comes_back_as_itself():
    """With other carries as in JAX."""
    counter = nnx.Dict(n=nnx.Variable(jnp.array(0.0)))

    @nnx.scan(in_axes=(nnx.Carry, 0))
    def up(counter, x):
        counter.n[...] += x
        return counter, counter.n[...]

    last, seen = up(counter, jnp.arange(4.0))
    assert last is counter
    np.testing.assert_array_equal(seen, [0, 1, 3, 6])
    carry, ys = nnx.scan(lambda c, x: (c + x, c * x))(0.0, jnp.arange(4.0))
    assert float(carry) == 6
    np.testing.assert_array_equal(ys, [0, 0, 2, 9])


def test_vmap_shares_maps_and_updates():
    """Axes by filter; updates of mapped variables come out stacked."""
    layers = stack()
    both = nnx.vmap(lambda m, x: m(x), in_axes=(0, None))(layers, X)
    np.testing.assert_allclose(both[1], X @ layers.kernel[...][1], atol=1e-5)
    axes = nnx.StateAxes({nnx.PathContains("kernel"): 0, ...: None})
    layers.bias.value = layers.bias[...][0]

    @nnx.vmap(in_axes=(axes, 0), out_axes=1)
    def f(m, x):
        m.kernel[...] = m.kernel[...] * 2
        return m(x)

    assert f(layers, jnp.ones((3, 4))).shape == (4, 3)
    assert layers.kernel.shape == (3, 4, 4)
    assert layers.bias.shape == (4,)


@pytest.mark.parametrize("lift", [nnx.vmap, nnx.scan])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_value_that_another_object_gets_has_the_axis_of_that_object(lift, axis):
    """Whatever axis it had, or had not, where it came from."""
    rows = jnp.arange(6.0).reshape(3, 2)
    one, other = (nnx.Dict(a=nnx.Param(rows)) for _ in range(2))
    one.a.value = {0: rows, 1: rows.T, None: rows[0]}[axis]

    def give(one, other):
        other.b = nnx.Param(one.a.value)

    lift(give, in_axes=(axis, 0), out_axes=None)(one, other)
    expected = rows if axis is not None else jnp.stack([rows[0]] * 3)
    np.testing.assert_array_equal(other.b[...], expected)


def test_eval_shape_makes_abstract_objects():
    """No array is made."""
    m = nnx.eval_shape(lambda: Net(nnx.Rngs(0)))
    assert isinstance(m.linear.kernel.value, jax.ShapeDtypeStruct)
    definition, state = nnx.split(m)
    assert nnx.merge(definition, state).linear.kernel.shape == (4, 4)


@pytest.mark.parametrize("argnums", [nnx.Param(1.0), [nnx.Param(1.0)], "model", None])
def test_what_is_no_number_of_an_argument_is_refused(argnums):
    """The error for an object, a text or `None` as `argnums` names the option."""
    with pytest.raises(errors.LiftingError, match="argnums"):
        nnx.grad(lambda model: model[...], argnums=argnums)(nnx.Param(1.0))
