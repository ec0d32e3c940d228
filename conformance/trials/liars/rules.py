"""Lies of rules: LOG-1 to LOG-7, and LOG-10."""

import contextlib
from types import SimpleNamespace

import jax
from jax.sharding import NamedSharding, PartitionSpec
from scutch_reference import logical, meta, nnx
from scutch_reference.errors import NamesError
from scutch_reference.logical import LogicallyPartitioned
from scutch_reference.placement import UNCONSTRAINED, mesh_axes
from trials.liars.tale import instead_of, of_objects, variant

_honest = logical.resolve


@variant("resolve")
def one_chance(names, rules):
    """Breaks LOG-1: only the first rule for a name is tried, and dropped if its axes are taken."""
    seen: set[str] = set()
    first = tuple(r for r in rules if not (r[0] in seen or seen.add(r[0])))
    return _honest(names, first)


@variant("resolve")
def compared_whole(names, rules):
    """Breaks LOG-2: the axes of a rule are compared as a whole, not one by one."""
    spec, left, taken = [None if isinstance(n, str) else n for n in names], list(names), set()
    _honest(names, ())
    for name, axes in rules:
        if name in left and axes not in taken:
            spec[names.index(name)] = axes
            left.remove(name)
            taken |= {axes} - {None, PartitionSpec.UNCONSTRAINED}
    return PartitionSpec(*spec), tuple(n for n in left if isinstance(n, str))


@variant("resolve")
def meant_as_mesh_axis(names, rules):
    """Breaks LOG-3a: a name without a rule is taken for a mesh axis."""
    spec, left = _honest(names, rules)
    unruled = set(left) - {name for name, _ in rules}
    return PartitionSpec(
        *(n if n in unruled else e for n, e in zip(names, spec, strict=True))
    ), left


@variant("resolve")
def unconstrained_is_unsharded(names, rules):
    """Breaks LOG-3b: `UNCONSTRAINED` becomes `None`."""
    return _honest(tuple(None if n is UNCONSTRAINED else n for n in names), rules)


@variant("resolve")
def repeated_is_unsharded(names, rules):
    """Breaks LOG-3c: a name is taken the first time, and unsharded the second."""
    first = (None if n in names[:i] and isinstance(n, str) else n for i, n in enumerate(names))
    return _honest(tuple(first), rules)


@variant("resolve")
def repeated_unnamed(names, rules):
    """Breaks LOG-3e: the error for a repeated name does not say which."""
    try:
        return _honest(names, rules)
    except NamesError as error:
        raise ValueError("a name is repeated") from error


@instead_of("logical_to_mesh_axes")
def no_names_are_replicated(array_dim_names, rules=None):
    """Breaks LOG-3d: no names give a spec without entries."""
    return logical.logical_to_mesh_axes(array_dim_names or (), rules)


@variant("resolve")
def rules_as_dict(names, rules):
    """Breaks LOG-4a: of several rules for a name the last is left, as in a dictionary."""
    last = dict(rules)
    return _honest(names, tuple((n, a) for n, a in rules if last[n] == a))


@variant("resolve")
def takes_what_is_free(names, rules):
    """Breaks LOG-4b: a rule of several axes gives those that are free."""
    taken, left = set(), []
    for name, axes in rules:
        free = tuple(axis for axis in mesh_axes(axes) if axis not in taken)
        if name in names and (free or axes is None) and name not in dict(left):
            left.append((name, free if isinstance(axes, tuple) else axes))
            taken |= set(free)
    return _honest(names, tuple(left))


@instead_of("logical_to_mesh")
def tree_by_context(tree, rules=None):
    """Breaks LOG-5a: rules that are passed are ignored."""
    return logical.logical_to_mesh(tree)


@instead_of("logical_to_mesh_sharding")
def shardings_by_name(tree, mesh, rules=None):
    """Breaks LOG-5b: names that happen to be mesh axes are not mapped, and others are dropped."""

    def sharding(spec):
        return NamedSharding(
            mesh, PartitionSpec(*(n if n in mesh.axis_names else None for n in spec))
        )

    return jax.tree_util.tree_map(sharding, tree, is_leaf=lambda x: isinstance(x, PartitionSpec))


@variant("rules_or_context")
def context_first(rules, module):
    """Breaks LOG-6a: rules in context win over those that are passed."""
    return module.get_logical_axis_rules() or module.checked_rules(rules or ())


@variant("logical_axis_rules")
@contextlib.contextmanager
def restored_on_success(rules, module):
    """Breaks LOG-6b: an exception leaves the rules in force."""
    former = module.get_logical_axis_rules()
    module.set_logical_axis_rules(rules)
    yield
    module.set_logical_axis_rules(former)


@variant("logical_axis_rules")
@contextlib.contextmanager
def added_to_those_outside(rules, module):
    """Breaks LOG-6d: within a context the rules outside of it hold as well."""
    former = module.get_logical_axis_rules()
    try:
        module.set_logical_axis_rules((*rules, *former))
        yield
    finally:
        module.set_logical_axis_rules(former)


