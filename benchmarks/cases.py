"""Every benchmark of this folder, as asv finds, sets up and tears down what it measures."""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import itertools
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Case:
    """A method of a benchmark, with a choice of its parameters.

    Args:
      module: The name of the module, without the package's.
      kind: The class.
      method: The name of the method.
      choice: A value for each of `kind.params`.
    """

    module: str
    kind: type
    method: str
    choice: tuple

    @property
    def name(self):
        """As people know it, with its parameters."""
        arguments = ", ".join(map(str, self.choice))
        return f"{self.module}.{self.kind.__name__}.{self.method}({arguments})"

    @property
    def jitters(self):
        """Whether what is tracked is no count."""
        return getattr(getattr(self.kind, self.method), "jitters", False)

    @contextlib.contextmanager
    def ready(self):
        """The benchmark as a call without arguments, between its setup and its teardown.

        Raises:
          NotImplementedError: What it measures is not there.
        """
        benchmark = self.kind()
        choice = self.choice
        if hasattr(self.kind, "setup_cache"):
            choice = (_cache_of(self.kind, choice[0]), *choice)
        getattr(benchmark, "setup", lambda *_: None)(*choice)
        try:
            yield functools.partial(getattr(benchmark, self.method), *choice)
        finally:
            getattr(benchmark, "teardown", lambda *_: None)(*choice)


@functools.cache
def _cache_of(kind, implementation):
    """What asv makes once for a class and hands to each of its methods; here of what is asked."""
    return kind().setup_cache(implementation)


def cases(*prefixes):
    """Each case whose method has one of the prefixes, such as `time_`; modules in order."""
    for file in sorted(FOLDER.glob("[!_]*.py")):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ != module.__name__ or inspect.isabstract(kind):
                continue
            for method in sorted(name for name in dir(kind) if name.startswith(prefixes)):
                for choice in itertools.product(*getattr(kind, "params", ())):
                    yield Case(file.stem, kind, method, choice)
