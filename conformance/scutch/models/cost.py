"""The costs of a training step on a mesh, read from the program that XLA compiles.

    with training.on({"data": 8}) as there:
        cost_of(there)["collectives"]["all-reduce"]["count"]

The figures are counts, and so the same whenever the same program is compiled by the same JAX.
"""

import functools
import gc
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from scutch.implementation import SetupError
from scutch.judging.readable import summary
from scutch.models.collectives import collectives, places
from scutch.models.model import MeshShape, mesh_text
from scutch.models.runs import abstract_with_places, run_on
from scutch.models.training import Placed, Training, input_specs

STRUCT: Any = jax.ShapeDtypeStruct
SMALL = 2**28
"""The largest state, in bytes, for which a step is run; for larger ones it is only compiled."""
INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Names of comprehensions, which are functions only before Python 3.12."""


def cost_on(
    training: Training, shape: MeshShape, devices: Sequence[Any] = (), *, where: str, remedy: str
) -> dict[str, Any]:
    """The costs of one step on a mesh, as a `cost_of` dictionary.

    Args:
      training: The training of a model.
      shape: The mesh shape.
      devices: Of the mesh, as for `Training.on`.
      where: The model, for an error.
      remedy: Advice for the error if the step cannot be compiled.

    Returns:
      The cost.

    Raises:
      SetupError: There are too few devices, or the step cannot be compiled for this mesh.
    """
    try:
        with training.on(shape, devices) as there:
            return cost_of(there)
    except SetupError:
        raise
    except Exception as error:
        raise SetupError(
            f"{where} on the mesh {mesh_text(shape)}",
            f"compiling a step raised {summary(error)}; {remedy}",
        ) from error


def cost_of(there: Placed) -> dict[str, Any]:
    """The costs of one step on each device.

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
            memory.argument_size_in_bytes
            + memory.temp_size_in_bytes
            + memory.output_size_in_bytes
            - memory.alias_size_in_bytes
        ),
    }
    size = sum(_bytes(value) for value in jax.tree_util.tree_leaves(state))
    if size <= SMALL and there.present:
        found["compilations"] = 1 + len(run_on(there, steps=3, seed=0).recompiled)
        found["python_calls"] = _python_calls(there)
    return found


def _state(there: Placed) -> Any:
    """The state without values, with its shardings."""
    if there.owner_starts:
        return abstract_with_places(there.start(0)) if there.present else _compiled_start(there)
    return jax.tree_util.tree_map(
        lambda sharding, below: jax.tree_util.tree_map(
            lambda a: STRUCT(a.shape, a.dtype, sharding=sharding), below
        ),
        there.shardings,
        there.abstract,
    )


def _compiled_start(there: Placed) -> Any:
    """The owner's first state without values, with the shardings that XLA gives its arrays.

    Raises:
      SetupError: `jit` cannot trace the owner's function.
    """
    start: Any = there.training.model.start
    try:
        lowered = jax.jit(functools.partial(start, there.mesh)).lower(
            jax.eval_shape(lambda: jax.random.key(0))
        )
    except Exception as error:
        raise SetupError(
            "Model(start=...)",
            f"{summary(error)}; expected a function that `jit` can "
            "trace, because the devices are not present and nothing runs on them",
        ) from error
    return jax.tree_util.tree_map(
        lambda made, sharding: STRUCT(made.shape, made.dtype, sharding=sharding),
        lowered.out_info,
        lowered.compile().output_shardings,
    )


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
