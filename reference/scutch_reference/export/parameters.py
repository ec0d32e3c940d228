"""The parameters of a module, which are a tree of arrays, and a description of each array.

A `Parameter` describes one leaf of the tree: the *name* of its variable, which follows the path of
the leaf; its shape and dtype, which never change; whether the variable is trainable; and how it is
sharded. A `ParameterTree` has one for each leaf, in the order of `jax.tree.leaves`. Backends get
flat lists of arrays in that order: no container and no box of the user's ever meets TensorFlow.

>>> params = {"b": {"~": np.zeros(3)}, "a": [np.ones(2)]}
>>> tree = ParameterTree.of(params, trainable=True, pspecs=None)
>>> [parameter.name for parameter in tree.parameters]
['a.0', 'b._']
"""

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec
from jax.tree_util import keystr, tree_flatten_with_path

from ..jax_versions import Tracer
from ..placement import partition_spec
from ..types import Leaf, Tree
from .errors import ParameterError, ParameterStructureError, ParameterUpdateError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parameter:
    """The description of one leaf of the tree of parameters.

    Args:
      name: The name of the variable for the leaf.
      path: The path of the leaf as JAX prints it, for messages: `['a'][0]`.
      shape, dtype: The shape and the dtype of the leaf.
      trainable: Whether gradients flow to the variable.
      spec: The partition spec of the leaf; `None` where no specs were given.
    """

    name: str
    path: str
    shape: tuple[int, ...]
    dtype: Any
    trainable: bool
    spec: PartitionSpec | None


@dataclass(frozen=True)
class ParameterTree:
    """The description of each leaf, in the order of the leaves, and the structure of the tree.

    Args:
      parameters: A description for each leaf.
      structure: The structure of the tree, a `PyTreeDef`.
    """

    parameters: tuple[Parameter, ...]
    structure: Any

    @property
    def sharded(self) -> bool:
        """Whether partition specs were given."""
        return any(parameter.spec is not None for parameter in self.parameters)

    @classmethod
    def of(cls, params: Tree, trainable: Tree, pspecs: Tree) -> "ParameterTree":
        """Describe the leaves of a tree.

        Args:
          params: A tree of arrays.
          trainable: A boolean for all, or a tree of booleans with the structure of `params`.
          pspecs: `None`, or a tree of partition specs with the structure of `params`; `None` in the
            place of a spec is unsharded.

        Returns:
          The description, with a `Parameter` for each leaf in the order of `jax.tree.leaves`.

        Raises:
          ParameterError: A leaf is no array of numbers, or no boolean in `trainable`.
          ParameterStructureError: `trainable` or `pspecs` has another structure.
        """
        found, structure = tree_flatten_with_path(params)
        flags: list[Any] = [trainable] * len(found)
        if not isinstance(trainable, bool | np.bool_):
            flags = _along(structure, "trainable", trainable)
        specs: list[Any] = [None] * len(found)
        if pspecs is not None:
            specs = [spec or partition_spec(()) for spec in _along(structure, "pspecs", pspecs)]
        parameters = []
        for name, (path, leaf), flag, spec in zip(_names(params), found, flags, specs, strict=True):
            shown = keystr(path)
            array = _array(shown, leaf)
            if not isinstance(flag, bool | np.bool_):
                raise ParameterError(
                    path=shown, given=flag, expected="True or False in `trainable`"
                )
            parameters.append(Parameter(name, shown, array.shape, array.dtype, bool(flag), spec))
        return cls(tuple(parameters), structure)

    def leaves(self, params: Tree) -> list[Any]:
        """Return the leaves of a tree, which must fit the description; NumPy's arrays are copied.

        Raises:
          ParameterStructureError: The structure is another (EXP-4c).
          ParameterUpdateError: A shape or dtype is another (EXP-4d, EXP-4e).
          ParameterError: A leaf is no array of numbers.
        """
        found, structure = jax.tree.flatten(params)
        if self.structure != structure:
            raise ParameterStructureError(
                argument="params", expected=self.structure, given=structure
            )
        leaves = [_array(p.path, leaf) for p, leaf in zip(self.parameters, found, strict=True)]
        for parameter, leaf in zip(self.parameters, leaves, strict=True):
            for part in ("shape", "dtype"):
                expected, given = getattr(parameter, part), getattr(leaf, part)
                if expected != given:
                    raise ParameterUpdateError(
                        path=parameter.path, part=part, expected=expected, given=given
                    )
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The leaves in the tree's containers."""
        return jax.tree.unflatten(self.structure, leaves)


def _array(path: str, leaf: Leaf) -> Tree:
    """The leaf as an array of its own in a dtype that JAX computes with at present."""
    expected = "an array of numbers; a class of your own must be registered as a pytree node"
    if not isinstance(leaf, np.ndarray | np.generic | jax.Array):
        raise ParameterError(path=path, given=leaf, expected=expected)
    if isinstance(leaf, Tracer) or jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise ParameterError(
            path=path, given=leaf, expected=f"{expected}, and neither a tracer nor PRNG keys"
        )
    if isinstance(leaf, jax.Array):
        return leaf
    return np.array(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))


def _along(structure: Any, argument: str, tree: Tree) -> list[Any]:
    """The subtree of `tree` at each leaf of a structure."""
    try:
        return list(structure.flatten_up_to(tree))
    except ValueError as error:
        given = jax.tree.structure(tree, is_leaf=lambda x: isinstance(x, PartitionSpec))
        raise ParameterStructureError(argument=argument, expected=structure, given=given) from error


def _names(params: Tree) -> list[str]:
    """The names of variables, which are the keys of a path joined by dots, `_` for `~` (EXP-5).

    If a tree of these names does not have the structure of the parameters, because a user's node
    refuses or drops its children, the variables are numbered instead, and a warning is logged.
    """
    found, structure = tree_flatten_with_path(params)
    names = [".".join(map(_key_name, path)).replace("~", "_") for path, _ in found]
    try:
        rebuilt: Any = jax.tree.structure(jax.tree.unflatten(structure, names))
        keeps = rebuilt == structure
    except Exception:  # A user's node may refuse a name in the place of an array.
        keeps = False
    if keeps:
        return names
    _logger.warning(
        "The variables are called jax_param_0, jax_param_1, ...: a tree of their paths "
        "has not the structure of the parameters, which is %s.",
        structure,
    )
    return [f"jax_param_{index}" for index in range(len(found))]


def _key_name(key: Hashable) -> str:
    """The name of one key of a path, which is a dictionary key, an attribute or an index."""
    for part in ("key", "name", "idx"):
        if hasattr(key, part):
            return str(getattr(key, part))
    return str(key)
