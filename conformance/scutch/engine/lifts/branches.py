"""`cond` and `switch`: one of several functions, by an index.

Both take several functions, so a law calls the program in more than one way:

    Transformation('switch', options={'branches': ('called', 'left out'), 'offset': 0})

is `switch(x, [f, g], node, pair)`, where `x` is the scalar of the pair, `f` is the program, and `g`
leaves its steps out.
"""

from dataclasses import replace
from typing import Any

import jax
from hypothesis import strategies as st

from scutch.engine.carriers.arrays import shifted
from scutch.engine.carriers.objects import BuiltObjectCall, Transformation
from scutch.engine.lifts.cells import OnObjects, with_options

BRANCHES = ("called", "left out", "shifted")
"""What a branch does: the program; the program without its steps, so that nothing changes; the
program on other arrays."""


def _chosen(library: Any, each: Transformation, branches: Any, arguments: Any, **modes: Any) -> Any:
    """Choose a branch by the last array of the pair, with `cond` or `switch` of a library."""
    index = arguments[-1][1].astype("int32") + each.options["offset"]
    if each.kind == "cond":
        return library.cond(index % 2 > 0, *branches, *arguments, **modes)
    return library.switch(index, branches, *arguments, **modes)


def _functions(each: Transformation, function: Any, left_out: Any) -> list[Any]:
    """The branches, made of a function whose last argument is the pair."""
    made = {
        "called": function,
        "left out": left_out,
        "shifted": lambda *arguments: function(*arguments[:-1], shifted(arguments[-1], 1)),
    }
    return [made[name] for name in each.options["branches"]]


def _idle(call: BuiltObjectCall) -> BuiltObjectCall:
    """The call without its steps."""
    return replace(call, described=replace(call.described, steps=()))


def _by_jax(call: BuiltObjectCall, each: Transformation, function: Any) -> Any:
    branches = _functions(each, function, _idle(call).pure)
    return lambda values, pair: _chosen(jax.lax, each, branches, (values, pair))


def _lifted(call: BuiltObjectCall, transforms: Any, each: Transformation, function: Any) -> Any:
    idle = _idle(call)
    branches = _functions(each, function, lambda *given: idle.run(given[:-1], given[-1]))
    return lambda *given: _chosen(transforms, each, branches, given, **each.modes)


def _options(sizes: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    branches = st.tuples(st.permutations(BRANCHES), sizes).map(lambda each: each[0][: each[1]])
    offsets = st.sampled_from((1, -3, -2, -1, 0))
    return st.fixed_dictionaries({"branches": branches.map(tuple), "offset": offsets})


COND = OnObjects(_by_jax, _lifted, with_options("cond", _options(st.just(2))))
SWITCH = OnObjects(_by_jax, _lifted, with_options("switch", _options(st.integers(1, 3))))
