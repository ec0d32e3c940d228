"""The names and imports by which a script reaches a value, and values as Python's text.

names = Names(implementation)
names.of(implementation.nnx.Param)      # 'nnx.Param', and `names.imports` has its import
names.text(np.ones((2, 3)))             # 'np.ones((2, 3), np.float64)'
"""

import builtins
import dataclasses
import functools
import importlib
import math
import sys
import types
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.implementation import Implementation
from scutch.namespaces import CAPABILITIES

LIBRARIES = {
    "jax": ("jax", "import jax"),
    "jax.numpy": ("jnp", "import jax.numpy as jnp"),
    "numpy": ("np", "import numpy as np"),
    "jax.tree": ("jax.tree", "import jax"),
    "jax.lax": ("jax.lax", "import jax"),
    "jax.random": ("jax.random", "import jax"),
    "jax.sharding": ("jax.sharding", "import jax"),
    "jax.tree_util": ("jax.tree_util", "import jax"),
    "jax.experimental.shard_map": ("shard_map", "from jax.experimental import shard_map"),
    "copy": ("copy", "import copy"),
    "pickle": ("pickle", "import pickle"),
    "functools": ("functools", "import functools"),
    "operator": ("operator", "import operator"),
    "itertools": ("itertools", "import itertools"),
    "dataclasses": ("dataclasses", "import dataclasses"),
    "collections": ("collections", "import collections"),
    "types": ("types", "import types"),
    "gc": ("gc", "import gc"),
    "weakref": ("weakref", "import weakref"),
}
"""Modules whose public names a script may use, with their alias and their import there."""

ALIASES = {"linen": "nn", "spmd": "spmd", "variables": "bridge_variables"}
"""The aliases of an implementation's modules that differ from the modules' own names."""

LONGEST = 4000
"""The longest text of a value that is written into a script."""


class Nameless(Exception):
    """A value cannot be written into a script; the message says which, and why.

    Wrong, as the class is the suite's own, and no script could import it:

        names.of(Placement)

    Right:

        names.of(jax.sharding.Mesh)
    """


