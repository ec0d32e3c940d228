"""Gradients of functions of a bound module by its variables and by inputs (LIN-4).

`vjp`, `jvp`, `grad` and `value_and_grad` take a function and a module that is bound already, call
the function with the module, and differentiate as JAX's functions of these names do. `custom_vjp`
gives a function of a module a gradient of its own.

The *tangents* of a module's variables, and their *cotangents*, are collections as the variables
are, without the path of the module.

>>> import jax.numpy as jnp
>>> from scutch_reference.linen import Dense, Module, compact
>>> class Slope(Module):
...     @compact
...     def __call__(self, x):
...         return grad(lambda dense, x: dense(x).sum(), Dense(1, use_bias=False), x)[0]
>>> variables = Slope().init(jax.random.key(0), jnp.ones((1, 2)))
>>> slope = Slope().apply(variables, jnp.ones((1, 2)))
>>> bool((slope == variables["params"]["Dense_0"]["kernel"].T).all())
True
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .. import errors
from ..types import Tree
from .lift import at_path, call_of
from .module import Fn, Module
from .scope import Filter, ModulePath, Scope, divided


def _pulled(path: ModulePath, pullback: Fn, cotangent: Tree) -> tuple[Any, ...]:
    """Cotangents of the module's variables, then of the inputs."""
    variables, *inputs = pullback(cotangent)
    return (Scope(variables).at(path), *inputs)


def vjp(
    fn: Fn,
    mdl: Module,
    *primals: Tree,
    has_aux: bool = False,
    vjp_variables: Filter = "params",
    variables: Filter = True,
    rngs: Filter = True,
) -> Tree:
    """Call a function with a bound module, and return how to pull gradients back, as `jax.vjp`.

    Args:
      fn: A function of the module and the inputs.
      mdl: The module.
      primals: The inputs.
      has_aux: Whether `fn` returns a pair, of which the second is not differentiated.
      vjp_variables: A filter of the collections that are differentiated too.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      The output, then a function of its cotangent, which returns the cotangents of the module's
      variables and of each input; with `has_aux`, then the second of the pair. The function is a
      pytree, so that `custom_vjp` can keep it.
    """
    call = call_of(fn, mdl, primals)
    function, held, keys = call.pure(variables, rngs)
    differentiated, rest = divided(held, vjp_variables)

    def split(differentiated: Tree, *primals: Tree) -> Tree:
        output, changed = function(rest | differentiated, keys, *primals)
        output, aux = output if has_aux else (output, None)
        return output, (aux, changed)

    output, pullback, (aux, changed) = jax.vjp(split, differentiated, *primals, has_aux=True)
    call.write(changed)
    back = jax.tree_util.Partial(functools.partial(_pulled, mdl.path), pullback)  # type: ignore[no-untyped-call]
    return (output, back, aux) if has_aux else (output, back)


def value_and_grad(
    fn: Fn,
    mdl: Module,
    *primals: Tree,
    has_aux: bool = False,
    variables: Filter = True,
    rngs: Filter = True,
) -> tuple[Any, tuple[Any, ...]]:
    """Call a function with a bound module; return its value and the gradients of all inputs.

    Args:
      fn: A function of the module and the inputs, which returns a scalar.
      mdl, primals, has_aux, variables, rngs: As for `vjp`; the variables are constants.

    Returns:
      The output of `fn`, and a tuple with a gradient for each input.

    Raises:
      ModuleError: The output of `fn` is no scalar, which JAX refuses, too.
    """
    output, back, *aux = vjp(
        fn,
        mdl,
        *primals,
        has_aux=has_aux,
        vjp_variables=False,
        variables=variables,
        rngs=rngs,
    )
    if output.shape:
        raise errors.ModuleError(
            place="the shape of the output",
            given=output.shape,
            expected="(), because a gradient is the gradient of a scalar",
        )
    _, *gradients = back(jax.numpy.ones_like(output))
    return ((output, *aux) if has_aux else output), tuple(gradients)


