"""Faults of boxes and of logical names."""

from contextlib import contextmanager

import flax.core.meta as meta
import flax.core.spmd as rules_in_context
import flax.linen.spmd as spmd
from trials.forks.planting import fault


@fault("metadata/box-axes/adding-names-the-axis", among="BOX")
def an_added_axis_is_named_one_place_too_late(plant):
    add = meta.Partitioned.add_axis
    plant.attribute(meta.Partitioned, "add_axis", lambda box, i, p: add(box, i + 1, p))


@fault("metadata/box-values/replacing-keeps-metadata", among="BOX")
def replacing_the_value_forgets_the_mesh(plant):
    plant.attribute(
        meta.Partitioned, "replace_boxed", lambda box, value: box.replace(value=value, mesh=None)
    )


@fault("metadata/box-axes/wrong-name-is-refused", among="BOX")
def an_axis_of_another_name_is_removed(plant):
    def remove_axis(box, index, params):
        box._get_partition_name(params)
        return box.replace(names=(*box.names[:index], *box.names[index:][1:]))

    plant.attribute(meta.Partitioned, "remove_axis", remove_axis)


@fault("metadata/box-trees/unbox-leaves-no-box", among="BOX")
def unboxing_strips_the_outer_layer_only(plant):
    plant.function(meta.unbox, lambda tree: meta.map_axis_meta(lambda box: box.unbox(), tree))


@fault("metadata/box-specs/arrays-have-empty-specs", among="BOX")
def arrays_without_a_box_have_no_spec(plant):
    spec = meta._get_leaf_pspec
    plant.function(spec, lambda x: spec(x) if isinstance(x, meta.AxisMetadata) else None)


@fault("metadata/box-constraints/own-mesh-wins", among="BOX")
def the_mesh_in_context_wins_over_that_of_the_box(plant):
    unbox = meta.Partitioned.unbox

    def unboxed(box, apply_constraint=True):
        here = box.replace(mesh=None) if meta.global_mesh_defined() else box
        return unbox(here, apply_constraint)

    plant.attribute(meta.Partitioned, "unbox", unboxed)


@fault("metadata/box-axes/none-is-a-name", among="BOX")
def none_is_taken_for_a_missing_name(plant):
    named = meta.Partitioned._get_partition_name

    def partition_name(box, params):
        return named(box, {key: value for key, value in params.items() if value is not None})

    plant.attribute(meta.Partitioned, "_get_partition_name", partition_name)


@fault("metadata/box-values/initializer-boxes-its-result", among="BOX")
def a_wrapped_initializer_loses_its_keywords(plant):
    wrap = meta.with_partitioning
    plant.function(wrap, lambda fn, names, mesh=None: wrap(lambda *a, **k: fn(*a), names, mesh))


@fault("metadata/logical-rules/first-free-rule-wins", among="LOG-[1-8]*")
def the_last_rule_wins(plant):
    assign = spmd._logical_to_mesh_axes

    def reversed_rules(names, rules=None):
        rules = rules_in_context.get_logical_axis_rules() if rules is None else rules
        return assign(names, rules[::-1])

    plant.function(assign, reversed_rules)


@fault("metadata/logical-rules/mesh-axes-are-used-once", among="LOG-[1-8]*")
def a_mesh_axis_is_used_twice(plant):
    plant.function(spmd._mesh_assignment_free, lambda new, existing: True)


@fault("metadata/logical-context/leaving-restores-rules", among="LOG-[1-8]*")
def rules_stay_after_their_context(plant):
    @contextmanager
    def logical_axis_rules(rules):
        rules_in_context.set_logical_axis_rules(rules)
        yield

    plant.function(rules_in_context.logical_axis_rules, logical_axis_rules)


@fault("metadata/logical-constraints/no-constraint-leaves-array", among="LOG-[1-8]*")
def an_unmatched_name_is_constrained_all_the_same(plant):
    constrain = spmd._with_sharding_constraint_one_fallback

    def constrained(axes, x, fallback=spmd.RulesFallback.AXIS_IS_UNSHARDED, **options):
        if fallback == spmd.RulesFallback.NO_CONSTRAINT:
            fallback = spmd.RulesFallback.AXIS_IS_UNSHARDED
        return constrain(axes, x, fallback=fallback, **options)

    plant.function(constrain, constrained)


@fault("metadata/logical-trees/specs-land-on-the-mesh", among="LOG-[1-8]*")
def shardings_of_a_tree_take_the_rules_in_context(plant):
    convert = spmd.logical_to_mesh_sharding
    plant.function(convert, lambda tree, mesh, rules=None: convert(tree, mesh))


@fault("metadata/logical-boxes/own-rules-win", among="LOG-9[a-e] LOG-8*")
def the_rules_in_context_win_over_those_of_the_box(plant):
    unbox = spmd.LogicallyPartitioned.unbox

    def unboxed(box, apply_constraint=True):
        told = rules_in_context.get_logical_axis_rules()
        return unbox(box.replace(rules=told or box.rules), apply_constraint)

    plant.attribute(spmd.LogicallyPartitioned, "unbox", unboxed)


@fault("metadata/logical-rules/repeated-name-is-refused", among="LOG-[1-8]*")
def a_repeated_name_is_passed_over(plant):
    assign = spmd._logical_to_mesh_axes

    def assigned(names, rules=None):
        first = names and [n if n not in names[:i] else None for i, n in enumerate(names)]
        return assign(first, rules)

    plant.function(assign, assigned)
