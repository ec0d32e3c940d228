"""Frames: the precomputed part of all calls of a lifted function with arguments of one structure.

A frame is made when a function is first called with arguments of a new structure, and is looked up
in every later call. It holds the prefix value of each leaf (a sharding, a spec or an axis). It
arranges the leaves as arguments for JAX, and makes errors of JAX name the user's argument and path.

Words: the *leaf prefix* of a leaf is the value that the prefix of its argument gives it. The
transformation outputs leaves in *groups* with the same leaf prefix, so that JAX sees one prefix for
each group. Paths begin with the number of a root; the output has the next number. A frame refers
neither to the transformation nor to the real objects. Callers pass in the values that it needs, so
that objects that are bound to a function die with it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from operator import is_, not_
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.sharding import Sharding

from ..errors import AliasingError, LeakedTracerError, LiftingError
from ..jax_versions import Tracer, stored_sharding, trace_level
from .call_signature import CallSignature
from .filters import Path
from .flatten import Plan
from .graphdef import GraphDef, Ref, occurrences, unflatten
from .node_types import SCALARS
from .prefixes import FilterPrefix, check_fits, check_spec, for_jax, is_branch, is_end, spread

# The frame, the plan, the arguments with objects, their leaves, and the plain arguments. It is a
# bare tuple, because to make anything else would be a Python call in each dispatch.
Call: TypeAlias = "tuple[Frame, Plan, Sequence[Any], list[Any], Sequence[Any]]"


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

    Raises:
      AliasingError: The prefixes give two values to one variable (JIT-2).
      LiftingError: A prefix has nothing for a leaf.
      NoFilterMatchError: No filter of a prefix takes a leaf (JIT-6).

    Attributes:
      leaf_prefixes: The value that the prefixes give each leaf.
      plain_prefixes: The prefix of each plain argument.
      groups: The distinct prefix values; each stands for one group of output leaves.
      outside: The prefix of the output of `transformed`, which is (effects, groups, output).
      always_out: Whether each leaf is output even if it is unchanged.
      donated: Whether each leaf is donated; empty if none is.
      placements: The sharding that each leaf must have before a call; empty if there are none.
      mesh: The mesh of specs.
      statics: The static arguments.
      transformed: The transformed function of arrays.
    """

    transformed: Any
    mesh: Any = None
    donated: Sequence[bool] = ()
    statics: Sequence[Any] = ()
    placements: Sequence[Any] = ()
    settled: Sequence[Any] = ()  # The shardings of the last call in which nothing had to move.

    def __init__(
        self,
        rules: PrefixRules,
        signature: CallSignature,
        definition: GraphDef[Any],
        prefixes: Sequence[Any],
        values: Sequence[Any],
    ):
        self.rules = rules
        self.signature, self.definition = signature, definition
        self.prefixes: Any = (*signature.roots_of(prefixes), prefixes[-1])
        self.plain_prefixes = [
            for_jax(each, rules.default) for each in signature.plain_of(prefixes)
        ]
        self.labels = (*signature.roots_of(signature.labels), "output")
        self.paths = [path for path, _ in definition.leaves]
        self.owners = [owner for _, owner in definition.leaves]
        self.groups = self._different_values()
        self.outside = (rules.default, self.groups, for_jax(prefixes[-1], None))
        self.leaf_prefixes = self._leaf_prefixes(values)
        self.always_out = [False] * len(values)

    def _different_values(self) -> tuple[Any, ...]:
        ends = jax.tree.leaves(self.prefixes, is_leaf=is_end)
        given = [v for end in ends for v in getattr(end, "values_", [end]) if v is not None]
        return tuple(dict.fromkeys([self.rules.default, *given]))

    def _leaf_prefixes(self, values: Sequence[Any]) -> list[Any]:
        nodes = unflatten(self.definition, values)
        for each in zip(self.labels, self.prefixes, nodes[0], strict=False):  # No output yet.
            check_fits(*each)
        leaves = [v if i is None else nodes[i] for i, v in zip(self.owners, values, strict=True)]
        at_first = list(map(self.prefix_at, self.paths, leaves))
        further = (  # Later occurrences of shared nodes, and of the nodes that they lead to.
            way
            for path, number, is_first in self.definition.occurrences
            if not is_first
            for way in occurrences(self.definition.nodes, Ref(number), path)
        )
        return self.reconciled(at_first, nodes, further)

    def where(self, place: Path | int) -> str:
        """Return the name of a leaf in messages, its argument and its path.

        Args:
          place: Its path, or its number.
        """
        root, *path = self.paths[place] if isinstance(place, int) else place
        return f"{self.labels[root]}, path {tuple(path)!r}"

    def prefix_at(self, path: Path, leaf: Any) -> Any:
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
            raise LiftingError(f"{where}: {prefix!r} has nothing for {below!r}.") from error
        if isinstance(prefix, FilterPrefix):  # Its filters are the user's: their errors pass.
            prefix = prefix.map_prefix(below, leaf, where)
        return self.rules.default if prefix is None else prefix

    def reconciled(
        self, leaf_prefixes: Sequence[Any], nodes: Any, others: Iterable[tuple[Path, int, bool]]
    ) -> list[Any]:
        """Return the prefix value of each leaf; occurrences of a variable must agree (JIT-2).

        Args:
          leaf_prefixes: The value of each leaf, by the first occurrence of its variable.
          nodes: The nodes by number.
          others: The other occurrences of nodes.

        Returns:
          The value of each leaf, in the order of the leaves. With `rules.none_is_free`, the value
          of another occurrence replaces None.

        Raises:
          AliasingError: Two occurrences of a variable have different values.
        """
        found = list(leaf_prefixes)
        numbers = {owner: i for i, owner in enumerate(self.owners)}
        for path, node, _ in others if len(self.groups) > 1 else ():
            number = numbers.get(node)
            if number is not None:
                found[number] = self.agreed(number, found[number], path, nodes[node])
        return found

    def agreed(self, place: Path | int, first: Any, path: Path, variable: Any) -> Any:
        """Return the prefix value of a variable at two places, which must agree (JIT-2).

        Args:
          place: The path of the first place, or the number of the leaf.
          first: The value there.
          path: The path of the other place.
          variable: The variable.

        Returns:
          The value. With `rules.none_is_free`, None at one place is replaced by the other value.

        Raises:
          AliasingError: The two have different values.
        """
        other = self.prefix_at(path, variable)
        if self.rules.none_is_free and (first is None or other is None):
            return other if first is None else first
        if other != first:
            raise AliasingError(
                what=self.rules.what,
                node=variable,
                first=(self.where(place), first),
                second=(self.where(path), other),
            )
        return first

    def arguments(self, values: Sequence[Any], plain: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments for JAX, the leaves and the plain arguments.

        If leaves are donated, they form a list of their own, before the list of the other leaves.

        Args:
          values: One value for each leaf, such as its sharding.
          plain: One value for each plain argument.
        """
        if not self.donated:
            return values, *plain
        others = compress(values, map(not_, self.donated))
        return list(compress(values, self.donated)), list(others), *plain

    def leaves_and_plain(self, leaves: Any, *others: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return all leaves, and the plain arguments; inverse of `arguments`.

        Args:
          leaves: All leaves; if some are donated, the list of the donated ones.
          *others: The plain arguments; if some leaves are donated, the list of the other leaves
            comes before them.

        Returns:
          All leaves, in their order, and the plain arguments.
        """
        if not self.donated:
            return leaves, others
        donated, kept = iter(leaves), iter(others[0])
        return [next(donated if gone else kept) for gone in self.donated], others[1:]

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
        if is_settled or plan.level != trace_level():
            return values, ()
        placed, moved = list(values), []
        for i, value in enumerate(values):
            leaves, treedef = jax.tree.flatten(value)
            sent = [self._sent(leaf, i) for leaf in leaves]
            if not all(map(is_, sent, leaves)):
                placed[i] = jax.tree.unflatten(treedef, sent)
                moved.append(i)
        if not moved:
            self.settled = present
        return placed, moved

    def _sent(self, leaf: Any, number: int) -> Any:
        """Move a leaf to its placement; leave numbers, and arrays committed elsewhere, to JAX."""
        sharding = self.placements[number]
        if not isinstance(sharding, Sharding) or isinstance(leaf, Tracer):
            return leaf
        check_spec(self.where(number), np.shape(leaf), sharding)
        present = getattr(leaf, "sharding", None)
        is_placed = present is not None and (
            present.is_equivalent_to(sharding, np.ndim(leaf))
            or (
                getattr(leaf, "committed", True)
                and not (self.rules.moves_committed and present.device_set == sharding.device_set)
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
        for path, value in zip(self.paths, values, strict=True):
            for leaf in jax.tree.leaves(value):
                if isinstance(leaf, Tracer):
                    raise LeakedTracerError(path=self.where(path), tracer=leaf) from error

    def _name_bad_spec(self, values: Sequence[Any], plain: Sequence[Any], error: Exception) -> None:
        labels = [*self.signature.plain_of(self.signature.labels), *map(self.where, self.paths)]
        prefixes = [*self.plain_prefixes, *self.leaf_prefixes]
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
