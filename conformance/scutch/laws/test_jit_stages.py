"""The stages of a jitted function, `trace`, `lower` and `compile`, and `eval_shape`: JIT-9.

The oracles are the eager call, for what the compiled form does, and the stages of `jax.jit` on the
flat list of arrays, for what a stage answers. The stages are the *traced*, the *lowered* and the
*compiled* form.
"""

import inspect

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs import graphs
from scutch.inputs.descriptions import Mesh
from scutch.inputs.programs import (
    METADATA,
    MODULE_CHANGES,
    UNSHARED,
    VALUES,
    fingerprint,
    inputs,
)
from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike, plain_text
from scutch.lawkit.marks import at_least, costly, few, options, raised, reached, requirement
from scutch.lawkit.states import raw_value
from scutch.strategies import copies, programs
from scutch.strategies.object_calls import FLAGS, unshared_programs

STAGES = ("traced", "lowered", "compiled")
WAYS = ("trace", "lower")


def _staged(jitted, way, *arguments):
    """The traced form (`None` if the way is `lower`), the lowered form and the compiled form."""
    traced = jitted.trace(*arguments) if alike(way, "trace") else None
    lowered = jitted.lower(*arguments) if traced is None else traced.lower()
    return traced, lowered, lowered.compile()


@requirement("JIT-9a")
@costly
@given(program_copies=copies(programs(max_steps=2)), way=st.sampled_from(WAYS))
def test_the_compiled_form_does_what_the_call_does(transforms, nnx, program_copies, way):
    """The compiled form, called on the objects, returns what the eager call returns, changes what
    it changes, and keeps the identities of objects; as often as their structure is the same.
    """
    eager, lifted = program_copies
    structure = fingerprint(nnx, lifted.arguments)
    compiled = _staged(transforms.jit(lifted.function), way, *lifted.arguments, inputs(0))[-1]
    for call in range(2):
        pairs = list(zip(eager.nodes(), lifted.nodes(), strict=True))
        expected = eager.function(*eager.arguments, inputs(call))
        result = compiled(*lifted.arguments, inputs(call))
        one, other = (eager.arguments, expected), (lifted.arguments, result)
        difference = graphs.differences(nnx, one, other, pairs)
        assert not difference, f"after call {call + 1}, eager and compiled: {difference}"
        if not alike(fingerprint(nnx, lifted.arguments), structure):
            break


@requirement("JIT-9b")
@costly
@given(program_copies=copies(programs(max_steps=3)), way=st.sampled_from(WAYS))
def test_staging_changes_nothing(transforms, nnx, program_copies, way):
    """Tracing, lowering and compiling leave every argument as it was."""
    untouched, lifted = program_copies
    pairs = list(zip(untouched.nodes(), lifted.nodes(), strict=True))
    _staged(transforms.jit(lifted.function), way, *lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, untouched.arguments, lifted.arguments, pairs)
    assert not difference, f"before and after: {difference}"


@requirement("JIT-9f")
@given(program_copies=copies(programs(max_steps=3)))
def test_eval_shape_foresees_the_result(transforms, nnx, program_copies):
    """`eval_shape` gives the structure, shapes and dtypes of what the call returns, holds no
    arrays, and leaves every argument as it was.
    """
    untouched, lifted = program_copies
    pairs = list(zip(untouched.nodes(), lifted.nodes(), strict=True))
    jitted = transforms.jit(lifted.function)
    foreseen = jitted.eval_shape(*lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, untouched.arguments, lifted.arguments, pairs)
    assert not difference, f"before and after: {difference}"
    expected = untouched.function(*untouched.arguments, inputs(0))
    assert alike(_shapes(nnx, foreseen), _shapes(nnx, expected))
    assert not [leaf for leaf in _leaves(nnx, foreseen) if isinstance(leaf, jax.Array)]


ROUTES = ("function", "jit", "jit_partial")
CHANGES = (*VALUES, *METADATA, *MODULE_CHANGES, "retype", "new list", "new dict")