def grad(
    fn: Fn,
    mdl: Module,
    *primals: Tree,
    has_aux: bool = False,
    variables: Filter = True,
    rngs: Filter = True,
) -> Tree:
    """Return the gradients of a function of a bound module with respect to all inputs.

    Args:
      fn, mdl, primals, has_aux, variables, rngs: As for `value_and_grad`.

    Returns:
      A tuple with a gradient for each input; with `has_aux`, a pair of that tuple and the second
      output of `fn`.
    """
    value, gradients = value_and_grad(
        fn, mdl, *primals, has_aux=has_aux, variables=variables, rngs=rngs
    )
    return (gradients, value[1]) if has_aux else gradients


def jvp(
    fn: Fn,
    mdl: Module,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    variable_tangents: Mapping[str, Any],
    variables: Filter = True,
    rngs: Filter = True,
) -> tuple[Any, Any]:
    """Call a function with a bound module, and push tangents forward, as `jax.jvp` does.

    Args:
      fn: A function of the module and the inputs.
      mdl: The module.
      primals, tangents: The inputs, and a tangent of the same structure for each.
      variable_tangents: By collection, tangents of the module's variables. The tangents of omitted
        collections are zero.
      variables, rngs: Filters of the collections and streams that are visible inside.

    Returns:
      The output and its tangent.
    """
    call = call_of(fn, mdl, tuple(primals))
    function, held, keys = call.pure(variables, rngs)
    differentiated, rest = divided(held, tuple(variable_tangents))

    def split(differentiated: Tree, *primals: Tree) -> Tree:
        return function(rest | differentiated, keys, *primals)

    forward = (at_path(variable_tangents, mdl.path), *tangents)
    output, tangent, changed = jax.jvp(split, (differentiated, *primals), forward, has_aux=True)
    call.write(changed)
    return output, tangent


def custom_vjp(
    fn: Fn,
    forward_fn: Fn,
    backward_fn: Fn,
    grad_vars: Filter = "params",
    nondiff_argnums: Sequence[int] = (),
) -> Fn:
    """Give a function of a bound module a gradient of its own, as `jax.custom_vjp` does.

    Args:
      fn: A function of the module and arguments.
      forward_fn: As `fn`, but returns a pair of the output and the values for `backward_fn`.
      backward_fn: Called as `backward_fn(*nondiff, kept, cotangent)`; returns the cotangents of
        the module's variables and of each input.
      grad_vars: A filter of the collections that are differentiated.
      nondiff_argnums: Positions of arguments that are not differentiated; the module is at 0.

    Returns:
      A function of the module and arguments, with the outputs of `fn`.
    """
    positions = tuple(position + 2 for position in nondiff_argnums)

    @functools.wraps(fn)
    def call(mdl: Module, *args: Tree) -> Tree:
        plain, forward = call_of(fn, mdl, args), call_of(forward_fn, mdl, args)
        function, held, keys = plain.pure(True, True)

        @functools.partial(jax.custom_vjp, nondiff_argnums=positions)
        def program(differentiated: Tree, rest: Tree, keys: Tree, *args: Tree) -> Tree:
            return function(rest | differentiated, keys, *args)

        def run_forward(differentiated: Tree, rest: Tree, keys: Tree, *args: Tree) -> Tree:
            (output, kept), changed = forward.run(args, {}, rest | differentiated, rngs=keys)
            return (output, changed), kept

        def run_backward(*given: Tree) -> Tree:
            *nondiff, kept, (cotangent, _) = given
            variables, *inputs = backward_fn(*nondiff, kept, cotangent)
            return (at_path(variables, mdl.path), None, None, *inputs)

        program.defvjp(run_forward, run_backward)
        output, changed = program(*divided(held, grad_vars), keys, *args)
        plain.write(changed)
        return output

    return call
