"""Lifted `grad` over objects: OBJ-7.

The oracle is JAX's own transformation of the pure function of the object's states.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import reached, requirement
from scutch.laws.transformations.nested_modules import PLACES, at, nested_model


def _loss(module, x):
    """A scalar and an array of a model and a number; the statistics are changed."""
    values = [at(module, place).get_value() for place in PLACES]
    module.b.set_value(module.b.get_value() + x)
    return sum(jnp.sum(weight * x * v**2) for weight, v in enumerate(values, 1)), values[0] * x


def _value(module, x):
    """The scalar alone."""
    return _loss(module, x)[0]


def _of_two(loss):
    """The function `loss` of one model or of two: the product of the scalars, and the arrays."""

    def of_two(model, x, other):
        first = loss(model, x)
        if other is None:
            return first
        second = loss(other, x)
        if loss is _value:
            return first * second
        return first[0] * second[0], first[1] + second[1]

    return of_two


FILTERS = {
    "default": lambda nnx: nnx.Param,
    "type": lambda nnx: nnx.BatchStat,
    "path": lambda nnx: nnx.PathContains("c"),
    "either": lambda nnx: nnx.Any(classes(nnx)["Scale"], nnx.BatchStat),
    "neither": lambda nnx: nnx.Not(nnx.Param),
}


@requirement(
    "transformations/equals-jax/grad-of-objects",
    must_reach=(*FILTERS, "several", "tied", "two objects"),
)
@given(
    wanted=st.sampled_from(list(FILTERS)),
    several=st.booleans(),
    tied=st.booleans(),
    with_value=st.booleans(),
    has_aux=st.booleans(),
    two=st.booleans(),
)
def test_gradients_are_those_of_the_pure_function(
    transforms, nnx, wanted, several, tied, with_value, has_aux, two
):
    """Lifted `grad` and `value_and_grad` give the gradients, values and further results that JAX
    gives for the pure function of the object's states, with any filter for the differentiated
    variables and with the gradient of an array beside. Of `two` objects, a variable of both has its
    whole gradient in the state of the first.
    """
    loss = _of_two(_loss if has_aux else _value)
    x, model = np.float32(3), nested_model(nnx, tied=tied)
    other = nested_model(nnx, tied=False) if two else None
    if two:
        other.a, other.b = model.a, model.b
    chosen = FILTERS[wanted](nnx)
    definition, variables, rest = nnx.split(nnx.clone([model, other]), chosen, ...)

    def pure(variables, x, rest):
        model, other = nnx.clone(nnx.merge(definition, variables, rest))
        return loss(model, x, other)

    options = {"has_aux": has_aux}
    value, (state, slope) = jax.value_and_grad(pure, (0, 1), **options)(variables, x, rest)
    argnums = 0 if wanted == "default" else transforms.DiffState(0, chosen)
    if several:
        reached("several")
        argnums = (argnums, 1)
    if two:
        reached("two objects")
        further = 2 if wanted == "default" else transforms.DiffState(2, chosen)
        argnums = (*argnums, further) if several else (argnums, further)
    lift = transforms.value_and_grad if with_value else transforms.grad
    found = lift(loss, argnums=argnums, **options)(model, x, other)
    if with_value:
        result, found = found
        assert alike(result, value)
    elif has_aux:
        found, aux = found
        assert alike(aux, value[1])
    states = [*found] if several or two else [found]
    if several:
        assert alike(states.pop(1), slope)
    assert all(isinstance(each, nnx.State) for each in states)
    flat = {(n, *p): v for n, each in enumerate(states) for p, v in _flat(nnx, each).items()}
    expected = _flat(nnx, state)
    assert alike(flat, expected)
    assert expected


def _flat(nnx, state):
    """Types and values of a state's leaves, by path."""
    return {p: (type(v).__name__, v.get_value()) for p, v in nnx.to_flat_state(state)}
