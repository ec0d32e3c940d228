"""Implementations under judgment.

An `Implementation` has a name, a version and one *namespace* for each *capability*: any object
that answers to the standard's names (those of the documents), such as a module or a `Namespace`. A
capability left `None` is *unclaimed*: its laws are not tried. For a library with Flax's layout an
adapter is one line:

    implementation = flax_shaped("flax", version=flax.__version__)

Only adapters import implementations. Laws reach them through the fixtures that `judging.suite`
lists. `loading` finds an implementation by a name or a path.
"""

import functools
import importlib.util
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

from scutch.namespaces import CAPABILITIES, NAMES, NEEDS, OPTIONS, Namespace, Unclaimed


class SetupError(Exception):
    """The run cannot begin; the message names the refused value and the expected one.

    Wrong:

        scutch.judge_box(MyBox, implementation="flux")

    Right, with a name from the message, `module:attribute`, or the path of an adapter:

        scutch.judge_box(MyBox, implementation="flax")

    Attributes:
      subject: The refused option, implementation, or file and line.
      problem: The reason, and the expected value.
    """

    def __init__(self, subject: str, problem: str) -> None:
        """Join the refused subject and the reason into the message."""
        self.subject, self.problem = subject, problem
        super().__init__(f"{subject}: {problem}")


LAYOUT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "meta": ("core.meta",),
        "logical": ("linen.spmd", "linen"),
        "linen": ("linen", "core", "training.train_state", "linen.partitioning"),
        "nnx": ("nnx",),
        "transforms": ("nnx",),
        "bridge": ("nnx.bridge.variables", "nnx.bridge", "nnx"),
    }
)
"""The modules of Flax that hold the names of each capability."""


RENAMED: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "variable_type": ("variable_type_from_name", {"allow_register": True}),
        "variable_type_name": ("variable_name_from_type", {"allow_register": True}),
        "register_variable_name_type_pair": ("register_variable_name", {}),
    }
)
"""By name in the documents, the name in Flax 0.12 and the arguments that make it do the same."""


