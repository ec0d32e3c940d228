"""The stages of a jitted function, `trace`, `lower` and `compile`, and `eval_shape`: JIT-9.

The oracles are the eager call, for the effects of the compiled form, and the stages of `jax.jit` on
the flat list of arrays, for the attributes of each stage. The stages are the *traced*, the
*lowered* and the *compiled* form.
"""

import inspect
import itertools
from typing import Any

import jax
import numpy as np
from hypothesis import example, given
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
from scutch.lawkit.equality import alike, holds, plain_text
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


@requirement("transformations/stages/jit-of-objects")
@costly
@given(program_copies=copies(programs(max_steps=2)), way=st.sampled_from(WAYS))
def test_the_compiled_form_does_what_the_call_does(transforms, nnx, program_copies, way):
    """The compiled form, called on the objects, acts as the eager call.

    It returns the same results, makes the same changes and keeps the identities of objects, in
    every call while their structure stays the same.
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


@requirement("transformations/stages/jit-of-objects[unchanged]")
@costly
@given(program_copies=copies(programs(max_steps=3)), way=st.sampled_from(WAYS))
def test_staging_changes_nothing(transforms, nnx, program_copies, way):
    """Tracing, lowering and compiling leave every argument as it was."""
    untouched, lifted = program_copies
    pairs = list(zip(untouched.nodes(), lifted.nodes(), strict=True))
    _staged(transforms.jit(lifted.function), way, *lifted.arguments, inputs(0))
    difference = graphs.differences(nnx, untouched.arguments, lifted.arguments, pairs)
    assert not difference, f"before and after: {difference}"


@requirement("transformations/stages/jit-of-objects[shapes]")
@given(program_copies=copies(programs(max_steps=3)))
def test_eval_shape_foresees_the_result(transforms, nnx, program_copies):
    """`eval_shape` gives the structure, shapes and dtypes of the call's result, without any array.

    It leaves every argument unchanged.
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


def _reach(transforms, route):
    """Note a route; the law ends here where the implementation has no such function."""
    needed = {"function": "eval_shape"}.get(route, route)
    if not hasattr(transforms, needed):
        not_available(f"there is no {needed}")
    reached(route)


def _foreseen(transforms, route, mode, function, bound, others, by_name):
    """The result of `eval_shape` for a function and its arguments; `jit_partial` binds `bound`."""
    if route == "function":
        return transforms.eval_shape(function, *bound, *others, **by_name, **mode)
    if route == "jit":
        return transforms.jit(function, **mode).eval_shape(*bound, *others, **by_name)
    mode = mode or {"graph_updates": False}
    return transforms.jit_partial(function, *bound, **mode).eval_shape(*others, **by_name)


@requirement(
    "transformations/stages/jit-of-objects[shapes,graph=False]",
    must_reach=(*ROUTES, "by default", "abstract", "metadata"),
)
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
    """In every mode, `eval_shape` foresees the result of the call.

    It has the result's types, metadata, shapes and dtypes. It is taken of a function, of its jitted
    form and of a `jit_partial`. The arguments hold arrays or abstract values, and stay unchanged.
    """
    _reach(transforms, route)
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
    function, bound = lifted.function, lifted.arguments
    given = (inputs(0),)
    error = raised(
        lambda: foreseen.append(_foreseen(transforms, route, mode, function, bound, given, {}))
    )
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


SHARED = ("by position", "by name", "given twice", "new twice")


def _with_each_sharing(law):
    """A law that is tried first on each of `SHARED` where a mode keeps no sharing."""
    for route, shared in itertools.product(ROUTES[:2], SHARED):
        law = example(route=route, mode=FLAGS[0], shared=shared, size=2)(law)
    return law


@requirement(
    "transformations/stages/jit-of-objects[shapes,graph=False]",
    must_reach=(*ROUTES, *SHARED, "foreseen"),
)
@options("transforms.jit.graph", "transforms.jit.graph_updates")
@at_least(40)
@_with_each_sharing
@given(
    route=st.sampled_from(ROUTES), mode=st.sampled_from(({}, *FLAGS)),
    shared=st.sampled_from(SHARED), size=st.integers(1, 3),
)  # fmt: skip
def test_eval_shape_foresees_what_is_shared_or_refuses(transforms, nnx, route, mode, shared, size):
    """`eval_shape` foresees the result of the eager call also for shared objects.

    One object is passed twice and changed through one of the two arguments; or the result holds a
    passed object, or a new one, twice. The abstract result has the changed shapes, and shares
    objects as the eager result does. In a mode the call may be refused.
    """
    _reach(transforms, route)
    reached(shared)

    def object_of(value):
        made = graphs.classes(nnx)["Branch"]()
        made.a = nnx.Param(value)
        return made

    def work(one, x, other):
        if shared in ("by position", "by name"):
            other.a.set_value(jax.numpy.concatenate([x, x]))
            return [one.a.get_value()]
        held = one if shared == "given twice" else object_of(x)
        return [held, held]

    def foreseen(one, *others, **by_name):
        return _foreseen(transforms, route, mode, work, (one,), others, by_name)

    def called(function):
        one, x = object_of(jax.numpy.ones(size)), jax.numpy.ones(size)
        other = one if shared in ("by position", "by name") else object_of(x)
        return function(one, x, other=other) if shared == "by name" else function(one, x, other)

    results = []
    error = raised(lambda: results.append(called(foreseen)))
    if error is not None and (mode or route == "jit_partial"):  # which has a mode of its own
        return
    if error is not None:
        raise error
    reached("foreseen")
    assert alike(fingerprint(nnx, results[0]), fingerprint(nnx, called(work)))


