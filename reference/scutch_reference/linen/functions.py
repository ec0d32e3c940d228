"""`init` and `apply` of any function of a module, as functions of keys or variables.

`Module.init` and `Module.apply` call a method of the module. The functions here take any function
whose first argument is a module, and return a function that `jax.jit` can compile.

>>> import jax, jax.numpy as jnp
>>> from scutch_reference.linen import Dense
>>> def twice(dense, x):
...     return dense(dense(x))
>>> variables = init(twice, Dense(2))(jax.random.key(0), jnp.ones((1, 2)))
>>> jax.jit(apply(twice, Dense(2)))(variables, jnp.ones((1, 2))).shape
(1, 2)
"""

import functools
from collections.abc import Callable
from typing import Any

from ..functional import A, flag
from .module import ALL_BUT_INTERMEDIATES, Fn, Module
from .scope import Filter


def init_with_output(
    fn: Fn,
    module: Module,
    mutable: Filter = ALL_BUT_INTERMEDIATES,
    capture_intermediates: bool | Fn = False,
) -> Callable[..., tuple[Any, dict[str, Any]]]:
    """Return a function that makes variables with `fn`, and returns its output and the variables.

    Args:
      fn: A function whose first argument is the module.
      module: The module, unbound.
      mutable: A filter of the collections that are made.
      capture_intermediates: As for `Module.apply`.

    Returns:
      A function of keys and the other arguments of `fn`, as `Module.init_with_output`.
    """
    return functools.partial(
        module.init_with_output,
        method=fn,
        mutable=mutable,
        capture_intermediates=capture_intermediates,
    )


def init(
    fn: Fn,
    module: Module,
    mutable: Filter = ALL_BUT_INTERMEDIATES,
    capture_intermediates: bool | Fn = False,
) -> Callable[..., dict[str, Any]]:
    """Return a function that makes variables with `fn`, and returns them.

    Args:
      fn, module, mutable, capture_intermediates: As for `init_with_output`.

    Returns:
      A function of keys and the other arguments of `fn`, as `Module.init`.
    """
    return functools.partial(
        module.init, method=fn, mutable=mutable, capture_intermediates=capture_intermediates
    )


def apply(
    fn: Fn, module: Module, mutable: Filter = False, capture_intermediates: bool | Fn = False
) -> Callable[..., Any]:
    """Return a function that calls `fn` with the module and variables, as `Module.apply`.

    Args:
      fn: A function whose first argument is the module.
      module: The module, unbound.
      mutable, capture_intermediates: As for `Module.apply`.

    Returns:
      A function of variables and the other arguments of `fn`, with the keyword `rngs`.
    """
    return functools.partial(
        module.apply, method=fn, mutable=mutable, capture_intermediates=capture_intermediates
    )


def merge_param(name: str, a: A | None, b: A | None) -> A:
    """Return the value of an option that is given to the constructor or to the call, not to both.

    Args:
      name: The option, for the error.
      a, b: The two values; `None` where the option is not given.

    Returns:
      The value that is not `None`.

    Raises:
      ModuleError: Both values are given, or neither is.
    """
    return flag(name, a, b, once=True)
