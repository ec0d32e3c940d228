"""The first program of a failure: the law and its helpers, and a driver that calls it.

    failure = Failure.of(law, inputs, implementation, reference)
    tree = failure.program(failure.ends[0])

The driver defines the namespaces of the implementation and the box class under judgment, builds the
inputs from their descriptions, and calls the law.
"""

import ast
import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scutch.implementation import Implementation
from scutch.inputs.descriptions import Builder, build
from scutch.inputs.subjects import PARTITIONED, remaining
from scutch.judging.attempt import Setting, prepared
from scutch.judging.calls import VOCABULARY
from scutch.judging.hypothesis_parts import written
from scutch.judging.suite import UNASSERTED, Law
from scutch.namespaces import CAPABILITIES, Namespace
from scutch.reproduce.names import Nameless, Names
from scutch.reproduce.running import Ran
from scutch.reproduce.slicing import Module, Slice
from scutch.reproduce.syntax import CHECK, closed

_LAW = "law"
_MAKERS = {
    "SUBJECTS": "scutch.inputs.subjects",
    "remaining": "scutch.inputs.subjects",
    "Builder": "scutch.inputs.descriptions",
    "build": "scutch.inputs.descriptions",
}
"""The names of the suite that a driver uses, with their modules."""


@contextlib.contextmanager
def _names_noted() -> Iterator[dict[int, dict[str, Any]]]:
    """The names that laws look up in each namespace, by its `id`, with their values."""
    noted: dict[int, dict[str, Any]] = {}
    plain = Namespace.__getattr__

    def noting(self: Namespace, name: str) -> Any:
        found = plain(self, name)
        if not name.startswith("_"):
            noted.setdefault(id(self), {})[name] = found
        return found

    Namespace.__getattr__ = noting  # type: ignore[method-assign]
    try:
        yield noted
    finally:
        Namespace.__getattr__ = plain  # type: ignore[method-assign]


