"""The normal form of a jaxpr: where two forms are equal, the programs compute the same.

The module `traces` says how a program becomes its form, and why equal forms suffice:

    jaxpr = jax.make_jaxpr(jnp.sin)(1.0)
    form_of(jaxpr.jaxpr, jaxpr.consts)

gives it as a tuple that can be hashed.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Form = tuple[Hashable, ...]

NOT_FREE = ("callback", "rng_uniform", "infeed", "outfeed", "debug_print", "send", "recv")
"""Parts of the names of primitives that do something beside their outputs, or are not the same each
time, though their equations may have no effect. A callback of the host may count its calls."""

_NAMES = {"jit": ("name",), "pjit": ("name",)}
"""Parameters that name a function for people who read the program, by primitive."""

_CONTEXT = (
    "compute_type",
    "threefry_partitionable",
    "cur_abstract_mesh",
    "remove_size_one_mesh_axis",
    "xla_metadata",
)
"""The fields of an equation's context that its form keeps, where the context has them."""

_TRUSTED = ("builtins", "jax", "jaxlib", "ml_dtypes", "numpy")
"""The packages whose classes say themselves which values are equal."""


def form_of(jaxpr: Any, constants: Sequence[Any]) -> Form:
    """The normal form of a jaxpr.

    Args:
      jaxpr: An open jaxpr.
      constants: The values of its `constvars`.

    Returns:
      The types of its inputs, its equations, its outputs, and its effects.
    """
    graph = _Graph()
    inputs = [("input", n) for n in range(len(jaxpr.invars))]
    outputs = graph.add(jaxpr, list(map(_constant, constants)), inputs)
    types = [tuple(_type(v.aval) for v in each) for each in (jaxpr.invars, jaxpr.outvars)]
    effects = tuple(sorted(repr(each) for each in jaxpr.effects))
    return types[0], *graph.written(outputs), types[1], effects


# ---------------------------------------------------------------- equations

Value = tuple[Any, ...]
"""Where a value comes from: `("input", n)`, `("constant", ...)`, or `("output", n, k)`, output `k`
of equation `n` of a graph."""


class _Graph:
    """The equations of a jaxpr and of the calls that are inlined in it, free ones merged.

    Attributes:
      equations: For each number, the description of an equation and its operands.
      kept: The numbers of the equations that are not free, in their order.
    """

    def __init__(self) -> None:
        self.equations: list[tuple[Hashable, tuple[Value, ...]]] = []
        self.kept: list[int] = []
        self._numbers: dict[Hashable, int] = {}

    def add(self, jaxpr: Any, constants: list[Value], inputs: list[Value]) -> list[Value]:
        """Add the equations of a jaxpr.

        Args:
          jaxpr: An open jaxpr.
          constants: Where the values of its `constvars` come from.
          inputs: Where the values of its `invars` come from.

        Returns:
          Where its outputs come from.
        """
        held = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *inputs], strict=True))

        def value(variable: Any) -> Value:
            return _literal(variable) if isinstance(variable, Literal) else held[variable]

        for equation in jaxpr.eqns:
            operands = list(map(value, equation.invars))
            body = _body(equation)
            if body is None:
                outputs = self._put(equation, operands)
            else:
                outputs = self.add(body.jaxpr, list(map(_constant, body.consts)), operands)
            held.update(zip(equation.outvars, outputs, strict=True))
        return list(map(value, jaxpr.outvars))

    def _put(self, equation: Any, operands: list[Value]) -> list[Value]:
        """Add an equation that is no inlined call; reuse an equal free equation of the graph."""
        key = _described(equation), tuple(operands)
        free = _is_free(equation)
        number = self._numbers.get(key) if free else None
        if number is None:
            number = len(self.equations)
            self.equations.append(key)
            if free:
                self._numbers[key] = number
            else:
                self.kept.append(number)
        return [("output", number, place) for place in range(len(equation.outvars))]

    def written(self, outputs: list[Value]) -> tuple[Hashable, Hashable]:
        """Put the equations in a normal order, and number the outputs by it.

        An equation comes after the equations of its operands. First come the equations that are
        not free, in their order, each behind the ones it depends on; then the equations that the
        outputs depend on. All others are left out.
        """
        order: dict[int, int] = {}
        for root in [*self.kept, *(each[1] for each in outputs if each[0] == "output")]:
            stack = [root]
            while stack:
                number = stack[-1]
                needed = [each[1] for each in self.equations[number][1] if each[0] == "output"]
                missing = [each for each in needed if each not in order]
                if number in order or not missing:
                    order.setdefault(number, len(order))
                    stack.pop()
                else:
                    stack.append(missing[0])

        def renamed(value: Value) -> Value:
            return ("output", order[value[1]], value[2]) if value[0] == "output" else value

        equations = tuple(
            (self.equations[number][0], tuple(map(renamed, self.equations[number][1])))
            for number in order
        )
        return equations, tuple(map(renamed, outputs))


