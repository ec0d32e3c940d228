r"""Scaling a model over devices, from annotation to training: a guide that runs.

A model is cut up by naming the axes of its parameters. Everything else follows from the names:
where each parameter lies, each moment of the optimizer, and which devices talk to each other.
Read this file from top to bottom, or run it and read what it shows:

    python reference/examples/scaling_guide.py --width 64 --picture shardings.svg

It needs no accelerators: eight fake devices of the host do. It needs optax (and rich, for the
picture), and nothing of the reference that Flax does not have as well:

    python reference/examples/scaling_guide.py --linen flax.linen \
        --train-state flax.training.train_state

What the guide claims it also checks; the exit code is 1 if a claim does not hold.
"""

import argparse
import contextlib
import functools
import importlib
import io
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

# 1. A mesh ----------------------------------------------------------------------------------------
#
# A mesh gives the axes of a block of devices their names. Ours has two rows and four columns. The
# batch will be cut along 'data', the weights along 'model'.


def make_mesh(rows: int = 2, columns: int = 4) -> Mesh:
    """The first devices, as many as are needed, in rows and columns."""
    devices = np.array(jax.devices()[: rows * columns])
    return Mesh(devices.reshape(rows, columns), ("data", "model"))


# 2. A layer that says where it lies ---------------------------------------------------------------
#
# `with_partitioning` wraps an initializer. The parameter comes in a box that remembers one name
# for each axis: a mesh axis, or None for an axis that stays whole. The first matrix is cut by
# columns, the second by rows, so that each device multiplies its own slice of both, and a single
# sum over 'model' at the end of the layer brings the slices together.
#
# `with_sharding_constraint` says the same of a value on the way.
#
# The layer returns a pair, because that is what `scan` wants of a step: what goes on to the next
# layer, and what is collected from each (nothing, here).


def direct_model(nn: Any, mesh: Mesh, layers: int, width: int, scanned: bool) -> Any:
    """The model whose annotations are axes of the mesh."""

    def placed(value: jax.Array, *axes: str | None) -> jax.Array:
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*axes)))

    class DotReluDot(nn.Module):  # type: ignore[misc]
        depth: int
        dense_init: Callable[..., Any] = nn.initializers.xavier_normal()

        @nn.compact
        def __call__(self, x: jax.Array) -> tuple[jax.Array, None]:
            by_column = nn.with_partitioning(self.dense_init, (None, "model"))
            y = nn.Dense(self.depth, kernel_init=by_column, use_bias=False)(x)
            y = placed(jax.nn.relu(y), "data", "model")
            by_row = nn.with_partitioning(self.dense_init, ("model", None))
            w2 = self.param("W2", by_row, (self.depth, x.shape[-1]))
            return placed(jnp.dot(y, w2), "data", None), None

    return stack(nn, DotReluDot, layers, width, scanned)


# 3. The same layer, four times --------------------------------------------------------------------
#
# Written out, each layer has its own entry among the parameters. Scanned, the parameters of all
# layers are stacked along a new first axis, and the program holds the layer once: it compiles in
# the same time for four layers and for four hundred. The box has to name the new axis too, and
# `metadata_params` says how; None leaves it whole.


def stack(nn: Any, layer: Any, layers: int, width: int, scanned: bool) -> Any:
    """A model of equal layers, scanned or written out."""

    class MLP(nn.Module):  # type: ignore[misc]
        layers: int
        depth: int

        @nn.compact
        def __call__(self, x: jax.Array) -> Any:
            if scanned:
                step = nn.scan(
                    layer,
                    length=self.layers,
                    variable_axes={"params": 0},
                    split_rngs={"params": True},
                    metadata_params={nn.PARTITION_NAME: None},
                )
                return step(self.depth)(x)[0]
            for _ in range(self.layers):
                x, _ = layer(self.depth)(x)
            return x

    return MLP(layers, width)


# 4. Names that do not know the mesh ---------------------------------------------------------------
#
# A model that names mesh axes has to be rewritten for another layout. Names that say what an axis
# is for outlive the layout; rules, in one place, say what each is cut along. A name without a rule,
# as 'embed' here, stays whole.

