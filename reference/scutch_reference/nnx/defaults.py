"""The default of `eager_sharding`: whether new variables are sharded, if they do not say.

>>> with use_eager_sharding(False):
...     using_eager_sharding()
False
>>> using_eager_sharding()
True
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

# The one owner of the default. A thread starts with True.
_eager_sharding: ContextVar[bool] = ContextVar("eager_sharding", default=True)


class use_eager_sharding:
    """Shard new variables by their `out_sharding`, or leave them where they are (OBJ-9).

    To make an instance sets the default, from then on. As a context manager, the instance sets it
    back on leaving the block; as a decorator, it is in force in the calls of the function alone.

    Args:
      value: The `eager_sharding` of variables that are made without one.
    """

    current_value = staticmethod(_eager_sharding.get)

    def __init__(self, value: bool, /):
        self._value, self._before = value, _eager_sharding.set(value)

    def __enter__(self) -> None:
        """The default is set already."""

    def __exit__(self, *_: Any) -> None:
        _eager_sharding.reset(self._before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with this default in its calls."""
        self.__exit__()

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with use_eager_sharding(self._value):
                return function(*args, **kwargs)

        return wrapper


def using_eager_sharding() -> bool:
    """Return whether new variables are sharded, if they do not say; see `use_eager_sharding`."""
    return _eager_sharding.get()
