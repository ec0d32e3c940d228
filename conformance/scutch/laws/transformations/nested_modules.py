"""A module that holds another: the four variables of a small model, at known places.

model = nested_model(nnx, tied=True)
at(model, ("c", "a"))            # the inner module's, here the parameter of the outer one
"""

import functools

import numpy as np

from scutch.inputs.graphs import classes, nodes

PLACES = (("a",), ("b",), ("c", "a"), ("c", "b"))
"""The paths of the variables."""


def nested_model(nnx, tied, changed=lambda variable, value: None):
    """A module that holds another, with variables of whole numbers.

    Args:
      nnx: The namespace of objects.
      tied: Whether the inner module holds the parameter of the outer one.
      changed: Called with each new variable and its value, before it is held.
    """
    own = classes(nnx)

    def variable(kind, first):
        value = np.arange(first, first + 2, dtype="float32")
        made = own[kind](value)
        changed(made, value)
        return made

    root, root.c = own["Node"](), own["Branch"]()
    root.a, root.b = variable("Param", 1), variable("BatchStat", 2)
    root.c.a, root.c.b = root.a if tied else variable("Scale", 3), variable("Count", 0)
    return root


def at(root, place):
    """The attribute of an attribute that a path leads to."""
    return functools.reduce(getattr, place, root)


def node_pairs(nnx, one, other):
    """The nodes of two isomorphic objects, in pairs."""
    return list(zip(nodes(nnx, one), nodes(nnx, other), strict=True))
