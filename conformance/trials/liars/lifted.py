"""Liars about lifted transformations: the reference, with one thing wrong."""

import functools
import inspect
import weakref

from scutch.inputs import graphs
from scutch_reference import nnx
from trials.liars.tale import names_in, tell


def lifted(lie):
    """Tell a lie: the functions and classes in it, in the place of the standard's."""
    names = {name: _decorating(value) for name, value in names_in(lie, "transforms").items()}
    if hasattr(lie, "call"):
        names["jit"] = lying_jit(lie.call)
    tell(lie, claims=("meta", "logical", "nnx", "transforms"), transforms=names)
    return lie


def _decorating(value):
    """A lift whose function must be given, as one that is a decorator where none is."""
    if not inspect.isfunction(value):
        return value
    first, *_ = inspect.signature(value).parameters.values()
    if first.name not in ("f", "fun") or first.default is not inspect.Parameter.empty:
        return value

    @functools.wraps(value)
    def lift(*function, **options):
        return value(*function, **options) if function else functools.partial(value, **options)

    return lift


def lying_jit(call):
    """A `jit` whose functions are called by `call(state, jitted, arguments, keywords)`."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: jit(function, **options)
        told = Told(nnx.jit(fun, **options), call)
        told.state.update(function=fun, options=options)
        return told

    return jit


def without(*dropped):
    """A `jit` that does not pass options on."""

    def jit(fun=None, **options):
        kept = {name: value for name, value in options.items() if name not in dropped}
        return nnx.jit(**kept) if fun is None else nnx.jit(fun, **kept)

    return jit


class Told:
    """A jitted function that is called in another way, and is honest otherwise."""

    def __init__(self, jitted, call):
        self.jitted, self.call, self.state = jitted, call, {}
        functools.update_wrapper(self, jitted.__wrapped__)

    def __call__(self, *arguments, **keywords):
        return self.call(self.state, self.jitted, arguments, keywords)

    def __getattr__(self, name):
        return getattr(self.jitted, name)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def graph(arguments, keywords):
    """Objects and variables of arguments, each once."""
    return graphs.nodes(nnx, [arguments, sorted(keywords.items())])


def variables(arguments, keywords):
    """Variables of arguments."""
    return [n for n in graph(arguments, keywords) if isinstance(n, nnx.Variable)]


def modules(arguments, keywords):
    """Objects with named attributes."""
    return [n for n in graph(arguments, keywords) if type(n).__name__ in graphs.MODULES]


def attributes(arguments, keywords):
    """Variables by their places."""
    return [
        (m, name, getattr(m, name))
        for m in modules(arguments, keywords)
        for name in "abc"
        if isinstance(getattr(m, name, None), nnx.Variable)
    ]


def stale(read, write):
    """A `call` that overlooks changes: it puts the values back that were read in the call before.

    Args:
      read: `(arguments, keywords) -> [(object, key, value)]`.
      write: `(object, key, value)` puts a value back.
    """

    def call(state, jitted, arguments, keywords):
        now = read(arguments, keywords)
        before = state.setdefault("seen", {})
        changed = []
        for holder, key, value in now:
            reference, old = before.get((id(holder), key), (lambda: None, None))
            old = old if reference() is holder else value
            if not same(old, value):
                write(holder, key, old)
                changed.append((holder, key, value))
        try:
            return jitted(*arguments, **keywords)
        finally:
            for holder, key, value in changed:
                write(holder, key, value)
            for holder, key, value in now:
                before[id(holder), key] = weakref.ref(holder), value

    return staticmethod(call)


def same(one, other):
    """Whether two readings are the same: parts by identity, or equal static data."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, nnx.Variable | nnx.Pytree):
        return one is other
    return type(one) is type(other) and one == other