RULES = (("batch", "data"), ("hidden", "model"))


def logical_model(nn: Any, mesh: Mesh, layers: int, width: int, scanned: bool) -> Any:
    """The model whose annotations say what its axes are for."""

    class LogicalDotReluDot(nn.Module):  # type: ignore[misc]
        depth: int
        dense_init: Callable[..., Any] = nn.initializers.xavier_normal()

        @nn.compact
        def __call__(self, x: jax.Array) -> tuple[jax.Array, None]:
            by_column = nn.with_logical_partitioning(self.dense_init, ("embed", "hidden"))
            y = nn.Dense(self.depth, kernel_init=by_column, use_bias=False)(x)
            y = nn.with_logical_constraint(jax.nn.relu(y), ("batch", "hidden"), RULES, mesh)
            by_row = nn.with_logical_partitioning(self.dense_init, ("hidden", "embed"))
            w2 = self.param("W2", by_row, (self.depth, x.shape[-1]))
            z = nn.with_logical_constraint(jnp.dot(y, w2), ("batch", "embed"), RULES, mesh)
            return z, None

    return stack(nn, LogicalDotReluDot, layers, width, scanned)


# 5. Shardings, before there is a parameter --------------------------------------------------------
#
# A state of this size may fit on no single device, so it must never exist anywhere in one piece.
# `eval_shape` runs the initialization without computing: the result has shapes in place of arrays,
# and the boxes are all there. The optimizer maps over parameters, so its moments are boxed as they
# are. `get_sharding` turns the abstract state into a tree of shardings, and `jax.jit` takes that
# tree as it is: init makes each piece on the device that keeps it.
#
# With logical names there is one step more: `get_partition_spec` gives specs that are still
# logical, and `logical_to_mesh_sharding` applies the rules.


@dataclass(frozen=True)
class Program:
    """A model, and its compiled functions with the shardings they keep to."""

    model: Any
    batch: jax.ShapeDtypeStruct
    abstract_state: Any
    state_sharding: Any
    batch_sharding: NamedSharding
    init: Callable[..., Any]
    train_step: Callable[..., Any]
    infer: Callable[..., Any]


