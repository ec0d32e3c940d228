"""The guide's training step talks between devices as much on the reference as on Flax."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from benchmarks.collectives import collectives

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    "reference": ("scutch_reference.linen", "scutch_reference.linen"),
    "flax": ("flax.linen", "flax.training.train_state"),
}
PROGRAM = """\
HloModule step

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

%body (state: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %reduced = f32[4,8]{1,0} all-reduce(%part), replica_groups={{0,1}}, to_apply=%add
  ROOT %next = (s32[], f32[4,8]{1,0}) tuple(%count, %reduced)
}

%more (state: (s32[], f32[4,8])) -> pred[] {
  %end = s32[]{:T(128)} constant(3)
  ROOT %before = pred[] compare(%count, %end), direction=LT
}

ENTRY %main (x: f32[4,8]) -> f32[8,8] {
  %turned = (s32[], f32[4,8]{1,0}) while(%start), condition=%more, body=%body\
, backend_config={"known_trip_count":{"n":"3"}}
  %begun = (bf16[4,8]{1,0}, bf16[8,8]{1,0}) all-gather-start(%narrow), dimensions={0}
  ROOT %done = bf16[8,8]{1,0} all-gather-done(%begun)
}
"""
SAID = ', backend_config={"known_trip_count":{"n":"3"}}'


def imported(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def guide():
    pytest.importorskip("optax")
    yield imported("step_guide", ROOT / "reference" / "examples" / "scaling_guide.py")
    del sys.modules["step_guide"]


@pytest.mark.parametrize("program", [PROGRAM, PROGRAM.replace(SAID, "")], ids=["said", "compared"])
def test_collectives_count_once_for_each_turn_of_a_loop(program):
    """An asynchronous collective counts once, with the bytes that arrive."""
    assert (program is PROGRAM) == (SAID in program)
    assert collectives(program) == {
        "all-gather": {"count": 1, "bytes": 8 * 8 * 2},
        "all-reduce": {"count": 3, "bytes": 3 * 4 * 8 * 4},
    }


@pytest.mark.parametrize("scanned", [False, True], ids=["unrolled", "scanned"])
@pytest.mark.parametrize("logical", [False, True], ids=["direct", "logical"])
def test_the_reference_sends_what_flax_sends(guide, logical, scanned):
    """The same kinds, as often, and as many bytes, and some there are."""
    pytest.importorskip("flax")
    found = {}
    for library, modules in LIBRARIES.items():
        linen, train_state = map(importlib.import_module, modules)
        ready = guide.program(
            linen, train_state, guide.make_mesh(), logical=logical, scanned=scanned, width=64
        )
        step = ready.train_step.lower(ready.abstract_state, ready.batch).compile()
        found[library] = collectives(step.as_text())
    assert found["reference"] == found["flax"]
    assert found["reference"]["all-reduce"]["count"] >= 4
