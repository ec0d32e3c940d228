"""Has anything changed? The answer must be cheap, because it is asked on every call.

Three proofs that a flattened object is still true, the cheapest first:

- The **epoch**, one number for the process: no object that was ever flattened has changed its
  structure since. It costs one comparison.
- The **versions**, one number for each object in the graph. They tell a change of another object
  from a change of this one.
- A **walk** of the graph, which is what the versions save.

A *cell* is a list whose last entry is the version; the cell of a variable starts with its value, so
that a call can fetch and store values without touching the variables. Version 0 says that nobody
has flattened the object yet: then its changes concern nobody, and the epoch stays.
"""

from __future__ import annotations

from typing import Any

# The one owner of the process-wide epoch. It only grows; a lost update of two threads is harmless,
# because each also moves a version.
EPOCH = [1]


def note_change(cell: list[Any]) -> None:
    """Say that the object with this cell has changed its structure."""
    if cell[-1]:
        cell[-1] += 1
        EPOCH[0] += 1


def watch(cell: list[Any]) -> None:
    """From now on, somebody depends on the structure of the object with this cell."""
    if not cell[-1]:
        cell[-1] = 1