class _Renamed:
    """A module of Flax that also answers to older names, which the documents use."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name in RENAMED and not hasattr(self._module, name):
            today, arguments = RENAMED[name]
            return functools.partial(getattr(self._module, today), **arguments)
        return getattr(self._module, name)


@dataclass(frozen=True)
class Implementation:
    """One implementation under judgment.

    Args:
      name: Its name in reports and known failures.
      version: Its release, as `packaging.version` reads it.
      meta: Names of document `000_`; required by `logical`.
      logical: Names of document `002_` for logical axes.
      linen: Linen modules and their lifted transformations (`002_`).
      nnx: Objects, variables, filters and state (`001_`, `004_`).
      transforms: Lifted `jit` and `shard_map` (`001_`).
      bridge: The Linen-NNX bridge (`004_`).
      export: Export of trained functions (`003_`).
      known: The implementation that this one descends from, whose known failures it inherits:
        `flax`, or `flax==0.12.8` if the two do not have the same version; empty for none. A
        name alone inherits nothing.
    """

    name: str
    version: str
    meta: Any = None
    logical: Any = None
    linen: Any = None
    nnx: Any = None
    transforms: Any = None
    bridge: Any = None
    export: Any = None
    known: str = ""

    def __post_init__(self) -> None:
        """Give each capability that the claims need, and are without, an empty namespace.

        A namespace that is not hashed by identity, such as a `SimpleNamespace`, is put into a
        `Namespace`: the classes that laws make of a namespace are kept by its hash.
        """
        needed = {
            need
            for capability in CAPABILITIES
            if self._claimed(capability) != NAMES[capability]  # it is claimed in part
            for need in NEEDS.get(capability, ())
        }
        by_identity: Any = object.__hash__
        for capability in CAPABILITIES:
            space = getattr(self, capability)
            titled = functools.partial(Namespace, f"{self.name} {self.version}: {capability}")
            if space is None and capability in needed:
                object.__setattr__(self, capability, titled(names=()))
            elif space is not None and type(space).__hash__ is not by_identity:
                object.__setattr__(self, capability, titled(space))

    def need(self, option: str) -> None:
        """Leave a law that needs an option which is not claimed.

        Args:
          option: Such as `nnx.Variable.out_sharding`: a capability, and an option of it.

        Raises:
          Unclaimed: Names of the capability are claimed one by one, and the option is not.
        """
        capability, _, name = option.partition(".")
        space = getattr(self, capability)
        if isinstance(space, Namespace) and not space.claimed([name]):
            raise Unclaimed(f"{self.name} {self.version}: {option}")

    def plain(self) -> "Implementation":
        """An `Implementation` with the same fields, also where this is one of a subclass.

        Each field is read once, and each namespace is made plain.
        """
        found: dict[str, Any] = {}
        for each in fields(Implementation):
            value = getattr(self, each.name)
            value = Namespace.plain(value) if isinstance(value, Namespace) else value
            found[each.name] = str.__str__(value) if isinstance(value, str) else value
        return Implementation(**found)

    @property
    def offers(self) -> tuple[str, ...]:
        """Each claimed capability, with its claimed names if only some are, and lacking options."""
        offers = []
        for name in self.claims:
            space = getattr(self, name)
            parted = isinstance(space, Namespace)
            names, lacks = (space.names, space.lacks) if parted else (None, ())
            told = name if names is None else f"{name}: {', '.join(names)}"
            offers.append(f"{told} without {', '.join(lacks)}" if lacks else told)
        return tuple(offers)

    @property
    def upstream(self) -> tuple[str, str] | None:
        """Name and version of the implementation that this one descends from."""
        name, _, version = self.known.partition("==")
        return (name, version or self.version) if name else None

    @property
    def claims(self) -> tuple[str, ...]:
        """The capabilities that are not `None`."""
        return tuple(name for name in CAPABILITIES if getattr(self, name) is not None)

    def missing(self) -> dict[str, list[str]]:
        """Names that a claimed capability lacks, by capability."""
        return {
            capability: names
            for capability in self.claims
            for space in [getattr(self, capability)]
            if (names := sorted(n for n in self._claimed(capability) if not hasattr(space, n)))
        }

    def _claimed(self, capability: str) -> Iterable[str]:
        space = getattr(self, capability)
        names = NAMES[capability]
        return space.claimed(names) if isinstance(space, Namespace) else names


def flax_shaped(
    name: str,
    *,
    version: str,
    package: str | None = None,
    claims: Iterable[str] | None = None,
    lacks: Iterable[str] = (),
    known: str = "",
) -> Implementation:
    """An implementation whose modules lie where Flax has them.

    Args:
      name: Its name in reports and known failures.
      version: Its release.
      package: The import name of the package, `name` where left out.
      claims: Capabilities, such as `meta`, or single names of a capability that the package has in
        part, such as `logical.logical_to_mesh_axes`; where left out, all of Flax.
      lacks: Options that claimed functions do not have, such as `transforms.jit.static_argnums`;
        see `Namespace`.
      known: The implementation that a fork descends from, such as `flax`; see `Implementation`.

    Returns:
      The implementation, which an adapter assigns to the name `implementation`.

    Raises:
      SetupError: A claim is neither a capability nor a name in one, or an option that it lacks
        belongs to no function that is claimed.
      ImportError: The package, or a module of it that a claim needs, does not import.
    """
    parts: dict[str, list[str] | None] = {}
    for claim in LAYOUT if claims is None else claims:
        capability, _, part = claim.partition(".")
        if capability not in LAYOUT or (
            part and part not in NAMES[capability] | OPTIONS.get(capability, frozenset())
        ):
            raise SetupError(
                f"flax_shaped({name!r})",
                f"it claims {claim!r}, which is neither a capability ({', '.join(LAYOUT)}) nor a "
                "name in one, such as 'logical.logical_to_mesh_axes'",
            )
        names = parts.setdefault(capability, [] if part else None)
        if part and names is not None:
            names.append(part)
    missing: dict[str, list[str]] = {}
    for option in lacks:
        capability, _, part = option.partition(".")
        function, _, argument = part.partition(".")
        held = parts.get(capability, ())
        if not argument or function not in (NAMES[capability] if held is None else held):
            raise SetupError(
                f"flax_shaped({name!r})",
                f"it lacks {option!r}, which is no option of a function that it claims; expected "
                "a capability, a function and an option, such as 'transforms.jit.static_argnums'",
            )
        missing.setdefault(capability, []).append(part)
    namespaces = {
        capability: Namespace(
            f"{name} {version}: {capability}",
            *map(_Renamed, modules_of(package or name, capability, in_part=names is not None)),
            names=names,
            lacks=missing.get(capability, ()),
        )
        for capability, names in parts.items()
    }
    return Implementation(name, version, **namespaces, known=known)


def modules_of(package: str, capability: str, *, in_part: bool) -> list[ModuleType]:
    """The modules of a package in which the names of a capability are looked for.

    Args:
      package: Its import name.
      capability: A key of `LAYOUT`.
      in_part: Whether modules may be missing, and names stand in the package itself.

    Returns:
      The imported modules, in the order of `LAYOUT`. With `in_part`, those that are there, and
      after them the package.

    Raises:
      ImportError: One that Flax has is not there, and `in_part` is false.
    """
    paths = [f"{package}.{path}" for path in LAYOUT[capability]]
    if in_part:
        paths = [path for path in paths if specification(path)] + [package]
    return [importlib.import_module(path) for path in paths]


def names_in(package: str) -> list[str]:
    """The standard's names that a package has, in the form of the claims of `flax_shaped`.

    Args:
      package: Its import name.

    Returns:
      The names, such as `nnx.split`; no `OPTIONS`.

    Raises:
      ImportError: There is no such package.
    """
    modules = {c: [*map(_Renamed, modules_of(package, c, in_part=True))] for c in LAYOUT}
    return [f"{c}.{name}" for c, held in modules.items() for name in names_held(c, held)]


def names_held(capability: str, modules: Collection[Any]) -> list[str]:
    """The standard's names of a capability that some of the modules have, in alphabetical order.

    Args:
      capability: A key of `LAYOUT`.
      modules: Anything with attributes.
    """
    return sorted(n for n in NAMES[capability] if any(hasattr(m, n) for m in modules))


def specification(path: str) -> ModuleSpec | None:
    """The specification of a module, or `None` where no module can be imported by this name.

    Args:
      path: The name, with dots.
    """
    try:
        return importlib.util.find_spec(path)
    except (ModuleNotFoundError, ValueError):  # no parent; or a module without a specification
        return None