def program(
    nn: Any,
    train_state: Any,
    mesh: Mesh,
    *,
    logical: bool = False,
    scanned: bool = False,
    layers: int = 4,
    width: int = 1024,
    batch: int = 8,
) -> Program:
    """All that the guide runs, for one way to annotate and one way to stack the layers.

    Args:
      nn: A module with the names of Linen.
      train_state: A module with `TrainState`.
      mesh: Axes `data`, which divides `batch`, and `model`, which divides `width`.
      logical: Whether annotations are logical names.
      scanned: Whether the layers are scanned.
      layers, width, batch: Sizes.
    """
    model = (logical_model if logical else direct_model)(nn, mesh, layers, width, scanned)
    optimizer = optax.adam(learning_rate=0.001)
    batch_sharding, replicated = NamedSharding(mesh, P("data", None)), NamedSharding(mesh, P())

    def init(key: jax.Array, x: jax.Array) -> Any:
        params = model.init(key, x)["params"]
        return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)

    x = jax.ShapeDtypeStruct((batch, width), jnp.float32)
    abstract_state = jax.eval_shape(init, jax.random.key(0), x)
    if logical:
        specs = nn.get_partition_spec(abstract_state)
        state_sharding = nn.logical_to_mesh_sharding(specs, mesh, RULES)
    else:
        state_sharding = nn.get_sharding(abstract_state, mesh)

    # 6. A step of training, and one of inference. The shardings go in and come out the same, so
    # that the state of one step is the argument of the next without a copy. What the devices send
    # to each other in between is XLA's to find; nobody writes it down.

    def train_step(state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        def loss(params: Any) -> jax.Array:
            return jnp.square(model.apply({"params": params}, x) - x).mean()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value

    def infer(state: Any, x: jax.Array) -> Any:
        return state.apply_fn({"params": state.params}, x)

    inputs = (state_sharding, batch_sharding)
    return Program(
        model,
        x,
        abstract_state,
        state_sharding,
        batch_sharding,
        jax.jit(init, in_shardings=(replicated, batch_sharding), out_shardings=state_sharding),
        jax.jit(train_step, in_shardings=inputs, out_shardings=(state_sharding, replicated)),
        jax.jit(infer, in_shardings=inputs, out_shardings=batch_sharding),
    )


# 7. What to expect --------------------------------------------------------------------------------
#
# Every leaf of the state whose path ends in a parameter's name is one: the parameter itself, or
# one of its two moments. The others, the step and the optimizer's counter, are whole everywhere.

CUT = {"kernel": (None, "model"), "W2": ("model", None)}


def expected_spec(path: Any, scanned: bool) -> P:
    """The spec of one leaf of the state, from its path."""
    for key in path:
        if (name := getattr(key, "key", None)) in CUT:
            return P(*((None,) if scanned else ()), *CUT[name])
    return P()


def lies_as(array: jax.Array, sharding: NamedSharding) -> bool:
    """Whether an array lies on devices as a sharding says."""
    return array.sharding.is_equivalent_to(sharding, array.ndim)


def all_lie_as(state: Any, shardings: Any) -> bool:
    """Whether each array of a state lies on devices as the sharding in its place says."""
    leaves, wanted = jax.tree.leaves(state), jax.tree.leaves(shardings)
    return len(leaves) == len(wanted) and all(map(lies_as, leaves, wanted))


def foreseen(ready: Program, scanned: bool) -> bool:
    """Whether the shardings of the abstract state are those of the annotations, leaf by leaf."""
    leaves = jax.tree_util.tree_leaves_with_path(ready.state_sharding)
    count = len(jax.tree.leaves(ready.abstract_state))
    return count == len(leaves) and all(s.spec == expected_spec(p, scanned) for p, s in leaves)


# 8. Training --------------------------------------------------------------------------------------


def start(ready: Program, seed: int = 0) -> tuple[Any, jax.Array]:
    """A first state and a batch, both in place."""
    x = jax.random.normal(jax.random.key(seed + 1), ready.batch.shape)
    x = jax.device_put(x, ready.batch_sharding)
    return ready.init(jax.random.key(seed), x), x


def train(ready: Program, steps: int) -> tuple[Any, list[float], bool]:
    """The last state, the losses, and whether every state lay where the first one did."""
    state, x = start(ready)
    losses, stayed = [], all_lie_as(state, ready.state_sharding)
    for _ in range(steps):
        state, loss = ready.train_step(state, x)
        losses.append(float(loss))
        stayed = stayed and all_lie_as(state, ready.state_sharding)
    return state, losses, stayed


# 9. How long a step takes -------------------------------------------------------------------------
#
# A call returns before its result is there. To time it, wait for the result, and take the median
# of several: the first call compiles, and any call may be interrupted.


def seconds_of_a_step(ready: Program, calls: int = 7) -> float:
    """The median time of a training step that is compiled already."""
    state, x = start(ready)
    jax.block_until_ready(ready.train_step(state, x))
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        jax.block_until_ready(ready.train_step(state, x))
        times.append(time.perf_counter() - began)
    return statistics.median(times)


# 10. A picture ------------------------------------------------------------------------------------
#
# JAX can draw where an array lies: `jax.debug.visualize_array_sharding` prints a table of blocks,
# cut as the array is. A block is labelled with the devices that hold it; where there are several,
# each has a copy. It draws arrays of one or two axes, so the parameters of a scan are left out.


def picture(arrays: dict[str, jax.Array]) -> str:
    """The tables that JAX prints, under each other, as an SVG document. It needs rich."""
    from rich.console import Console

    console = Console(record=True, file=io.StringIO(), width=100)
    for title, array in arrays.items():
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            jax.debug.visualize_array_sharding(array, use_color=False)
        console.print(f"{title} {array.shape}", highlight=False)
        console.print(printed.getvalue(), highlight=False)
    return console.export_svg(title="Shardings")


def arrays_to_draw(state: Any, x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
    """The batch, the output, and of the first layer each parameter with its two moments."""
    found = {"batch": x, "output": y}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        names = [str(getattr(key, "key", getattr(key, "name", ""))) for key in path]
        layer = next((name for name in names if "DotReluDot" in name), "0")
        kind = next((name for name in names if name in CUT), None)
        moment = next((name for name in names if name in ("mu", "nu")), "")
        if kind and (not layer[-1].isdigit() or layer.endswith("0")):
            found[f"{moment} {kind}".strip()] = leaf
    return found


# 11. All of it ------------------------------------------------------------------------------------


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description="The scaling guide: shardings from annotations, on eight fake devices.",
        epilog="Exit code 1 means that something the guide claims does not hold.",
    )
    parser.add_argument("--width", type=int, default=1024, help="size of a layer (1024)")
    parser.add_argument("--layers", type=int, default=4, help="how many layers (4)")
    parser.add_argument("--batch", type=int, default=8, help="rows of the batch (8)")
    parser.add_argument("--steps", type=int, default=20, help="training steps (20)")
    parser.add_argument("--picture", type=Path, help="write the shardings to this SVG file")
    parser.add_argument("--linen", default="scutch_reference.linen", help="module of layers")
    parser.add_argument(
        "--train-state", default="scutch_reference.linen", help="module of TrainState"
    )
    options = parser.parse_args(arguments)
    if options.width % 4 or options.batch % 2 or min(options.layers, options.steps) < 1:
        parser.error("--width must divide by 4, --batch by 2, and --layers and --steps be positive")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the guide; return an exit code."""
    options = parsed(arguments)
    flag = "--xla_force_host_platform_device_count"
    if flag not in os.environ.get("XLA_FLAGS", ""):  # Heard until JAX looks for its devices.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}=8".strip()
    nn, train_state = map(importlib.import_module, (options.linen, options.train_state))
    sizes = {"layers": options.layers, "width": options.width, "batch": options.batch}
    mesh, alone = make_mesh(), make_mesh(1, 1)
    print(f"{len(jax.devices())} devices, mesh {dict(mesh.shape)}")
    failed = []

    def claim(text: str, holds: bool) -> None:
        print(f"  {'holds' if holds else 'FAILS'}: {text}")
        if not holds:
            failed.append(text)

    for scanned in (False, True):
        build = functools.partial(program, nn, train_state, scanned=scanned, **sizes)
        direct, logical = build(mesh), build(mesh, logical=True)
        alike = [list(each.state_sharding.params.values()) for each in (direct, logical)]
        for name, ready in (("direct", direct), ("logical", logical)):
            # Keys follow the names of layers, so each model is compared with itself.
            _, expected, _ = train(build(alone, logical=ready is logical), options.steps)
            print(f"\n{name} names, {'scanned' if scanned else 'unrolled'}")
            claim(
                "each parameter, both its moments and the step are foreseen as annotated",
                foreseen(ready, scanned),
            )
            state, x = start(ready)
            claim("jitted init lands there", all_lie_as(state, ready.state_sharding))
            last, losses, stayed = train(ready, options.steps)
            claim(f"shardings stay through {options.steps} training steps", stayed)
            claim(
                "the losses are those of a single device", np.allclose(losses, expected, rtol=1e-4)
            )
            y = ready.infer(last, x)
            claim("inference returns the batch's sharding", lies_as(y, ready.batch_sharding))
            print(f"  loss {losses[0]:.4f} to {losses[-1]:.4f}")
        claim("direct and logical names shard alike, layer by layer", alike[0] == alike[1])
        print(f"  a training step takes {1000 * seconds_of_a_step(direct):.2f} ms")
        if options.picture and not scanned:
            first, x = start(direct)
            drawn = arrays_to_draw(first, x, direct.infer(first, x))
            options.picture.write_text(picture(drawn), encoding="utf-8")
            print(f"  picture of the shardings: {options.picture}")
    print(f"\n{len(failed)} claims fail" if failed else "\nall claims hold")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
