"""The scaling guide runs as a reader would run it, and its claims hold."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

pytest.importorskip("optax")

from scutch_reference import linen

GUIDE = Path(__file__).parents[1] / "examples" / "scaling_guide.py"
SIZES = {"layers": 2, "width": 16, "batch": 8}


def run(*arguments):
    """The guide in a process of its own."""
    paths = [str(GUIDE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(GUIDE), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        timeout=300,
    )


@pytest.fixture(scope="module")
def guide():
    """The guide as a module."""
    spec = importlib.util.spec_from_file_location("scaling_guide", GUIDE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_claim_of_the_guide_holds(tmp_path):
    """Direct and logical, scanned and unrolled, through 20 steps, and the picture is drawn."""
    pytest.importorskip("rich", reason="JAX draws shardings with rich, which is not installed")
    drawn = tmp_path / "shardings.svg"
    done = run("--width", "16", "--picture", str(drawn))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILS" not in done.stdout
    assert done.stdout.count("shardings stay through 20 training steps") == 4
    assert done.stdout.count("the losses are those of a single device") == 4
    assert done.stdout.count("shard alike, layer by layer") == 2
    assert len(re.findall(r"a training step takes \d+\.\d+ ms", done.stdout)) == 2
    texts = [node.text for node in ElementTree.parse(drawn).iter() if node.tag.endswith("text")]
    text = "\n".join(filter(None, texts)).replace("\N{NO-BREAK SPACE}", " ")
    assert "mu kernel (16, 16)" in text
    assert text.count("CPU 0,4") == 6  # The first quarter of both matrices and of their moments.


@pytest.mark.parametrize("arguments", [("--width", "6"), ("--batch", "3"), ("--layers", "0")])
def test_sizes_that_the_mesh_cannot_cut_are_refused(arguments):
    """The exit code is 2, as for a wrong option, and the message names the sizes that fit."""
    done = run(*arguments)
    assert done.returncode == 2
    assert "--width must divide by 4" in done.stderr


@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize("logical", [False, True])
def test_the_abstract_state_has_the_annotated_shardings(guide, logical, scanned):
    """Each parameter and both its moments once for each layer or stack; all else is whole."""
    ready = guide.program(
        linen, linen, guide.make_mesh(), logical=logical, scanned=scanned, **SIZES
    )
    specs = [sharding.spec for sharding in jax.tree.leaves(ready.state_sharding)]
    stack, entries = ((None,), 1) if scanned else ((), SIZES["layers"])
    assert specs.count(P(*stack, None, "model")) == 3 * entries
    assert specs.count(P(*stack, "model", None)) == 3 * entries
    assert specs.count(P()) == 2
    assert len(specs) == 6 * entries + 2


def test_a_wrong_annotation_is_noticed(guide, monkeypatch):
    """The guide's checks fail on a wrong annotation and on a wrong placement."""
    ready = guide.program(linen, linen, guide.make_mesh(), **SIZES)
    assert guide.foreseen(ready, scanned=False)
    monkeypatch.setitem(guide.CUT, "W2", (None, "model"))
    assert not guide.foreseen(ready, scanned=False)
    state, _ = guide.start(ready)
    elsewhere = jax.tree.map(lambda s: NamedSharding(s.mesh, P()), ready.state_sharding)
    assert guide.all_lie_as(state, ready.state_sharding)
    assert not guide.all_lie_as(state, elsewhere)
