"""Containers that are objects: their elements are attributes, so changes are seen at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence
from typing import Any, Generic, TypeVar

from .objects import Module, attributes_of

A = TypeVar("A")


class List(Module, MutableSequence[A], Generic[A]):
    """A list of data and static elements; element `i` is the attribute `str(i)`."""

    _int_keys = True

    def __init__(self, elements: Iterable[A] = (), /):
        self.extend(elements or ())

    def __len__(self) -> int:
        return len(attributes_of(self))

    def _elements(self) -> list[Any]:
        return [getattr(self, str(i)) for i in range(len(self))]

    def _replace(self, elements: list[Any]) -> None:
        """Set and delete attributes until these are the elements."""
        for i in range(len(elements), len(self)):
            delattr(self, str(i))
        for i, element in enumerate(elements):
            if getattr(self, str(i), None) is not element or str(i) not in attributes_of(self):
                setattr(self, str(i), element)

    def __getitem__(self, index: Any) -> Any:
        return self._elements()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        elements = self._elements()
        elements[index] = value
        self._replace(elements)

    def __delitem__(self, index: Any) -> None:
        elements = self._elements()
        del elements[index]
        self._replace(elements)

    def insert(self, index: int, value: A) -> None:
        """Insert before `index`; later ones move on."""
        elements = self._elements()
        elements.insert(index, value)
        self._replace(elements)

    def append(self, value: A) -> None:
        """Add an element at the end."""
        setattr(self, str(len(self)), value)

    def __iter__(self) -> Iterator[A]:
        return iter(self._elements())

    __hash__ = object.__hash__


class Dict(Module, MutableMapping[str, A], Generic[A]):
    """A dictionary with string keys; the element `key` is the attribute `key`."""

    def __init__(self, *args: Any, **kwargs: Any):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __getitem__(self, key: str) -> Any:
        return attributes_of(self)[key]

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __getattr__(self, key: str) -> Any:
        raise AttributeError(f"The Dict has no {key!r}; it has {tuple(attributes_of(self))!r}.")

    def __delitem__(self, key: str) -> None:
        if key not in attributes_of(self):
            raise KeyError(key)
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(attributes_of(self)))

    def __len__(self) -> int:
        return len(attributes_of(self))

    __hash__ = object.__hash__


class Sequential(Module):
    """Functions and modules, one after the other."""

    def __init__(self, *fns: Callable[..., Any]):
        self.layers = List(fns)

    def __call__(self, *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        """The composition; a tuple becomes positional, a dict keyword arguments of the next."""
        output: Any = None
        for i, function in enumerate(self.layers):
            if i:
                args, kwargs = (output, {}) if isinstance(output, tuple) else ((output,), {})
                if isinstance(output, dict):
                    args, kwargs = (), output
            if rngs is not None and _takes_rngs(function):
                kwargs = {**kwargs, "rngs": rngs}
            output = function(*args, **kwargs)
        return output


def _takes_rngs(function: Callable[..., Any]) -> bool:
    """Whether a function, or the call of a module, has a keyword argument `rngs`."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "rngs" or p.kind is p.VAR_KEYWORD for p in parameters)
