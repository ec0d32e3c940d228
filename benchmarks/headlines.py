"""The headline figures: the rows of the README's table of speed and of the nightly's first page.

Each row is a configuration without its implementation, which is the column:

>>> benchmark, parameters = ROWS["a lifted `jit` is called, 4 arrays"]
>>> configuration(benchmark, "reference", parameters)
'dispatch.Dispatch.time_call(reference, forward, 4)'
"""

from collections.abc import Mapping

COLUMNS = {
    "reference": "reference",
    "flax": "Flax",
    "flax cached": "Flax, `cached_partial`",
    "jax": "plain JAX",
}
"""By implementation, as benchmarks name it, the head of its column."""

HOST_MESH = "2x4"
"""The mesh of the guide's steps, of the eight fake devices of the host."""


def _call(kind: str, arrays: int) -> dict[str, object]:
    return {"kind": kind, "arrays": arrays}


def _step(program: str, loop: str) -> dict[str, object]:
    return {"program": program, "loop": loop, "mesh": HOST_MESH}


def _tree(function: str) -> dict[str, object]:
    return {"function": function, "boxes": 1000}


def _conversion(conversion: str) -> dict[str, object]:
    return {"conversion": conversion, "variables": 1024}


DISPATCH = "dispatch.Dispatch.time_call"
ROWS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "a lifted `jit` is called, 4 arrays": (DISPATCH, _call("forward", 4)),
    "the same, 256 arrays": (DISPATCH, _call("forward", 256)),
    "the same, and all 256 are updated": (DISPATCH, _call("update", 256)),
    "a lifted `shard_map` is called, 32 arrays": (DISPATCH, _call("shard_map", 32)),
    "`unbox` of 1,000 boxes": ("metadata.Trees.time_function", _tree("unbox")),
    "`get_sharding` of 1,000 boxes": ("metadata.Trees.time_function", _tree("get_sharding")),
    "1,024 variables cross from Linen to NNX": (
        "bridge.Conversion.time_conversion",
        _conversion("linen_vars_to_nnx_attrs"),
    ),
    "and back": ("bridge.Conversion.time_conversion", _conversion("nnx_attrs_to_linen_vars")),
    "a `ToNNX` of four layers is called in `jit`": (
        "bridge.Wrapped.time_call",
        {"wrapper": "ToNNX in jit", "layers": 4},
    ),
    "the guide's train step": ("guide.Guide.time_step", _step("train", "unrolled")),
    "the same, scanned": ("guide.Guide.time_step", _step("train", "scanned")),
    "the guide's inference step": ("guide.Guide.time_step", _step("inference", "unrolled")),
    "the train step is traced and compiled": (
        "guide.Guide.time_compile",
        _step("train", "unrolled"),
    ),
    "the scanned one is traced and compiled": (
        "guide.Guide.time_compile",
        _step("train", "scanned"),
    ),
    "Python calls in a lifted `jit`, 256 arrays": (
        "dispatch.Dispatch.track_python_calls",
        _call("forward", 256),
    ),
    "all-reduces in a train step": (
        "compilation.Compilation.track_all_reduces",
        _step("train", "unrolled"),
    ),
    "bytes between devices in a train step": (
        "compilation.Compilation.track_bytes_moved",
        _step("train", "unrolled"),
    ),
    "peak bytes on a device in a train step": (
        "compilation.Compilation.track_peak_bytes",
        _step("train", "unrolled"),
    ),
}
"""By label, a benchmark and its parameters without the implementation, by their names."""


def configuration(benchmark: str, implementation: str, parameters: Mapping[str, object]) -> str:
    """The name of a configuration, as `Configuration.name` gives it.

    Args:
      benchmark: Such as `dispatch.Dispatch.time_call`.
      implementation: A key of `COLUMNS`.
      parameters: The other parameters, by name, in the benchmark's order.
    """
    return f"{benchmark}({', '.join(map(str, (implementation, *parameters.values())))})"