def _described(equation: Any) -> Hashable:
    """An equation without its operands: all that it says, and the types of both ends."""
    primitive = equation.primitive
    dropped = _NAMES.get(primitive.name, ())
    parameters = {name: each for name, each in equation.params.items() if name not in dropped}
    return (
        _Itself(primitive),
        _parameter(parameters),
        tuple(_parameter(getattr(equation.ctx, name, None)) for name in _CONTEXT),
        tuple(sorted(repr(each) for each in equation.effects)),
        tuple(_type(each.aval) for each in equation.invars),
        tuple(_type(each.aval) for each in equation.outvars),
    )


def _is_free(equation: Any) -> bool:
    """Whether an equation does nothing beside its outputs, and gives the same each time."""
    if equation.effects or any(part in equation.primitive.name for part in NOT_FREE):
        return False
    return all(_is_free(each) for jaxpr in _inside(equation.params) for each in jaxpr.eqns)


def _inside(value: Any) -> Iterator[Any]:
    """The open jaxprs in a parameter."""
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, Mapping):
        yield from _inside(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _inside(each)


# ---------------------------------------------------------------- calls

_BODIES = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "call_jaxpr",
}
"""Primitives that run a body and do no more, unless an option of `jit` says so, each with the name
of the parameter that holds the body."""

_SAY_NOTHING: Mapping[str, Callable[[Any], bool]] = {
    "in_shardings": lambda given: all(map(_is_unspecified, given)),
    "out_shardings": lambda given: all(map(_is_unspecified, given)),
    "in_layouts": lambda given: all(each is None for each in given),
    "out_layouts": lambda given: all(each is None for each in given),
    "donated_invars": lambda given: not any(given),
    "ctx_mesh": lambda given: given is None or given.empty,
    "keep_unused": lambda given: given is False,
    "inline": lambda given: given is False,
    "compiler_options_kvs": lambda given: given == (),
    "name": lambda given: True,
    "jaxpr": lambda given: True,
}
"""When an option of `jit` says nothing. A call with an option that is not listed is kept."""


def _body(equation: Any) -> Any:
    """The closed jaxpr that an equation runs, where it does no more than that; else `None`."""
    name, parameters = equation.primitive.name, equation.params
    body = parameters.get(_BODIES.get(name, ""))
    if not isinstance(body, ClosedJaxpr):
        return None
    if name in ("jit", "pjit"):
        told = (
            option in _SAY_NOTHING and _SAY_NOTHING[option](v) for option, v in parameters.items()
        )
        if not all(told):
            return None
    context = equation.ctx
    if getattr(context, "compute_type", None) or getattr(context, "xla_metadata", None):
        return None
    ends = ((equation.invars, body.jaxpr.invars), (equation.outvars, body.jaxpr.outvars))
    same = all(
        [_type(v.aval) for v in one] == [_type(v.aval) for v in other] for one, other in ends
    )
    return body if same else None


def _is_unspecified(sharding: Any) -> bool:
    kind: Any = type(sharding)
    return kind.__name__ == "UnspecifiedValue" and _is_trusted(kind)


# ---------------------------------------------------------------- values