def _leaves(nnx, value):
    """The values in a graph: of its variables, and arrays outside of variables."""
    found = graphs.leaves(nnx, value).values()
    return [raw_value(nnx, leaf) for leaf in found]


def _shapes(nnx, value):
    """The dtype and shape of each value in a graph."""
    return [(str(leaf.dtype), leaf.shape) for leaf in _leaves(nnx, value)]


PARTIAL = "partial"
"""The key that marks `jit_partial` of the function and its object among the options of a mode."""
MODES = ({}, *FLAGS, *({PARTIAL: True, **flag} for flag in FLAGS))
modes = st.sampled_from(MODES)
MODED = ("by default", "graph", "graph_updates", PARTIAL)


def _mode(transforms, mode):
    """The mode, where the implementation has it, or none."""
    mode = dict(mode)
    if mode.pop(PARTIAL, False):
        if not hasattr(transforms, "jit_partial"):
            return {}
        reached(PARTIAL)
        return {PARTIAL: True, **mode}
    parameters = inspect.signature(transforms.jit).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    mode = mode if anything or {*mode} <= {*parameters} else {}
    reached(next(iter(mode), "by default"))
    return mode


def _pair(transforms, nnx, mode, donate=False, sharding=None):
    """The stages of a small function by lifted `jit`, in a mode, and of the same function of arrays
    by `jax.jit`.
    """
    module = graphs.classes(nnx)["Node"]()
    module.a = nnx.Param(np.ones((4, 2), "float32"))
    x = np.ones((2, 8), "float32")

    def work(module, x):
        module.a.set_value(module.a.get_value() + 1)
        return module.a.get_value() @ x

    def flat(a, x):
        return (a + 1) @ x, a + 1

    laid = {}
    if sharding is not None:
        laid = {"in_shardings": (sharding, sharding), "out_shardings": sharding}
    donated = {"donate_argnums": 0} if donate else {}
    mode = dict(mode)
    if mode.pop(PARTIAL, False):
        made = transforms.jit_partial(work, module, **laid, **mode)
        ours = _staged(made, "trace", x)
    else:
        ours = _staged(transforms.jit(work, **laid, **donated, **mode), "trace", module, x)
    theirs = _staged(jax.jit(flat, **laid, **donated), "trace", module.a.get_raw_value(), x)
    return tuple(dict(zip(STAGES, each, strict=True)) for each in (ours, theirs))


QUESTIONS = {
    "traced": ("in_tree", "in_avals", "donate_argnums", "out_info"),
    "lowered": ("in_tree", "in_avals", "donate_argnums", "args_info", "out_tree"),
    "compiled": ("in_tree", "in_avals", "donate_argnums", "out_tree"),
}
IN = [((2, 8), "float32"), ((4, 2), "float32")]
OUT = [((4, 2), "float32"), ((4, 8), "float32")]


