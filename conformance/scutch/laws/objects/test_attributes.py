"""Attributes that are set on many modules at once, and views: OBJ-2f, OBJ-2g.

The oracle is a copy whose modules are changed one by one, by hand. Each call is made without a
mode, with `graph=True` and with `graph=False`.
"""

import functools
import itertools
from types import MappingProxyType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scutch.inputs import graphs
from scutch.inputs.descriptions import Array
from scutch.inputs.filters import build_filter, takes
from scutch.lawkit import modes
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import reached, refused, requirement
from scutch.strategies import object_trees, variables

vectors = variables(st.just(Array((2,))), kinds=graphs.VARIABLES)
moded = st.sampled_from(modes.CHOICES)

FLAGS = ("deterministic", "use_running_average")
"""Attributes that say how a module behaves in training."""

of_modules = st.lists(
    st.one_of(
        st.tuples(st.just("type"), st.sampled_from(graphs.MODULES)),
        st.tuples(st.sampled_from(["path", "predicate"]), st.sampled_from(graphs.ATTRIBUTES)),
    ).flatmap(lambda one: st.sampled_from([one, one, ("not", one)])),
    max_size=2,
)
"""Described filters of modules; where there are none, all are taken."""

SETTERS = ("set_attributes", "with_attributes", "train", "eval")


def _set(nnx, root, how, filters, attributes, options):
    """Set attributes of modules, and return the object that has them."""
    built = [build_filter(nnx, each) for each in filters]
    if how == "with_attributes":
        only = {"only": tuple(built)} if built else {}
        return nnx.with_attributes(root, **only, **attributes, **options)
    if how == "set_attributes":
        root.set_attributes(*built, **attributes, **options)
    else:
        getattr(root, how)(**attributes, **options)
    return root


def _set_by_hand(nnx, root, filters, attributes):
    """Set attributes of modules where they are; return the names of those that are nowhere."""
    places = [pair for pair in graphs.walk(nnx, root) if graphs.is_module(nnx, pair[1])]
    missing = {*attributes}
    for path, module in places:
        if filters and not any(takes(nnx, each, path, module) for each in filters):
            continue
        for name in [name for name in attributes if hasattr(module, name)]:
            setattr(module, name, attributes[name])
            missing.discard(name)
    return missing


def _flags(nnx, root):
    """The flags of all modules."""
    modules = [node for node in graphs.nodes(nnx, root) if graphs.is_module(nnx, node)]
    return [[getattr(module, name, None) for name in FLAGS] for module in modules]


def _check_set(nnx, root, how, filters, attributes, options):
    """Set attributes of modules of a copy, and compare it with one that is changed by hand."""
    if how in ("train", "eval"):
        filters = []
        own = {name: each for name, each in attributes.items() if name not in FLAGS}
        options = {name: each for name, each in options.items() if alike(name, "graph")}
        expects, strict = own | dict.fromkeys(FLAGS, how == "eval"), False
    else:
        own = expects = attributes
        strict = options.get("raise_if_not_found", True)
    given, before, expected = nnx.clone(root), nnx.clone(root), nnx.clone(root)
    missing = _set_by_hand(nnx, expected, filters, expects)
    if missing and strict:
        reached("refused")
        refused(lambda: _set(nnx, given, how, filters, own, options))
        return
    result = _set(nnx, given, how, filters, own, options)
    pairs = [(expected, result)] + ([(before, given)] if how == "with_attributes" else [])
    for one, other in pairs:
        different = graphs.differences(nnx, one, other)
        assert not different, f"by hand and by {how}: {different}"
        assert alike(_flags(nnx, one), _flags(nnx, other)), how