def _type(aval: Any) -> Hashable:
    """The type of a value: shape, dtype, weak type, sharding, varying axes and memory.

    JAX compares all of these where it compares types; a trial says so. The type of a value that is
    no array, such as a reference, is compared by JAX's own equality too.
    """
    kind: Any = type(aval)
    if kind is not ShapedArray:
        return kind, aval if _is_trusted(kind) and _is_hashable(aval) else _Itself(aval)
    return kind, aval


def _literal(literal: Any) -> Value:
    """The constant that a literal is: its value in the dtype of its type."""
    return _constant(np.asarray(literal.val).astype(literal.aval.dtype))


def _constant(value: Any) -> Value:
    """A constant: its dtype, its bits, and the devices that it is committed to.

    Its weak type stands in the types of the operands and outputs that it is.
    """
    if isinstance(value, _Unbound):
        return ("unbound", value.number)
    kind: Any = type(value)
    if not _is_trusted(kind) or issubclass(kind, jax.core.Tracer):
        return ("constant", _Itself(value))
    dtype, where = getattr(value, "dtype", None), None
    if isinstance(value, jax.Array):
        if not value.is_fully_addressable:
            return ("constant", _Itself(value))
        where = value.sharding if value.committed else None
        if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
    elif not isinstance(value, bool | int | float | complex | np.ndarray | np.generic):
        return ("constant", _Itself(value))
    array = np.asarray(value)
    if array.dtype.hasobject:
        return ("constant", _Itself(value))
    contents = str(array.dtype), array.shape, array.tobytes()
    return ("constant", _parameter(dtype or array.dtype), contents, _parameter(where))


def _parameter(value: Any) -> Hashable:
    """A value that is equal for equal parameters alone; see the module's docstring."""
    kind: Any = type(value)
    if isinstance(value, ClosedJaxpr):
        return kind, form_of(value.jaxpr, value.consts)
    if isinstance(value, Jaxpr):
        return kind, form_of(value, [_Unbound(n) for n in range(len(value.constvars))])
    if kind in (float, complex):
        return kind, repr(value)  # tells -0.0 from 0.0, and a NaN is a NaN
    if kind in (bool, int, str, bytes, type(None), type(...)):
        return kind, value
    if not _is_trusted(kind) or isinstance(value, type | jax.core.Tracer):
        return _Itself(value)
    if isinstance(value, list | tuple):
        return kind, tuple(map(_parameter, value))
    if isinstance(value, Mapping):
        pairs = ((repr(key), _parameter(key), _parameter(each)) for key, each in value.items())
        return kind, tuple(sorted(pairs, key=lambda pair: pair[0]))
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(_parameter, value))
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return kind, getattr(value, "weak_type", False), _constant(value)
    if isinstance(value, np.dtype):
        return kind, str(value), value
    if isinstance(value, Enum):
        return kind, value.name
    if isinstance(value, PartitionSpec):
        return kind, tuple(map(_parameter, value)), value
    if isinstance(value, NamedSharding):
        return kind, _parameter((value.mesh, value.spec, value.memory_kind)), value
    if isinstance(value, Mesh):
        devices = value.devices.shape, tuple(value.devices.flat)
        return kind, _parameter((value.axis_names, value.axis_types, devices)), value
    if callable(value):
        return _Itself(value)
    if dataclasses.is_dataclass(kind):
        named = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(kind))
        return kind, tuple((name, _parameter(each)) for name, each in named)
    return (kind, value) if _is_hashable(value) else _Itself(value)


@dataclasses.dataclass(frozen=True)
class _Unbound:
    """The value of a constant of an open jaxpr, by number: it is given from outside."""

    number: int


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.cache
def _is_trusted(kind: Any) -> bool:
    """Whether a class is one of the packages in `_TRUSTED`, and does not only say so."""
    found: Any = sys.modules.get(str(kind.__module__))
    for name in str(kind.__qualname__).split("."):
        found = getattr(found, name, None)
    return found is kind and str(kind.__module__).partition(".")[0] in _TRUSTED


class _Itself:
    """A value that is equal to itself alone. It is held, so that no other gets its identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