def _forget() -> None:
    """Empty the caches of the suite's functions: what they keep would not run again."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("scutch.engine", "scutch.inputs", "scutch.lawkit", "scutch.laws")):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


@dataclass(frozen=True)
class Failure:
    """A call of a law that fails.

    Args:
      law: The law.
      inputs: Descriptions by name.
      implementation: The one that the call fails on.
      error: The exception that the call raised.
      ran: What the call ran, on the implementation and on the reference.
      ends: Where a program may end, as `Ran.ends` gives it.
      looked_up: The names that it looked up in each namespace, by its `id`, with their values.
    """

    law: Law
    inputs: Mapping[str, Any]
    implementation: Implementation
    error: BaseException
    ran: Ran
    ends: Sequence[tuple[str, int] | None]
    looked_up: Mapping[int, Mapping[str, Any]]

    @classmethod
    def of(
        cls,
        law: Law,
        inputs: Mapping[str, Any],
        implementation: Implementation,
        reference: Implementation,
    ) -> "Failure":
        """Try a call, and then the same call on the reference.

        Args:
          law: The law.
          inputs: Descriptions by name.
          implementation: The one that the call fails on.
          reference: The reference implementation.

        Returns:
          The failure.

        Raises:
          Nameless: The law holds, or takes something that no program can have.
        """
        if "reference" in law.fixtures:
            raise Nameless("the law compares with the reference implementation, which is scutch's")

        def call(one: Implementation) -> None:
            attempt = prepared(law, one, Setting(unasserted=functools.partial(remaining, one)))
            built = {name: build(value, attempt.builder) for name, value in inputs.items()}
            attempt.function(**attempt.fixtures, **built)

        ran = Ran()
        with _names_noted() as noted:
            _forget()
            ran.call(lambda: call(implementation))
        error = ran.error
        if error is None:
            raise Nameless(f"it does not break {law.requirement} of {implementation.name}")
        ends = ran.ends()
        _forget()
        ran.call(lambda: call(reference))
        return cls(law, inputs, implementation, error, ran, ends, noted)

    def program(self, check: tuple[str, int] | None, *, stubs: bool = False) -> ast.Module:
        """A program that fails as the call does.

        Args:
          check: One of `ends`.
          stubs: Whether methods that did not run stay, without a body; a class may need them.

        Raises:
          Nameless: Something in it cannot be written.
        """
        names = Names(self.implementation)
        spaces = dict(self._spaces(names))
        function = written(self.law.function)
        driver = Module("driver", ast.Module([], []))
        for name, module in (_MAKERS | {n: k.__module__ for n, k in VOCABULARY.items()}).items():
            driver.imported[name] = module, name, ""
        driver.imported[_LAW] = function.__module__, function.__name__, ""
        lines = [*self._lines(names, spaces)]
        given = {*spaces, *self.inputs, "implementation", "subject", "builder", UNASSERTED}
        cut = Slice(self.ran, check, {*given, "got", "expected", "error"}, stubs=stubs)
        cut.module(function.__module__).defined[function.__name__].decorator_list = []  # type: ignore[attr-defined]
        tree = cut.program(ast.parse("\n".join(lines)).body, driver)
        if check is None:
            tree.body.append(_guarded(tree.body.pop(), self._class_of_error(names)))
        imports = sorted({*cut.imports, *names.imports, "import sys"})
        tree.body[:0] = [each for line in imports for each in ast.parse(line).body]
        closed(tree)
        return ast.fix_missing_locations(tree)

    def _spaces(self, names: Names) -> Iterator[tuple[str, str]]:
        """The text of each namespace that the law may look in, by its capability."""
        for capability in CAPABILITIES:
            space = getattr(self.implementation, capability)
            if space is not None:
                with contextlib.suppress(Nameless):  # the program shows whether it needs it
                    yield capability, self._space(space, names)

    def _space(self, space: Any, names: Names) -> str:
        """A module that has all that was looked up in a namespace, or a display of these names."""
        used = self.looked_up.get(id(space), {})
        for each in getattr(space, "_modules", (space,)):
            module = getattr(each, "_module", each)
            if all(getattr(module, name, None) is value for name, value in used.items()):
                return names.of(module)
        names.imports["import types"] = None
        parts = [
            f"{name}={self._looked_up(space, name, value, names)}" for name, value in used.items()
        ]
        return f"types.SimpleNamespace({', '.join(parts)})"

    @staticmethod
    def _looked_up(space: Any, name: str, value: Any, names: Names) -> str:
        """A name of a namespace: as an attribute of the module that has it, or by its own name."""
        for each in getattr(space, "_modules", ()):
            module = getattr(each, "_module", each)
            if getattr(module, name, None) is value:
                return f"{names.of(module)}.{name}"
        return names.of(value)

    def _lines(self, names: Names, spaces: Mapping[str, str]) -> Iterator[str]:
        """The lines of the driver."""
        yield from (f"{name} = {text}" for name, text in spaces.items() if name != text)
        names.imports["import types"] = None
        held = {name: name if name in spaces else "None" for name in CAPABILITIES}
        parts = ", ".join(f"{name}={text}" for name, text in held.items())
        yield f"implementation = types.SimpleNamespace({parts})"
        yield f"subject = SUBJECTS[{self.law.subject or PARTITIONED!r}](implementation)"
        yield f"builder = Builder({held['meta']}, subject.make, {held['nnx']}, {held['linen']})"
        if UNASSERTED in self.law.fixtures:
            names.imports["import functools"] = None
            yield f"{UNASSERTED} = functools.partial(remaining, implementation)"
        attempt = prepared(self.law, self.implementation)
        for name, value in self.inputs.items():
            yield f"{name} = {self._input(value, attempt.builder, names)}"
        yield f"{_LAW}({', '.join(f'{n}={n}' for n in [*self.law.fixtures, *self.inputs])})"

    @staticmethod
    def _input(value: Any, builder: Builder, names: Names) -> str:
        """An input as its own text, or as the text that builds it from its description."""
        before = dict(names.imports)
        try:
            return names.text(build(value, builder))
        except Exception:  # of the implementation, or Nameless: then the program builds it
            names.imports.clear()
            names.imports.update(before)
            return f"build({value!r}, builder)"

    def _class_of_error(self, names: Names) -> str:
        """The class of the error, or its nearest base that a script can import."""
        for kind in type(self.error).__mro__:
            with contextlib.suppress(Nameless):
                return names.of(kind)
        raise TypeError(self.error)


def _guarded(statement: ast.stmt, kind: str) -> ast.stmt:
    """A statement that ends the program with 1 if it raises an error of a class."""
    text = (
        f"try:\n    pass\nexcept {kind} as error:\n"
        "    print(f'expected no error, got {type(error).__name__}: {error}')\n    sys.exit(1)"
    )
    made: Any = ast.parse(text).body[0]
    for node in (made, *ast.walk(made.handlers[0])):
        setattr(node, CHECK, True)
    made.body = [statement]
    return made  # type: ignore[no-any-return]
