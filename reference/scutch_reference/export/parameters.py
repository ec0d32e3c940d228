"""The parameters of a module: a tree of arrays, and what is said about each leaf.

The *slots* of a module are the leaves of its parameters in the order of `jax.tree.leaves`. A slot
has the *name* of its variable, which follows the path of the leaf; its shape and dtype, which never
change; and it says whether the variable is trainable and how it is sharded. Backends know slots and
flat lists of values only: no container and no box of the user's ever meets TensorFlow.

>>> layout = Layout.of({"b": {"~": np.zeros(3)}, "a": [np.ones(2)]}, trainable=True, pspecs=None)
>>> [slot.name for slot in layout.slots]
['a.0', 'b._']
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec
from jax.tree_util import keystr, tree_flatten_with_path

from .errors import ParameterError, ParameterStructureError, ParameterUpdateError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Slot:
    """What is said about one leaf of the parameters.

    Args:
      name: Of its variable.
      path: Of the leaf, for messages, as JAX prints it: `['a'][0]`.
      shape: Of the leaf.
      dtype: Of the leaf.
      trainable: Whether gradients flow to its variable.
      spec: Its partition spec; `None` where no specs were given.
    """

    name: str
    path: str
    shape: tuple[int, ...]
    dtype: Any
    trainable: bool
    spec: PartitionSpec | None


@dataclass(frozen=True)
class Layout:
    """The slots of a module, and the structure of its parameters."""

    slots: tuple[Slot, ...]
    structure: Any

    @property
    def sharded(self) -> bool:
        """Whether partition specs were given."""
        return any(slot.spec is not None for slot in self.slots)

    @classmethod
    def of(cls, params: Any, trainable: Any, pspecs: Any) -> "Layout":
        """The layout of parameters.

        Args:
          params: A tree of arrays.
          trainable: A boolean for all, or a tree of booleans with the structure of `params`.
          pspecs: `None`, or a tree of partition specs with the structure of `params`; `None` in the
            place of a spec is unsharded.

        Raises:
          ParameterError: A leaf is no array of numbers, or no boolean in `trainable`.
          ParameterStructureError: `trainable` or `pspecs` has another structure.
        """
        found, structure = tree_flatten_with_path(params)
        paths = [keystr(path) for path, _ in found]
        leaves = [_array(path, leaf) for path, (_, leaf) in zip(paths, found, strict=True)]
        flags = [trainable] * len(leaves)
        if not isinstance(trainable, bool | np.bool_):
            flags = _along(structure, "trainable", trainable)
        for path, flag in zip(paths, flags, strict=True):
            if not isinstance(flag, bool | np.bool_):
                raise ParameterError(path, flag, "True or False in `trainable`")
        specs: list[Any] = [None] * len(leaves)
        if pspecs is not None:
            specs = [spec or PartitionSpec() for spec in _along(structure, "pspecs", pspecs)]
        slots = zip(_names(params), paths, leaves, flags, specs, strict=True)
        return cls(
            tuple(Slot(n, p, x.shape, x.dtype, bool(flag), s) for n, p, x, flag, s in slots),
            structure,
        )

    def leaves(self, params: Any) -> list[Any]:
        """The leaves of parameters that fit the slots; arrays of NumPy are copied.

        Raises:
          ParameterStructureError: The structure is another (EXP-4c).
          ParameterUpdateError: A shape or dtype is another (EXP-4d, EXP-4e).
          ParameterError: A leaf is no array of numbers.
        """
        found, structure = jax.tree.flatten(params)
        if structure != self.structure:
            raise ParameterStructureError("params", self.structure, structure)
        leaves = [_array(slot.path, leaf) for slot, leaf in zip(self.slots, found, strict=True)]
        for slot, leaf in zip(self.slots, leaves, strict=True):
            for part in ("shape", "dtype"):
                expected, given = getattr(slot, part), getattr(leaf, part)
                if expected != given:
                    raise ParameterUpdateError(slot.path, part, expected, given)
        return leaves

    def tree(self, leaves: Sequence[Any]) -> Any:
        """The leaves in the structure of the parameters."""
        return jax.tree.unflatten(self.structure, leaves)


def _array(path: str, leaf: Any) -> Any:
    """The leaf as an array of its own in a dtype that JAX computes with at present."""
    expected = "an array of numbers; a class of your own must be registered as a pytree node"
    if not isinstance(leaf, np.ndarray | np.generic | jax.Array):
        raise ParameterError(path, leaf, expected)
    if isinstance(leaf, jax.core.Tracer) or jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise ParameterError(path, leaf, f"{expected}, and neither a tracer nor PRNG keys")
    if isinstance(leaf, jax.Array):
        return leaf
    return np.array(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))


def _along(structure: Any, argument: str, tree: Any) -> list[Any]:
    """What `tree` has at each leaf of a structure."""
    try:
        return list(structure.flatten_up_to(tree))
    except ValueError as error:
        given = jax.tree.structure(tree, is_leaf=lambda x: isinstance(x, PartitionSpec))
        raise ParameterStructureError(argument, structure, given) from error


def _names(params: Any) -> list[str]:
    """The names of variables: the keys of each path, joined by dots, with `_` for `~` (EXP-5).

    Where the tree of these names is no tree of the same structure, because a node loses what is
    put into it, the variables are numbered instead, and a warning is logged.
    """
    found, structure = tree_flatten_with_path(params)
    names = [".".join(map(_key_name, path)).replace("~", "_") for path, _ in found]
    try:
        keeps = jax.tree.structure(jax.tree.unflatten(structure, names)) == structure
    except Exception:  # what a user's node raises when it is given a name for an array
        keeps = False
    if keeps:
        return names
    _logger.warning(
        "The variables are called jax_param_0, jax_param_1, ...: their names cannot be laid out "
        "like the parameters, whose structure is %s.",
        structure,
    )
    return [f"jax_param_{index}" for index in range(len(found))]


def _key_name(key: Any) -> str:
    """The name of one key of a path: that of an entry of a dictionary, an attribute or an index."""
    for part in ("key", "name", "idx"):
        if hasattr(key, part):
            return str(getattr(key, part))
    return str(key)
