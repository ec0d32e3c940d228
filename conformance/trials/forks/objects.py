"""Faults of objects, of their lifted functions, and of the bridge."""

import jax
from flax import nnx
from flax.nnx import filterlib, rnglib, spmd, variablelib
from flax.nnx.bridge import variables, wrappers
from flax.nnx.transforms import compilation
from trials.forks.planting import fault


@fault("objects/filters/filters-compose", among="OBJ-[134]*")
def all_of_some_filters_means_any(plant):
    any_of = filterlib.Any.__call__
    plant.attribute(filterlib.All, "__call__", any_of)


@fault("objects/graphs/merged-object-is-new", among="OBJ-[134]*")
def a_clone_is_the_object_itself(plant):
    plant.function(nnx.clone, lambda node, *args, **options: node)


@fault("objects/states/merge-undoes-split-state", among="OBJ-[134]*")
def merging_states_takes_the_first_alone(plant):
    merge = nnx.merge_state
    plant.function(merge, lambda state, *states, **options: merge(state, **options))


@fault(
    "objects/streams/streams-are-independent",
    "objects/streams/same-seed-same-keys",
    "objects/streams/copied-stream-goes-on",
    among="OBJ-[56]*",
)
def a_stream_gives_the_same_key_again(plant):
    draw = rnglib.RngStream.__call__

    def drawn(stream):
        key = draw(stream)
        stream.count[...] -= 1
        return key

    plant.attribute(rnglib.RngStream, "__call__", drawn)


@fault(
    "objects/metadata/lifts-name-their-axis",
    "transformations/fits-rank/lifts-of-objects",
    "transformations/fits-rank/lifts-of-objects[negative]",
    among="OBJ-[56]* OBJ-8*",
)
def a_lift_of_objects_names_the_wrong_axis(plant):
    add = spmd.add_axis
    plant.function(add, lambda tree, index, params: add(tree, index + 1, params))


@fault("objects/optimizer/update-equals-optax", among="OBJ-[57]*")
def the_optimizer_keeps_its_old_state(plant):
    update = nnx.Optimizer.update

    def updated(optimizer, *args, **options):
        before = jax.tree.map(lambda x: x, nnx.state(optimizer.opt_state))
        done = update(optimizer, *args, **options)
        nnx.update(optimizer.opt_state, before)
        return done

    plant.attribute(nnx.Optimizer, "update", updated)


@fault("objects/hooks/set-hook-runs-once", "objects/hooks/hooks-run-in-order", among="OBJ-[57]*")
def the_last_set_hook_is_left_out(plant):
    set_value = variablelib.Variable.set_value

    def stored(variable, value, **options):
        hooks = variable.get_metadata().get("on_set_value", ())
        if not isinstance(hooks, tuple):
            return set_value(variable, value, **options)
        variable.set_metadata("on_set_value", hooks[:-1])
        try:
            return set_value(variable, value, **options)
        finally:
            variable.set_metadata("on_set_value", hooks)

    plant.attribute(variablelib.Variable, "set_value", stored)


def jit_with(plant, change):
    """Lifted `jit` with other options than asked for."""
    jit = nnx.jit

    def jitted(fun=None, **options):
        if fun is None:
            return lambda fun: jitted(fun, **options)
        return jit(fun, **change(options))

    plant.function(jit, jitted)


@fault("transformations/donation/jit-of-objects", among="JIT-[47]*")
def nothing_is_donated(plant):
    jit_with(plant, lambda told: {k: v for k, v in told.items() if not k.startswith("donate")})


@fault("transformations/places-arrays/jit-of-objects[outputs]", among="JIT-5*")
def the_shardings_of_outputs_are_not_asked_for(plant):
    jit_with(plant, lambda told: {**told, "out_shardings": None})


@fault("transformations/places-arrays/filters-compare-by-content", among="JIT-6* JIT-5c")
def equal_shardings_of_states_differ(plant):
    plant.attribute(compilation.StateSharding, "__eq__", lambda one, other: one is other)


@fault("transformations/refuses/shard-map-of-objects[replication]", among="SHM-[145]*")
def replication_is_never_checked(plant):
    shard_map = nnx.shard_map

    def mapped(f=None, **options):
        if f is None:
            return lambda f: mapped(f, **options)
        return shard_map(f, **{**options, "check_vma": False})

    plant.function(shard_map, mapped)


@fault("bridge/registry/equal-depth-keeps-order", among="BRG-[1-5]*")
def types_of_one_depth_change_their_order(plant):
    ordered = variables.sort_variable_types
    plant.function(ordered, lambda types: ordered(list(types)[::-1]))


@fault("bridge/registry/taken-name-is-refused", among="BRG-[1-5]*")
def a_taken_name_is_given_away(plant):
    register = variablelib.register_variable_name

    def registered(name, typ=variablelib.MISSING, *, overwrite=False):
        return register(name, typ, overwrite=True)

    plant.function(register, registered)


@fault("bridge/variables/vanilla-is-blank", among="BRG-[1-5]*")
def metadata_is_left_behind_in_the_bridge(plant):
    plant.function(variables.is_vanilla_variable, lambda variable: True)


@fault("bridge/trees/path-in-two-is-refused", among="BRG-6*")
def of_two_variables_at_a_path_the_last_remains(plant):
    convert = variables.linen_vars_to_nnx_attrs

    def converted(tree):
        made = {}
        for collection, content in tree.items():
            made = variables._recursive_merge(made, convert({collection: content}))
        return made

    plant.function(convert, converted)


@fault("bridge/wrappers/tolinen-returns-collections", among="BRG-7*")
def a_wrapped_object_keeps_its_changes_to_itself(plant):
    store = wrappers.ToLinen._update_variables

    def stored(module, changed):
        if module.is_initializing():
            store(module, changed)

    plant.attribute(wrappers.ToLinen, "_update_variables", stored)
