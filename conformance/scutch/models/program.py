"""Constrained activations, draws of random numbers, loops and callbacks of a traced program.

The program is read as JAX has traced it, before XLA. A *place* in it is the path of modules that
JAX keeps beside each operation, which Linen writes, or else the line of the owner's code.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jax.interpreters.partial_eval import dce_jaxpr

from scutch.models.annotations import axes_of

_HOST = ("callback", "debug_print", "infeed", "outfeed")
CONSTRAINT, DRAW = "sharding_constraint", "random_bits"
_LIBRARIES = ("site-packages", "dist-packages", "scutch_reference", "/scutch/")
_UNBOX = "unbox"
_CALLS = ("jit", "pjit", "closed_call", "checkpoint", "remat2", "remat", "core_call")
_NO_KEY = ("shape", "sharding", "name")


@dataclass(frozen=True)
class Constraint:
    """An array that the program constrains to a spec.

    Args:
      place: Where in the program.
      shape: Of the activation.
      spec: The mesh axes of each axis.
      parameter: Whether the array is a parameter on its way out of its box.
      made_of: The inputs of the program that it depends on, one bit for each.
    """

    place: str
    shape: tuple[int, ...]
    spec: tuple[Any, ...]
    parameter: bool
    made_of: int


@dataclass(frozen=True)
class Draw:
    """A draw of random numbers.

    Args:
      place: Where in the program.
      key: Equal for equal keys.
      loop: The number of iterations in which the key is the same; 1 outside of loops.
    """

    place: str
    key: Any
    loop: int


@dataclass(frozen=True)
class Loop:
    """A scan.

    Args:
      place: Where in the program.
      length: Its iterations.
      carries: The shapes of its carries.
      inputs: The shapes of the arrays that it scans over.
      constrained: The shapes of the activations that its body constrains.
    """

    place: str
    length: int
    carries: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    constrained: tuple[tuple[int, ...], ...]


@dataclass
class Program:
    """The parts of one traced program that laws ask about, in program order.

    Args:
      constraints: Constrained arrays.
      draws: Draws of random numbers.
      loops: Scans.
      callbacks: Places of calls to the host.
      made_of: By symbol, the inputs of the program that a value depends on, one bit for each.
    """

    constraints: list[Constraint] = dataclasses.field(default_factory=list)
    draws: list[Draw] = dataclasses.field(default_factory=list)
    loops: list[Loop] = dataclasses.field(default_factory=list)
    callbacks: list[str] = dataclasses.field(default_factory=list)
    made_of: dict[Any, int] = dataclasses.field(default_factory=dict)


def read(closed: Any) -> Program:
    """Read a program, without the equations that its outputs do not depend on.

    Args:
      closed: As `jax.make_jaxpr` gives it.
    """
    found, everything = Program(), [True] * len(closed.jaxpr.outvars)
    needed, _ = dce_jaxpr(closed.jaxpr, everything, instantiate=True)
    inputs = [("input", number) for number, _ in enumerate(needed.invars)]
    found.made_of.update((each, 1 << each[1]) for each in inputs)
    _walk(needed, inputs, "", found, {}, 1)
    return found


def _walk(
    jaxpr: Any, inputs: Sequence[Any], above: str, found: Program, steady: dict[Any, int], loop: int
) -> list[Any]:
    """Read the equations of a program, and give the symbols of its outputs.

    Args:
      jaxpr: The program.
      inputs: A symbol for each input; equal symbols are equal values.
      above: The place of the call whose body the program is.
      found: The result, to which the function adds.
      steady: Symbols that are the same in each iteration of the loop around, with its length.
      loop: The iterations of the loop around.
    """
    symbols: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    symbols.update((each, ("constant", id(each))) for each in jaxpr.constvars)

    def of(atom: Any) -> Any:
        return ("literal", str(atom)) if hasattr(atom, "val") else symbols[atom]

    for equation in jaxpr.eqns:
        name, place = equation.primitive.name, _place(equation, above)
        read_from = [of(atom) for atom in equation.invars]
        made_of = _together(found, read_from)
        if name == CONSTRAINT:
            found.constraints.append(_constraint(equation, place, made_of))
        elif name == DRAW:
            times = _repeats(read_from[0], steady, loop)
            found.draws.append(Draw(place, read_from[0], times))
        elif any(word in name for word in _HOST):
            found.callbacks.append(place)
        outputs = _inside(equation, read_from, place, found, steady, loop)
        if outputs is None:
            told = tuple(
                (key, str(value))
                for key, value in sorted(equation.params.items())
                if key not in _NO_KEY and not hasattr(value, "eqns") and not hasattr(value, "jaxpr")
            )
            made = (name, told, tuple(read_from))
            symbols.update((v, (hash((made, n)),)) for n, v in enumerate(equation.outvars))
            found.made_of.update((symbols[v], made_of) for v in equation.outvars)
            if steady and all(each in steady or each[0] == "literal" for each in read_from):
                steady.update((symbols[v], loop) for v in equation.outvars)
        else:
            symbols.update(zip(equation.outvars, outputs, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _inside(
    equation: Any, inputs: list[Any], place: str, found: Program, steady: dict[Any, int], loop: int
) -> list[Any] | None:
    """Read the programs in an equation; the symbols of its outputs, if a call says them."""
    name = equation.primitive.name
    if name == "scan":
        _scan(equation, inputs, place, found)
        return None
    bodies = [body for value in equation.params.values() for body in _programs(value)]
    if name in _CALLS and len(bodies) == 1 and len(bodies[0].invars) == len(inputs):
        return _walk(bodies[0], inputs, place, found, steady, loop)
    for number, body in enumerate(bodies):  # a branch, whose draws exclude those of the others
        fresh = [(id(equation), number, each) for each, _ in enumerate(body.invars)]
        found.made_of.update(dict.fromkeys(fresh, _together(found, inputs)))
        _walk(body, fresh, place, found, {}, 1)
    return None


def _scan(equation: Any, inputs: list[Any], place: str, found: Program) -> None:
    """Read the body of a scan once; inputs that stay the same in each iteration are marked."""
    parameters = equation.params
    consts, carry = parameters["num_consts"], parameters["num_carry"]
    body, length = parameters["jaxpr"].jaxpr, parameters["length"]
    symbols = [
        symbol if number < consts else (id(equation), number)
        for number, symbol in enumerate(inputs)
    ]
    found.made_of.update(dict.fromkeys(symbols[consts:], _together(found, inputs)))
    before = len(found.constraints)
    _walk(body, symbols, place, found, dict.fromkeys(symbols[:consts], length), length)
    shapes = [tuple(v.aval.shape) for v in body.invars]
    inside = [each for each in found.constraints[before:] if not each.parameter]
    found.loops.append(
        Loop(
            place,
            length,
            tuple(shapes[consts : consts + carry]),
            tuple(tuple(v.aval.shape) for v in equation.invars[consts + carry :]),
            tuple(each.shape for each in inside),
        )
    )


def _together(found: Program, symbols: Sequence[Any]) -> int:
    """The inputs of the program that some values depend on."""
    return functools.reduce(operator.or_, (found.made_of.get(each, 0) for each in symbols), 0)


def _repeats(key: Any, steady: dict[Any, int], loop: int) -> int:
    """In how many iterations of the loop around a key is the same."""
    return loop if key in steady else 1


def _programs(value: Any) -> Iterator[Any]:
    """The programs in a parameter of an equation."""
    for each in value if isinstance(value, tuple | list) else (value,):
        inner = getattr(each, "jaxpr", each)
        if hasattr(inner, "eqns"):
            yield inner


def _constraint(equation: Any, place: str, made_of: int) -> Constraint:
    spec = getattr(equation.params["sharding"], "spec", ())
    shape = tuple(equation.invars[0].aval.shape)
    parameter = any(_UNBOX in name for _, _, name in _frames(equation))
    return Constraint(place, shape, tuple(axes_of(entry) for entry in spec), parameter, made_of)


def _place(equation: Any, above: str) -> str:
    """The path of modules of an equation, below that of the call around it."""
    own = str(equation.source_info.name_stack).strip("/")
    joined = "/".join(part for part in (above, own) if part)
    if joined or equation.primitive.name not in (CONSTRAINT, DRAW):
        return joined
    return line_of(equation)


def line_of(equation: Any) -> str:
    """The line of the owner's code that an equation is from, or an empty text."""
    for file, line, _ in _frames(equation):
        if not any(part in file for part in _LIBRARIES):
            return f"{Path(file).name}:{line}"
    return ""


def _frames(equation: Any) -> list[tuple[str, int, str]]:
    traceback = equation.source_info.traceback
    if traceback is None:
        return []
    return [(f.file_name, f.line_num, f.function_name) for f in traceback.frames]
