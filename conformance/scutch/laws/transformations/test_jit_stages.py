"""The stages of a jitted function, `trace`, `lower` and `compile`: JIT-9.

The oracles are the eager call, for the effects of the compiled form, and the stages of `jax.jit` on
the flat list of arrays, for the attributes of each stage. The stages are the *traced*, the
*lowered* and the *compiled* form.
"""

import inspect
from typing import Any

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from scutch.inputs import graphs
from scutch.inputs.descriptions import Mesh
from scutch.inputs.programs import fingerprint, inputs
from scutch.lawkit.equality import alike, holds, plain_text
from scutch.lawkit.marks import costly, few, raised, reached, requirement
from scutch.strategies import copies, programs
from scutch.strategies.moded_calls import FLAGS

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
    mesh=st.sampled_from([Mesh((2,), ("data",)), Mesh((1,), ("data",))]),
    mode=modes,
)
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
