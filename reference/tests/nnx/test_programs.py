"""Programs over objects do the same eagerly and lifted (JIT-1, JIT-3, JIT-8)."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import worlds
from hypothesis import example, given, settings, strategies as st
from scutch_reference import nnx
from scutch_reference.nnx.flatten import flatten

seeds = st.integers(0, 10_000)


def _eager_and_lifted(transform, seed, programs):
    """Run programs in two equal worlds, one eagerly, one lifted, and compare after each."""
    eager, lifted = worlds.world(seed), worlds.world(seed)
    keep = [flatten([eager])[1][1:], flatten([lifted])[1][1:]]
    functions = {}
    for program, steps in programs:
        if (program, steps) not in functions:

            def function(root, x, program=program, steps=steps):
                return worlds.run(program, steps, root, x)

            functions[program, steps] = (function, transform(function))
        function, other = functions[program, steps]
        x = jnp.arange(2.0)
        expected, found = function(eager, x), other(lifted, x)
        left, right = (
            worlds.snapshot(root, out, nodes)
            for root, out, nodes in ((eager, expected, keep[0]), (lifted, found, keep[1]))
        )
        assert left[0] == right[0]
        assert left[1:] == right[1:]
        for nodes, root in zip(keep, (eager, lifted), strict=True):
            seen = {id(node) for node in nodes}
            nodes.extend(node for node in flatten([root])[1][1:] if id(node) not in seen)


programs = st.lists(st.tuples(seeds, st.integers(1, 4)), min_size=1, max_size=3).map(
    lambda found: found + found[:1]
)


@settings(max_examples=60, deadline=None)
@example(seed=182, programs=[(1, 1), (43, 4), (1, 1)])  # returns a dict that it took out
@given(seed=seeds, programs=programs)
def test_a_jitted_program_leaves_the_world_that_the_eager_program_leaves(seed, programs):
    """Values, structure, metadata, sharing and identities agree, call after call."""
    _eager_and_lifted(nnx.jit, seed, programs)


@settings(max_examples=15, deadline=None)
@given(seed=seeds, programs=programs)
def test_donation_changes_nothing_but_buffers(seed, programs):
    """No variable is left with a deleted buffer."""
    _eager_and_lifted(lambda f: nnx.jit(f, donate_argnums=0), seed, programs)


@settings(max_examples=15, deadline=None)
@given(seed=seeds, programs=programs)
def test_a_rematerialized_program_is_the_program(seed, programs):
    """The core is the same under every transformation."""
    _eager_and_lifted(nnx.remat, seed, programs)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, program=seeds, steps=st.integers(1, 3))
def test_every_change_between_calls_is_seen(seed, program, steps):
    """Whatever happens to an object between two calls, the second call sees its current state."""
    root = worlds.world(seed)
    identity = nnx.jit(lambda root: nnx.clone(root))
    identity(root)
    worlds.run(program, steps, root, jnp.ones(2))
    copy = identity(root)
    assert nnx.graphdef(copy) == nnx.graphdef(root)
    before = [[], []]
    assert worlds.snapshot(copy, None, before[0])[2] == worlds.snapshot(root, None, before[1])[2]


@settings(max_examples=15, deadline=None)
@given(seed=seeds, program=seeds)
def test_a_function_that_raises_changes_nothing(seed, program):
    """Every argument is as it was before the call."""
    root = worlds.world(seed)
    nodes = flatten([root])[1][1:]
    before = worlds.snapshot(root, None, nodes)

    @nnx.jit
    def fails(root, x):
        worlds.run(program, 3, root, x)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fails(root, jnp.ones(2))
    assert worlds.snapshot(root, None, nodes) == before
