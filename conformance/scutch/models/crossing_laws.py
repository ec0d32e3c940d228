"""Laws about the model in the other framework: a Linen module in `ToNNX`, an object in `ToLinen`.

The model and its wrapped form are measured and compared as `scutch model … compare` does.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from scutch.implementation import SetupError
from scutch.models.compare import between
from scutch.models.examined import Examined
from scutch.models.findings import Finding
from scutch.models.frameworks import Linen
from scutch.models.laws import by_id
from scutch.models.model import Model
from scutch.models.sides import Request, Side, measure

_PLACES, _VALUES = "crossing/the-bridge-keeps-places", "crossing/the-bridge-keeps-values"
CROSSING = (_PLACES, _VALUES)
_PATH = re.compile(r"(.+?) (?=is |lies |differs |has |of the optimizer)")


def findings(examined: Examined, seed: int, skipped: list[tuple[str, str]]) -> Iterator[Finding]:
    """The changes in placement and values that the bridge causes.

    Args:
      examined: The model.
      seed: Of weights and inputs.
      skipped: Laws that are not tried are added, with the reason.

    Yields:
      A finding for each array that lies otherwise, and each result that differs.
    """
    bridge = examined.training.implementation.bridge
    if bridge is None:
        skipped += [(law, "the implementation claims no bridge") for law in CROSSING]
        return
    wrapper, wrapped = _wrapped(examined, bridge)
    request = Request(tuple(examined.meshes), ("costs",), seed)
    first = measure(examined, request)
    try:
        other = Examined(wrapped, examined.meshes)
        second = measure(other, replace(request, first=first), f"the model in {wrapper}")
    except SetupError as error:
        yield Finding(
            by_id(_VALUES),
            "the model",
            f"in {wrapper}, {error.problem.partition(';')[0]}",
            f"do not wrap it in {wrapper}, or mend what the error names",
        )
        return
    found = between(_floating(first), _floating(second), request)
    if "values" in found.untried:
        skipped.append((_VALUES, found.untried["values"]))
    for law, part in ((_PLACES, "parameters"), (_PLACES, "placement"), (_VALUES, "values")):
        for sentence in found.differences.get(part, ()):
            path = _PATH.match(sentence)
            yield Finding(
                by_id(law),
                path[1] if path else "the model",
                f"{sentence} (the second is in {wrapper})",
                f"annotate it in {wrapper} too, or do not wrap it",
            )


def _floating(side: Side) -> Side:
    """A side without integers and keys: a wrapper keeps the streams of random numbers elsewhere."""
    return replace(side, arrays=tuple(each for each in side.arrays if "float" in each.dtype))


def _wrapped(examined: Examined, bridge: Any) -> tuple[str, Model]:
    """The name of the wrapper, and the model in it."""
    model, framework = examined.model, examined.training.framework
    if isinstance(framework, Linen):
        module = framework.module

        def make(rngs: Any) -> Any:
            inputs = jax.tree_util.tree_map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), model.arguments
            )
            return bridge.ToNNX(module, rngs=rngs).lazy_init(*inputs, **model.options)

        mutable = {"mutable": list(examined.abstract.rest)} if examined.abstract.rest else {}
        return "ToNNX", replace(model, make=make, options={**model.options, **mutable})
    made: Any = framework

    def wrapped(*, rngs: Any) -> Any:
        return made.of_streams(rngs)

    return "ToLinen", replace(model, make=lambda: bridge.ToLinen(wrapped))
