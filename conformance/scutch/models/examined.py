"""The values that laws about a model share, such as its variables and its traced program.

Everything is made on first use and kept, so that a law which needs no compilation causes none.
"""

import functools
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from scutch.implementation import SetupError
from scutch.judging.readable import summary
from scutch.models import program
from scutch.models.annotations import Leaf
from scutch.models.arrays import abstract_of, zeros
from scutch.models.frameworks import surroundings
from scutch.models.layout import PARAMETERS, Abstract, abstract, mesh_shapes, pattern, shapes_of
from scutch.models.model import MeshShape, Model
from scutch.models.training import Training, input_specs, make_mesh

INITIALISATION, LOSS = "initialisation", "the loss"
_NOBODY = ("a name that no axis has", None)
_LIBRARIES = ("site-packages", "dist-packages", "scutch_reference", "/scutch/")


@dataclass(frozen=True)
class Failure:
    """Why a model cannot be traced.

    Args:
      place: The stage that failed, initialisation or the loss.
      told: A summary of the error.
      remedy: The line of the owner's code that raised it, as an advice.
    """

    place: str
    told: str
    remedy: str


def _failure_line(error: Exception) -> str:
    """Advice that names the innermost line of the owner's code in a traceback."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not any(part in frame.filename for part in _LIBRARIES):
            return f"mend {Path(frame.filename).name}:{frame.lineno}: {frame.line}"
    return "mend inputs=, options= or loss= of the Model"


class Watched(str):
    """A logical name in a rule, which notes the names that it is compared with.

    An implementation looks its rules up by name, so that these are the names in constraints.
    """

    heard: dict[str, str]

    @classmethod
    def of(cls, name: str, heard: dict[str, str]) -> "Watched":
        """A name that notes into a dictionary: other names, with the owner's line.

        Args:
          name: The name.
          heard: Is added to.
        """
        made = cls(name)
        made.heard = heard
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and type(other) is str and other not in self.heard:
            self.heard[other] = _owner_line()
        return str.__eq__(self, other) is True

    def __hash__(self) -> int:
        return str.__hash__(self)


def _owner_line() -> str:
    """The innermost line of the stack that is in no library."""
    for frame in reversed(traceback.extract_stack()):
        if not any(part in frame.filename for part in _LIBRARIES):
            return f"{Path(frame.filename).name}:{frame.lineno}"
    return "a constraint"


class Examined:
    """A model under examination."""

    def __init__(self, model: Model, meshes: Iterable[MeshShape] = ()) -> None:
        """Keep the model and the mesh shapes; nothing is computed yet.

        Args:
          model: The description.
          meshes: Mesh shapes; the model's own where there are none.
        """
        self.model, self._meshes = model, tuple(dict(mesh) for mesh in meshes)
        self._variables: dict[int, tuple[Any, Any]] = {}

    @functools.cached_property
    def training(self) -> Training:
        """The model as functions."""
        return Training.of(self.model)

    @functools.cached_property
    def abstract(self) -> Abstract:
        """The variables without values."""
        return abstract(self.model)

    @functools.cached_property
    def sections(self) -> dict[str, list[Leaf]]:
        """The leaves of each section."""
        return self.abstract.sections()

    @functools.cached_property
    def annotated(self) -> list[Leaf]:
        """The annotated leaves without the optimizer's, which repeat the parameters."""
        sections = {**self.sections, "optimizer": []}
        return [leaf for each in sections.values() for leaf in each if leaf.names is not None]

    @functools.cached_property
    def meshes(self) -> tuple[MeshShape, ...]:
        """The mesh shapes that the laws are tried on."""
        return self._meshes or mesh_shapes(self.model, self.abstract)

    @functools.cached_property
    def inputs(self) -> list[tuple[Any, Any]]:
        """Each input that is an array, with its spec."""
        specs = input_specs(self.model, tuple(self.meshes[0]))
        pairs = zip(self.model.arguments, specs, strict=True)
        return [(value, spec) for value, spec in pairs if hasattr(value, "shape")]

    @functools.cached_property
    def _traced(self) -> tuple[program.Program, dict[str, str]]:
        """The traced loss, and the logical names that constraints in it ask rules about."""
        heard: dict[str, str] = {}
        rules = tuple((Watched.of(n, heard), axis) for n, axis in (*self.model.rules, _NOBODY))
        found, training = self.abstract, self.training
        key = jax.eval_shape(lambda: jax.random.key(0))
        mesh = make_mesh(dict.fromkeys(self.meshes[0], 1))
        shapes_of(self.model, training.implementation, rules, training.framework.init)
        params, rest = abstract_of(found.params), abstract_of(found.rest)
        arguments = abstract_of(self.model.arguments)
        with surroundings(self.training.implementation, rules, mesh):
            closed = jax.make_jaxpr(lambda *a: training.loss(*a)[0])(params, rest, key, *arguments)
        known = {name for leaf in self.annotated for name in leaf.names or ()}
        names = {n: line for n, line in heard.items() if n not in known and n not in dict(rules)}
        return program.read(closed), {
            **dict.fromkeys((n for n in heard if n in dict(rules)), ""),
            **names,
        }

    @functools.cached_property
    def failure(self) -> Failure | None:
        """Why the model cannot be traced, or None.

        Raises:
          SetupError: The description is wrong.
        """
        stage = INITIALISATION
        try:
            _ = self.sections
            stage = LOSS
            _ = self._traced
        except SetupError:
            raise
        except Exception as error:
            return Failure(stage, summary(error), _failure_line(error))
        return None

    @property
    def program(self) -> program.Program:
        """The constraints, draws, loops and callbacks of the traced loss; empty without a trace."""
        return self._traced[0] if self.failure is None else program.Program()

    @property
    def constraint_names(self) -> dict[str, str]:
        """The names of constrained activations, with the line of each that no rule has."""
        return self._traced[1] if self.failure is None else {}

    def variables(self, seed: int) -> tuple[Any, Any]:
        """Parameters and other variables on one device, made once for a seed.

        Args:
          seed: Of random numbers.
        """
        if seed not in self._variables:
            mesh = make_mesh(dict.fromkeys(self.meshes[0], 1))
            with surroundings(self.training.implementation, self.model.rules, mesh):
                made = jax.jit(self.training.framework.init)
                self._variables[seed] = made(jax.random.key(seed), *zeros(self.model.arguments))
        return self._variables[seed]

    @functools.cached_property
    def layers(self) -> dict[str, tuple[str, ...]]:
        """The paths of repeated layers, with the patterns of their parameters."""
        found: dict[str, list[str]] = {}
        for leaf in self.sections[PARAMETERS]:
            parts = leaf.path.split("/")
            for end in range(1, len(parts)):
                if pattern(parts[end - 1]) != parts[end - 1]:
                    rest = f"{'/'.join(parts[end:])} {leaf.shape}"
                    found.setdefault("/".join(parts[:end]), []).append(rest)
        return {layer: tuple(sorted(rest)) for layer, rest in found.items()}

    @property
    def root(self) -> str:
        """The prefix of module paths in places of the program; empty for an NNX object."""
        module = getattr(self.training.framework, "module", None)
        return "" if module is None else f"{module.name or type(module).__name__}/"

    def repeated(self, group: list[Leaf]) -> bool:
        """Whether leaves stand in layers that have the same parameters."""
        kept = set()
        for leaf in group:
            parts = leaf.path.split("/")
            ends = [n for n, part in enumerate(parts, 1) if pattern(part) != part]
            outer = "/".join(parts[: ends[0]])
            if outer == leaf.path:
                return False
            kept.add(self.layers.get(outer, ()))
        return len(kept) == 1
