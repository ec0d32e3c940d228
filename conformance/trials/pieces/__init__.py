"""Pieces of public projects that are not boxes, written anew from what their authors say of them.

A *piece* is a small adapter: it claims the standard's names that a project has a counterpart of,
and says which options its counterpart lacks. Each is here as its project describes it; none of
their code is here. Each says by which requirements it is judged, and what it is convicted of, with
the document that says so.
"""

from trials.pieces import bridge, lifts, objects, resolvers

PIECES = (*resolvers.PIECES, *lifts.PIECES, *objects.PIECES, *bridge.PIECES)
