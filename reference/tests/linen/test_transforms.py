"""Lifted gradients, branches, loops and maps compute the same as JAX, on Flax as on ours."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scutch_reference import errors, linen

KEY = jax.random.key(0)
X = jnp.arange(6.0).reshape(2, 3) / 5
LIBRARIES = ["reference", "flax"]


@pytest.fixture(params=LIBRARIES)
def nn(request):
    """The reference, and Flax where it is installed: both answer alike."""
    if request.param == "reference":
        return linen
    return pytest.importorskip("flax.linen")


def calling(nn, method):
    """A module whose call is a function of itself, a dense layer and the inputs."""

    class Calling(nn.Module):
        @nn.compact
        def __call__(self, x):
            return method(self, nn.Dense(3), x)

    return Calling()


def run(model, x=X):
    """Variables, and the output of the model with them."""
    variables = model.init(KEY, x)
    return variables, model.apply(variables, x)


def dense(variables, x):
    """The output of the dense layer."""
    params = variables["params"]["Dense_0"]
    return x @ params["kernel"] + params["bias"]


def test_gradients_are_those_of_jax(nn):
    """Of the inputs, always in a tuple; with a value, and with something beside."""

    def square(layer, x):
        return (layer(x) ** 2).sum()

    variables, found = run(calling(nn, lambda _, layer, x: nn.grad(square, layer, x)))
    expected = jax.grad(lambda x: (dense(variables, x) ** 2).sum())(X)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    _, (value, same) = run(calling(nn, lambda _, layer, x: nn.value_and_grad(square, layer, x)))
    np.testing.assert_allclose(value, (dense(variables, X) ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(same[0], expected, rtol=1e-5)

    def beside(layer, x):
        return square(layer, x), x + 1

    _, ((value, aux), _) = run(
        calling(nn, lambda _, layer, x: nn.value_and_grad(beside, layer, x, has_aux=True))
    )
    np.testing.assert_allclose(aux, X + 1)
    _, (same, aux) = run(calling(nn, lambda _, layer, x: nn.grad(beside, layer, x, has_aux=True)))
    np.testing.assert_allclose(same[0], expected, rtol=1e-5)


def test_gradients_of_variables_are_pulled_back_and_tangents_pushed_forward(nn):
    """They are the module's own collections, without its path."""

    def pulled(_, layer, x):
        output, back = nn.vjp(lambda layer, x: layer(x), layer, x)
        return output, back(jnp.ones_like(output))

    variables, (output, (params, inputs)) = run(calling(nn, pulled))
    np.testing.assert_allclose(output, dense(variables, X), rtol=1e-5)
    np.testing.assert_allclose(params["params"]["kernel"], X.T @ jnp.ones((2, 3)), rtol=1e-5)
    kernel = variables["params"]["Dense_0"]["kernel"]
    np.testing.assert_allclose(inputs, jnp.ones((2, 3)) @ kernel.T, rtol=1e-5)

    def pushed(_, layer, x):
        layer(x)
        tangents = jax.tree.map(jnp.ones_like, layer.variables)
        return nn.jvp(lambda layer, x: layer(x), layer, (x,), (x,), tangents)

    class Pushed(nn.Module):
        def setup(self):
            self.layer = nn.Dense(3)

        def __call__(self, x):
            return pushed(None, self.layer, x)

    variables, (_, tangent) = run(Pushed())
    kernel = variables["params"]["layer"]["kernel"]
    expected = X @ kernel + X @ jnp.ones((3, 3)) + 1
    np.testing.assert_allclose(tangent, expected, rtol=1e-5)


