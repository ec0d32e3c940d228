"""The methods of a module, each of which is a function with its options (EXP-2, EXP-3).

The user passes one function and its options, or a mapping of functions and, for each option, a
mapping with the same keys. A *method* here holds one function with the options for its key. Its
*input specs* are the inputs that it is exported for, as trees of `jax.ShapeDtypeStruct`: one with
symbols for sizes that may vary, or one for each combination of the sizes that are listed.

>>> x = np.zeros((3, 2))
>>> Method(np.dot, "b, 2", None, {}, jit_compile=True).input_specs(x)
[ShapeDtypeStruct(shape=(b, 2), dtype=float32)]
>>> listed = Method(np.dot, "b, 2", {"b": (1, 3)}, {}, jit_compile=True)
>>> [spec.shape for spec in listed.input_specs(x)]
[(1, 2), (3, 2)]
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.export import symbolic_args_specs, symbolic_shape

from ..types import Prefix, Tree
from .constants import DEFAULT_METHOD_KEY
from .errors import ExportOptionError, MethodKeysError

ApplyFn: TypeAlias = Callable[[Any, Any], Any]
"""A JAX function `apply_fn(params, x)` of a tree of parameters and a tree of inputs."""


@dataclass(frozen=True)
class Method:
    """One function, and how it is to be exported.

    Args:
      function: `apply_fn(params, x)`.
      polymorphic_shape: The shape of `x` with symbols for sizes that may vary, in the notation of
        `jax.export`, such as `"b, 4"`; a tree of such shapes for a tree `x`; or `None` for the
        shapes of the `x` that is passed to `input_specs`.
      symbol_values: For each symbol of the shape the sizes that it may have; `None` for all.
      options: Options of the conversion, but for shapes and gradients.
      jit_compile: Whether TensorFlow compiles the converted function with XLA.
    """

    function: ApplyFn
    polymorphic_shape: Any
    symbol_values: Mapping[str, tuple[int, ...]] | None
    options: Mapping[str, Any]
    jit_compile: bool

    def input_specs(self, x: Tree) -> list[Any]:
        """The inputs that the method is exported for, as trees of `jax.ShapeDtypeStruct`.

        Args:
          x: An input; its dtypes count, and its shapes where the polymorphic shape is silent.

        Raises:
          ValueError: The polymorphic shape does not admit the shapes of `x` (EXP-1d).
        """
        specs = jax.eval_shape(lambda leaf: leaf, x)  # dtypes are those of JAX: no float64
        if self.polymorphic_shape is not None:
            constraints = tuple(self.options.get("polymorphic_constraints", ()))
            specs = symbolic_args_specs(specs, self.polymorphic_shape, constraints=constraints)
        if self.symbol_values is None:
            return [specs]
        chosen = itertools.product(*self.symbol_values.values())
        return [_with_sizes(specs, dict(zip(self.symbol_values, c, strict=True))) for c in chosen]

    def input_spec(self, x: Tree) -> Tree:
        """The one of `input_specs` that takes an input.

        Raises:
          ExportOptionError: The sizes of `x` are none of those that `symbol_values` lists.
          ValueError: As `input_specs`.
        """
        specs = self.input_specs(x)
        found = next((spec for spec in specs if _takes(spec, x)), None)
        if found is None:
            remedy = f"The input has the shapes {jax.tree.map(np.shape, x)!r}, which it leaves out."
            option = "input_polymorphic_shape_symbol_values"
            raise ExportOptionError(option=option, given=self.symbol_values, remedy=remedy)
        return found


def _with_sizes(specs: Prefix, sizes: Mapping[str, int]) -> Any:
    """The specs with sizes in the place of symbols."""
    equal = [f"{symbol} == {size}" for symbol, size in sizes.items()]

    def sized(spec: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        shape = symbolic_shape(str(spec.shape), constraints=equal)
        return jax.ShapeDtypeStruct(shape, spec.dtype)  # type: ignore[no-untyped-call]

    return jax.tree.map(sized, specs)


def _takes(specs: Prefix, x: Tree) -> bool:
    """Whether an input has the sizes of a spec, where these are no symbols."""
    pairs = zip(jax.tree.leaves(specs), jax.tree.leaves(x), strict=True)
    return all(
        not isinstance(wanted, int) or wanted == size
        for spec, leaf in pairs
        for wanted, size in zip(spec.shape, np.shape(leaf), strict=True)
    )


def methods(
    apply_fn: ApplyFn | Mapping[str, ApplyFn],
    *,
    input_polymorphic_shape: Prefix,
    symbol_values: Any,
    jax2tf_kwargs: Any,
    jit_compile: Any,
    with_gradient: bool,
) -> dict[str, Method]:
    """The methods by key, each of which joins one function with its options from `JaxModule`.

    Where `apply_fn` is a mapping, an option that is `None` or a boolean stands for all functions.

    Args:
      apply_fn: A function `apply_fn(params, x)`, which gets the key `DEFAULT_METHOD_KEY`; or a
        mapping of keys to at least one such function.
      input_polymorphic_shape: The `polymorphic_shape` of the `Method`, or, where `apply_fn` is a
        mapping, a mapping of its keys to them. The same holds for the next three.
      symbol_values: The `symbol_values` of the `Method`; errors call it by its name in `JaxModule`,
        `input_polymorphic_shape_symbol_values`.
      jax2tf_kwargs: The options of the conversion, without `polymorphic_shapes`.
      jit_compile: Whether TensorFlow compiles the converted function with XLA.
      with_gradient: Whether any parameter is trainable; an option of that name must agree.

    Returns:
      A `Method` for each key, in the order of `apply_fn`.

    Raises:
      MethodKeysError: An argument has other keys than `apply_fn`, or is no mapping (EXP-2).
      ExportOptionError: `apply_fn` or an option cannot be followed (EXP-2g, EXP-3d, EXP-3e).
    """
    arguments = {
        "input_polymorphic_shape": input_polymorphic_shape,
        "input_polymorphic_shape_symbol_values": symbol_values,
        "jax2tf_kwargs": jax2tf_kwargs,
        "jit_compile": jit_compile,
    }
    if callable(apply_fn):
        functions: Mapping[str, ApplyFn] = {DEFAULT_METHOD_KEY: apply_fn}
        arguments = {name: {DEFAULT_METHOD_KEY: given} for name, given in arguments.items()}
    else:
        functions = apply_fn
        if not (
            isinstance(functions, Mapping) and functions and all(map(callable, functions.values()))
        ):
            remedy = "Pass a function, or a mapping with at least one function."
            raise ExportOptionError(option="apply_fn", given=apply_fn, remedy=remedy)
        arguments = {name: _by_key(name, functions, given) for name, given in arguments.items()}
    return {
        key: Method(
            function,
            arguments["input_polymorphic_shape"][key],
            arguments["input_polymorphic_shape_symbol_values"][key],
            _options(arguments["jax2tf_kwargs"][key], with_gradient),
            bool(arguments["jit_compile"][key]),
        )
        for key, function in functions.items()
    }


def _by_key(argument: str, functions: Mapping[str, ApplyFn], given: Tree) -> Mapping[str, Any]:
    """An argument as a mapping with the keys of the functions."""
    if given is None or isinstance(given, bool):
        return dict.fromkeys(functions, given)
    if not isinstance(given, Mapping) or set(given) != set(functions):
        raise MethodKeysError(argument=argument, keys=list(functions), given=given)
    return given


def _options(given: Mapping[str, Any] | None, with_gradient: bool) -> dict[str, Any]:
    """The conversion options of one method, which must agree with `trainable`."""
    options = dict(given or {})
    if "polymorphic_shapes" in options:
        remedy = "Pass the shape of the input as `input_polymorphic_shape` instead."
        raise ExportOptionError(
            option="polymorphic_shapes", given=options["polymorphic_shapes"], remedy=remedy
        )
    wanted = options.pop("with_gradient", with_gradient)
    if wanted != with_gradient:
        raise ExportOptionError(
            option="with_gradient",
            given=wanted,
            remedy=f"The module {'contains' if with_gradient else 'does not contain'} trainable "
            "variables; leave it out, or change `trainable`.",
        )
    return options
