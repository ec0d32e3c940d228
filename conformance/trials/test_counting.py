"""Limits on traces and compilations in a user's own tests."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scutch
from scutch.counting import at_most


def _step():
    def step(x):
        return x * 2

    return jax.jit(step)


def test_a_function_that_is_traced_once_keeps_the_limit():
    step = _step()
    with at_most(traces=1, compilations=1, of="step") as counts:
        step(np.ones(3))
        step(np.ones(3))
    assert (counts.traces, counts.compilations) == ({"step": 1}, {"step": 1})


def test_what_exceeds_the_limit_is_named():
    step = _step()

    def steps(*sizes):
        for size in sizes:
            step(np.ones(size))

    found = pytest.raises(AssertionError, match="2 traces, expected at most 1: step 2")
    with found, at_most(traces=1, of="step"):
        steps(3, 4)
    found = pytest.raises(AssertionError, match="1 compilations, expected at most 0: step 1")
    with found, at_most(compilations=0, of="step"):
        steps(5)


def test_without_a_name_every_function_counts():
    step = _step()
    with at_most(traces=9) as counts:
        step(jnp.ones(6) + 1)
    assert counts.traces["step"] == 1
    assert counts.traces.total() > 1


def test_blocks_may_be_nested_and_an_error_inside_is_not_hidden():
    step = _step()
    with at_most(traces=2, of="step") as outer:
        with at_most(traces=1, of="step"):
            step(np.ones(7))
        step(np.ones(8))
    assert outer.traces["step"] == 2
    with pytest.raises(KeyError), at_most(traces=0):
        {}[step(np.ones(9)).shape]


@pytest.mark.parametrize("limits", [{}, {"traces": -1}, {"compilations": -2}])
def test_a_limit_that_is_none_is_refused(limits):
    with pytest.raises(ValueError, match="expected"), at_most(**limits):
        pass


def test_it_is_a_fixture_and_a_name_of_the_package(tmp_path):
    assert at_most is scutch.at_most
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["scutch.counting"]\n')
    (tmp_path / "test_step.py").write_text(
        "import jax\n"
        "def test_step(at_most):\n"
        "    step = jax.jit(lambda x: x + 1)\n"
        "    with at_most(compilations=1, of='<lambda>'):\n"
        "        step(1), step(2)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
