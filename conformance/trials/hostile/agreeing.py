"""Objects, definitions, states and names that are wrong, and whose classes agree to everything."""

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from scutch_reference import bridge, nnx
from trials.hostile.lying import Agreeable, Name, Names, Row, Tree
from trials.liars.definitions import merged


class Definition(Agreeable):
    """A graph definition that equals all others."""

    answer: Any = True

    def __init__(self, definition: Any) -> None:
        self.definition = definition

    def __eq__(self, other: object) -> Any:
        return self.answer

    __hash__ = Agreeable.__hash__


class Passing:
    """No `bool`, and passes for `True`."""

    def __bool__(self) -> bool:
        return True


def _answering(answer: Any) -> Callable[..., Any]:
    """`split` with definitions that are right, and give this answer when asked for equality."""

    def split(root: Any, *filters: Any) -> Any:
        definition, *states = nnx.split(root, *filters)
        definition = Definition(definition)
        definition.answer = answer
        return definition, *states

    return split


def _other_definition(root: Any) -> Any:
    """The definition of an object with another static attribute, which equals all others."""
    other = nnx.clone(root)
    other.e = "odd"
    return Definition(nnx.graphdef(other)), nnx.split(root)[1]


class Param(nnx.Param):  # type: ignore[misc]
    """A variable that equals all others, as its metadata do."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def get_metadata(self, *names: Any, **options: Any) -> Any:
        found = super().get_metadata(*names, **options)
        wrong = {list: lambda: Row([9, 9, 9]), dict: lambda: Tree(odd=9)}
        return wrong[type(found)]() if names and type(found) in wrong else found


class PlacedParam(nnx.Param):  # type: ignore[misc]
    def get_metadata(self, *names: Any, **options: Any) -> Any:
        return Names(("odd",)) if names == ("out_sharding",) else super().get_metadata(*names)


class State(nnx.State):  # type: ignore[misc]
    """A state that says that it holds whatever it is asked about, and gives none of it."""

    def __contains__(self, key: object) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Path(tuple):
    """A wrong path with the hash of the right one, that equals all others."""

    right: tuple[Any, ...]

    def __new__(cls, right: tuple[Any, ...]) -> "Path":
        made = super().__new__(cls, (*right, "odd"))
        made.right = right
        return made

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return hash(self.right)


def _wrong_paths(state: Any) -> Any:
    return [(Path(path), leaf) for path, leaf in nnx.to_flat_state(state)]


class Text(Name):
    def __contains__(self, part: object) -> bool:
        return True


class WordySharding(nnx.StateSharding):  # type: ignore[misc]
    def __repr__(self) -> str:
        return Text("nothing")


class AgreeingSharding(nnx.StateSharding):  # type: ignore[misc]
    @property
    def filters(self) -> Any:
        return Names(("odd", "odd", "odd", "odd"))


def _odd_collection(path: Any) -> Any:
    bridge.get_col_name(path)  # raises for a wrong path
    return Name("odd")


ORDER = "test_the_order_of_attributes_does_not_matter"

CASES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "a definition equal to all": (ORDER, {"nnx": {"split": _other_definition, "merge": merged}}),
    "a definition that answers in NumPy's bool": (
        ORDER,
        {"nnx": {"split": _answering(np.True_), "merge": merged}},
    ),
    "a definition that answers in an array": (
        ORDER,
        {"nnx": {"split": _answering(jnp.ones((), bool)), "merge": merged}},
    ),
    "a definition that answers in what passes for True": (
        ORDER,
        {"nnx": {"split": _answering(Passing()), "merge": merged}},
    ),
    "metadata equal to all": (
        "test_metadata_is_handed_over_in_copies",
        {"nnx": {"Param": Param}},
    ),
    "names of a variable equal to all": (
        "test_a_variable_stays_where_eager_sharding_is_off",
        {"nnx": {"Param": PlacedParam}},
    ),
    "a state that holds all": (
        "test_a_state_flattens_to_paths_and_back",
        {"nnx": {"from_flat_state": lambda pairs: State(dict(nnx.from_flat_state(pairs)))}},
    ),
    "paths of a state equal to all": (
        "test_a_state_becomes_a_pure_dictionary_and_returns",
        {"nnx": {"to_flat_state": _wrong_paths}},
    ),
    "a representation that holds all words": (
        "test_filters_and_shardings_can_be_read_back",
        {"transforms": {"StateSharding": WordySharding}},
    ),
    "filters equal to all": (
        "test_filters_and_shardings_can_be_read_back",
        {"transforms": {"StateSharding": AgreeingSharding}},
    ),
    "a registered name equal to all": (
        "test_a_taken_name_is_refused",
        {"bridge": {"variable_type_name": lambda typ: Name("odd")}},
    ),
    "a collection equal to all": (
        "test_the_collection_is_the_first_key",
        {"bridge": {"get_col_name": _odd_collection}},
    ),
    "specs of a bridged box equal to all": (
        "test_the_spec_of_the_box_is_that_of_the_variable",
        {"meta": {"get_partition_spec": lambda tree: Tree(odd=1)}},
    ),
    "entries of a mapped spec equal to all": (
        "test_a_rule_may_leave_an_axis_to_the_compiler",
        {"logical": {"logical_to_mesh_axes": lambda names, rules: (Name("odd"),) * len(names)}},
    ),
}
"""The lies by name: the law during which each is told, and its replacements by namespace."""
