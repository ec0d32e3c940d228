"""Calls of laws as texts, which are read back to replay a failure.

A description prints as the call that makes it, so the call of a law on drawn inputs is one line of
text: the *witness* of a failure. It is parsed, not executed, so a witness in a report or in a file
of known failures cannot run anything:

    parse_call("test_boxes_survive_pickling[logical](box=Box(Array((2,)), ('data',)))")
    # ('test_boxes_survive_pickling[logical]', {'box': Box(Array((2,)), ('data',))})
"""

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from scutch.engine.carriers import arrays, linen, objects
from scutch.inputs import (
    described_models,
    described_objects,
    descriptions,
    jit_calls,
    tensor_parallel,
)
from scutch.inputs.descriptions import Description

VOCABULARY: Mapping[str, type[Description]] = MappingProxyType(
    {
        name: kind
        for module in (
            descriptions,
            described_objects,
            described_models,
            jit_calls,
            tensor_parallel,
            arrays,
            objects,
            linen,
        )
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Description) and kind is not Description
    }
)
"""The descriptions that a witness may name."""


class NotACall(ValueError):
    """A text is not the call of a law with described inputs.

    Wrong, as `__import__` is no description:

        parse_call("test_boxes_survive_pickling(box=__import__('os'))")

    Right:

        parse_call("test_boxes_survive_pickling(box=Box(Array((2,)), ('data',)))")
    """


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Read `law(name=description, ...)` back into the law's name and its inputs.

    Args:
      text: Has literals and descriptions of `VOCABULARY` as arguments, each by keyword. A law that
        is tried on several subjects is written as pytest names it: `law[logical](...)`.

    Returns:
      The name of the law, and its inputs by the names of its parameters.

    Raises:
      NotACall: The text has another form; the message quotes the part that could not be read.
    """
    head, bracket, tail = text.strip().partition("(")
    try:
        call = ast.parse(f"_{bracket}{tail}", mode="eval").body
        keywords = getattr(call, "keywords", ())
        if any(keyword.arg is None for keyword in keywords):
            raise NotACall(f"cannot read {text!r}: ** is not allowed")
        inputs = [_value(keyword.value, text) for keyword in keywords]
    except NotACall:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        problem = getattr(error, "msg", str(error))
        raise NotACall(f"cannot read {text!r}: {problem}; expected law(input=..., ...)") from None
    if not isinstance(call, ast.Call) or not bracket or call.args:
        raise NotACall(f"cannot read {text!r}: expected law(input=..., ...)")
    names = [str(keyword.arg) for keyword in call.keywords]
    return head.strip(), dict(zip(names, inputs, strict=True))


def _value(node: ast.expr, text: str) -> Any:
    """The literal or description that an expression in `text` stands for."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in VOCABULARY:
            named = {str(k.arg): _value(k.value, text) for k in keywords}
            try:
                return VOCABULARY[name](*(_value(a, text) for a in args), **named)
            except TypeError as error:
                raise NotACall(f"cannot read {text!r}: {error}") from None
        case ast.Dict(keys=keys, values=values):
            return {
                _value(k, text): _value(v, text)
                for k, v in zip(keys, values, strict=True)
                if k is not None
            }
        case ast.List(elts=elements):
            return [_value(e, text) for e in elements]
        case ast.Tuple(elts=elements):
            return tuple(_value(e, text) for e in elements)
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id="nan"):
            return float("nan")
    raise NotACall(
        f"cannot read {ast.unparse(node)!r} in {text!r}; expected literals and "
        f"{', '.join(VOCABULARY)}"
    )
