"""Lies about changes before a call, and about traces and arguments kept after it: JIT-3."""

import jax
from scutch_reference import nnx
from trials.liars.lifted import attributes, graph, lifted, modules, stale, variables


def _lists(arguments, keywords):
    """Plain lists by the module that holds them, and tracked ones."""
    found = [
        (m, "d", list(m.d))
        for m in modules(arguments, keywords)
        if isinstance(getattr(m, "d", None), list)
    ]
    tracked = [n for n in graph(arguments, keywords) if isinstance(n, nnx.List)]
    return found + [(n, None, list(n)) for n in tracked]


def _put_list(holder, key, items):
    container = holder if key is None else holder.d
    if isinstance(container, list | nnx.List):
        container[:] = items


def _dicts(arguments, keywords):
    """Plain dicts by the module that holds them, and tracked ones."""
    found = [
        (m, "d", dict(m.d))
        for m in modules(arguments, keywords)
        if isinstance(getattr(m, "d", None), dict)
    ]
    tracked = [n for n in graph(arguments, keywords) if isinstance(n, nnx.Dict)]
    return found + [(n, None, dict(n)) for n in tracked]


def _put_dict(holder, key, items):
    container = holder if key is None else holder.d
    if isinstance(container, dict | nnx.Dict):
        container.clear()
        container.update(items)


@lifted
class OverlooksListEdits:
    """Breaks JIT-3e: a call sees a list as it was in the call before."""

    call = stale(_lists, _put_list)


@lifted
class OverlooksDictEdits:
    """Breaks JIT-3f: a call sees a dict as it was in the call before."""

    call = stale(_dicts, _put_dict)


@lifted
class OverlooksMetadata:
    """Breaks JIT-3g: a call sees metadata as it was in the call before."""

    call = stale(
        lambda a, k: [(v, "metadata", v.get_metadata()) for v in variables(a, k)],
        lambda variable, _, metadata: variable.set_metadata(metadata),
    )


@lifted
class OverlooksStaticData:
    """Breaks JIT-3d: a call sees static data as it was in the call before."""

    call = stale(
        lambda a, k: [(m, "e", m.e) for m in modules(a, k) if hasattr(m, "e")],
        lambda module, name, value: setattr(module, name, value),
    )


@lifted
class OverlooksConstants:
    """Breaks JIT-3l: a number, dictionary or set that took the place of other static data is not
    seen.
    """

    @staticmethod
    def call(state, jitted, arguments, keywords):
        held = state.setdefault("held", [])
        changed = []
        for module in modules(arguments, keywords):
            now = getattr(module, "b", None)
            first = [value for old, value in held if old is module]
            if first and isinstance(now, float | dict | set):
                changed.append((module, now, first[0]))
            elif isinstance(now, int | list | dict | set | tuple) and not nnx.has_data(now):
                held.append((module, now))
        for module, _, value in changed:
            module.b = value
        result = jitted(*arguments, **keywords)
        for module, now, _ in changed:
            module.b = now
        return result


def _alike(one, other):
    return jax.numpy.array_equal(one.get_value(), other.get_value())


def _if(condition):
    """A function that puts a variable back if one of equal value is there and `condition` holds."""

    def put(module, name, variable):
        if _alike(variable, getattr(module, name)) and condition(variable, getattr(module, name)):
            setattr(module, name, variable)

    return put


@lifted
class OverlooksTypes:
    """Breaks JIT-3h: a variable with the value of the one before is taken for it."""

    call = stale(attributes, _if(lambda one, other: type(one) is not type(other)))


@lifted
class OverlooksUnsharing:
    """Breaks JIT-3i: a variable like the one before is taken for it, shared or not."""

    call = stale(attributes, _if(lambda one, other: type(one) is type(other)))


@lifted
class TracesAlways:
    """Breaks JIT-3a: each call makes a jitted function of its own."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        return nnx.jit(state["function"], **state["options"])(*arguments, **keywords)


@lifted
class KeepsArguments:
    """Breaks JIT-3j: every argument is kept."""

    @staticmethod
    def call(state, jitted, arguments, keywords):
        state.setdefault("kept", []).append(arguments)
        return jitted(*arguments, **keywords)


@lifted
class OverlooksStaticsOfNodes:
    """Breaks JIT-3k: a call sees the static data of a JAX node as it was in the first call."""

    def call(state, jitted, arguments, keywords):
        held = [getattr(module, "a", None) for module in modules(arguments, keywords)]
        held = [each[0] if isinstance(each, list) and each else each for each in held]
        nodes = [each for each in held if hasattr(each, "tree_flatten_with_keys")]
        now = [node.scale for node in nodes]
        for node in nodes:
            node.scale = state.setdefault(id(node), node.scale)
        try:
            return jitted(*arguments, **keywords)
        finally:
            for node, scale in zip(nodes, now, strict=True):
                node.scale = scale