def _foreseen(transforms, route, mode, program):
    """What `eval_shape` gives for the function of a program and its arguments."""
    if route == "function":
        return transforms.eval_shape(program.function, *program.arguments, inputs(0), **mode)
    if route == "jit":
        return transforms.jit(program.function, **mode).eval_shape(*program.arguments, inputs(0))
    mode = mode or {"graph_updates": False}
    partial = transforms.jit_partial(program.function, *program.arguments, **mode)
    return partial.eval_shape(inputs(0))


@requirement("JIT-9g", must_reach=(*ROUTES, "by default", "abstract", "metadata"))
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@at_least(60)
@given(
    route=st.sampled_from(("function", *ROUTES)), mode=st.sampled_from(({}, *FLAGS)),
    abstract=st.booleans(),
    program_copies=copies(unshared_programs(CHANGES, UNSHARED)),
)  # fmt: skip
def test_eval_shape_foresees_the_result_in_every_mode(
    transforms, nnx, route, mode, abstract, program_copies
):
    """`eval_shape` of a function, of what `jit` and of what `jit_partial` makes of it, gives in
    every mode the types, metadata, shapes and dtypes of what the call returns, for arguments that
    hold arrays or shapes of arrays, and leaves every argument as it was.
    """
    needed = {"function": "eval_shape"}.get(route, route)
    if not hasattr(transforms, needed):
        not_available(f"there is no {needed}")
    reached(route)
    reached("in a mode" if mode else "by default")
    eager, lifted = program_copies
    variables = [each for each in lifted.nodes() if isinstance(each, nnx.Variable)]
    if abstract:
        reached("abstract")
        for each in variables:
            value = each.get_raw_value()
            each.set_raw_value(jax.ShapeDtypeStruct(value.shape, value.dtype))
    values = [each.get_raw_value() for each in variables]
    before = fingerprint(nnx, lifted.arguments)
    noted = [graphs.metadata(each) for each in eager.nodes() if isinstance(each, nnx.Variable)]
    held = [each for each in eager.nodes() if isinstance(each, nnx.Variable)]
    expected = eager.function(*eager.arguments, inputs(0))
    foreseen = []
    error = raised(lambda: foreseen.append(_foreseen(transforms, route, mode, lifted)))
    if not alike([graphs.metadata(each) for each in held], noted):
        reached("metadata")
        if route == "jit_partial" and error is not None:
            return
    if error is not None:
        raise error
    assert alike(fingerprint(nnx, lifted.arguments), before)
    changed = [n for n, each in enumerate(variables) if each.get_raw_value() is not values[n]]
    assert not changed, f"other values than before are in the variables {changed}"
    assert alike(fingerprint(nnx, foreseen[0]), fingerprint(nnx, expected))
    assert not [leaf for leaf in _leaves(nnx, foreseen[0]) if isinstance(leaf, jax.Array)]


def _leaves(nnx, value):
    """The values in a graph: of its variables, and arrays outside of variables."""
    found = graphs.leaves(nnx, value).values()
    return [raw_value(nnx, leaf) for leaf in found]


def _shapes(nnx, value):
    """The dtype and shape of each value in a graph."""
    return [(str(leaf.dtype), leaf.shape) for leaf in _leaves(nnx, value)]


def _pair(transforms, nnx, donate, sharding=None):
    """The stages of a small function by lifted `jit`, and of the same function of arrays by
    `jax.jit`.
    """
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.Param(np.ones((4, 2), "float32"))
    x = np.ones((2, 8), "float32")

    def work(module, x):
        module.a.set_value(module.a.get_value() + 1)
        return module.a.get_value() @ x

    def flat(a, x):
        return (a + 1) @ x, a + 1

    shardings = {} if sharding is None else {"in_shardings": sharding, "out_shardings": sharding}
    donated = {"donate_argnums": 0} if donate else {}
    ours = _staged(transforms.jit(work, **shardings, **donated), "trace", module, x)
    theirs = _staged(jax.jit(flat, **shardings, **donated), "trace", module.a.get_raw_value(), x)
    return tuple(dict(zip(STAGES, each, strict=True)) for each in (ours, theirs))


