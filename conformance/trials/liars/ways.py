"""Lies about ways to change and copy variables, and about their hooks: OBJ-11."""

import numpy as np
from scutch_reference import nnx
from trials.liars.tale import of_objects


@of_objects
class ReplaceKeepsTheRest:
    """Breaks OBJ-11a: `replace` with a value and metadata leaves the metadata out."""

    class Param(nnx.Param):
        def replace(self, *value, **updates):
            return super().copy(*value, **({} if value else updates))


@of_objects
class BroughtHooksAlone:
    """Breaks OBJ-11b: hooks that are set later are not run."""

    class Param(nnx.Param):
        def set_metadata(self, *args, **kwargs):
            hooks = {name: each for name, each in kwargs.items() if name.startswith("on_")}
            kept = {name: each for name, each in kwargs.items() if name not in hooks}
            if args or kept or not kwargs:
                super().set_metadata(*args, **kept)


@of_objects
class PairsAreForgotten:
    """Breaks OBJ-11c: a pair with an older name is forgotten."""

    class Param(nnx.Param):
        def set_metadata(self, *args, **kwargs):
            if len(args) == 2 and args[0] in ("sharding", "sharding_names"):
                return
            super().set_metadata(*args, **kwargs)


@of_objects
class CopiesAreTheSame:
    """Breaks OBJ-11e: a shallow copy is the variable itself."""

    class Param(nnx.Param):
        def __copy__(self):
            return self


@of_objects
class PassesKeywordsOver:
    """Breaks OBJ-11h: keywords beside a mapping or a pair are passed over."""

    class Param(nnx.Param):
        def set_metadata(self, *args, **kwargs):
            super().set_metadata(*args, **({} if args else kwargs))


@of_objects
class MultipliesInPlace:
    """Breaks OBJ-11h: `v @= x` makes `v` an array."""

    class Param(nnx.Param):
        def __imatmul__(self, other):
            return self.get_value() @ other


@of_objects
class NotesThatAllWereSet:
    """Breaks OBJ-11j: a variable whose metadata were all set by a mapping has one more."""

    class Param(nnx.Param):
        def set_metadata(self, *args, **kwargs):
            if len(args) == 1:
                args = ({**args[0], "set": True},)
            super().set_metadata(*args, **kwargs)


@of_objects
class WritesIntoTheArray:
    """Breaks OBJ-11k: a part is written into the array of NumPy that copies have, too."""

    class Param(nnx.Param):
        def __setitem__(self, index, value):
            held = self.get_raw_value()
            if isinstance(held, np.ndarray):
                held[index] = value
            else:
                super().__setitem__(index, value)
