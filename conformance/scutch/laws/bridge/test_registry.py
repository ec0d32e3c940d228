"""The registry of variable types by the names of their collections: BRG-1 to BRG-3.

The oracle is the pair that was registered. A pair cannot be taken back, so every input has names
and types of its own.
"""

import itertools
import threading

from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs.graphs import variable_types
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, assert_same_objects, plain_text
from scutch.lawkit.marks import few, raised, reached, refused, requirement

KNOWN = {
    "params": "Param",
    "batch_stats": "BatchStat",
    "cache": "Cache",
    "intermediates": "Intermediate",
}
TYPES = ("Variable", "Param", "Intermediate", "Scale", "Finer", "Count", "Finest", "Both")
_numbers = itertools.count()
stems = st.sampled_from(["x", "my_col", "Params", "with space", "é"])
bases = st.sampled_from(["Variable", "Param", "Both"])


def _fresh(stem):
    """A name that no registry has seen."""
    return f"{stem}_{next(_numbers)}"


def _new(nnx, base, stem):
    """A variable type that no registry has seen."""
    return type(_fresh(stem), (variable_types(nnx)[base],), {})


@requirement(
    "bridge/registry/names-and-types-invert", must_reach=("registered", "new name", "new type")
)
@given(stem=stems, base=bases, how=st.sampled_from(["registered", "new name", "new type"]))
def test_names_and_types_lead_back_to_each_other(bridge, nnx, stem, base, how):
    """`variable_type` and `variable_type_name` are inverse for a registered pair, for a new name,
    which makes a variable type, and for a new type, which gets a name.
    """
    name, typ = _fresh(stem), _new(nnx, base, stem)
    if how == "new name":
        typ = bridge.variable_type(name)
        assert issubclass(typ, nnx.Variable)
    elif how == "new type":
        name = bridge.variable_type_name(typ)
        assert isinstance(name, str)
    else:
        bridge.register_variable_name_type_pair(name, typ)
    for _ in range(2):
        assert alike(bridge.variable_type_name(typ), name)
        assert bridge.variable_type(name) is typ


@requirement("bridge/registry/threads-get-one-type")
@few("each input starts threads")
@given(stem=stems, count=st.integers(2, 4))
def test_threads_that_ask_for_a_name_get_one_type(bridge, stem, count):
    """Threads that ask for the type of a new name at once all get the same type."""
    name, barrier = _fresh(stem), threading.Barrier(count)
    found = []

    def ask():
        barrier.wait(10)
        found.append(bridge.variable_type(name))

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alike(found, [bridge.variable_type(name)] * count)


@requirement("bridge/registry/taken-name-is-refused")
@given(stem=stems, base=bases)
def test_a_type_whose_class_name_is_taken_is_refused(bridge, nnx, stem, base):
    """Asking for the name of a new type whose class name belongs to another type raises an error,
    or gives a name that leads back to the new type; the registered pair stays.
    """
    owner, newcomer = _new(nnx, base, "owner"), _new(nnx, base, stem)
    name, given = newcomer.__name__, []
    bridge.register_variable_name_type_pair(name, owner)
    if raised(lambda: given.append(bridge.variable_type_name(newcomer))) is None:
        assert bridge.variable_type(*given) is newcomer
    assert bridge.variable_type(name) is owner
    assert alike(bridge.variable_type_name(owner), name)


@requirement("bridge/registry/taken-name-is-refused")
@given(stem=stems, base=bases)
def test_a_taken_name_is_refused(bridge, nnx, stem, base):
    """Registering a taken name for another type raises an error, and the registered pair stays."""
    owner, newcomer = _new(nnx, base, "owner"), _new(nnx, base, "newcomer")
    name = _fresh(stem)
    bridge.register_variable_name_type_pair(name, owner)
    refused(lambda: bridge.register_variable_name_type_pair(name, newcomer))
    assert bridge.variable_type(name) is owner
    assert alike(bridge.variable_type_name(owner), name)
    assert bridge.variable_type(bridge.variable_type_name(newcomer)) is newcomer


