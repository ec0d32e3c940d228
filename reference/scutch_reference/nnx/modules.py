"""Modules: objects with the methods that models use, and containers, which are modules."""

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence
from typing import Any, Generic, TypeVar

import jax

from ..errors import DataError
from .filters import Path, to_predicate
from .graph import iter_children, iter_graph
from .graphdef import put, take
from .objects import Pytree, attributes_of
from .variables import Perturbation, Variable

A = TypeVar("A")
Kind = type[Variable[Any]]


class Module(Pytree):
    """An object with the methods that models use."""

    def set_attributes(
        self, *filters: Any, raise_if_not_found: bool = True, graph: Any = None, **attributes: Any
    ) -> None:
        """Set attributes on all modules that have them, and that a filter takes."""
        predicate = to_predicate(filters or ...)
        missing = set(attributes)
        for path, module in self.iter_modules():
            for name, value in attributes.items():
                if predicate(path, module) and hasattr(module, name):
                    missing.discard(name)
                    setattr(module, name, value)
        if missing and raise_if_not_found:
            raise DataError(f"No module that {filters!r} takes has the attributes {missing!r}.")

    # Layers that behave differently in training have these attributes.
    train = functools.partialmethod(
        set_attributes, raise_if_not_found=False, deterministic=False, use_running_average=False
    )
    eval = functools.partialmethod(
        set_attributes, raise_if_not_found=False, deterministic=True, use_running_average=True
    )

    def iter_modules(self: Any, *, graph: Any = None) -> Iterator[tuple[Path, "Module"]]:
        """Paths and modules, this one included."""
        return ((path, node) for path, node in iter_graph(self) if isinstance(node, Module))

    iter_children = iter_children

    def sow(
        self,
        variable_type: Kind,
        name: str,
        value: Any,
        reduce_fn: Callable[[Any, Any], Any] = lambda old, new: (*old, new),
        init_fn: Callable[[], Any] = tuple,
    ) -> bool:
        """Keep an intermediate value in a variable under `name`."""
        old = attributes_of(self).get(name)
        if old is None:
            setattr(self, name, variable_type(reduce_fn(init_fn(), value)))
        else:
            old.set_value(reduce_fn(old.get_value(), value))
        return True

    def perturb(self, name: str, value: Any, variable_type: Kind = Perturbation) -> Any:
        """Add a variable under `name`, zero at first, whose gradient is that of `value`."""
        if name not in attributes_of(self):
            setattr(self, name, variable_type(jax.numpy.zeros_like(value)))
        return value + getattr(self, name).get_value()


iter_modules = Module.iter_modules


class List(Module, MutableSequence[A], Generic[A]):
    """A list of data and static elements; element `i` is the attribute `i`."""

    __hash__ = object.__hash__

    def __init__(self, elements: Iterable[A] = (), /):
        self.extend(elements or ())

    def __len__(self) -> int:
        return len(attributes_of(self))

    def __iter__(self) -> Iterator[A]:
        return map(attributes_of(self).__getitem__, range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def append(self, value: A) -> None:
        """Add an element at the end."""
        put(self, len(self), value)

    def _change(self, how: Callable[..., None], *args: Any) -> None:
        """Do it to a plain list, and set and delete attributes until they are its elements."""
        old = list(self)
        how(new := list(old), *args)
        for i in range(len(new), len(old)):
            take(self, i)
        for i, element in enumerate(new):
            if i >= len(old) or element is not old[i]:
                put(self, i, element)

    __setitem__ = functools.partialmethod(_change, operator.setitem)
    __delitem__ = functools.partialmethod(_change, operator.delitem)
    insert = functools.partialmethod(_change, list.insert)


class Dict(Module, MutableMapping[str, A], Generic[A]):
    """A dictionary with string keys; the element `key` is the attribute `key`."""

    __hash__ = object.__hash__
    __setitem__ = Module.__setattr__
    __delitem__ = take

    def __init__(self, *args: Any, **kwargs: Any):
        self.update(*args, **kwargs)

    def __len__(self) -> int:
        return len(attributes_of(self))

    def __iter__(self) -> Iterator[str]:
        return iter(attributes_of(self))

    def __getitem__(self, key: str) -> Any:
        return attributes_of(self)[key]


class Sequential(Module):
    """Functions and modules, one after the other."""

    def __init__(self, *fns: Callable[..., Any]):
        self.layers = List(fns)

    def __call__(self, *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        """The composition; a tuple becomes positional, a dict keyword arguments of the next."""
        output = None
        for function in self.layers:
            parameters = inspect.signature(function).parameters.values() if rngs is not None else ()
            if any(p.name == "rngs" or p.kind is p.VAR_KEYWORD for p in parameters):
                kwargs = {**kwargs, "rngs": rngs}
            output = function(*args, **kwargs)
            args, kwargs = output if isinstance(output, tuple) else (output,), {}
            if isinstance(output, dict):
                args, kwargs = (), output
        return output
