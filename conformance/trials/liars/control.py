"""Lies of branches, loops, `vjp` and `jvp` over objects."""

import jax
import jax.numpy as jnp
from scutch_reference import nnx
from trials.liars.lifted import lifted
from trials.liars.objects import variables_in


@lifted
class BranchesOnCopies:
    """Breaks transformations/equals-jax/branches-of-objects: changes of a branch are lost."""

    def cond(pred, true_fun, false_fun, *operands, graph=None, graph_updates=None):
        return nnx.cond(
            pred,
            true_fun,
            false_fun,
            *nnx.clone(operands),
            graph=graph,
            graph_updates=graph_updates,
        )


@lifted
class TakesBothBranches:
    """Breaks transformations/equals-jax/branches-of-objects: every branch changes the objects."""

    def switch(index, branches, *operands, graph=None, graph_updates=None):
        outputs = [branch(*operands) for branch in branches]
        index = jnp.clip(index, 0, len(branches) - 1)
        return jax.tree.map(lambda *each: jnp.stack(each)[index], *outputs)


@lifted
class WrapsTheIndex:
    """Breaks transformations/equals-jax/branches-of-objects: an index beyond the branches wraps."""

    def switch(index, branches, *operands, graph=None, graph_updates=None):
        return nnx.switch(
            index % len(branches), branches, *operands, graph=graph, graph_updates=graph_updates
        )


@lifted
class ForgetsItsStart:
    """Breaks transformations/equals-jax/loops-of-objects: the numbers of turns begin with 0."""

    def fori_loop(lower, upper, body_fun, init_val, **options):
        return nnx.fori_loop(0, upper - lower, body_fun, init_val, **options)


@lifted
class TakesATurnFirst:
    """Breaks transformations/equals-jax/loops-of-objects: the first turn asks for no condition."""

    def while_loop(cond_fun, body_fun, init_val, graph=None, graph_updates=None):
        return nnx.while_loop(
            cond_fun, body_fun, body_fun(init_val), graph=graph, graph_updates=graph_updates
        )


@lifted
class ReturnsCopiesOfCarried:
    """Breaks transformations/equals-jax/loops-of-objects: copies of the objects come out."""

    def while_loop(cond_fun, body_fun, init_val, graph=None, graph_updates=None):
        return nnx.clone(
            nnx.while_loop(cond_fun, body_fun, init_val, graph=graph, graph_updates=graph_updates)
        )


@lifted
class PullsParametersAlone:
    """Breaks transformations/equals-jax/derivatives-of-objects: statistics have no cotangents."""

    def vjp(f, *primals, graph=None, graph_updates=None, **options):
        output, back, *further = nnx.vjp(f, *primals, **options)

        def pull(cotangent):
            found = back(cotangent)
            for variable in variables_in(found):
                if isinstance(variable, nnx.BatchStat):
                    variable.set_value(jnp.zeros_like(variable.get_value()))
            return found

        return output, pull, *further


@lifted
class PushesOnes:
    """Breaks transformations/equals-jax/derivatives-of-objects: all tangents are taken as ones."""

    def jvp(f, primals, tangents, graph=None, graph_updates=None, **options):
        return nnx.jvp(f, primals, jax.tree.map(jnp.ones_like, tangents), **options)


@lifted
class PushesCopies:
    """Breaks transformations/equals-jax/derivatives-of-objects: the function's changes are lost."""

    def jvp(f, primals, tangents, graph=None, graph_updates=None, **options):
        return nnx.jvp(f, nnx.clone(primals), tangents, **options)


def _custom(changed):
    """A `custom_vjp` whose pair of functions is changed by `changed(fwd, bwd)`."""

    def custom_vjp(fun, *, nondiff_argnums=(), graph=None, graph_updates=None):
        modes = {"graph": graph, "graph_updates": graph_updates}
        custom = nnx.custom_vjp(fun, nondiff_argnums=nondiff_argnums, **modes)
        honest = custom.defvjp
        custom.defvjp = lambda fwd, bwd: honest(*changed(fwd, bwd))
        return custom

    return custom_vjp


@lifted
class PullsOnes:
    """Breaks transformations/equals-jax/custom-vjp-of-objects: all cotangents are taken as ones."""

    custom_vjp = _custom(
        lambda fwd, bwd: (fwd, lambda kept, g: bwd(kept, jax.tree.map(jnp.ones_like, g)))
    )


@lifted
class ChangesBackwards:
    """Breaks transformations/equals-jax/custom-vjp-of-objects: under `grad` changes are lost."""

    custom_vjp = _custom(lambda fwd, bwd: (lambda *given: fwd(*nnx.clone(given)), bwd))