def test_a_gradient_of_ones_own_takes_the_place_of_the_computed_one(nn):
    """`custom_vjp` gives signs in the place of gradients."""

    def forward(layer, x):
        return nn.vjp(lambda layer, x: layer(x), layer, x)

    def backward(back, cotangent):
        params, *inputs = back(cotangent)
        return (jax.tree.map(jnp.sign, params), *inputs)

    signs = nn.custom_vjp(lambda layer, x: layer(x), forward, backward)
    model = calling(nn, lambda _, layer, x: signs(layer, x))
    variables, output = run(model)
    np.testing.assert_allclose(output, dense(variables, X), rtol=1e-5)
    grads = jax.grad(lambda variables: model.apply(variables, X).sum())(variables)
    np.testing.assert_array_equal(
        grads["params"]["Dense_0"]["kernel"], np.sign(X.T @ jnp.ones((2, 3)))
    )


@pytest.mark.parametrize("chosen", [False, True])
def test_a_branch_is_called_and_its_changes_are_made(nn, chosen):
    """Variables of the branch that is not called stay."""

    class Counting(nn.Module):
        @nn.compact
        def __call__(self, x, pred):
            self.variable("counts", "yes", lambda: jnp.zeros(()))
            self.variable("counts", "no", lambda: jnp.zeros(()))

            def count(name, factor):
                def branch(module, x):
                    held = module.get_variable("counts", name)
                    module.put_variable("counts", name, held + 1)
                    return factor * x

                return branch

            x = nn.cond(pred, count("yes", 2), count("no", 3), self, x)
            return nn.switch(pred + 0, [count("no", 5), count("yes", 7)], self, x)

    model = Counting()
    variables = {"counts": {"yes": jnp.zeros(()), "no": jnp.zeros(())}}
    output, changed = model.apply(variables, X, jnp.asarray(chosen), mutable=["counts"])
    np.testing.assert_allclose(output, X * (14 if chosen else 15), rtol=1e-6)
    assert float(changed["counts"]["yes"]) == 2 * chosen
    assert float(changed["counts"]["no"]) == 2 * (not chosen)


def test_a_loop_goes_on_as_long_as_its_condition_holds(nn):
    """Its turns hand carried collections on, and share the others."""

    class Looping(nn.Module):
        @nn.compact
        def __call__(self, x):
            self.param("step", nn.initializers.ones, ())
            self.variable("counts", "turns", lambda: jnp.zeros(()))

            def more(module, x):
                return module.get_variable("counts", "turns") < 4

            def turn(module, x):
                turns = module.get_variable("counts", "turns")
                module.put_variable("counts", "turns", turns + 1)
                return x + module.get_variable("params", "step")

            if self.is_initializing():
                return x
            return nn.while_loop(more, turn, self, x, "counts", "params")

    model = Looping()
    output, changed = model.apply(model.init(KEY, X), X, mutable=["counts"])
    np.testing.assert_allclose(output, X + 4)
    assert float(changed["counts"]["turns"]) == 4


def test_variables_are_mapped_on_the_way_in_and_out(nn):
    """The collection holds the transposed kernel."""

    def turned(collections):
        return jax.tree.map(jnp.transpose, collections)

    class Turned(nn.Module):
        @nn.compact
        def __call__(self, x):
            layer = nn.map_variables(nn.Dense, "params", turned, turned, init=True)
            return layer(4, use_bias=False, name="layer")(x)

    variables, output = run(Turned())
    kernel = variables["params"]["layer"]["kernel"]
    assert kernel.shape == (4, 3)
    np.testing.assert_allclose(output, X @ kernel.T, rtol=1e-5)


def test_an_axis_is_named_without_moving_an_array(nn):
    """Outside the box has one name more than inside."""
    inside = []

    class Boxed(nn.Module):
        @nn.compact
        def __call__(self, x):
            init = nn.with_partitioning(nn.initializers.ones_init(), (None, "model"))
            box = self.param("w", init, (2, 3), unbox=False)
            inside.append(box.names)
            return x * nn.unbox(box) if hasattr(nn, "unbox") else x * box.unbox()

    named = nn.add_metadata_axis(
        Boxed, variable_axes={"params": 0}, metadata_params={nn.PARTITION_NAME: "layers"}
    )
    variables, _ = run(named())
    assert variables["params"]["w"].names == ("layers", None, "model")
    assert variables["params"]["w"].value.shape == (2, 3)
    assert set(inside) == {(None, "model")}


