"""Flax, as installed, and with the other modes of its `jit`.

For a release before 0.12.6 the adapter claims only the names and options that the release has.
Before 0.12.1 it leaves variables out: they lack `get_value`, `set_value` and `get_raw_value`, and a
state before 0.11 holds none. Nearly every law of variables would report that and nothing else.
"""

import functools
import inspect
from dataclasses import replace
from types import SimpleNamespace

import flax
from flax import nnx
from packaging.version import Version

from scutch.implementation import Implementation, flax_shaped, names_in
from scutch.namespaces import Namespace

_SINCE = {
    "bridge.ToNNX": "0.12.0",  # before, it took an `Rngs` and no key of JAX, as `lazy_init` did
    "bridge.lazy_init": "0.12.0",
    **dict.fromkeys(
        "nnx.Variable nnx.Param nnx.BatchStat nnx.Cache nnx.Intermediate nnx.Perturbation "
        "nnx.Linear nnx.LinearGeneral nnx.Embed nnx.LayerNorm nnx.BatchNorm nnx.Dropout "
        "nnx.MultiHeadAttention bridge.to_nnx_var bridge.linen_vars_to_nnx_attrs".split(),
        "0.12.1",
    ),
    "nnx.RngStream.normal": "0.11.2",
    "nnx.with_rngs": "0.12.7",
    "nnx.Rngs.fork": "0.12.0",  # with a shape as `split`; with a number alone before
    "nnx.RngStream.lecun_normal": "0.12.1",
    "transforms.shard_map.check_vma": "0.12.1",  # `check_rep` before
    "nnx.Variable.out_sharding": "0.12.4",  # `sharding_names` before, and `sharding` before that
    "transforms.jit.graph": "0.12.4",
    "transforms.jit.graph_updates": "0.12.6",
}
"""The first release in which a name behaves as the laws expect. The names are the classes of
variables, classes and functions that make variables or take keys of JAX, and options that came
later than the function that has them."""


def _claims() -> list[str] | None:
    release = Version(flax.__version__)
    later = [name for name, since in _SINCE.items() if release < Version(since)]
    if not later:
        return None
    return [name for name in dict.fromkeys([*names_in("flax"), *_SINCE]) if name not in later]


def _in_mode(name: str, **options: bool) -> Implementation:
    """Flax with other defaults of `jit`; no `transforms` if the release lacks the options."""
    if not options.keys() <= inspect.signature(nnx.jit).parameters.keys():
        return replace(implementation, name=name, transforms=None, known="flax")
    jit = SimpleNamespace(jit=functools.partial(nnx.jit, **options))
    transforms = Namespace(f"{name} {flax.__version__}: transforms", jit, nnx)
    return replace(implementation, name=name, transforms=transforms, known="flax")


implementation = flax_shaped("flax", version=flax.__version__, claims=_claims())
without_graph = _in_mode("flax-no-graph", graph=False)
without_graph_updates = _in_mode("flax-no-graph-updates", graph_updates=False)
