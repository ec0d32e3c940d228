"""Lies of branches, loops, mapped variables and gradients in Linen modules: LIN-9q to LIN-9z."""

from scutch_reference import linen
from scutch_reference.linen import scope
from trials.liars.modules import of_linen


def _nothing(tree):
    return tree


@of_linen
class ChoosesTheFirst:
    """Breaks LIN-9q: an index before the first branch chooses the last one."""

    def switch(index, branches, *arguments, **options):
        return linen.switch(index % len(branches), branches, *arguments, **options)

    def cond(pred, one, other, *arguments, **options):
        return linen.cond(pred, other, one, *arguments, **options)


@of_linen
class TurnsOnce:
    """Breaks LIN-9r: the first turn is taken whether the condition holds or not."""

    def while_loop(cond_fn, body_fn, mdl, init, **options):
        return linen.while_loop(cond_fn, body_fn, mdl, body_fn(mdl, init), **options)


@of_linen
class ShowsWhatLies:
    """Breaks LIN-9s: a module sees the variables as they lie in their collections."""

    def map_variables(target, *mapped, **options):
        options |= {"trans_in_fn": _nothing, "trans_out_fn": _nothing}
        return linen.map_variables(target, *mapped[:1], **options)


@of_linen
class MakesUnmapped:
    """Breaks LIN-9v: parameters that are made are not mapped back."""

    def map_variables(target, *mapped, trans_out_fn=dict, **options):
        def back(tree):
            kept = {"params": tree["params"]} if "params" in tree else {}
            return {**trans_out_fn(tree), **kept}

        return linen.map_variables(target, *mapped, trans_out_fn=back, **options)


@of_linen
class TrainsUnmapped:
    """Breaks LIN-9v and LIN-9w: with `init`, trees without parameters are not mapped back."""

    def map_variables(target, *mapped, trans_out_fn=dict, init=False, **options):
        def back(tree):
            return trans_out_fn(tree) if "params" in tree else tree

        options |= {"trans_out_fn": back if init else trans_out_fn, "init": init}
        return linen.map_variables(target, *mapped, **options)


@of_linen
class ForgetsTheAxis:
    """Breaks LIN-9t: parameters are always stacked along the first axis."""

    def remat_scan(target, *, lengths, **options):
        return linen.remat_scan(target, lengths=lengths)


@of_linen
class NamesNothing:
    """Breaks LIN-9u: no axis is named."""

    def add_metadata_axis(target, **options):
        return target


@of_linen
class DrawsAgainForTheGradient:
    """Breaks LIN-9x: `grad` has the output of one draw, and the gradient of another."""

    def grad(fn, mdl, *primals, has_aux=False, **options):
        variables = mdl.scope.variables
        before = scope.as_dicts(variables)
        first = linen.grad(fn, mdl, *primals, has_aux=has_aux, **options)
        variables.clear()
        variables.update(before)
        second = linen.grad(fn, mdl, *primals, has_aux=has_aux, **options)
        return (second[0], first[1]) if has_aux else second


@of_linen
class ChangesWithoutBeingAsked:
    """Breaks LIN-9y: mapped variables may change, whether that is asked for or not."""

    def map_variables(target, *mapped, mutable=False, **options):
        return linen.map_variables(target, *mapped, mutable=True, **options)


@of_linen
class MakesPartsOnce:
    """Breaks LIN-9z: a function that is compiled has in a second call the parts of the first."""

    def jit(target, **options):
        lifted = linen.jit(target, **options)
        if isinstance(target, type):
            return lifted
        first = []

        def call(self, *args):
            if first and first[0] is self.scope:
                vars(self)["_names"] = self.names_in_use(first[1])
            else:
                first[:] = self.scope, self.names_in_use(self._names)
            return lifted(self, *args)

        return call
