"""Has anything changed? The answer must be cheap, because it is asked on every call.

Three proofs that a flattened object is still true, the cheapest first: the *epoch*, one number for
the process, says that no object that was ever flattened has changed its structure since; the
*versions*, one number for each object, tell changes in a graph from changes elsewhere; a *walk* of
the graph is what the versions save.

A *cell* is a list whose last entry is the version; the cell of a variable starts with its value, so
that a call can fetch and store values without touching the variables. Version 0 says that nobody
has flattened the object yet: then its changes concern nobody, and the epoch stays.
"""

from typing import Any

# The one owner of the process-wide epoch. It only grows; a lost update of two threads is harmless,
# because each also moves a version.
EPOCH = [1]


def note_change(cell: list[Any]) -> None:
    """Say that the object with this cell has changed its structure."""
    if cell[-1]:
        cell[-1] += 1
        EPOCH[0] += 1
