"""Frames: the precomputed part of all calls of a lifted function with arguments of one structure.

A frame is made when a function is first called with arguments of a new structure, and is looked up
in every later call. It holds the prefix value of each leaf (a sharding, a spec or an axis), and is
complete when it is made. The transformation makes a `Transformed` of it: the function of arrays
that JAX transformed, with the placement and donation of leaves. It makes errors of JAX name the
user's argument and path.

Words: the *leaf prefix* of a leaf is the value that the prefix of its argument gives it. The
transformation outputs leaves in *groups* with the same leaf prefix, so that JAX sees one prefix for
each group. Paths begin with the number of a root; the output has the next number. A frame refers
neither to the transformation nor to the real objects. Callers pass in the values that it needs, so
that objects that are bound to a function die with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import is_, not_
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.sharding import Sharding

from ..errors import AliasingError, LeakedTracerError, LiftingError
from ..jax_versions import Tracer, stored_sharding, trace_level
from ..types import Leaf, Tree
from .call_signature import CallSignature
from .filters import Path
from .flatten import Plan
from .graphdef import GraphDef, LeafPlace, Ref, occurrences, unflatten
from .node_types import SCALARS
from .prefixes import FilterPrefix, check_fits, check_spec, for_jax, is_branch, is_end, spread

# The transformed function, the plan, the arguments with objects, their leaves, and the plain
# arguments. It is a bare tuple, because to make anything else would be a Python call in each
# dispatch.
Call: TypeAlias = "tuple[Transformed, Plan, Sequence[Any], list[Any], Sequence[Any]]"
Groups: TypeAlias = Sequence[list[Tree]]
"""The arrays that a transformation outputs, in one list for each group."""


class PrefixRules(NamedTuple):
    """How a transformation reads prefixes.

    Args:
      what: The word for prefix values in messages, such as shardings, specs or axes.
      default: The value where a prefix says None.
      none_is_free: Whether a variable with None at one occurrence takes the value of another
        occurrence, such as one in the output.
      moves_committed: Whether an array that the user has put on devices may be laid out anew on
        them; on others it stays where it is.
    """

    what: str = ""
    default: Any = None
    none_is_free: bool = False
    moves_committed: bool = False


class Frame:
    """The precomputed part of all calls with arguments of one structure.

    Args:
      rules: How the transformation reads prefixes.
      signature: The roles of the arguments.
      definition: The structure of the objects.
      prefixes: The prefix of each argument, then the prefix of the output.
      values: The values of the leaves in one of these calls.
      statics: The static arguments.

    Raises:
      AliasingError: The prefixes give two values to one variable (JIT-2).
      LiftingError: A prefix has nothing for a leaf.
      NoFilterMatchError: No filter of a prefix takes a leaf (JIT-6).

    Attributes:
      leaf_prefixes: The value that the prefixes give each leaf.
      plain_prefixes: The prefix of each plain argument.
      inside: The prefix of the arguments of the function of arrays: (leaves, *plain arguments).
      groups: The distinct prefix values; each stands for one group of output leaves.
      outside: The prefix of the output of the function of arrays: (effects, groups, output).
    """

    def __init__(
        self,
        rules: PrefixRules,
        signature: CallSignature,
        definition: GraphDef[Any],
        prefixes: Sequence[Any],
        values: Sequence[Any],
        statics: Sequence[Any],
    ):
        self.rules: Final = rules
        self.signature: Final = signature
        self.definition: Final = definition
        self.statics: Final = statics
        self.prefixes: Final[Any] = (*signature.roots_of(prefixes), prefixes[-1])
        self.plain_prefixes: Final = [
            for_jax(each, rules.default) for each in signature.plain_of(prefixes)
        ]
        self.labels: Final = (*signature.roots_of(signature.labels), "output")
        self.groups: Final = self._different_values()
        self.outside: Final = (rules.default, self.groups, for_jax(prefixes[-1], None))
        self.leaf_prefixes: Final = self._leaf_prefixes(values)
        self.inside: Final = (self.leaf_prefixes, *self.plain_prefixes)

    def _different_values(self) -> tuple[Any, ...]:
        ends = jax.tree.leaves(self.prefixes, is_leaf=is_end)
        given = [v for end in ends for v in getattr(end, "values_", [end]) if v is not None]
        return tuple(dict.fromkeys([self.rules.default, *given]))

    def _leaf_prefixes(self, values: Sequence[Any]) -> list[Any]:
        nodes = unflatten(self.definition, values)
        for each in zip(self.labels, self.prefixes, nodes[0], strict=False):  # No output yet.
            check_fits(*each)
        further = (  # Later occurrences of shared nodes, and of the nodes that they lead to.
            way
            for path, number, is_first in self.definition.occurrences
            if not is_first
            for way in occurrences(self.definition.nodes, Ref(number), path)
        )
        return self.prefixes_of(self.definition.leaves, values, nodes, further)

    def where(self, place: Path | int) -> str:
        """Return the name of a leaf in messages, its argument and its path.

        Args:
          place: Its path, or its number.
        """
        root, *path = self.definition.leaves[place][0] if isinstance(place, int) else place
        return f"{self.labels[root]}, path {tuple(path)!r}"

    def prefix_at(self, path: Path, leaf: Tree) -> Any:
        """Return the value that the prefixes give a leaf.

        Args:
          path: The path of the leaf.
          leaf: The leaf; the variable, if it is the value of one.

        Returns:
          The value, such as a sharding, a spec or an axis. It is `rules.default` where the prefix
          says None.

        Raises:
          LiftingError: The prefix has nothing for it.
          NoFilterMatchError: No filter takes it.
        """
        prefix, below, where = self.prefixes, path, self.where(path)
        try:
            while is_branch(prefix):
                prefix, below = prefix[below[0]], below[1:]
        except (LookupError, TypeError) as error:
            raise LiftingError(
                place=f"the prefix at {where}", given=prefix, expected=f"an entry for {below!r}"
            ) from error
        if isinstance(prefix, FilterPrefix):  # Its filters are the user's: their errors pass.
            prefix = prefix.map_prefix(below, leaf, where)
        return self.rules.default if prefix is None else prefix

    def prefixes_of(
        self,
        leaves: Sequence[LeafPlace],
        values: Sequence[Any],
        nodes: Sequence[Any],
        others: Iterable[tuple[Path, int, bool]],
    ) -> list[Any]:
        """Return the value that the prefixes give each leaf; see `prefix_at` and `reconciled`.

        Args:
          leaves: The path of each leaf at its first occurrence, and its variable.
          values: The values of the leaves.
          nodes: The nodes by number.
          others: The other occurrences of nodes.

        Returns:
          The value of each leaf, in the order of the leaves.
        """
        at_first = [
            self.prefix_at(path, value if owner is None else nodes[owner])
            for (path, owner), value in zip(leaves, values, strict=True)
        ]
        return self.reconciled(leaves, at_first, nodes, others)

    def reconciled(
        self,
        leaves: Sequence[LeafPlace],
        prefixes: Sequence[Any],
        nodes: Sequence[Any],
        others: Iterable[tuple[Path, int, bool]],
    ) -> list[Any]:
        """Return the prefix value of each leaf; occurrences of a variable must agree (JIT-2).

        Args:
          leaves: The path of each leaf at its first occurrence, and its variable.
          prefixes: The value of each leaf at its first occurrence.
          nodes: The nodes by number.
          others: The other occurrences of nodes.

        Returns:
          The value of each leaf, in the order of the leaves. With `rules.none_is_free`, the value
          of another occurrence replaces None.

        Raises:
          AliasingError: Two occurrences of a variable have different values.
        """
        found = list(prefixes)
        numbers = {owner: i for i, (_, owner) in enumerate(leaves) if owner is not None}
        for path, node, _ in others if len(self.groups) > 1 else ():
            if (i := numbers.get(node)) is None:
                continue
            first, other = found[i], self.prefix_at(path, nodes[node])
            if self.rules.none_is_free and (first is None or other is None):
                found[i] = other if first is None else first
            elif other != first:
                raise AliasingError(
                    what=self.rules.what,
                    node=nodes[node],
                    first=(self.where(leaves[i][0]), first),
                    second=(self.where(path), other),
                )
        return found


def separated(values: Sequence[Any], donated: Sequence[bool]) -> tuple[Sequence[Any], ...]:
    """Return the leading arguments for JAX: the leaves, with a list for the donated ones.

    Args:
      values: One value for each leaf, such as its sharding.
      donated: Whether each leaf is donated; empty if none is.

    Returns:
      A list of the values of the donated leaves and a list of the others; if no leaf is donated,
      one list of all.
    """
    if not donated:
        return (values,)
    return list(compress(values, donated)), list(compress(values, map(not_, donated)))


@dataclass(frozen=True, eq=False)
class Transformed:
    """The function of arrays that JAX has transformed for the calls of one frame.

    Args:
      frame: The frame.
      function: The function. Its arguments are the leaves, as `separated` arranges them, then the
        plain arguments; it returns the effects, the arrays of each group, and the output.
      donated: Whether each leaf is donated; empty if none is.
      placements: The sharding that each leaf must have before a call; empty if there are none.
      mesh: The mesh of specs.
      settled: The shardings of the last call in which no leaf had to move; `placed` updates it.
    """

    frame: Frame
    function: Any
    donated: Sequence[bool] = ()
    placements: Sequence[Any] = ()
    mesh: Any = None
    settled: list[Any] = field(default_factory=list)

    def arguments(self, values: Sequence[Any], plain: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments of the function.

        Args:
          values: The leaves.
          plain: The plain arguments.
        """
        return *separated(values, self.donated), *plain

    def placed(self, plan: Plan, values: list[Any]) -> tuple[list[Any], Sequence[int]]:
        """Move leaves to their placements; return all leaves, and the numbers of the moved (JIT-5).

        Usually no leaf has to move. The method recognizes this case by identity: all leaves have
        the very sharding objects of the last call in which no leaf moved.

        Args:
          plan: The plan of the call.
          values: The leaves.
        """
        try:
            present = list(map(stored_sharding, values))
        except AttributeError:  # Not all leaves are arrays on devices.
            present = []
        is_settled = bool(present and self.settled) and all(map(is_, present, self.settled))
        if is_settled or plan.level != trace_level() or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return values, ()
        placed, moved = list(values), []
        for i, value in enumerate(values):
            leaves, treedef = jax.tree.flatten(value)
            sent = [self._sent(leaf, i) for leaf in leaves]
            if not all(map(is_, sent, leaves)):
                placed[i] = jax.tree.unflatten(treedef, sent)
                moved.append(i)
        if not moved:
            self.settled[:] = present
        return placed, moved

    def _sent(self, leaf: Leaf, number: int) -> Leaf:
        """Move a leaf to its placement; leave numbers, and arrays committed elsewhere, to JAX."""
        sharding = self.placements[number]
        if not isinstance(sharding, Sharding) or isinstance(leaf, Tracer):
            return leaf
        check_spec(self.frame.where(number), np.shape(leaf), sharding)
        present = getattr(leaf, "sharding", None)
        is_placed = present is not None and (
            present.is_equivalent_to(sharding, np.ndim(leaf))
            or (
                getattr(leaf, "committed", True)
                and not (
                    self.frame.rules.moves_committed and present.device_set == sharding.device_set
                )
                and not _is_cut_alike(np.shape(leaf), present, sharding)
            )
        )
        if is_placed or isinstance(leaf, SCALARS):
            return leaf
        return jax.device_put(leaf, sharding)

    def explain(self, values: Sequence[Any], plain: Sequence[Any], error: Exception) -> None:
        """Raise an error that names the argument and path at fault, if one of them is.

        Args:
          values: The leaves of the call.
          plain: Its plain arguments.
          error: The exception that JAX raised.

        Raises:
          LeakedTracerError: A variable holds a tracer of a transformation that is over.
          MeshAxisError, IndivisibleSizeError: A spec does not fit the mesh, or its array (SHM-4).
        """
        if isinstance(error, jax.errors.UnexpectedTracerError):
            self._name_leaked_tracer(values, error)
        if isinstance(error, ValueError | KeyError):  # The latter in JAX 0.4.
            self._name_bad_spec(values, plain, error)

    def _name_leaked_tracer(self, values: Sequence[Any], error: Exception) -> None:
        for number, value in enumerate(values):
            for leaf in jax.tree.leaves(value):
                if isinstance(leaf, Tracer):
                    raise LeakedTracerError(path=self.frame.where(number), tracer=leaf) from error

    def _name_bad_spec(self, values: Sequence[Any], plain: Sequence[Any], error: Exception) -> None:
        frame, signature = self.frame, self.frame.signature
        labels = [*signature.plain_of(signature.labels), *map(frame.where, range(len(values)))]
        prefixes = [*frame.plain_prefixes, *frame.leaf_prefixes]
        parts = map(spread, prefixes, [*plain, *values], labels)
        try:
            for where, spec, leaf in chain.from_iterable(parts):
                check_spec(where, np.shape(leaf), spec, self.mesh)
        except ValueError as better:
            raise better from error


def _is_cut_alike(shape: tuple[int, ...], one: Sharding, other: Sharding) -> bool:
    """Whether two shardings cut an array alike: then JAX sends a committed one to other devices."""
    whole = one.is_fully_replicated, other.is_fully_replicated
    parts = [[*each.devices_indices_map(shape).values()] for each in (one, other)]
    return all(whole) if any(whole) else parts[0] == parts[1]
