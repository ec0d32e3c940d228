"""Lies of contexts of updates: OBJ-10e to OBJ-10h."""

import contextlib
from types import SimpleNamespace

from scutch_reference import nnx
from scutch_reference.errors import LiftingError
from trials.liars.tale import of_objects


@of_objects
class MergesCopies:
    """Breaks OBJ-10e: outside, a context of updates merges new objects, and changes none."""

    def merge_context(ctxtag=None, inner=None):
        return nnx.merge_context(None if inner is False else ctxtag, inner)

    def from_tree(tree, *, is_inner=None, ctxtag=None):
        return nnx.from_tree(tree, is_inner=is_inner, ctxtag=None if is_inner is False else ctxtag)


@of_objects
class MergesEachAlone:
    """Breaks OBJ-10f: a merge context without a name shares no objects between its merges."""

    @contextlib.contextmanager
    def merge_context(ctxtag=None, inner=None):
        with nnx.merge_context(ctxtag, inner) as context:
            yield SimpleNamespace(merge=nnx.merge) if ctxtag is None else context


@of_objects
class HasAContextAlways:
    """Breaks OBJ-10g: where there is no context of a name, a new one is found."""

    def current_update_context(tag):
        try:
            return nnx.current_update_context(tag)
        except LiftingError:
            return nnx.current_update_context(None)


@of_objects
class MergesInside:
    """Breaks OBJ-10h: where the side is not said, it is the inner one."""

    def merge_context(ctxtag=None, inner=None):
        return nnx.merge_context(ctxtag, ctxtag is not None if inner is None else inner)

    def from_tree(tree, *, is_inner=None, ctxtag=None):
        inner = ctxtag is not None if is_inner is None else is_inner
        return nnx.from_tree(tree, is_inner=inner, ctxtag=ctxtag)
