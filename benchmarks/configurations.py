"""The benchmarks of this folder, each with every combination of its parameters.

A *configuration* is a benchmark together with one value for each of its parameters, such as
`dispatch.Dispatch.time_call(reference, forward, 32)`. asv finds, sets up and tears down the same
ones; here the gate, the trials and the table of the README do it without asv.

`python -m benchmarks.configurations PREFIX...` prints those whose method has one of the prefixes,
one JSON object to a line.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import itertools
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A benchmark with one value for each of its parameters.

    Args:
      module: The name of the module, without the package's.
      owner: The class that the benchmark is a method of.
      method: The name of the method.
      parameters: One value of each list in `owner.params`.
    """

    module: str
    owner: type
    method: str
    parameters: tuple

    @property
    def benchmark(self):
        """The name of the benchmark as asv has it, without parameters."""
        return f"{self.module}.{self.owner.__name__}.{self.method}"

    @property
    def name(self):
        """The name that the gate uses, with parameters."""
        return f"{self.benchmark}({', '.join(map(str, self.parameters))})"

    @property
    def group(self):
        """The benchmarks that must be measured together, as all of a class with `setup_cache`."""
        if hasattr(self.owner, "setup_cache"):
            return self.benchmark.rpartition(".")[0]
        return self.benchmark

    @property
    def jitters(self):
        """Whether a `track_*` figure differs between runs, so that the gate cannot compare it."""
        return getattr(getattr(self.owner, self.method), "jitters", False)

    @contextlib.contextmanager
    def ready(self):
        """The benchmark as a call without arguments, between its setup and its teardown.

        Raises:
          NotImplementedError: The library is not installed, or lacks the feature.
        """
        benchmark = self.owner()
        arguments = self.parameters
        if hasattr(self.owner, "setup_cache"):
            arguments = (_cached_setup(self.owner, arguments[0]), *arguments)
        if hasattr(benchmark, "setup"):
            benchmark.setup(*arguments)
        with contextlib.ExitStack() as stack:
            if hasattr(benchmark, "teardown"):
                stack.callback(benchmark.teardown, *arguments)
            yield functools.partial(getattr(benchmark, self.method), *arguments)


@functools.cache
def _cached_setup(owner, implementation):
    """The `setup_cache` of a class for one implementation, run once for all its methods."""
    return owner().setup_cache(implementation)


def configurations(*prefixes):
    """Every configuration whose method has one of the prefixes, such as `time_`, by module."""
    for file in sorted(FOLDER.glob("[!_]*.py")):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for _, owner in inspect.getmembers(module, inspect.isclass):
            if owner.__module__ != module.__name__ or inspect.isabstract(owner):
                continue
            for method in sorted(name for name in dir(owner) if name.startswith(prefixes)):
                for parameters in itertools.product(*getattr(owner, "params", ())):
                    yield Configuration(file.stem, owner, method, parameters)


if __name__ == "__main__":
    for each in configurations(*sys.argv[1:]):
        properties = ("benchmark", "name", "group", "jitters")
        print(
            json.dumps(
                {key: getattr(each, key) for key in properties}
                | {"parameters": list(map(repr, each.parameters))}
            )
        )
