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
class LoopsByTheCompiler:
    """Breaks transformations/equals-jax/loops-of-objects: where `jit` is disabled, a loop fails."""

    def fori_loop(lower, upper, body_fun, init_val, **options):
        if jax.config.jax_disable_jit:
            raise ValueError("not enough values to unpack")
        return nnx.fori_loop(lower, upper, body_fun, init_val, **options)


@lifted
class LoopsWithoutAMesh:
    """Breaks transformations/equals-jax/loops-of-objects: with a mesh in context, a loop fails."""

    def fori_loop(*arguments, **options):
        refuse_a_mesh()
        return nnx.fori_loop(*arguments, **options)

    def while_loop(*arguments, **options):
        refuse_a_mesh()
        return nnx.while_loop(*arguments, **options)


def refuse_a_mesh():
    """Fail where a mesh is in context."""
    if not jax.sharding.get_abstract_mesh().empty:
        raise ValueError("there is a mesh")


@lifted
class LoopsOverOneObject:
    """Breaks transformations/equals-jax/loops-of-objects: a state with two objects is refused."""

    def while_loop(cond_fun, body_fun, init_val, graph=None, graph_updates=None):
        if len({id(node) for node in nodes_in(init_val)}) > 1:
            raise ValueError("the structure of the state differs after a turn")
        return nnx.while_loop(
            cond_fun, body_fun, init_val, graph=graph, graph_updates=graph_updates
        )


def nodes_in(tree):
    """The objects in a tree."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, nnx.Pytree))
    return [leaf for leaf in leaves if isinstance(leaf, nnx.Pytree)]


def refusing_remat():
    """A decorator of functions, and a `remat` that refuses calls while one of them runs."""
    running = []

    def noted(function):
        def call(*args):
            running.append(function)
            try:
                return function(*args)
            finally:
                running.pop()

        return call

    def remat(function, **options):
        lifted = nnx.remat(function, **options)

        def call(*args):
            if running:
                raise ValueError("the index mapping differs")
            return lifted(*args)

        return call

    return noted, remat


@lifted
class LiftsNothingInALoop:
    """Breaks transformations/equals-jax/loops-of-objects: a turn may call no lifted function."""

    noted, remat = refusing_remat()

    def while_loop(cond_fun, body_fun, init_val, **options):
        return nnx.while_loop(cond_fun, LiftsNothingInALoop.noted(body_fun), init_val, **options)

    def fori_loop(lower, upper, body_fun, init_val, **options):
        noted = LiftsNothingInALoop.noted
        return nnx.fori_loop(lower, upper, noted(body_fun), init_val, **options)


@lifted
class LiftsNothingInABranch:
    """Breaks transformations/equals-jax/branches-of-objects: a branch may call no lifted one."""

    noted, remat = refusing_remat()

    def cond(pred, true_fun, false_fun, *operands, **options):
        branches = map(LiftsNothingInABranch.noted, (true_fun, false_fun))
        return nnx.cond(pred, *branches, *operands, **options)

    def switch(index, branches, *operands, **options):
        noted = LiftsNothingInABranch.noted
        return nnx.switch(index, [*map(noted, branches)], *operands, **options)


def sown_in(modules):
    """The values that were sown in some modules."""
    return jax.tree.leaves([nnx.state(module, nnx.Intermediate) for module in modules])


@lifted
class SowsBesideNumbersAlone:
    """Breaks transformations/equals-jax/scan-of-objects: a step with an object may not sow."""

    def scan(f, **options):
        loop = nnx.scan(f, **options)

        def call(*arguments):
            before = sown_in(modules := nodes_in(arguments))
            found = loop(*arguments)
            if len(modules) > 1 and len(sown_in(modules)) > len(before):
                raise ValueError("the lengths of sliced arguments differ")
            return found

        return call


@lifted
class StacksSownInFront:
    """Breaks transformations/equals-jax/vmap-of-objects: sown values are stacked along axis 0."""

    def vmap(f, *, in_axes=0, **options):
        def changed(prefix):
            if not isinstance(prefix, nnx.StateAxes):
                return prefix
            return nnx.StateAxes(
                {by: 0 if by is nnx.Intermediate else axis for by, axis in prefix.items()}
            )

        axes = tuple(map(changed, in_axes)) if isinstance(in_axes, tuple) else in_axes
        return nnx.vmap(f, in_axes=axes, **options)


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


@lifted
class ChangesNothingAlone:
    """Breaks transformations/equals-jax/custom-vjp-of-objects: without `grad` changes are lost."""

    def custom_vjp(fun, **options):
        return nnx.custom_vjp(lambda *given: fun(*nnx.clone(given)), **options)
