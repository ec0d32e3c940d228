"""Flax, as installed, and with the other modes of its `jit`.

Of a release before 0.12.1 it claims the names that are there, but for variables: they have no
`get_value`, `set_value` and `get_raw_value` yet, and a state before 0.11 holds none. Nearly every
law of variables would say that and nothing else.
"""

import functools
import inspect
from dataclasses import replace
from types import SimpleNamespace

import flax
from flax import nnx
from packaging.version import Version

from scutch.implementation import NAMES, Implementation, Namespace, flax_shaped, names_in

_WHOLE = Version("0.12.1")
"""The release since which all of the standard's names are there, and the methods of variables."""

_VARIABLES = frozenset("Variable Param BatchStat Cache Intermediate".split())


def _claims() -> list[str] | None:
    if Version(flax.__version__) >= _WHOLE:
        return None
    claims = names_in("flax")
    if "nnx" in claims:
        claims += [f"nnx.{name}" for name in sorted(NAMES["nnx"])]
    left_out = {"nnx", *(f"nnx.{name}" for name in _VARIABLES)}
    return [claim for claim in claims if claim not in left_out]


def _in_mode(name: str, **options: bool) -> Implementation:
    """Flax with a `jit` that has other defaults; a release without the options has no such one."""
    if not options.keys() <= inspect.signature(nnx.jit).parameters.keys():
        return replace(implementation, name=name, transforms=None, known="flax")
    jit = SimpleNamespace(jit=functools.partial(nnx.jit, **options))
    transforms = Namespace(f"{name} {flax.__version__}: transforms", jit, nnx)
    return replace(implementation, name=name, transforms=transforms, known="flax")


implementation = flax_shaped("flax", version=flax.__version__, claims=_claims())
without_graph = _in_mode("flax-no-graph", graph=False)
without_graph_updates = _in_mode("flax-no-graph-updates", graph_updates=False)
