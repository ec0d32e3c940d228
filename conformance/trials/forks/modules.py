"""Faults of Linen's modules and their lifts."""

import types

import flax.linen as nn
from flax.core import lift, meta
from trials.forks.planting import fault


def lifting_with(plant, **functions):
    """Lifts call other functions of `meta`, which has its own for everybody else."""
    plant.attribute(lift, "meta", types.SimpleNamespace(**{**vars(meta), **functions}))


@fault("transformations/fits-rank/lifts-of-linen", among="LIN-[23]*")
def a_lift_does_not_name_the_axis_that_it_adds(plant):
    lifting_with(plant, add_axis=lambda tree, index, params: tree)


@fault("transformations/fits-rank/lifts-of-linen[inside]", among="LIN-[23]*")
def a_lifted_body_sees_the_name_of_the_lift(plant):
    """So on the way out the box has all its names already."""

    def add_axis(tree, index, params):
        def added(box):
            return box if len(box.names) == box.value.ndim else box.add_axis(index, params)

        return meta.map_axis_meta(added, tree)

    lifting_with(plant, remove_axis=lambda tree, index, params: tree, add_axis=add_axis)


@fault("transformations/options/lifts-of-linen[keys]", among="LIN-4*")
def split_keys_are_shared(plant):
    scan = lift.scan

    def shared(fn, *args, split_rngs, **options):
        return scan(fn, *args, split_rngs=dict.fromkeys(split_rngs, False), **options)

    plant.function(scan, shared)


@fault("linen/collections/sown-values-keep-order", among="LIN-8*")
def a_sown_value_takes_the_place_of_the_last(plant):
    sow = nn.Module.sow

    def sown(module, col, name, value, **options):
        return sow(module, col, name, value, **{"reduce_fn": lambda old, new: (new,), **options})

    plant.attribute(nn.Module, "sow", sown)


@fault("linen/layers/batch-norm-keeps-statistics", among="LIN-8*")
def batch_statistics_stand_still(plant):
    call = nn.BatchNorm.__call__

    def normalized(module, *args, **options):
        object.__setattr__(module, "momentum", 1.0)
        return call(module, *args, **options)

    plant.attribute(nn.BatchNorm, "__call__", normalized)
