"""`init` and `apply` as functions of functions: LIN-1g (`002_`).

The oracles are the methods of the module.
"""

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.keys import small_key
from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import costly, reached, requirement

FILTERS = (False, True, ("counts",), ("counts", "intermediates"))


def _counting(linen):
    """A module with a parameter, a count of its calls, and a value that it sows."""

    class Counting(linen.Module):
        @linen.compact
        def __call__(self, x, *, by=1.0):
            count = self.variable("counts", "calls", jnp.zeros, ())
            if self.is_mutable_collection("counts"):
                count.value += 1
            self.sow("intermediates", "seen", x * by)
            return x * by * self.param("scale", linen.initializers.normal(), (2,))

    return Counting()


@requirement(
    "linen/methods/ways-to-call-agree", must_reach=("captured", "several", *map(str, FILTERS))
)
@costly
@given(
    seed=st.integers(0, 9),
    calls=st.integers(1, 3),
    mutable=st.sampled_from(FILTERS),
    captured=st.booleans(),
)
def test_functions_of_modules_are_their_methods(linen, seed, calls, mutable, captured):
    """`linen.init`, `linen.init_with_output` and `linen.apply` of a function, which calls a module
    once or several times, give what the methods of the module give for this function.
    """
    reached(str(mutable))
    if calls > 1:
        reached("several")

    def times(module, x, *, by):
        for _ in range(calls):
            x = module(x, by=by)
        return x

    module, key, x = _counting(linen), small_key(seed), np.arange(2, dtype="float32")
    options = {"mutable": mutable, "capture_intermediates": captured}
    making = {**options, "mutable": mutable is True or ("params", "counts", *(mutable or ()))}
    for name in ("init", "init_with_output"):
        expected = getattr(module, name)(key, x, by=2.0, method=times, **making)
        assert_close(getattr(linen, name)(times, module, **making)(key, x, by=2.0), expected)
    variables = module.init(key, x)
    expected = module.apply(variables, x, by=3.0, method=times, **options)
    assert_close(linen.apply(times, module, **options)(variables, x, by=3.0), expected)
