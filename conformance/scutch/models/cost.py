"""What a step of training costs on a mesh: read from the program that XLA compiles.

    with training.on({"data": 8}) as there:
        cost_of(there)["collectives"]["all-reduce"]["count"]

The figures are counts, and so the same whenever the same program is compiled by the same JAX.
"""

import gc
import sys
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from scutch.models.collectives import collectives, places
from scutch.models.runs import abstract_with_places, run_on
from scutch.models.training import Placed, input_specs

STRUCT: Any = jax.ShapeDtypeStruct
SMALL = 2**28
"""Bytes of a state up to which a step is run, and not only compiled."""
INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions that are none since Python 3.12."""


def cost_of(there: Placed) -> dict[str, Any]:
    """What one step costs on each device.

    Args:
      there: A training on a mesh, in its surroundings.

    Returns:
      `collectives` by kind, with the count and the bytes of each, and their count by `places` in
      the model; `flops`, `peak_bytes`; where the state is small, `compilations` of three steps and
      `python_calls` of one too.
    """
    state = _state(there)
    compiled = there.step.lower(state, *_inputs(there)).compile()
    memory, costs = compiled.memory_analysis(), compiled.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    found: dict[str, Any] = {
        "collectives": collectives(compiled.as_text()),
        "places": places(compiled.as_text()),
        "flops": int((costs or {}).get("flops", 0)),
        "peak_bytes": int(
            memory.argument_size_in_bytes + memory.temp_size_in_bytes
            + memory.output_size_in_bytes - memory.alias_size_in_bytes
        ),
    }  # fmt: skip
    size = sum(_bytes(value) for value in jax.tree_util.tree_leaves(state))
    if size <= SMALL and there.mesh.devices.flat[0] in jax.devices():
        found["compilations"] = 1 + len(run_on(there, steps=3, seed=0).recompiled)
        found["python_calls"] = _python_calls(there)
    return found


def _state(there: Placed) -> Any:
    """The state without values, with its shardings."""
    if there.owner_starts:
        return abstract_with_places(there.start(0))
    return jax.tree_util.tree_map(
        lambda sharding, below: jax.tree_util.tree_map(
            lambda a: STRUCT(a.shape, a.dtype, sharding=sharding), below
        ),
        there.shardings, there.abstract,
    )  # fmt: skip


def _inputs(there: Placed) -> tuple[Any, ...]:
    """The inputs of a step without values, with their shardings."""
    specs = input_specs(there.training.model, tuple(there.mesh.axis_names))

    def placed(value: Any, spec: Any) -> Any:
        fitting = PartitionSpec(*list(spec)[: len(value.shape)])  # type: ignore[no-untyped-call]
        sharding = NamedSharding(there.mesh, fitting)
        return STRUCT(value.shape, value.dtype, sharding=sharding)

    return tuple(
        jax.tree_util.tree_map(lambda value, spec=spec: placed(value, spec), each)
        for each, spec in zip(there.training.model.arguments, specs, strict=True)
    )


def _bytes(value: Any) -> int:
    return int(np.prod(value.shape, dtype=np.int64)) * int(getattr(value.dtype, "itemsize", 8))


def _python_calls(there: Placed) -> int:
    """Python functions that are called in one call of the compiled step."""
    state, _ = there.step(there.start(0), *there.batch(0))
    inputs, count = there.batch(1), 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name not in INLINED

    step = there.step
    state, _ = step(state, *inputs)
    gc.disable()
    sys.setprofile(profile)
    try:
        step(state, *inputs)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