def test_scans_are_nested_and_computed_again(nn):
    """Parameters have an axis for each scan, and the output equals the loop's."""

    class Deep(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.remat_scan(nn.Dense, lengths=(2, 3))(3, name="layers")(x)

    variables, output = run(Deep())
    params = variables["params"]["layers"]
    assert params["kernel"].shape == (2, 3, 3, 3)
    expected = X
    for kernel, bias in zip(
        params["kernel"].reshape(6, 3, 3), params["bias"].reshape(6, 3), strict=True
    ):
        expected = expected @ kernel + bias
    np.testing.assert_allclose(output, expected, rtol=1e-5)
    grads = jax.grad(lambda v: Deep().apply(v, X).sum())(variables)
    assert jax.tree.map(jnp.shape, grads) == jax.tree.map(jnp.shape, variables)


def test_a_collection_that_goes_one_way_is_read_and_not_returned(nn):
    """A step that reads by `ScanIn` cannot write."""
    partitioning = importlib.import_module(f"{nn.__name__}.partitioning")

    class Step(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            scale = self.variable("scales", "scale", jnp.ones, (1,))
            x = x * scale.value
            if self.is_mutable_collection("scales"):
                scale.value = scale.value + 1
            return x, None

    def stack(axis):
        return nn.scan(Step, variable_axes={"scales": axis}, length=4)

    scales = {"scales": {"scale": 2 * jnp.ones((1, 4))}}
    (output, _), changed = stack(1)().apply(scales, X, None, mutable=["scales"])
    np.testing.assert_allclose(output, 16 * X)
    np.testing.assert_allclose(changed["scales"]["scale"], 3 * np.ones((1, 4)))
    one_way = stack(partitioning.ScanIn(1))()
    (output, _), changed = one_way.apply(scales, X, None, mutable=["scales"])
    np.testing.assert_allclose(output, 16 * X)
    np.testing.assert_allclose(changed["scales"]["scale"], 2 * np.ones((1, 4)))


def test_functions_are_initialized_and_applied_with_a_module(nn):
    """`nn.init` and `nn.apply` make functions of variables."""
    model = nn.Dense(3)
    variables = nn.init(lambda module, x: module(x) + 1, model)(KEY, X)
    again = nn.init_with_output(lambda module, x: module(x) + 1, model)(KEY, X)
    np.testing.assert_array_equal(again[1]["params"]["kernel"], variables["params"]["kernel"])
    output = nn.apply(lambda module, x: module(x) + 1, model)(variables, X)
    np.testing.assert_allclose(output, again[0], rtol=1e-6)
    np.testing.assert_allclose(output, model.apply(variables, X) + 1, rtol=1e-6)


def test_an_option_is_given_once(nn):
    """To the constructor or to the call."""
    assert nn.merge_param("train", None, True) is True
    for given in ((None, None), (True, False)):
        with pytest.raises(ValueError, match="train"):
            nn.merge_param("train", *given)


def test_names_are_folded_and_calls_are_named(nn):
    """Neither changes an output that needs no random numbers."""

    class Named(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.fold_rngs(nn.Dense)(3, name="layer")(x)

    variables, output = run(Named())
    np.testing.assert_allclose(
        output, nn.Dense(3).apply({"params": variables["params"]["layer"]}, X)
    )
    assert linen.named_call(jnp.sin)(0.0) == 0.0


def test_arguments_reach_a_module_with_folded_keys_by_name(nn):
    """As they do by position."""

    class Scaled(nn.Module):
        @nn.compact
        def __call__(self, x, scale=1.0):
            return x * scale

    assert nn.fold_rngs(Scaled)().apply({}, 2.0, scale=3.0) == 6.0


def test_outside_a_module_there_is_none():
    """The error asks for the argument `module`."""
    with pytest.raises(errors.ModuleError, match="pass module="):
        linen.partitioning.param_with_axes("w", linen.initializers.ones, (2,), axes=("a",))
