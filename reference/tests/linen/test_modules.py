"""User code for Linen beyond the laws: modules in fields, captured outputs, functions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scutch_reference import linen as nn

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
KEY = jax.random.key(0)
LOOP = {"variable_broadcast": "params", "variable_carry": "counts", "length": 1}
LOOP |= {"split_rngs": {"params": False}}


class Outer(nn.Module):
    """A module that uses one from its fields beside one of its own."""

    inner: nn.Module

    @nn.compact
    def __call__(self, x, _=None):
        """As a step of a loop."""
        return self.inner(x) + nn.Dense(3)(x), None


class Sharing(nn.Module):
    """A module that hands one it made to a lifted one, and uses it beside that."""

    lift: object

    @nn.compact
    def __call__(self, x):
        """The outputs of both."""
        shared = nn.Dense(3)
        nn.Dense(5, name="other")(x)
        return self.lift(Outer)(shared, name="outer")(x, None)[0] + shared(x)


def plain(target):
    """No transformation."""
    return target


def loop(target):
    """A loop of one step, in which all is shared."""
    return nn.scan(target, **LOOP)


@pytest.mark.parametrize("lift", [nn.remat, nn.jit, loop])
def test_a_module_made_outside_is_the_same_inside_a_lifted_one(lift):
    """Variables, outputs and gradients are those without the transformation."""

    def gradients(model, variables):
        return jax.grad(lambda variables: model.apply(variables, X).sum())(variables)

    model, expected = Sharing(lift), Sharing(plain)
    variables = model.init(KEY, X)
    assert sorted(variables["params"]) == ["Dense_0", "other", "outer"]
    jax.tree.map(np.testing.assert_allclose, variables, expected.init(KEY, X))
    np.testing.assert_allclose(
        model.apply(variables, X), expected.apply(variables, X), rtol=1e-5, atol=1e-6
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        gradients(model, variables),
        gradients(expected, variables),
    )


@pytest.mark.parametrize("lift", [nn.jit, nn.remat])
def test_a_function_of_a_module_is_lifted(lift):
    """It makes sub-modules where its module does, and takes modules that are there."""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            one = nn.Dense(3)
            x = lift(lambda module, x: module(x))(one, x)
            return lift(lambda module, x: nn.Dense(4)(x))(self, x)

    output, variables = Model().init_with_output(KEY, X)
    assert output.shape == (2, 4)
    assert sorted(variables["params"]) == ["Dense_0", "Dense_1"]
    np.testing.assert_allclose(Model().apply(variables, X), output, rtol=1e-6)


def test_a_method_is_lifted_where_it_is_written():
    """As a decorator above `compact`."""

    class Model(nn.Module):
        @nn.jit
        @nn.compact
        def __call__(self, x):
            return nn.Dense(3)(x)

    output, variables = Model().init_with_output(KEY, X)
    params = variables["params"]["Dense_0"]
    np.testing.assert_allclose(output, X @ params["kernel"] + params["bias"], rtol=1e-5)


@pytest.mark.parametrize("lift", [nn.jit, nn.remat])
def test_a_function_is_lifted_over_a_module_with_setup(lift):
    """The lifted function uses the submodule that `setup` made, also as a decorator of a method."""

    class Model(nn.Module):
        def setup(self):
            self.dense = nn.Dense(3)

        def __call__(self, x):
            return self.encoded(x) + lift(lambda module, x: module.dense(x))(self, x)

        @lift
        def encoded(self, x):
            return self.dense(x)

    output, variables = Model().init_with_output(KEY, X)
    params = variables["params"]["dense"]
    np.testing.assert_allclose(output, 2 * (X @ params["kernel"] + params["bias"]), rtol=1e-5)


@pytest.mark.parametrize("lift", [nn.jit, nn.remat])
def test_a_function_is_lifted_in_setup(lift):
    """The function can make variables, and the module that it calls can be called again outside."""

    class Model(nn.Module):
        def setup(self):
            self.dense = nn.Dense(3)
            self.once = lift(lambda dense, x: dense(x))(self.dense, X)
            self.scale = lift(lambda module: module.param("scale", nn.initializers.ones, ()))(self)

        def __call__(self, x):
            return self.scale * self.dense(x) - self.once

    output, variables = Model().init_with_output(KEY, X)
    assert sorted(variables["params"]) == ["dense", "scale"]
    np.testing.assert_allclose(output, np.zeros((2, 3)), atol=1e-6)
    np.testing.assert_allclose(Model().apply(variables, X), output, atol=1e-6)


@pytest.mark.parametrize("lift", [plain, nn.jit, nn.remat])
def test_a_field_may_follow_from_others(lift):
    """It is set in setup or after the constructor, and is none of its arguments."""

    class Model(nn.Module):
        factor: int
        double: int = dataclasses.field(init=False)
        dense: nn.Module = dataclasses.field(init=False)

        def __post_init__(self):
            self.double = 2 * self.factor
            super().__post_init__()

        def setup(self):
            self.dense = nn.Dense(3)

        def __call__(self, x, _=None):
            return self.double * self.dense(x)

    model = lift(Model)(3)
    assert repr(model).endswith("(name=None, factor=3)")
    assert model == model.clone() != model.clone(factor=2)
    variables = nn.Dense(3).init(KEY, X)
    for each, factor in ((model, 6), (model.clone(factor=2), 4)):
        found = each.apply({"params": {"dense": variables["params"]}}, X)
        np.testing.assert_allclose(found, factor * nn.Dense(3).apply(variables, X), rtol=1e-6)
    assert "inner" in Outer(model).init(KEY, X)["params"]


@pytest.mark.parametrize("lift", [plain, nn.jit, nn.remat, loop])
def test_a_loop_shares_and_carries_what_a_lift_inside_it_makes(lift):
    """Parameters are made once, and a carried variable starts with its initial value."""

    class Inner(nn.Module):
        @nn.compact
        def __call__(self, x, _=None):
            count = self.variable("counts", "n", jnp.zeros, ())
            count.value += 1
            return nn.Dense(3)(x), None

    class Step(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return lift(Inner)(name="inner")(x, None)

    model = nn.scan(Step, **{**LOOP, "length": 2})()
    (output, _), variables = model.init_with_output(KEY, X, None)
    dense = {"params": variables["params"]["inner"]["Dense_0"]}
    expected = nn.Dense(3).apply(dense, nn.Dense(3).apply(dense, X))
    np.testing.assert_allclose(output, expected, rtol=1e-6)
    assert variables["counts"]["inner"]["n"] == 2


def test_equal_modules_share_a_program():
    """Also where the class is lifted in each call, as compact methods do."""
    traced = []

    class Inner(nn.Module):
        factor: int

        def __call__(self, x):
            traced.append(self.factor)
            return self.factor * x

    class Model(nn.Module):
        factor: int = 2

        @nn.compact
        def __call__(self, x):
            return nn.jit(Inner)(self.factor, name="inner")(x)

    for _ in range(3):
        np.testing.assert_array_equal(Model().apply({}, X), 2 * X)
    np.testing.assert_array_equal(Model(3).apply({}, X), 3 * X)
    assert traced == [2, 3]


def test_an_argument_is_donated_to_a_compiled_module():
    """Its buffer is given away; positions count the module."""

    class Shift(nn.Module):
        def __call__(self, x, y):
            return x + y

    x, y = jnp.ones(3), jnp.ones(3)
    np.testing.assert_array_equal(nn.jit(Shift, donate_argnums=2)().apply({}, x, y), 2 * x)
    assert (x.is_deleted(), y.is_deleted()) == (False, True)


def test_a_method_may_be_called_run():
    """No name is taken that the field does not take."""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            return self.run(x)

        def run(self, x):
            return nn.Dense(3)(x)

    assert Model().init_with_output(KEY, X)[0].shape == (2, 3)


def test_setup_is_told_what_is_missing():
    """An attribute that is not there, and not yet there, is an error in setup too."""

    class Model(nn.Module):
        def setup(self):
            self.twice = 2 * self.once

        def __call__(self, x):
            return self.twice * x

    with pytest.raises(AttributeError, match="has no attribute 'once'"):
        Model().init(KEY, X)


def test_remat_shows_the_collections_and_streams_that_are_asked_for():
    """Collections and streams that are not asked for are absent inside."""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            return x + self.has_rng("noise") + 10 * self.has_variable("extra", "v")

    variables, rngs = {"extra": {"v": jnp.ones(())}}, {"noise": KEY}
    for seen, total in ((True, 11.0), (False, 0.0)):
        hidden = nn.remat(Model, variables=seen, rngs=seen)()
        assert hidden.apply(variables, jnp.zeros(()), rngs=rngs) == total


def test_outputs_of_methods_are_captured():
    """All of `__call__`, or those that a predicate takes; in a loop they are stacked."""

    class Step(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return nn.Dense(3)(x), None

    stacked = {"params": 0, "intermediates": 0}
    model = nn.scan(Step, variable_axes=stacked, split_rngs={"params": True}, length=2)()
    variables = model.init(KEY, X, None)
    dense = Outer(nn.Dense(3))
    _, found = dense.apply(dense.init(KEY, X), X, capture_intermediates=True)
    assert sorted(found["intermediates"]) == ["Dense_0", "__call__", "inner"]
    (carry, _), found = model.apply(
        variables, X, None, capture_intermediates=lambda module, _: isinstance(module, nn.Dense)
    )
    (captured,) = found["intermediates"]["Dense_0"]["__call__"]
    assert list(found["intermediates"]) == ["Dense_0"]
    assert captured.shape == (2, 2, 3)
    np.testing.assert_array_equal(captured[-1], carry)


def test_a_copy_has_other_fields():
    """The one copied stays as it is."""
    dense = nn.Dense(3)
    assert dense.copy(features=4).features == 4
    assert dense == nn.Dense(3)