@requirement(
    "objects/walks/attributes-are-set-everywhere",
    must_reach=(*modes.CHOICES, "refused", "a filter", "all modules"),
)
@given(
    root=object_trees(variable=vectors),
    mode=moded,
    flags=st.lists(st.sampled_from([None, True, False]), min_size=1, max_size=6),
    filters=st.one_of(st.just([]), of_modules),
    strict=st.sampled_from([None, True, False]),
    chosen=st.lists(st.integers(0, 20), min_size=1, max_size=2),
    absent=st.sampled_from([False, False, True]),
)
def test_attributes_are_set_where_modules_have_them(
    nnx, root, mode, flags, filters, strict, chosen, absent
):
    """`set_attributes` sets attributes of those modules that a filter takes and that have them;
    `train` and `eval` do so of all modules with the flags of training, and `with_attributes` of a
    copy. An attribute that is nowhere is refused, unless the call says otherwise.
    """
    _, options = modes.function_and_options(nnx, "with_attributes", mode)
    modules = [node for node in graphs.nodes(nnx, root) if graphs.is_module(nnx, node)]
    for number, (module, name) in enumerate(itertools.product(modules, FLAGS)):
        flag = flags[number % len(flags)]
        if flag is not None:
            setattr(module, name, flag)
    every = (*graphs.ATTRIBUTES, *FLAGS)
    there = [name for name in every if any(hasattr(module, name) for module in modules)]
    names = [there[number % len(there)] for number in chosen]
    attributes = dict.fromkeys([*names, "nowhere"] if absent else names, "text")
    options |= {} if strict is None else {"raise_if_not_found": strict}
    reached("a filter" if filters else "all modules")
    for how in SETTERS:
        _check_set(nnx, root, how, filters, attributes, options)


def _either(self, one=None, two=None):
    self.given = {"one": one, "two": two}


def _by_name(self, *, one=None):
    self.given = {"one": one}


def _by_place(self, one=None, /, two=None):
    self.given = {"two": two}


def _several(self, two=None, *one):
    self.given = {"two": two}


def _one_and_more(self, one=None, **others):
    self.given = {"one": one, **others}


def _more(self, **two):
    self.given = two


VIEWS = MappingProxyType(
    {
        "either": (_either, ("one", "two")),
        "by name": (_by_name, ("one",)),
        "by place": (_by_place, ("two",)),
        "several": (_several, ("two",)),
        "one and more": (_one_and_more, ("one", "two", "three")),
        "more": (_more, ("one", "two", "three")),
    }
)
"""Methods that modules may have as `set_view`, each with the options that it takes by name."""


@functools.lru_cache(maxsize=64)
def _viewed_class(nnx, method):
    """A class with a method `set_view`."""
    return type("Viewed", (graphs.classes(nnx)["Node"],), {"set_view": method})


NAMES = (("one",), ("two",), ("one", "two"), ("two", "one"), ("one", "three"), ("three",), ())
"""Options of views."""


def _viewed(nnx, method):
    """An object with a method `set_view`, which keeps the options that it was given."""
    made = _viewed_class(nnx, method)()
    made.given = {}
    return made


def _given(module):
    """The options that a module was given, as pairs."""
    return sorted(pair for pair in module.given.items() if pair[1] is not None)


@requirement(
    "objects/walks/view-passes-options",
    must_reach=(*modes.CHOICES, "refused", "a filter", "all modules"),
)
@given(
    methods=st.lists(st.sampled_from(list(VIEWS)), min_size=1, max_size=4),
    mode=moded,
    names=st.sampled_from(NAMES),
    strict=st.sampled_from([None, True, False, False]),
    filters=st.one_of(st.just([]), of_modules),
)
def test_a_view_gives_each_module_the_options_that_it_takes(
    nnx, methods, mode, names, filters, strict
):
    """`view` gives a copy in which each module with a method `set_view` that a filter takes was
    given, by name, those options that the method has a parameter for. An option that none takes is
    refused, unless the call says otherwise; the object is left as it was.
    """
    view, options = modes.function_and_options(nnx, "view", mode)
    options |= {} if strict is None else {"raise_if_not_found": strict}
    modules = [_viewed(nnx, VIEWS[method][0]) for method in methods]
    for module, inner in itertools.pairwise(modules):
        module.a, module.b = inner, nnx.Param(np.ones(2, "float32"))
    root = graphs.classes(nnx)["Node"]()
    root.c = modules[0]
    given = {name: f"the option {name}" for name in names}
    if filters:
        options["only"] = tuple(build_filter(nnx, each) for each in filters)
    reached("a filter" if filters else "all modules")
    expected, unused = [], {*names}
    for number, (module, method) in enumerate(zip(modules, methods, strict=True)):
        path = ("c",) + number * ("a",)
        taken = not filters or any(takes(nnx, each, path, module) for each in filters)
        own = {name: given[name] for name in names if taken and name in VIEWS[method][1]}
        unused -= own.keys()
        expected.append(sorted(own.items()))
    if unused and strict is not False:
        reached("refused")
        refused(lambda: view(root, **given, **options))
        return
    results = [view(root, **given, **options).c]
    for _ in modules[1:]:
        results.append(results[-1].a)
    found = [_given(module) for module in results]
    assert alike(found, expected), f"modules were given {found}, not {expected}"
    assert alike([_given(module) for module in modules], [[] for _ in modules])