def _avals(tree):
    """The shapes and dtypes of the leaves of a tree, sorted."""
    return sorted((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(tree))


def _donating(mode, donate):
    """Whether the call is to donate its object, which `jit_partial` does not: it is bound."""
    return donate and PARTIAL not in mode


@requirement(
    "transformations/stages/jit-of-objects[trees]", must_reach=(*STAGES, *MODED, "donated")
)
@few("each mode with a donated object and without one; each answers every question")
@given(donate=st.booleans(), mode=modes)
def test_every_stage_knows_its_trees_inputs_and_outputs(transforms, nnx, donate, mode):
    """Each lifted stage has the attributes of JAX's stage for trees, inputs and outputs.

    They describe the arrays of the lifted function, in every mode that the implementation has.
    """
    mode = _mode(transforms, mode)
    donate = _donating(mode, donate)
    reached("donated" if donate else "kept")
    ours, theirs = _pair(transforms, nnx, mode, donate)
    asked = [(stage, name) for stage, names in QUESTIONS.items() for name in names]
    for stage, name in asked:
        if raised(lambda of=theirs[stage], name=name: getattr(of, name)) is not None:
            continue
        reached(stage)
        answer, text = getattr(ours[stage], name), f"{name} of the {stage} form"
        match name:
            case "in_avals" | "args_info":
                assert alike(_avals(answer), IN), text
            case "out_info":
                assert set(OUT) <= set(_avals(answer)), text
            case "donate_argnums":
                assert bool(answer) is donate, text
            case "in_tree" | "out_tree":
                assert alike(answer, getattr(ours["lowered"], name)), text
                assert answer.num_leaves >= 2, text


@requirement("transformations/stages/jit-of-objects[trees]", must_reach=MODED)
@few("each mode with a donated object and without one")
@given(donate=st.booleans(), mode=modes)
def test_the_compiled_form_knows_its_arguments(transforms, nnx, donate, mode):
    """`args_info` of the compiled form has the shapes and dtypes of the arrays of the lifted
    function, and says which are donated, in every mode that there is.
    """
    mode = _mode(transforms, mode)
    donate = _donating(mode, donate)
    ours, theirs = _pair(transforms, nnx, mode, donate)
    if raised(lambda: theirs["compiled"].args_info) is not None:
        return
    answer = ours["compiled"].args_info
    assert alike(_avals(answer), IN)
    assert any(each.donated for each in jax.tree.leaves(answer)) is donate


ANALYSES = {
    "lowered": ("as_text", "compiler_ir", "cost_analysis"),
    "compiled": ("as_text", "cost_analysis", "memory_analysis", "runtime_executable"),
}
TEXTS: tuple[dict[str, Any], ...] = (
    {},
    {"dialect": "hlo"},
    {"debug_info": True},
    {"dialect": "hlo", "debug_info": True},
)
"""Options of the text of a lowered form."""


@requirement("transformations/stages/jit-of-objects[programs]", must_reach=MODED)
@few("there are no more modes; each answers every question")
@given(mode=modes)
def test_programs_and_costs_can_be_asked_for(transforms, nnx, mode):
    """The lowered and the compiled form give their text, intermediate representation, costs, memory
    and executable, in values of the types that JAX's own stages give, in every mode that there is;
    the text says where in the source an operation stands if it is asked to, and else not. It is
    lowered for the platforms that are asked for. A stage can be a key, as one of JAX can.
    """
    ours, theirs = _pair(transforms, nnx, _mode(transforms, mode))
    unhashable = [stage for stage in STAGES if raised(lambda s=stage: hash(ours[s])) is not None]
    assert not unhashable, f"{unhashable} have no hash"
    for stage, names in ANALYSES.items():
        for name in names:
            answer, expected = (getattr(each[stage], name)() for each in (ours, theirs))
            assert type(answer) is type(expected), f"{name} of the {stage} form: {answer!r}"
    assert "dot" in plain_text(ours["compiled"].as_text())
    lowered, plain = ours["lowered"], theirs["lowered"]
    known = inspect.signature(plain.as_text).parameters  # JAX 0.4 knows only the first option
    for chosen in [each for each in TEXTS if {*each} <= {*known}]:
        texts = [plain_text(each.as_text(**chosen)) for each in (lowered, plain)]
        assert all("dot" in text for text in texts), f"the text with {chosen}"
        placed, expected = ("loc(" in text for text in texts)
        assert alike(placed, expected), f"places in the text with {chosen}"
    for dialect in ("stablehlo", "hlo"):
        ir, expected = (each.compiler_ir(dialect) for each in (lowered, plain))
        assert type(ir) is type(expected), f"the program in {dialect} is {ir!r}"
    if holds([*inspect.signature(theirs["traced"].lower).parameters], "lowering_platforms"):
        for platforms in [("cpu",), ("cpu", "cuda")]:  # a program for two asks where it runs
            texts = [
                plain_text(each["traced"].lower(lowering_platforms=platforms).as_text())
                for each in (ours, theirs)
            ]
            one, other = ("platform_index" in text for text in texts)
            assert alike(one, other), f"the program for {platforms}: {texts[0]}"


@requirement("transformations/stages/jit-of-objects[shardings]", must_reach=MODED)
@few("each mode with each mesh; each answers every question")
@given(
    mesh=st.sampled_from([Mesh((2,), ("data",)), Mesh((1,), ("data",))]), mode=modes,
)  # fmt: skip
def test_the_compiled_form_knows_its_shardings_and_layouts(transforms, nnx, mesh, mode):
    """The compiled form gives the shardings that were asked for, and a layout for each input, in
    every mode that there is.
    """
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    ours, _ = _pair(transforms, nnx, _mode(transforms, mode), sharding=sharding)
    for name in ("input_shardings", "output_shardings", "input_layouts"):
        answer = jax.tree.leaves(getattr(ours["compiled"], name))
        assert len(answer) >= 2, name
        if name != "input_layouts":
            assert not [each for each in answer if not each.is_equivalent_to(sharding, 2)], name
