"""The configurations of the benchmarks: each benchmark with each combination of its parameters.

`python -m benchmarks.configurations` lists them in the environment where they will be measured,
because some benchmarks exist only with certain libraries.
"""

import json
from dataclasses import dataclass

from scutch_ci.checkout import ROOT, environment_of, output_of

Key = tuple[str, tuple[str, ...]]
"""The name of a benchmark, and the `repr` of each of its parameters."""


@dataclass(frozen=True)
class Configuration:
    """A benchmark with one value for each of its parameters.

    Args:
      benchmark: Its name as asv has it, such as `dispatch.Dispatch.time_call`.
      parameters: The `repr` of each value.
      group: The benchmarks that must be measured together with it.
      jitters: Whether it is a `track_*` whose figure differs from run to run.
    """

    benchmark: str
    parameters: tuple[str, ...]
    group: str
    jitters: bool

    @property
    def name(self) -> str:
        """The name that the gate uses, such as `dispatch.Dispatch.time_call(jax, forward, 4)`."""
        return gate_name((self.benchmark, self.parameters))

    @property
    def asv_name(self) -> str:
        """The text that asv matches a selection with, in which the parameters are literals."""
        return f"{self.benchmark}({', '.join(self.parameters)})"


def configurations(python: str, *prefixes: str) -> list[Configuration]:
    """Every configuration whose method has one of the prefixes, such as `time_`.

    Args:
      python: The interpreter of the environment.
      *prefixes: Beginnings of the names of methods.

    Returns:
      The configurations, in the order of their modules.

    Raises:
      NothingMeasured: The interpreter cannot import the benchmarks.
    """
    command = [python, "-m", "benchmarks.configurations", *prefixes]
    printed = output_of(command, f"{python} cannot import the benchmarks", environment_of(ROOT))
    return [
        Configuration(each["benchmark"], tuple(each["parameters"]), each["group"], each["jitters"])
        for each in map(json.loads, printed.splitlines())
    ]


def gate_name(key: Key) -> str:
    """The name that the gate uses for a configuration; its text parameters have no quotes."""
    name, parameters = key
    return f"{name}({', '.join(each.strip(chr(39)) for each in parameters)})"
