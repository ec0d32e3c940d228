"""The liar of BOX-9b, of both box classes, as an adapter for a process without assertions."""

from scutch.implementation import Implementation
from trials.liars import axes, tale

_LIARS = [liar.implementation for liar in tale.LIARS if liar.name.startswith(axes.Asserts.__name__)]

implementation = Implementation("asserting", "0", meta=_LIARS[0].meta, logical=_LIARS[1].logical)