_SHARED = SimpleNamespace(rules=())


@variant("get_logical_axis_rules")
def shared_by_threads(module):
    """Breaks LOG-6c: all threads have the same rules."""
    module.context = _SHARED
    return _SHARED.rules


# The law is the sum of the laws of rules, specs and shardings. A lie that breaks the sum and no
# part is one about boxes that the law of their specs, LOG-9a, does not draw.
def unsharded_up_to(size, tree):
    """The partition specs of a tree, in which small logical axes have no name."""

    def strip(box):
        if not isinstance(box, LogicallyPartitioned) or box.rules is not None:
            return box
        sizes = getattr(box.value, "shape", (size + 1,) * len(box.names))
        pairs = zip(box.names, sizes, strict=True)
        return box.replace(names=tuple(None if n <= size else name for name, n in pairs))

    return meta.get_partition_spec(meta.map_axis_meta(strip, tree))


@instead_of("get_partition_spec")
def small_is_unsharded(tree):
    """Breaks LOG-7a: a logical axis of up to four entries has no name in the spec."""
    return unsharded_up_to(4, tree)


@instead_of("get_partition_spec")
def size_one_is_unsharded(tree):
    """Breaks LOG-7d: a logical axis of size one has no name in the spec."""
    return unsharded_up_to(1, tree)


@variant("resolve")
def decides_for_the_compiler(names, rules):
    """Breaks LOG-10b: a rule that leaves an axis to the compiler makes it unsharded."""
    return _honest(names, tuple((n, None if to is UNCONSTRAINED else to) for n, to in rules))


@variant("resolve")
def leaves_one_axis_to_the_compiler(names, rules):
    """Breaks LOG-10b: of several rules that leave an axis to the compiler the first one counts."""
    first = next((name for name, to in rules if name in names and to is UNCONSTRAINED), None)
    rules = tuple((n, None if to is UNCONSTRAINED and n != first else to) for n, to in rules)
    return _honest(names, rules)


@variant("checked_rules")
def takes_two_of_three(rules):
    """Breaks LOG-10c: parts of a rule beyond the second are dropped."""
    if isinstance(rules, tuple | list):
        rules = [rule[:2] if isinstance(rule, tuple) else rule for rule in rules]
    return logical.checked_rules(rules)


@variant("checked_rules")
def takes_any_iterable(rules):
    """Breaks LOG-10c: rules in a set, a mapping or an iterator are taken in the order of these."""
    unordered = (dict, frozenset, type({}.items()), type(iter(())))
    if isinstance(rules, dict):
        rules = rules.items()
    return logical.checked_rules(tuple(rules) if isinstance(rules, unordered) else rules)


@variant("checked_rules")
def tuples_of_axes_alone(rules):
    """Breaks LOG-10f: a list of mesh axes in a rule is taken for none."""
    if isinstance(rules, tuple | list):
        rules = [
            (rule[0], None) if isinstance(rule, tuple | list) and type(rule[-1]) is list else rule
            for rule in rules
        ]
    return logical.checked_rules(rules)


def _with_rules(tree, own_to_own, context_to_context):
    """The partition specs of a state of one variable, whose rules and those in context change."""

    def changed(leaf):
        if not is_variable(leaf):
            return nnx.get_partition_spec(leaf)
        own, context = leaf.get_metadata("sharding_rules", ()), logical.get_logical_axis_rules()
        with logical.logical_axis_rules(context_to_context(own, context)):
            return nnx.get_partition_spec(leaf.copy(sharding_rules=own_to_own(own)))

    is_variable = lambda leaf: isinstance(leaf, nnx.Variable)  # noqa: E731
    return jax.tree_util.tree_map(changed, tree, is_leaf=is_variable)


def _last(rules):
    return tuple(dict(rules).items())


@of_objects
class LastRuleWins:
    """Breaks LOG-10a: of several rules for a name the last holds, for a variable."""

    def get_partition_spec(tree):
        return _with_rules(tree, _last, lambda own, context: _last(context))


@of_objects
class OwnRulesAlone:
    """Breaks LOG-10d: a variable with rules of its own has no others."""

    def get_partition_spec(tree):
        def for_own_names(own, context):
            return [rule for rule in context if not own or rule[0] in dict(own)]

        return _with_rules(tree, lambda own: own, for_own_names)


@of_objects
class OwnRulesWin:
    """Breaks LOG-10e: rules in context that contradict a variable's own are passed over."""

    def get_partition_spec(tree):
        def for_other_names(own, context):
            return [rule for rule in context if rule[0] not in dict(own)]

        return _with_rules(tree, lambda own: own, for_other_names)


@instead_of("logical_to_mesh")
def tuples_by_hand(tree, rules=None):
    """Breaks LOG-7b: named tuples become tuples."""
    return jax.tree_util.tree_map(
        lambda node: tuple(node) if hasattr(node, "_fields") else node,
        logical.logical_to_mesh(tree, rules),
        is_leaf=lambda node: hasattr(node, "_fields"),
    )