class Names:
    """Names of values that the implementation, JAX, NumPy or Python defines, and their imports."""

    def __init__(self, implementation: Implementation) -> None:
        """Find the modules of an implementation.

        Args:
          implementation: The implementation that scripts import.
        """
        self.imports: dict[str, None] = {}
        self.aliases: dict[str, str] = {}
        self.found: dict[int, tuple[Any, str, str]] = {}
        for name, (alias, line) in LIBRARIES.items():
            self._look_in(importlib.import_module(name), alias, line)
        for module in modules(implementation):
            package, _, last = module.__name__.rpartition(".")
            alias = ALIASES.get(last, last)
            line = f"from {package} import {last}" + (f" as {alias}" if alias != last else "")
            self.aliases[alias] = line if package else f"import {last}"
            self._look_in(module, alias, self.aliases[alias])
        for module in modules(implementation):
            _, alias, line = self.found[id(module)]
            for name, inner in vars(module).items():
                if isinstance(inner, types.ModuleType) and not name.startswith("_"):
                    self.found.setdefault(id(inner), (inner, f"{alias}.{name}", line))
        self._look_in(builtins, "", "")

    def _look_in(self, module: types.ModuleType, alias: str, line: str) -> None:
        self.found.setdefault(id(module), (module, alias, line))
        for name, value in list(vars(module).items()):
            if not name.startswith("_") and not isinstance(value, types.ModuleType):
                dotted = f"{alias}.{name}" if alias else name
                self.found.setdefault(id(value), (value, dotted, line))

    def of(self, value: Any) -> str:
        """The name of something that can be imported; its import is noted.

        Raises:
          Nameless: It has no public name.
        """
        if isinstance(value, functools.partial):
            self.imports["import functools"] = None
            given = [f"{name}={self.text(each)}" for name, each in value.keywords.items()]
            parts = [self.of(value.func), *map(self.text, value.args), *given]
            return f"functools.partial({', '.join(parts)})"
        home = LIBRARIES.get(str(getattr(value, "__module__", "")), ("", ""))
        plain = str(getattr(value, "__name__", ""))
        if home[0] and plain and getattr(sys.modules[value.__module__], plain, None) is value:
            self.imports[home[1]] = None
            return f"{home[0]}.{plain}"
        held = self.found.get(id(value))
        if held is not None and held[0] is value:
            if held[2]:
                self.imports[held[2]] = None
            return held[1]
        module = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", "")
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        if isinstance(owner, type):
            return f"{self.of(owner)}.{value.__name__}"
        if module in ("builtins", None) and hasattr(builtins, name):
            return str(name)
        public = "._" not in f".{module}"
        if public and getattr(sys.modules.get(str(module)), name, None) is value:
            self.imports[f"from {module} import {name}"] = None
            return str(name)
        raise Nameless(f"{value!r} of {module} has no name that a script could import")

    # ------------------------------------------------------------------ values

    def text(self, value: Any) -> str:
        """A value as an expression.

        Raises:
          Nameless: It is of a class that cannot be written down.
        """
        text = self._text(value)
        if len(text) > LONGEST:
            raise Nameless(f"the value {text[:60]}... is too long for a script")
        return text

    def _text(self, value: Any) -> str:
        kind = type(value)
        if kind is float and not math.isfinite(value):
            return f"float({str(value)!r})"
        if isinstance(value, PartitionSpec):
            if any(each is PartitionSpec.UNCONSTRAINED for each in value):
                raise Nameless("an unconstrained spec")
            return f"{self.of(PartitionSpec)}({', '.join(map(self.text, value))})"
        if kind in (bool, int, float, complex, str, bytes, type(None), type(Ellipsis)):
            return "..." if value is ... else repr(value)
        if kind in (tuple, list, set, frozenset):
            return self.display(kind, [self.text(each) for each in value])
        if kind is dict:
            return self.display(dict, [self.text(each) for pair in value.items() for each in pair])
        if isinstance(value, types.UnionType):
            return " | ".join(map(self.of, value.__args__))
        if isinstance(value, np.dtype):
            return repr(value.name)
        if isinstance(value, np.generic):
            return f"{self.of(kind)}({value.item()!r})"
        if kind is np.ndarray:
            return self.array(value)
        if isinstance(value, Mesh):
            return self.mesh(value)
        if isinstance(value, NamedSharding):
            return f"{self.of(NamedSharding)}({self.text(value.mesh)}, {self.text(value.spec)})"
        if isinstance(value, jax.ShapeDtypeStruct) and value.sharding is None:
            return f"{self.of(jax.ShapeDtypeStruct)}({value.shape!r}, {value.dtype.name!r})"
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
                raise Nameless(f"the key {value!r}")
            self.imports["import jax.numpy as jnp"] = None
            return f"jnp.asarray({self.array(np.asarray(value))})"
        if isinstance(value, type | types.FunctionType | types.ModuleType):
            return self.of(value)
        if kind.__module__.startswith("jax") and repr(value).startswith(f"{kind.__name__}("):
            return self.of(kind) + repr(value).removeprefix(kind.__name__)
        if dataclasses.is_dataclass(kind):
            return self.record(value)
        raise Nameless(f"a value of the class {kind.__module__}.{kind.__qualname__}: {value!r:.80}")

    def record(self, value: Any) -> str:
        """An instance of a dataclass, as the call that makes it.

        Raises:
          Nameless: Its class has no name, or a field has no text.
        """
        made = self.of(type(value))
        fields = [f for f in dataclasses.fields(value) if f.init]
        given = [f for f in fields if getattr(value, f.name) is not f.default]
        parts = [f"{f.name}={self.text(getattr(value, f.name))}" for f in given]
        return f"{made}({', '.join(parts)})"

    def array(self, value: np.ndarray) -> str:
        """An array of NumPy.

        Raises:
          Nameless: It has more than 200 numbers, which no pattern describes.
        """
        self.imports["import numpy as np"] = None
        dtype = f"{value.dtype.name!r}"
        if value.dtype == object or value.dtype.name not in np.sctypeDict:
            dtype = f"jnp.{value.dtype.name}"
            self.imports["import jax.numpy as jnp"] = None
        default = value.dtype in (np.dtype("float64"), np.dtype("bool"))
        further = "" if default else f", {dtype}"
        flat = value.astype("float64").ravel() if value.dtype.kind in "iufV" else value.ravel()
        if value.size and (flat == flat[0]).all() and flat[0] in (0, 1):
            maker = "ones" if flat[0] else "zeros"
            shape = value.shape[0] if value.ndim == 1 else value.shape
            if value.dtype != bool:
                return f"np.{maker}({shape!r}{further})"
        if value.ndim != 1 and value.size > 1 and value.dtype.kind in "iuf":
            first, last = int(flat[0]), int(flat[0]) + flat.size
            if np.array_equal(flat, np.arange(first, last)):
                return f"np.arange({first}, {last}{', dtype=' + dtype}).reshape{value.shape!r}"
        if value.size > 200:
            raise Nameless(f"an array of the shape {value.shape}")
        return f"np.array({value.tolist()!r}{further})"

    def mesh(self, value: Mesh) -> str:
        """A mesh of the first devices.

        Raises:
          Nameless: It is of others, or has them in another order.
        """
        first = jax.devices()[: value.devices.size]
        if list(value.devices.flat) != first:
            raise Nameless(f"the mesh {value!r}, which is not of the first devices in their order")
        shape = tuple(value.devices.shape)
        self.imports["import jax"] = None
        if not hasattr(jax.sharding, "AxisType"):
            return f"jax.make_mesh({shape!r}, {value.axis_names!r})"
        kinds = ", ".join(f"jax.sharding.AxisType.{kind.name}" for kind in value.axis_types)
        types_ = f"({kinds},)" if len(shape) == 1 else f"({kinds})"
        return f"jax.make_mesh({shape!r}, {value.axis_names!r}, axis_types={types_})"

    @staticmethod
    def display(kind: type, parts: list[str]) -> str:
        """A container, as an expression.

        Args:
          kind: `tuple`, `list`, `set`, `frozenset`, `dict` or `slice`.
          parts: The texts of its parts; for a dictionary keys and values in turn.
        """
        if kind is dict:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        inside = ", ".join(parts)
        if kind is slice:
            return f"slice({inside})"
        if kind is tuple:
            return f"({inside},)" if len(parts) == 1 else f"({inside})"
        if kind is list:
            return f"[{inside}]"
        return f"{kind.__name__}([{inside}])"


def modules(implementation: Implementation) -> Iterable[types.ModuleType]:
    """The modules of an implementation, those with the shortest names first."""
    found: dict[str, types.ModuleType] = {}
    for capability in CAPABILITIES:
        space = getattr(implementation, capability)
        for module in getattr(space, "_modules", (space,)):
            inner = getattr(module, "_module", module)
            if isinstance(inner, types.ModuleType):
                found[inner.__name__] = inner
    return sorted(found.values(), key=lambda module: module.__name__.count("."))