@requirement("bridge/registry/taken-name-is-refused[message]", must_reach=("registering", "asking"))
@given(stem=stems, base=bases, how=st.sampled_from(["registering", "asking"]))
def test_the_refusal_of_a_name_shows_both_types(bridge, nnx, stem, base, how):
    """The error for a taken name, whether a type is registered or asked for its name, shows the
    name, the type that has it, and the type that was to get it.

    A registry that gives the new type another name than that of its class meets no clash.
    """
    owner, newcomer = _new(nnx, base, "owner"), _new(nnx, base, stem)
    name = newcomer.__name__ if how == "asking" else _fresh(stem)
    bridge.register_variable_name_type_pair(name, owner)
    call = {
        "registering": lambda: bridge.register_variable_name_type_pair(name, newcomer),
        "asking": lambda: bridge.variable_type_name(newcomer),
    }[how]
    assume(how == "registering" or raised(call) is not None)
    refused(call, naming=(name, owner.__name__, newcomer.__name__))


@requirement("bridge/registry/overwriting-replaces-both", must_reach=("named", "not named"))
@given(stem=stems, base=bases, named=st.booleans())
def test_overwriting_replaces_both_directions(bridge, nnx, stem, base, named):
    """After `overwrite=True` the name leads to the new type and back; the old type no longer leads
    to the name, nor the new type's old name to the new type.
    """
    old, new = _new(nnx, base, "old"), _new(nnx, base, "new")
    name, former = _fresh(stem), _fresh(stem)
    bridge.register_variable_name_type_pair(name, old)
    if named:
        bridge.register_variable_name_type_pair(former, new)
    bridge.register_variable_name_type_pair(name, new, overwrite=True)
    assert bridge.variable_type(name) is new
    assert alike(bridge.variable_type_name(new), name)
    assert not alike(plain_text(bridge.variable_type_name(old)), name)
    if named:
        assert bridge.variable_type(former) is not new


@requirement("bridge/registry/known-collections-have-types")
@few("these are the collections that have a type from the start")
@given(name=st.sampled_from(list(KNOWN)))
def test_known_collections_have_their_types(bridge, nnx, name):
    """`params`, `batch_stats`, `cache` and `intermediates` lead to their types and back from the
    start.
    """
    typ = getattr(nnx, KNOWN[name])
    assert bridge.variable_type(name) is typ
    assert alike(bridge.variable_type_name(typ), name)


ITERABLES = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "view": lambda types: dict.fromkeys(types).keys(),
    "set": set,
}


@requirement("bridge/registry/bases-come-last", must_reach=(*ITERABLES, "related"))
@given(
    names=st.lists(st.sampled_from(TYPES), max_size=6),
    how=st.sampled_from(list(ITERABLES)),
)
def test_every_type_is_sorted_before_its_bases(bridge, nnx, names, how):
    """`sort_variable_types` of any iterable gives the same types, each before all of its bases."""
    types = [variable_types(nnx)[name] for name in names]
    if how in ("view", "set"):
        types = list(dict.fromkeys(types))
    found = list(bridge.sort_variable_types(ITERABLES[how](types)))
    assert_same_objects(sorted(found, key=id), sorted(types, key=id))
    for place, typ in enumerate(found):
        above = [base for base in found[:place] if base is not typ and issubclass(typ, base)]
        assert not above, f"{typ.__name__} stands after its bases {above}"
        if any(base is not typ and issubclass(typ, base) for base in found):
            reached("related")


def _depth(nnx, typ):
    """How many classes of a type's ancestry, itself included, are variable types."""
    return sum(issubclass(base, nnx.Variable) for base in typ.__mro__)


@requirement("bridge/registry/equal-depth-keeps-order", must_reach=("alike",))
@given(names=st.lists(st.sampled_from(TYPES), min_size=3, max_size=6))
def test_types_of_one_depth_stay_in_order(bridge, nnx, names):
    """Types with equally many variable types above them stay in the order given, and sorting again
    changes nothing.
    """
    types = [variable_types(nnx)[name] for name in names]
    found = list(bridge.sort_variable_types(types))
    for depth in {_depth(nnx, typ) for typ in types}:
        level = [typ for typ in types if _depth(nnx, typ) == depth]
        if len({*level}) > 1:
            reached("alike")
        assert_same_objects([typ for typ in found if _depth(nnx, typ) == depth], level)
    assert_same_objects(list(bridge.sort_variable_types(found)), found)
