"""Perturbations of values inside of a module, and their gradients: OBJ-7.

The oracle is the derivative of the formula.
"""

import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import costly, requirement
from scutch.lawkit.tolerances import CALLS


@requirement(
    "transformations/equals-jax/grad-of-objects[variables]", must_reach=("twice", "not twice")
)
@costly
@given(xs=st.lists(st.sampled_from([-1.0, 0.5, 2.0]), min_size=1, max_size=3), twice=st.booleans())
def test_the_gradient_of_a_perturbation_is_that_of_its_value(nnx, transforms, xs, twice):
    """`perturb` adds zeros in a variable, which is made at the first call: the gradient for them is
    the gradient for the value.
    """
    chosen = transforms.DiffState(0, nnx.Perturbation)

    class Perturbed(nnx.Module):
        def __call__(self, x):
            x = self.perturb("between", 3 * x)
            return (self.perturb("after", x * x) if twice else x * x).sum()

    module, x = Perturbed(), jnp.asarray(xs)
    assert_close(module(x), (9 * x * x).sum(), "value", **CALLS)
    gradient = transforms.grad(lambda module: module(x), argnums=chosen)(module)
    assert_close(gradient["between"].get_value(), 2 * 3 * x, "gradient", **CALLS)
    if twice:
        assert_close(gradient["after"].get_value(), jnp.ones_like(x), "gradient", **CALLS)