QUESTIONS = {
    "traced": ("in_tree", "in_avals", "donate_argnums", "out_info"),
    "lowered": ("in_tree", "in_avals", "donate_argnums", "args_info", "out_tree"),
    "compiled": ("in_tree", "in_avals", "donate_argnums", "args_info", "out_tree"),
}
asked = st.sampled_from([(stage, name) for stage in STAGES for name in QUESTIONS[stage]])
IN = [((2, 8), "float32"), ((4, 2), "float32")]
OUT = [((4, 2), "float32"), ((4, 8), "float32")]


def _avals(tree):
    """The shapes and dtypes of the leaves of a tree, sorted."""
    return sorted((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(tree))


@requirement("JIT-9c", must_reach=STAGES)
@given(question=asked, donate=st.booleans())
def test_every_stage_knows_its_trees_inputs_and_outputs(transforms, nnx, question, donate):
    """Where a stage of `jax.jit` answers what its trees, inputs and outputs are, the lifted stage
    answers it for the arrays of the lifted function.
    """
    stage, name = question
    ours, theirs = _pair(transforms, nnx, donate)
    if raised(lambda: getattr(theirs[stage], name)) is not None:
        return
    reached(stage)
    answer = getattr(ours[stage], name)
    match name:
        case "in_avals" | "args_info":
            assert alike(_avals(answer), IN)
        case "out_info":
            assert set(OUT) <= set(_avals(answer))
        case "donate_argnums":
            assert bool(answer) is donate
        case "in_tree":
            assert alike(answer, ours["lowered"].in_tree)
            assert answer.num_leaves >= 2
        case "out_tree":
            assert alike(answer, ours["lowered"].out_tree)
            assert answer.num_leaves >= 2


ANALYSES = {
    "lowered": ("as_text", "compiler_ir", "cost_analysis"),
    "compiled": ("as_text", "cost_analysis", "memory_analysis", "runtime_executable"),
}
analysed = st.sampled_from([(stage, name) for stage in ANALYSES for name in ANALYSES[stage]])


@requirement("JIT-9d")
@few("every attribute that the documents name")
@given(question=analysed)
def test_programs_and_costs_can_be_asked_for(transforms, nnx, question):
    """The lowered and the compiled form give their text, intermediate representation, costs, memory
    and executable, in values of the types that JAX's own stages give.
    """
    stage, name = question
    ours, theirs = _pair(transforms, nnx, False)
    expected = getattr(theirs[stage], name)()
    answer = getattr(ours[stage], name)()
    assert type(answer) is type(expected)
    if name == "as_text":
        assert "dot" in plain_text(answer)
    if question == ("lowered", "as_text"):
        options = {"dialect": "hlo", "debug_info": True}
        known = inspect.signature(theirs[stage].as_text).parameters  # JAX 0.4 knows the first
        chosen = {name: options[name] for name in options.keys() & known.keys()}
        assert "dot" in plain_text(ours[stage].as_text(**chosen))
    if question == ("lowered", "compiler_ir"):
        assert type(ours[stage].compiler_ir("stablehlo")) is type(expected)


@requirement("JIT-9e")
@few("every attribute that the documents name")
@given(
    name=st.sampled_from(["input_shardings", "output_shardings", "input_layouts"]),
    mesh=st.sampled_from([Mesh((2,), ("data",)), Mesh((1,), ("data",))]),
)
def test_the_compiled_form_knows_its_shardings_and_layouts(transforms, nnx, name, mesh):
    """The compiled form gives the shardings that were asked for, and a layout for each input."""
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    ours, _ = _pair(transforms, nnx, False, sharding)
    answer = jax.tree.leaves(getattr(ours["compiled"], name))
    assert len(answer) >= 2
    if name != "input_layouts":
        assert not [each for each in answer if not each.is_equivalent_to(sharding, 2)]
