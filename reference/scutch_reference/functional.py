"""The computations of layers as functions of arrays, which layers of Linen and of NNX call.

A layer of either kind reads its parameters and statistics, and hands them to one function here. So
a `Dense` of Linen and a `Linear` of NNX that hold the same numbers give the same outputs. A
parameter that a layer does not use, such as the bias of a layer without one, is `None`.

Words: *features* are the entries along the axes that a layer mixes or scales, usually the last
one. *Statistics* are a mean and a variance. The *compute dtype* is the dtype in which a layer
computes, whatever the dtype of its parameters.

>>> import jax.numpy as jnp
>>> affine(jnp.ones((2, 3)), jnp.ones((3, 1)), jnp.ones(1), None, lax.dot_general).tolist()
[[4.0], [4.0]]
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import jax.numpy as jnp
from jax import Array, lax, random, tree
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from .errors import ModuleError
from .placement import explicit_sharding, laid_out_like, mesh_axes, partition_spec

A = TypeVar("A")
Axes: TypeAlias = int | Sequence[int]
OutSharding: TypeAlias = NamedSharding | PartitionSpec | None
_pmean: Callable[..., Array] = lax.pmean  # JAX leaves it untyped.


def flag(name: str, *values: A | None, once: bool = False) -> A:
    """Return the value of an option that may be given to a layer and to its call.

    Args:
      name: The option, for the error.
      values: The option's values, in order of precedence; `None` where the option is not given.
      once: Whether it is an error if the option is given more than once.

    Returns:
      The first value that is not `None`.

    Raises:
      ModuleError: All are `None`, or, with `once`, more than one is not.
    """
    given = [value for value in values if value is not None]
    if not given or (once and len(given) > 1):
        raise ModuleError(
            place=f"`{name}` of the layer and of its call",
            given=given,
            expected="one value that is not None",
        )
    return given[0]


def split_axes(axes: Axes, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Divide the axes of an array into those asked for and the others.

    Args:
      axes: One axis or several, each in `-rank <= axis < rank`.
      rank: How many axes the array has.

    Returns:
      The axes asked for, in their order, and all others in ascending order; none is negative.
    """
    chosen = tuple(axis % rank for axis in ([axes] if isinstance(axes, int) else axes))
    return chosen, tuple(axis for axis in range(rank) if axis not in chosen)


def for_axes(sizes: Axes | None, count: int) -> tuple[int, ...]:
    """Return a size for each axis.

    Args:
      sizes: A size for each axis, or one for all of them; `None` means 1.
      count: How many axes there are.
    """
    return (sizes or 1,) * count if sizes is None or isinstance(sizes, int) else tuple(sizes)


def promoted(dtype: DTypeLike | None, *arrays: Array | None) -> list[Any]:
    """Convert arrays to one dtype, in which a layer computes.

    Args:
      dtype: The compute dtype. `None`: the inexact dtype that JAX promotes all of them to, at
        least float32 if all are integers.
      arrays: Arrays of any shapes and dtypes; `None` stays `None`.

    Returns:
      The arrays in that dtype, in the same order.
    """
    if dtype is None:
        dtype = jnp.result_type(*[array for array in arrays if array is not None])
        if not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(jnp.float32, dtype)
    return [None if array is None else jnp.asarray(array, dtype) for array in arrays]


def affine(
    x: Array,
    kernel: Array,
    bias: Array | None,
    dtype: DTypeLike | None,
    dot_general: Callable[..., Array],
    axes: Axes = -1,
    batch: Axes = (),
    **options: Any,
) -> Array:
    """Multiply axes, usually the last one, by a matrix, and add a bias (LIN-4g).

    Args:
      x: Inputs of any shape.
      kernel: The sizes of `x` along `batch`, then along `axes`, then the features.
      bias: The sizes of `x` along `batch`, then the features; or `None`.
      dtype: The compute dtype; see `promoted`.
      dot_general: A function with the signature of `jax.lax.dot_general`.
      axes: The axes of `x` that are multiplied; the features come last in their place.
      batch: The first axes of `x`, if each index along them has a matrix of its own.
      options: Keywords for `dot_general`, such as `precision`; those that are `None` are not
        passed.

    Returns:
      Outputs of the shape of `x` without `axes`, and with the features; in the compute dtype.

    Raises:
      ModuleError: `batch` are not the first axes.
    """
    x, kernel, bias = promoted(dtype, x, kernel, bias)
    (summed, _), (own, _) = split_axes(axes, x.ndim), split_axes(batch, x.ndim)
    lead = tuple(range(len(own)))
    if own != lead:
        raise ModuleError(
            place="the axes with matrices of their own", given=batch, expected="the first axes"
        )
    given = {name: option for name, option in options.items() if option is not None}
    inner = tuple(range(len(lead), len(lead) + len(summed)))
    outputs = dot_general(x, kernel, ((summed, inner), (own, lead)), **given)
    if bias is None:
        return outputs
    gap = range(len(lead), len(lead) + outputs.ndim - bias.ndim)
    return outputs + jnp.expand_dims(bias, gap)


