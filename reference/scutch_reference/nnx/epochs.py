"""Has anything changed? The answer must be cheap, because it is asked on every call.

If the *epoch* of the process is the same, no object that was ever flattened has changed its
structure. If not, the *versions* of objects tell whether it was one of these.

A *cell* is a list whose last entry is the version; the cell of a variable starts with its value, so
that a call can fetch and store it without touching the variable. Version 0 says that nobody has
flattened the object yet: then its changes concern nobody, and the epoch stays.
"""

from typing import Any

# The one owner of the epoch. A lost update of two threads is harmless: each moves a version, too.
EPOCH = [1]


def note_change(cell: list[Any]) -> None:
    """Say that the object with this cell has changed its structure."""
    if cell[-1]:
        cell[-1] += 1
        EPOCH[0] += 1
