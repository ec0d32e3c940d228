"""Modules: objects with the methods that models use, and containers, which are modules.

A `List` or `Dict` holds its elements as attributes, so it reports its changes, as a plain list does
not; both may be used in models.

>>> from scutch_reference import nnx
>>> layers = List([nnx.Param(1.0), "static"])
>>> layers.append(nnx.Param(2.0))
>>> [path for path, _ in nnx.to_flat_state(nnx.state(layers))]
[(0,), (2,)]
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence
from typing import Any, Generic, SupportsIndex

import jax

from ..errors import DataError
from ..types import Tree
from .filters import Filter, Path, to_predicate
from .graph import clone
from .node_types import put, take
from .objects import Elements, Pytree, attributes_of
from .traversals import iter_children, iter_graph
from .variables import A, Perturbation, Variable


class Module(Pytree):
    """An object with the methods that models use."""

    def set_attributes(
        self,
        *filters: Filter,
        raise_if_not_found: bool = True,
        graph: Any = None,
        **attributes: Tree,
    ) -> None:
        """Set attributes on this module, and on those in it, that have them (OBJ-5).

        Args:
          *filters: Only modules that one of these takes are changed; without filters, all.
          raise_if_not_found: Whether each attribute must be there at least once.
          graph: Accepted and not needed: sharing is always kept.
          **attributes: The new values by name.

        Raises:
          DataError: `raise_if_not_found`, and no such module has an attribute of a name.
        """
        predicate = to_predicate(filters or ...)
        missing = set(attributes)
        for path, module in Module.iter_modules(self):
            for name, value in attributes.items():
                if predicate(path, module) and hasattr(module, name):
                    missing.discard(name)
                    setattr(module, name, value)
        if missing and raise_if_not_found:
            raise DataError(
                place="names of attributes",
                given=sorted(missing),
                expected=f"attributes of a module that {filters!r} takes",
            )

    def train(self, *filters: Filter, **attributes: Tree) -> None:
        """Let layers that behave differently in training do so (OBJ-5).

        Sets `deterministic` and `use_running_average` to False, where they are.

        Args:
          *filters: See `set_attributes`.
          **attributes: More of them to set.
        """
        self.set_attributes(
            *filters,
            **{
                "raise_if_not_found": False,
                "deterministic": False,
                "use_running_average": False,
                **attributes,
            },
        )

    def eval(self, *filters: Filter, **attributes: Tree) -> None:
        """Let layers behave as after training; see `train` (OBJ-5).

        Args:
          *filters: See `set_attributes`.
          **attributes: More of them to set.
        """
        self.train(*filters, **{"deterministic": True, "use_running_average": True, **attributes})

    def iter_modules(self: Any, *, graph: Any = None) -> Iterator[tuple[Path, "Module"]]:
        """Return an iterator over paths and modules, this one included, inner ones first (OBJ-1).

        Args:
          graph: Accepted and not needed: sharing is always kept.
        """
        return ((path, node) for path, node in iter_graph(self) if isinstance(node, Module))

    iter_children = iter_children

    def sow(
        self,
        variable_type: type[Variable[Any]],
        name: str,
        value: Tree,
        reduce_fn: Callable[[Any, Any], Any] = lambda old, new: (*old, new),
        init_fn: Callable[[], Any] = tuple,
    ) -> bool:
        """Keep an intermediate value in a variable of this module.

        Args:
          variable_type: The type of the variable, if this call makes it.
          name: The attribute of the variable.
          value: The value to keep.
          reduce_fn: Makes the new content from the old one and the value; by default, a tuple.
          init_fn: Makes the old content for the first call, which finds no variable.

        Returns:
          True: the value was kept.
        """
        old = attributes_of(self).get(name)
        if old is None:
            setattr(self, name, variable_type(reduce_fn(init_fn(), value)))
        else:
            old.set_value(reduce_fn(old.get_value(), value))
        return True

    def perturb(
        self, name: str, value: Tree, variable_type: type[Variable[Any]] = Perturbation
    ) -> Tree:
        """Add a variable to a value: zero at first, so that its gradient is that of the value.

        Args:
          name: The attribute of the variable, which is made if it is not there.
          value: An array.
          variable_type: The type of the variable.

        Returns:
          The sum, of the shape of the value.
        """
        if name not in attributes_of(self):
            setattr(self, name, variable_type(jax.numpy.zeros_like(value)))
        return value + getattr(self, name).get_value()


iter_modules = Module.iter_modules


def iter_module_children(
    node: Tree, /, *, graph: bool | None = None
) -> Iterator[tuple[Any, Module]]:
    """Return an iterator over names and modules directly inside an object (OBJ-1).

    Args:
      node: An object.
      graph: Accepted, here and below, and not needed: sharing is always kept.
    """
    return ((key, child) for key, child in iter_children(node) if isinstance(child, Module))


def with_attributes(
    node: A,
    /,
    *,
    only: Filter = ...,
    raise_if_not_found: bool = True,
    graph: bool | None = None,
    **attributes: Tree,
) -> A:
    """Return a copy in which modules have other attributes; see `Module.set_attributes` (OBJ-5).

    Args:
      node: An object, or a tree of objects and arrays.
      only: A filter that says which modules.
      raise_if_not_found: Whether each attribute must be there at least once.
      graph: Accepted and not needed: sharing is always kept.
      **attributes: The new values by name.

    Returns:
      An object, or tree, of the same structure, with the same arrays.

    Raises:
      DataError: `raise_if_not_found`, and no such module has an attribute of a name.
    """
    copy: Any = clone(node)
    Module.set_attributes(copy, only, raise_if_not_found=raise_if_not_found, **attributes)
    return copy  # type: ignore[no-any-return]


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def view(
    node: A,
    /,
    *,
    only: Filter = ...,
    raise_if_not_found: bool = True,
    graph: bool | None = None,
    **options: Any,
) -> A:
    """Return a copy whose modules behave differently, such as in training and after (OBJ-5).

    Each module with a method `set_view` is handed those options that the method has a parameter
    for, by name.

    Args:
      node: An object, or a tree of objects and arrays.
      only: A filter that says which modules.
      raise_if_not_found: Whether a module must take each option.
      graph: Accepted and not needed: sharing is always kept.
      **options: The options by name, such as `deterministic` and `use_running_average`.

    Returns:
      An object, or tree, of the same structure, with the same arrays.

    Raises:
      DataError: `raise_if_not_found`, and no such module takes an option.
    """
    copy, predicate, unused = clone(node), to_predicate(only), set(options)
    for path, module in iter_graph(copy):
        if hasattr(module, "set_view") and predicate(path, module):
            parameters = inspect.signature(module.set_view).parameters.values()
            open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
            by_name = [p.name for p in parameters if p.kind in _BY_NAME]
            taken = {k: v for k, v in options.items() if open_ended or k in by_name}
            module.set_view(**taken)
            unused -= taken.keys()
    if unused and raise_if_not_found:
        raise DataError(
            place="names of options",
            given=sorted(unused),
            expected=f"parameters of `set_view` of a module that {only!r} takes",
        )
    return copy


class List(Elements, Module, MutableSequence[A], Generic[A]):
    """A list of data and static elements; element `i` is the attribute `i` (OBJ-5).

    Args:
      elements: The elements.
    """

    __hash__ = object.__hash__

    def __init__(self, elements: Iterable[A] = (), /):
        self.extend(elements or ())

    def __iter__(self) -> Iterator[A]:
        return map(attributes_of(self).__getitem__, range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def append(self, value: A) -> None:
        """Add an element at the end."""
        put(self, len(self), value)

    def __setitem__(self, index: Any, value: Tree) -> None:
        self._edit(list.__setitem__, index, value)

    def __delitem__(self, index: Any) -> None:
        self._edit(list.__delitem__, index)

    def insert(self, index: SupportsIndex, value: A) -> None:
        """Add an element before another.

        Args:
          index: The index of that element, before the new one is added. As in `list.insert`,
            negative ones count from the end, and one beyond the end appends.
          value: The new element.
        """
        self._edit(list.insert, index, value)

    def _edit(self, edit: Callable[..., None], *args: Tree) -> None:
        """Edit a plain list, and set and delete attributes until they are its elements."""
        old = list(self)
        new = list(old)
        edit(new, *args)
        for i in range(len(new), len(old)):
            take(self, i)
        for i, element in enumerate(new):
            if i >= len(old) or element is not old[i]:
                put(self, i, element)


class Dict(Elements, Module, MutableMapping[str, A], Generic[A]):
    """A dictionary with string keys; the element `key` is the attribute `key` (OBJ-5).

    Args:
      *args: A mapping or pairs, as for `dict`.
      **kwargs: Elements by key.
    """

    __hash__ = object.__hash__
    __setitem__ = Module.__setattr__
    __delitem__ = take

    def __init__(self, *args: Tree, **kwargs: Tree):
        self.update(*args, **kwargs)

    def __getitem__(self, key: str) -> Any:
        return attributes_of(self)[key]


class Sequential(Module):
    """The composition of functions and modules.

    Args:
      *fns: The functions; the first is called first.
    """

    def __init__(self, *fns: Callable[..., Any]):
        self.layers = List(fns)

    def __call__(self, *args: Tree, rngs: Any = None, **kwargs: Tree) -> Tree:
        """Call the functions one after the other.

        Args:
          *args: Arguments of the first function. A further function gets the tuple that the
            function before it returned, or any other output as its only argument.
          rngs: Passed to each function that has a parameter of this name.
          **kwargs: Keyword arguments of the first function. A further function gets the dictionary
            that the function before it returned, if it returned one.

        Returns:
          The output of the last function.
        """
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
