"""Steps that write out displays: tuples, lists and dictionaries that a program shows.

{"a": x, "b": y}["a"]              ->  x
[f(each) for each in (x, y)]       ->  [f(x), f(y)]
g(*(x, y), **{"a": z})             ->  g(x, y, a=z)
"""

import ast
import functools
from collections.abc import Iterator

from scutch.reproduce.steps import Change
from scutch.reproduce.syntax import free_nodes, put, replaced


def unrolled(tree: ast.Module) -> Iterator[Change]:
    """The elements of a display in the place of an expression that spreads, maps or indexes it."""
    for node in free_nodes(tree):
        for form in (_looked_up, _mapped, _spread):
            made = form(node)
            if made is not None:
                yield functools.partial(put, node, made)
                break


def _looked_up(node: ast.AST) -> ast.expr | None:
    """The element of a display that a constant or an attribute names; the argument of a wrapper."""
    match node:
        case ast.Subscript(value=ast.Dict() as shown, slice=ast.Constant(value=key)):
            return _value(shown, key)
        case ast.Subscript(value=shown, slice=ast.Constant(value=int() as index)):
            elements = _elements(shown)
            return elements[index] if index < len(elements) else None
        case ast.Call(func=ast.Call(func=called, args=[function, *first], keywords=given)) if (
            ast.unparse(called).endswith("partial")
        ):
            return ast.Call(function, [*first, *node.args], [*given, *node.keywords])
        case ast.Call(func=called, args=[shown], keywords=[]) if ast.unparse(called).endswith(
            "MappingProxyType"
        ):
            return shown
        case ast.Attribute(value=ast.Call(func=called, keywords=given), attr=name) if ast.unparse(
            called
        ).endswith("SimpleNamespace"):
            return next((each.value for each in given if each.arg == name), None)
    return None


def _mapped(node: ast.AST) -> ast.expr | None:
    """A comprehension or `map` over a display, as a display."""
    match node:
        case ast.DictComp(generators=[ast.comprehension(target=ast.Tuple(elts=names), ifs=[])]):
            over = node.generators[0].iter
            return _mapped_items(node, [n.id for n in names if isinstance(n, ast.Name)], over)
        case ast.ListComp(elt=elt, generators=[made]):
            return _display("list", _each(elt, made))
        case ast.Call(
            func=ast.Name(id="list" | "tuple" as kind), args=[ast.GeneratorExp() as inner]
        ):
            return _display(kind, _each(inner.elt, inner.generators[0]))
        case ast.Call(
            func=ast.Name(id="list" | "tuple" as kind),
            args=[ast.Call(func=ast.Name(id="map"), args=[called, shown])],
        ):
            return _display(
                kind, [ast.Call(replaced(called, {}), [e], []) for e in _elements(shown)]
            )
        case ast.Call(func=ast.Name(id="list" | "tuple" as kind), args=[shown]):
            return _display(kind, _elements(shown))
    return None


def _mapped_items(node: ast.DictComp, names: list[str], over: ast.expr) -> ast.expr | None:
    """A dictionary made from the items of another, which is a display."""
    match over:
        case ast.Call(func=ast.Attribute(value=ast.Dict() as shown, attr="items")) if (
            len(names) == 2 and None not in shown.keys
        ):
            pairs = [
                dict(zip(names, (key, value), strict=True))
                for key, value in zip(shown.keys, shown.values, strict=True)
                if key
            ]
            keys = [replaced(node.key, pair) for pair in pairs]
            return ast.Dict([*keys], [replaced(node.value, pair) for pair in pairs])
    return None


def _each(elt: ast.expr, made: ast.comprehension) -> list[ast.expr]:
    """The elements of a comprehension over a display; none if it is over something else."""
    if made.ifs or not isinstance(made.target, ast.Name):
        return []
    return [replaced(elt, {made.target.id: each}) for each in _elements(made.iter)]


def _spread(node: ast.AST) -> ast.expr | None:
    """A call or display in which starred displays are written out."""
    match node:
        case ast.Tuple(elts=elements, ctx=ast.Load()) | ast.List(elts=elements, ctx=ast.Load()):
            flat = [*_flat(elements)]
            return type(node)(flat, ast.Load()) if flat != elements else None
        case ast.Dict(keys=keys) if None in keys:
            pairs = [*_pairs(node)]
            fits = len(pairs) > len(keys) or None not in (key for key, _ in pairs)
            return ast.Dict([k for k, _ in pairs], [v for _, v in pairs]) if fits else None
        case ast.Call():
            flat, given = [*_flat(node.args)], [*_named(node.keywords)]
            changed = flat != node.args or given != node.keywords
            return ast.Call(node.func, flat, given) if changed else None
    return None


def _flat(elements: list[ast.expr]) -> Iterator[ast.expr]:
    """Arguments or elements; a starred display becomes its elements."""
    for each in elements:
        inner = _elements(each.value) if isinstance(each, ast.Starred) else []
        yield from inner or [each]


def _pairs(node: ast.Dict) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    """The keys and values of a display; a display after `**` becomes its keys and values."""
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None and isinstance(value, ast.Dict):
            yield from zip(value.keys, value.values, strict=True)
        else:
            yield key, value


def _named(given: list[ast.keyword]) -> Iterator[ast.keyword]:
    """Keyword arguments; a display after `**` becomes keyword arguments."""
    for each in given:
        shown = each.value if each.arg is None else None
        pairs = [*_pairs(shown)] if isinstance(shown, ast.Dict) else []
        names = [key.value for key, _ in pairs if isinstance(key, ast.Constant)]
        if isinstance(shown, ast.Dict) and len(names) == len(pairs):
            yield from (ast.keyword(str(n), v) for n, (_, v) in zip(names, pairs, strict=True))
        else:
            yield each


def _elements(node: ast.expr) -> list[ast.expr]:
    """The elements of a list or tuple that is a display; none of anything else."""
    return node.elts if isinstance(node, ast.Tuple | ast.List) else []


def _value(shown: ast.Dict, wanted: object) -> ast.expr | None:
    """The value that a display has for a key that is a constant."""
    pairs = zip(shown.keys, shown.values, strict=True)
    return next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == wanted), None)


def _display(kind: str, elements: list[ast.expr]) -> ast.expr | None:
    """A list or a tuple; None without elements."""
    if not elements:
        return None
    return (ast.Tuple if kind == "tuple" else ast.List)(elements, ast.Load())