def as_matrix(init: Callable[..., Any], inputs: int) -> Callable[..., Any]:
    """Return an initializer of arrays of any rank that counts inputs and outputs as of a matrix.

    Args:
      init: An initializer, whose variance may depend on the sizes of a matrix.
      inputs: How many of the first axes are inputs; the others are outputs.
    """

    def initializer(key: Array, shape: Sequence[int], dtype: DTypeLike) -> Any:
        matrix = init(key, (math.prod(shape[:inputs]), math.prod(shape[inputs:])), dtype)
        return tree.map(lambda leaf: jnp.reshape(leaf, shape), matrix)

    return initializer


def convolved(
    x: Array,
    kernel: Array,
    bias: Array | None,
    dtype: DTypeLike | None,
    convolve: Callable[..., Array],
    **options: Any,
) -> Array:
    """Convolve the axes before the last one with a kernel, and add a bias.

    Args:
      x: Inputs of shape (..., spatial axes, n); the first axes may be any.
      kernel: Shape (window, n / groups, features).
      bias: Shape (features,), or `None`.
      dtype: The compute dtype; see `promoted`.
      convolve: A function with the signature of `jax.lax.conv_general_dilated`.
      options: Keywords for it.

    Returns:
      Outputs of shape (..., spatial axes, features), in the compute dtype.
    """
    x, kernel, bias = promoted(dtype, x, kernel, bias)
    axes = "".join(map(str, range(kernel.ndim - 2)))
    numbers = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    lead = x.shape[: 1 - kernel.ndim]
    flat = jnp.reshape(x, (-1, *x.shape[1 - kernel.ndim :]))
    outputs = convolve(flat, kernel, dimension_numbers=numbers, **options)
    outputs = jnp.reshape(outputs, (*lead, *outputs.shape[1:]))
    return outputs if bias is None else outputs + bias


def rows(
    table: Array,
    indices: Array,
    dtype: DTypeLike | None,
    out_sharding: OutSharding = None,
) -> Array:
    """Look up one row of a table for each integer (LIN-4g).

    Args:
      table: Shape (rows, features). A table of one row gives that row for every integer.
      indices: Integers of any shape; rows are counted from 0.
      dtype: The compute dtype, or `None` for the dtype of the table.
      out_sharding: The sharding of the rows, where the mesh has Explicit axes. `None`: the axes of
        `indices` stay where they are, and so do the features of the table on mesh axes that are
        still free.

    Returns:
      The shape of `indices` with the axis `features` at its end. Beyond the table, NaN.

    Raises:
      ModuleError: `indices` has no integer dtype.
    """
    if not jnp.issubdtype(jnp.result_type(indices), jnp.integer):
        raise ModuleError(
            place="the dtype of the indices of Embed",
            given=jnp.result_type(indices),
            expected="a dtype of integers",
        )
    table = jnp.asarray(table, dtype)
    if len(table) == 1:
        return jnp.broadcast_to(table.ravel(), (*jnp.shape(indices), table.shape[1]))
    if out_sharding is None:
        out_sharding = _sharding_of_rows(table, indices)
    if out_sharding is not None:
        return table.at[indices].get(mode="fill", out_sharding=out_sharding)
    return jnp.take(table, indices, axis=0)


def _sharding_of_rows(table: Array, indices: Array) -> NamedSharding | None:
    """Return the default sharding of rows of a table; `None` without Explicit axes."""
    shardings = explicit_sharding(table), explicit_sharding(indices)
    found = shardings[1] or shardings[0]
    if found is None:
        return None
    rank = jnp.ndim(indices)
    entries = tuple(shardings[1].spec) if shardings[1] is not None else (None,) * rank
    taken = {axis for entry in entries for axis in mesh_axes(entry)}
    features = shardings[0].spec[1] if shardings[0] is not None else None
    last = features if taken.isdisjoint(mesh_axes(features)) else None
    return NamedSharding(found.mesh, partition_spec((*entries, last)))


def products(
    queries: Array,
    table: Array,
    dtype: DTypeLike | None,
    out_sharding: OutSharding = None,
) -> Array:
    """Multiply vectors with every row of a table (LIN-4g).

    Args:
      queries: Shape (..., features).
      table: Shape (rows, features).
      dtype: The compute dtype; see `promoted`.
      out_sharding: The sharding of the products, where the mesh has Explicit axes, or `None`.

    Returns:
      The inner products, of shape (..., rows).
    """
    queries, table = promoted(dtype, queries, table)
    options: dict[str, Any] = {} if out_sharding is None else {"out_sharding": out_sharding}
    return jnp.dot(queries, table.T, **options)


