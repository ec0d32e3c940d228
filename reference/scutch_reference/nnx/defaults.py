"""Defaults of options: `eager_sharding` of variables, `graph` and `graph_updates` of functions.

>>> with use_eager_sharding(False):
...     using_eager_sharding()
False
>>> using_eager_sharding()
True
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

from ..types import Tree


class _Default:
    """A default, of which a subclass is the one owner; a thread starts with True.

    To make an instance sets the default, from then on. As a context manager, the instance sets it
    back on leaving the block; as a decorator, it is in force in the calls of the function alone.
    """

    _held: ClassVar[ContextVar[bool]]
    current_value: ClassVar[Callable[[], bool]]

    def __init_subclass__(cls) -> None:
        cls._held = ContextVar(cls.__name__, default=True)
        cls.current_value = staticmethod(cls._held.get)

    def __init__(self, value: bool, /):
        self._value, self._before = value, self._held.set(value)

    def __enter__(self) -> None:
        """The default is set already."""

    def __exit__(self, *_: object) -> None:
        self._held.reset(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with this default in its calls."""
        self.__exit__()

        @functools.wraps(function)
        def wrapper(*args: Tree, **kwargs: Tree) -> Tree:
            with type(self)(self._value):
                return function(*args, **kwargs)

        return wrapper


class use_eager_sharding(_Default):
    """Shard new variables by their `out_sharding`, or leave them where they are (OBJ-9).

    Args:
      value: The `eager_sharding` of variables that are made without one.
    """


class set_graph_mode(_Default):
    """Set the default of the option `graph`, which is not needed here: sharing is always kept.

    Args:
      value: The default.
    """


class set_graph_updates(_Default):
    """Set the default of `graph_updates`, for functions that are lifted from then on (JIT-12).

    Args:
      value: Whether a lifted function may change the structure of its arguments.
    """


def using_eager_sharding() -> bool:
    """Return whether new variables are sharded, if they do not say; see `use_eager_sharding`."""
    return use_eager_sharding.current_value()


def updating_graph(option: bool | None) -> bool:
    """Return the option `graph_updates`, or its default where it is None.

    Args:
      option: The option of a call, or None.
    """
    return set_graph_updates.current_value() if option is None else option
