"""Programs in the style of Flax's public examples run with only their import lines changed."""

import re
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
IMPORTS = [
    (re.compile(r"^from flax\.training(?=[. ])", re.MULTILINE), "from scutch_reference.linen"),
    (re.compile(r"^from flax(?=[. ])", re.MULTILINE), "from scutch_reference"),
    (re.compile(r"^import flax(?=[. ])", re.MULTILINE), "import scutch_reference"),
]
"""The changes of import lines; no other line changes."""
OTHER_KEYS = {"linen_decoder": "Flax draws the keys of a scanned layer again when it traces it"}
"""Programs that start from the values that Flax drew, by the reason."""
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
"""Single precision, after ten steps of gradient descent at most; no step divides by a small sum."""


def with_other_imports(text):
    """The text of a program for Flax with the imports of the reference."""
    for pattern, replacement in IMPORTS:
        text = pattern.sub(replacement, text)
    return text


def run(program, text):
    """The functions of a program."""
    names = {"__name__": program.stem}
    exec(compile(text, str(program), "exec"), names)
    return SimpleNamespace(**names)


@pytest.fixture
def separated_keys():
    """Flax with the option under which it does not give two paths one key."""
    flax = pytest.importorskip("flax", reason="the programs run on Flax, which is not installed")
    before = flax.config.flax_fix_rng_separator
    flax.config.update("flax_fix_rng_separator", True)
    yield
    flax.config.update("flax_fix_rng_separator", before)


def values(tree):
    """Arrays of numbers by path, so that containers and boxes of two libraries compare."""
    pairs = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in pairs}


def assert_close(ours, theirs):
    """Fail unless two trees have the same paths, and nearly the same numbers there."""
    ours, theirs = values(ours), values(theirs)
    assert [*ours] == [*theirs]
    for path, value in theirs.items():
        np.testing.assert_allclose(ours[path], value, **TOLERANCE, err_msg=path)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
@pytest.mark.usefixtures("separated_keys")
def test_a_public_program_computes_what_it_computes_on_flax(program):
    """Losses, outputs and updated parameters, from one seed."""
    text = program.read_text("utf-8")
    changed = with_other_imports(text)
    pairs = zip(text.splitlines(), changed.splitlines(), strict=True)
    assert {old.split()[0] for old, new in pairs if old != new} <= {"from", "import"}
    assert "flax" not in re.sub(r'""".*?"""', "", changed, flags=re.DOTALL)
    theirs, ours = run(program, text), run(program, changed)
    start, own_start = theirs.init(), ours.init()
    if program.stem in OTHER_KEYS:
        structure = jax.tree.structure(own_start)
        own_start = jax.tree.unflatten(structure, jax.tree.leaves(start))
    expected, found = theirs.train(start), ours.train(own_start)
    assert_close(found, expected)
    losses = [np.mean(loss) for loss in jax.tree.leaves(expected[0])]
    assert losses[0] != losses[1], "nothing is trained"


def test_there_are_three_programs_of_each_kind():
    """Linen and NNX alike."""
    kinds = [program.stem.partition("_")[0] for program in PROGRAMS]
    assert (kinds.count("linen"), kinds.count("nnx")) == (3, 3)