def moments(
    x: Array,
    over: Axes,
    mask: Array | None,
    axis_name: str | None,
    groups: Sequence[Sequence[int]] | None,
    fast: bool,
) -> tuple[Array, Array]:
    """Compute mean and variance over axes, in float32 or a wider dtype (LIN-8c).

    Args:
      x: Inputs of any shape.
      over: The axes to average over.
      mask: Booleans of a shape that broadcasts to `x`: which entries count. `None`: all.
      axis_name: The name of an axis of `vmap` or `shard_map` to average over as well, or `None`.
      groups: The groups of indices along that axis that are averaged separately, or `None`.
      fast: Compute the variance as the mean of the squares less the square of the mean: one pass,
        and less exact where the mean is large.

    Returns:
      Mean and variance, of the shape of `x` without the axes `over`.
    """
    x = jnp.asarray(x, jnp.promote_types(jnp.result_type(x), jnp.float32))

    def mean(*arrays: Array) -> Array:
        means = jnp.stack([jnp.mean(array, over, where=mask) for array in arrays])
        if axis_name is None:
            return means
        return _pmean(means, axis_name, axis_index_groups=groups)

    if fast:
        center, square = mean(x, lax.square(x))
        return center, jnp.maximum(0.0, square - lax.square(center))
    (center,) = mean(x)
    return center, mean(lax.square(x - jnp.expand_dims(center, over)))[0]


def follow(kept: Iterable[Any], values: Iterable[Array], momentum: float) -> None:
    """Move running statistics towards the statistics of one batch (LIN-8c).

    Args:
      kept: Variables, objects with a `value`, which are assigned.
      values: For each of them an array of its shape.
      momentum: How much of the old value is kept, from 0 to 1.
    """
    for variable, value in zip(kept, values, strict=True):
        variable.value = momentum * variable.value + (1 - momentum) * value


def normalized(
    x: Array,
    statistics: Iterable[Array],
    parameters: Sequence[Any],
    axes: tuple[Sequence[int], Sequence[int]],
    epsilon: float,
    dtype: DTypeLike | None,
) -> Array:
    """Subtract the mean, divide by the standard deviation, then scale and shift (LIN-4g, LIN-8c).

    Args:
      x: Inputs of any shape.
      statistics: Mean and variance, of the shape of `x` without the axes `axes[0]`.
      parameters: Scale and bias, of the shape of `x` along the axes `axes[1]`, or `None`.
      axes: The axes that were averaged over, and the axes of the features; none is negative.
      epsilon: The number that is added to the variance, against division by zero.
      dtype: The dtype of the outputs; see `promoted`.

    Returns:
      Outputs of the shape of `x`.
    """
    averaged, features = axes
    mean, variance = (jnp.expand_dims(each, averaged) for each in statistics)
    scale, bias = parameters
    shape = [size if axis in features else 1 for axis, size in enumerate(x.shape)]
    factor = lax.rsqrt(variance + epsilon)
    if scale is not None:
        factor *= jnp.reshape(scale, shape)
    outputs = (x - mean) * factor
    if bias is not None:
        outputs += jnp.reshape(bias, shape)
    return jnp.asarray(outputs, promoted(dtype, x, *parameters)[0].dtype)


def dropped(
    x: Array, rate: float, broadcast_dims: Axes, key: Array | Callable[[], Array] | None
) -> Array:
    """Set entries to zero at random, and scale the others so that the mean stays (LIN-8d).

    Args:
      x: Inputs of any shape.
      rate: The chance of an entry to become zero, from 0 to 1. With 0 and 1 no key is needed.
      broadcast_dims: Axes along which all entries share one fate.
      key: A key of `jax.random`, or a function that draws one, called only if it is needed.

    Returns:
      Outputs of the shape of `x`.

    Raises:
      ModuleError: A key is needed, and `key` is `None`.
    """
    if rate in (0.0, 1.0):
        return x if rate == 0.0 else jnp.zeros_like(x)
    if key is None:
        raise ModuleError(
            place="`rngs` of Dropout", given=None, expected="streams, in its call or constructor"
        )
    _, independent = split_axes(broadcast_dims, x.ndim)
    shape = [size if axis in independent else 1 for axis, size in enumerate(x.shape)]
    kept = random.bernoulli(key() if callable(key) else key, 1 - rate, shape)
    scaled = x / (1 - rate)
    kept, zeros = laid_out_like(kept, scaled), laid_out_like(jnp.zeros_like(scaled), scaled)
    return jnp.where(kept, scaled, zeros)
