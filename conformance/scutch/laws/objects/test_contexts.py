"""Objects go through plain JAX in functional form, and come back changed: OBJ-10.

`update_context` numbers objects alike outside and inside of a transformation: `split_context` takes
them apart on one side, and `merge_context` puts them together on the other. `to_tree` and
`from_tree` do the same for the objects in a tree.

The oracle is the eager call of the same function on another copy of the objects, as for lifted
transformations.
"""

import contextlib

import jax
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.programs import inputs
from scutch.lawkit.interruptions import Interruption
from scutch.lawkit.marks import costly, raised, reached, refused, requirement
from scutch.strategies import copies, programs

ORDERS = ((), ("Param", "BatchStat", "..."), ("...",), ("Count", "..."))
"""The types by which leaves are split into several states, where `...` is all the rest."""


def _filters(nnx, order):
    kinds = graphs.classes(nnx)
    return [kinds.get(each, ...) for each in order]


def _together(nnx, filters):
    """All objects are split, and merged, as one tree."""

    def split(tree, tag):
        with nnx.split_context(tag) as context:
            return context.split(tree, *filters)

    def merge(parts, tag, inner):
        with nnx.merge_context(tag, inner=inner) as context:
            return context.merge(*parts)

    return split, merge


def _apart(nnx, filters):
    """Each part of a tuple is split, and merged, on its own in one context."""

    def split(tree, tag):
        with nnx.split_context(tag) as context:
            return [context.split(part, *filters) for part in tree]

    def merge(parts, tag, inner):
        with nnx.merge_context(tag, inner=inner) as context:
            return tuple([context.merge(*each) for each in parts])

    return split, merge


def _trees(nnx, filters):
    """All objects are split, and merged, by the functions of trees."""

    def split(tree, tag):
        return nnx.to_tree(tree, ctxtag=tag)

    def merge(parts, tag, inner):
        return nnx.from_tree(parts, is_inner=inner, ctxtag=tag)

    return split, merge


FORMS = {"together": _together, "apart": _apart, "trees": _trees}
tags = st.sampled_from(["tag", 3, ("a", 1)])


@requirement("objects/sharing/update-context-updates-objects", must_reach=tuple(FORMS))
@costly
@given(
    program_copies=copies(programs()),
    form=st.sampled_from(list(FORMS)),
    order=st.sampled_from(ORDERS),
    tag=tags,
    around=st.booleans(),
)
def test_objects_change_in_a_context(nnx, program_copies, form, order, tag, around):
    """`update_context` takes objects through plain `jax.jit` with the effects of the eager call.

    The call returns equal results, and leaves the same objects in the same state.
    """
    eager, staged = program_copies
    split, merge = FORMS[form](nnx, _filters(nnx, order))
    pairs = list(zip(eager.nodes(), staged.nodes(), strict=True))
    expected = eager.function(*eager.arguments, inputs(0))

    @jax.jit
    def inside(parts, arrays):
        arguments = merge(parts, tag, True)
        result = staged.function(*arguments, arrays)
        return split((arguments, result), tag)

    outer = nnx.update_context("another") if around else contextlib.nullcontext()
    with outer, nnx.update_context(tag):
        parts = inside(split(staged.arguments, tag), inputs(0))
        _, result = merge(parts, tag, False)
    difference = graphs.differences(
        nnx, (eager.arguments, expected), (staged.arguments, result), pairs
    )
    assert not difference, f"eager and staged: {difference}"


@requirement("objects/sharing/one-context-shares-nodes", must_reach=tuple(FORMS))
@given(
    program=programs((), results=()),
    form=st.sampled_from(list(FORMS)),
    order=st.sampled_from(ORDERS),
)
def test_objects_in_a_context_share_nodes(nnx, program, form, order):
    """Objects split in one context and merged in another are new, and share nodes as before."""
    split, merge = FORMS[form](nnx, _filters(nnx, order))
    before = program.arguments
    after = merge(split(before, None), None, None)
    difference = graphs.differences(nnx, before, after)
    assert not difference, f"before and after: {difference}"
    found = {id(node) for node in graphs.nodes(nnx, after)}
    assert not [node for node in program.nodes() if id(node) in found]


@requirement(
    "objects/sharing/context-ends-with-block",
    must_reach=("one in another", "one name twice", "left by an error"),
)
@given(stack=st.lists(tags, min_size=1, max_size=3), other=tags, failing=st.booleans())
def test_a_context_of_updates_ends_with_its_block(nnx, stack, other, failing):
    """`current_update_context(tag)` is the innermost context of that name, inside its block; where
    there is none, after the block too, it is refused, and so is `split_context(tag)`.
    """

    def split(tag):
        with nnx.split_context(tag) as context:
            context.split(nnx.Dict(a=nnx.Param(1)))

    def check(depth, contexts):
        for tag in {other, *stack}:
            if tag in stack[:depth]:
                assert nnx.current_update_context(tag) is contexts[tag]
            else:
                refused(lambda tag=tag: nnx.current_update_context(tag))
                refused(lambda tag=tag: split(tag))

    def enter(depth, contexts):
        check(depth, contexts)
        if not stack[depth:]:
            if failing:
                reached("left by an error")
                raise Interruption
            return
        if depth > 0:
            reached("one name twice" if stack[depth] in stack[:depth] else "one in another")
        try:
            with nnx.update_context(stack[depth]) as context:
                enter(depth + 1, {**contexts, stack[depth]: context})
        finally:
            check(depth, contexts)

    error = raised(lambda: enter(0, {}))
    assert isinstance(error, Interruption) if failing else error is None


@requirement("objects/sharing/named-merge-needs-side", must_reach=tuple(FORMS))
@given(
    program=programs((), results=()),
    form=st.sampled_from(list(FORMS)),
    order=st.sampled_from(ORDERS),
    tag=tags,
)
def test_merging_in_a_named_context_needs_the_side(nnx, program, form, order, tag):
    """Merging in the context of a name is refused where it is not said whether that is inside of
    the transformation.
    """
    split, merge = FORMS[form](nnx, _filters(nnx, order))
    with nnx.update_context(tag):
        parts = split(program.arguments, tag)
        refused(lambda: merge(parts, tag, None))
