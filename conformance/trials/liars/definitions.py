"""Graph definitions of liars: the reference's own, with something around them."""

import jax
from scutch_reference import nnx


class Opaque:
    """A graph definition that JAX takes for a leaf of a type that it does not know.

    Args:
      definition: The reference's.
      key: Compared beside the definition.
    """

    def __init__(self, definition, key=None):
        self.definition, self.key = definition, key

    def __eq__(self, other):
        return isinstance(other, Opaque) and self._parts() == other._parts()

    def __hash__(self):
        return hash(self._parts())

    def _parts(self):
        return self.definition, self.key


class Keyed(Opaque):
    """One that JAX knows as a node without leaves."""


jax.tree_util.register_static(Keyed)


def merged(definition, *states, **options):
    """`nnx.merge`, of a definition that may be one of these."""
    return nnx.merge(getattr(definition, "definition", definition), *states, **options)
