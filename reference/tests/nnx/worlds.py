"""Random worlds of objects, and random programs that change them."""

from __future__ import annotations

import random
from typing import Any

import jax.numpy as jnp
import numpy as np
from scutch_reference import nnx
from scutch_reference.nnx.flatten import flatten, read


class Counter(nnx.Variable[Any]):
    """A type of the user's own."""


class Node(nnx.Module):
    """An object whose attributes are up to the program."""


VARIABLES = (nnx.Param, nnx.BatchStat, Counter)
NAMES = ("a", "b", "c", "d", "e")


def value(rng: random.Random, depth: int, known: list[Any]) -> Any:
    """Anything that an attribute may hold."""
    kind = rng.randrange(10 if depth else 5)
    if known and rng.random() < 0.2:
        return rng.choice(known)
    if kind < 2:
        made: Any = rng.choice(VARIABLES)(jnp.full((2,), float(rng.randrange(9))))
        if rng.random() < 0.4:
            made.set_metadata(tag=rng.choice("xyz"))
    elif kind == 2:
        return jnp.full((2,), float(rng.randrange(9)))
    elif kind == 3:
        return rng.choice([1, "one", None, True, 1.0, (1, 2), -0.0])
    elif kind == 4:
        return nnx.static(rng.randrange(5))  # A number as data would become an array.
    elif kind == 5:
        return tuple(plain(value(rng, depth - 1, known)) for _ in range(rng.randrange(3)))
    elif kind == 6:
        made = [plain(value(rng, depth - 1, known)) for _ in range(rng.randrange(3))]
    elif kind == 7:
        made = {name: plain(value(rng, depth - 1, known)) for name in NAMES[: rng.randrange(3)]}
    elif kind == 8:
        made = nnx.List([value(rng, depth - 1, known) for _ in range(rng.randrange(3))])
    else:
        made = Node()
        known.append(made)
        for name in rng.sample(NAMES, rng.randrange(1, 4)):
            setattr(made, name, value(rng, depth - 1, known))
    known.append(made)
    return made


def plain(marked: Any) -> Any:
    """The value without its marker: markers are for attributes only."""
    return (
        marked.metadata["value"]
        if hasattr(marked, "metadata") and hasattr(marked, "default_factory")
        else marked
    )


def world(seed: int) -> Node:
    """A random graph, the same for the same seed."""
    rng = random.Random(seed)
    root = Node()
    known: list[Any] = [root]
    for name in NAMES[:4]:
        setattr(root, name, value(rng, 2, known))
    return root


def step(rng: random.Random, root: Any) -> Any:
    """Do one random thing to a world."""
    nodes = flatten([root])[1][1:]
    known = list(nodes)
    node = rng.choice(nodes)
    choice = rng.random()
    if isinstance(node, nnx.Variable):
        if choice < 0.5:
            node[...] = node[...] * 2 + 1
        elif choice < 0.7:
            node.set_metadata(tag=rng.choice("xyzw"), other=rng.randrange(3))
        elif choice < 0.8 and node.has_metadata("tag"):
            node.del_metadata("tag")
    elif isinstance(node, nnx.List):
        if choice < 0.5 or not len(node):
            node.append(value(rng, 1, known))
        elif choice < 0.7:
            del node[0]
        else:
            node[-1] = value(rng, 1, known)
    elif isinstance(node, Node):
        names = sorted(vars(node))
        if choice < 0.5 or not names:
            setattr(node, rng.choice(NAMES), value(rng, 1, known))
        elif choice < 0.7:
            delattr(node, rng.choice(names))
        elif len(names) > 1:
            x, y = rng.sample(names, 2)
            first, second = getattr(node, x), getattr(node, y)
            setattr(node, x, second)
            setattr(node, y, first)
    elif isinstance(node, list):
        if choice < 0.5 or not node:
            node.append(plain(value(rng, 1, known)))
        elif choice < 0.7:
            node.pop()
        else:
            node[0] = plain(value(rng, 1, known))
    elif choice < 0.6 or not node:
        node[rng.choice(NAMES)] = plain(value(rng, 1, known))
    elif choice < 0.8:
        del node[rng.choice(sorted(node))]
    else:
        node.update(dict(reversed(list(node.items()))))
    return rng.choice([None, node, root, jnp.ones(2)])


def run(seed: int, steps: int, root: Any, x: Any) -> Any:
    """A program: the same steps for the same seed and the same structure.

    A plain container that is not in the world any more is no object, and not returned: numbers in
    it would be outputs like all others, and come out as arrays, as from `jax.jit`.
    """
    rng = random.Random(seed)
    results = [step(rng, root) for _ in range(steps)]
    inside = set(map(id, flatten([root])[1][1:]))
    kept = [r for r in results if id(r) in inside or not isinstance(r, list | dict)]
    return [r for r in kept if r is not None] + [x * 2]


def snapshot(root: Any, out: Any, before: list[Any]) -> Any:
    """A world in a form that compares: structure, values, and which node is which."""
    definition, nodes, slots, _ = flatten([root, out])
    numbers = {id(node): i for i, node in enumerate(before)}
    identities = [numbers.get(id(node)) for node in nodes[1:]]
    return definition, identities, [np.asarray(leaf).tolist() for leaf in read(slots)]
