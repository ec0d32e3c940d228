"""Calls that take micro- to milliseconds, at the desk: `pytest benchmarks/desk -k forward`.

Each is a `time_*` of the asv benchmarks, with its setup. The implementations of a benchmark make a
group; `--benchmark-group-by=param:implementation` makes a group for each implementation.
"""

import pytest

from benchmarks.cases import cases

MODULES = ("bridge", "dispatch", "metadata")
CASES = {}
for case in cases("time_"):
    if case.module in MODULES:
        implementation, *further = map(str, case.choice)
        CASES[f"{case.kind.__name__} {', '.join(further)}", implementation] = case


@pytest.mark.parametrize(("what", "implementation"), CASES, ids=str)
def test_call(benchmark, what, implementation):
    """One call takes so long."""
    benchmark.group = what
    try:
        with CASES[what, implementation].ready() as call:
            benchmark(call)
    except NotImplementedError as absent:
        pytest.skip(str(absent))
