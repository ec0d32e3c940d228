"""Options of a lifted transformation reach JAX's own: OBJ-8o and LIN-9f.

Some options change how a program runs, and none of its numbers: how far a loop is unrolled, what is
kept for the backward pass, whether a function is inlined. They can be seen in the traced program,
so nothing is compiled.

The oracle is the program that JAX's own transformation is traced to, with equal options.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes
from scutch.lawkit.marks import reached, requirement

POLICIES = ("everything_saveable", "nothing_saveable", "dots_saveable")
SEEN = {
    "scan": (("scan",), ("reverse", "unroll", "length")),
    "remat": (("checkpoint", "remat", "remat2"), ("prevent_cse", "policy")),
    "jit": (("jit", "pjit"), ("inline", "keep_unused")),
}
"""For each transformation, its primitive in a program (the names differ between releases of JAX),
and the options that are kept with it."""


def _options(kind):
    """Options of one transformation; each may be left out."""
    some = {
        "scan": {"reverse": st.booleans(), "unroll": st.integers(1, 4)},
        "remat": {"prevent_cse": st.booleans(), "policy": st.sampled_from(POLICIES)},
        "jit": {"inline": st.booleans(), "keep_unused": st.booleans()},
    }[kind]
    return st.tuples(st.just(kind), st.fixed_dictionaries({}, optional=some))


chosen = st.sampled_from(["scan", "remat", "jit"]).flatmap(_options)


def _with_policy(options):
    """The options, with the policy that a name in them stands for."""
    policies = {"policy": getattr(jax.checkpoint_policies, options.get("policy", POLICIES[0]))}
    return {name: policies.get(name, value) for name, value in options.items()}


def _equations(jaxpr):
    """Every equation of a program, and of the programs inside it, outer ones first."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(inner):
                yield from _equations(getattr(inner, "jaxpr", inner))


def _is_program(value):
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _in_program(kind, function, *arguments):
    """The options that the first equation of a transformation has, in a traced function."""
    names, options = SEEN[kind]
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    for equation in _equations(program):
        if equation.primitive.name in names:
            return {name: equation.params[name] for name in options}
    return "no such equation"


def _body(kind, scale):
    """A function of an array that `jax.lax.scan` takes, or one that all others take."""
    if kind == "scan":
        return lambda carry, x: (carry + scale() * x, carry * x)
    return lambda carry, x: jnp.sum(jnp.sin(carry) * scale() * x)


def _by_jax(kind, options):
    """JAX's own transformation of the body."""
    body = _body(kind, lambda: 2.0)
    if kind == "scan":
        return lambda carry, xs: jax.lax.scan(body, carry, xs, **options)
    return {"remat": jax.checkpoint, "jit": jax.jit}[kind](body, **options)


X, XS = np.ones(2, "float32"), np.ones((4, 2), "float32")


@requirement("OBJ-8o", must_reach=("scan", "remat", "jit", "an object"))
@given(chosen=chosen, with_object=st.booleans())
def test_options_of_lifted_transformations_are_in_the_program(transforms, nnx, chosen, with_object):
    """`unroll`, `reverse`, `prevent_cse`, `policy`, `inline` and `keep_unused` are as with JAX,
    given or left out, with an object among the arguments or without.
    """
    kind, options = chosen[0], _with_policy(chosen[1])
    reached(kind)
    second = XS if kind == "scan" else X
    expected = _in_program(kind, _by_jax(kind, options), X, second)
    axes = {"in_axes": (transforms.Carry, 0), "out_axes": (transforms.Carry, 0)}
    if with_object:
        reached("an object")
        axes["in_axes"] = (None, *axes["in_axes"])

    def function(*arguments):
        *objects, carry, x = arguments
        scale = objects[0].a.get_value() if objects else 2.0
        return _body(kind, lambda: scale)(carry, x)

    lift = getattr(transforms, kind)
    lifted = lift(function, **options, **(axes if kind == "scan" else {}))

    def whole(carry, x):
        module = classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.array(2.0))
        return lifted(*([module] if with_object else []), carry, x)

    assert _in_program(kind, whole, X, second) == expected


@requirement("LIN-9f", must_reach=("scan", "remat"))
@given(chosen=st.sampled_from(["scan", "remat"]).flatmap(_options))
def test_options_of_lifted_modules_are_in_the_program(linen, chosen):
    """`unroll`, `reverse`, `prevent_cse` and `policy` are in the program as they are with JAX."""
    kind, options = chosen[0], _with_policy(chosen[1])
    reached(kind)
    second = XS if kind == "scan" else X

    class Body(linen.Module):
        @linen.compact
        def __call__(self, carry, x):
            scale = self.param("scale", lambda key: jnp.array(2.0))
            return _body(kind, lambda: scale)(carry, x)

    shared = {"variable_broadcast": "params", "split_rngs": {"params": False}}
    lifted = getattr(linen, kind)(Body, **options, **(shared if kind == "scan" else {}))
    variables = {"params": {"scale": jnp.array(2.0)}}
    found = _in_program(kind, lambda carry, x: lifted().apply(variables, carry, x), X, second)
    expected = _in_program(kind, _by_jax(kind, options), X, second)
    assert found == expected
