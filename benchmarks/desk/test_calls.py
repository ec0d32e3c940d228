"""Calls that take micro- to milliseconds, timed by hand: `pytest benchmarks/desk -k forward`.

Each test is a `time_*` of the asv benchmarks, with its setup, run by pytest-benchmark. The
implementations of one benchmark make a group; `--benchmark-group-by=param:implementation` makes a
group of each implementation instead.
"""

import pytest

from benchmarks.configurations import configurations

MODULES = ("bridge", "dispatch", "metadata")
CONFIGURATIONS = {}
for each in configurations("time_"):
    if each.module in MODULES:
        implementation, *further = map(str, each.parameters)
        CONFIGURATIONS[f"{each.owner.__name__} {', '.join(further)}", implementation] = each


@pytest.mark.parametrize(("group", "implementation"), CONFIGURATIONS, ids=str)
def test_call(benchmark, group, implementation):
    """One call is timed by pytest-benchmark."""
    benchmark.group = group
    try:
        with CONFIGURATIONS[group, implementation].ready() as call:
            benchmark(call)
    except NotImplementedError as absent:
        pytest.skip(str(absent))
