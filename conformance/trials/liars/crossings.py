"""Lies of the bridge's variables: BRG-1 to BRG-6."""

import contextlib
import importlib.util
import sys
import time

import jax
from jax.sharding import PartitionSpec
from scutch.namespaces import NAMES
from scutch_reference import bridge, logical, meta, nnx
from scutch_reference.bridge import variables
from scutch_reference.comparison import equal
from scutch_reference.errors import CrossingError, RegistryError
from trials.liars.objects import variables_in
from trials.liars.tale import HONEST, names_in, tell


def of_bridge(lie):
    """Tell a lie of the bridge: the functions and classes in it, in the place of the standard's."""
    tell(lie, claims=HONEST, bridge=names_in(lie, "bridge"))
    return lie


def inside(lie):
    """Tell a lie by changing a copy of the module of variables, which it takes."""
    name = f"{variables.__name__}_{lie.__name__}"
    spec = importlib.util.spec_from_file_location(name, variables.__file__)
    copy = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    lie(copy)
    names = {name: getattr(copy, name) for name in NAMES["bridge"] if hasattr(copy, name)}
    of_bridge(type(lie.__name__, (), {"__doc__": lie.__doc__, **names}))
    return lie


def _mapped(fn, linen_variables):
    """Linen's variables with `fn` of every box."""
    return jax.tree_util.tree_map(
        lambda x: fn(x) if meta.is_axis_metadata(x) else x,
        linen_variables,
        is_leaf=lambda x: meta.is_axis_metadata(x) or isinstance(x, nnx.GraphDef),
    )


# ---------------------------------------------------------------- the registry


@of_bridge
class ClassNames:
    """Breaks BRG-1a: a type goes by the name of its class, whatever it is registered as."""

    def variable_type_name(typ):
        known = (nnx.Param, nnx.BatchStat, nnx.Cache, nnx.Intermediate)
        name = bridge.variable_type_name(typ)
        return name if typ in known else typ.__name__


@of_bridge
class LooksBeforeItLeaps:
    """Breaks BRG-1b: threads that ask for a new name at the same time get a type each."""

    def variable_type(name):
        try:
            return bridge.variable_type_from_name(name)
        except RegistryError:
            time.sleep(0.1)  # the others look meanwhile, also on a busy machine
            typ = type(name, (nnx.Variable,), {})
            return bridge.register_variable_name(name, typ, overwrite=True)


@of_bridge
class SilentlyTaken:
    """Breaks BRG-1c: a name that is taken is left to its owner without a word."""

    def register_variable_name_type_pair(name, typ, overwrite=False):
        with contextlib.suppress(RegistryError):
            bridge.register_variable_name(name, typ, overwrite=overwrite)


@of_bridge
class TakesItsClassName:
    """Breaks BRG-1c: a new type takes its class name from the type that has it."""

    def variable_type_name(typ):
        try:
            return bridge.variable_type_name(typ)
        except RegistryError:
            bridge.register_variable_name(typ.__name__, typ, overwrite=True)
            return typ.__name__


@of_bridge
class TakenByWhom:
    """Breaks BRG-1e: the error for a taken name shows the name alone."""

    def register_variable_name_type_pair(name, typ, overwrite=False):
        try:
            bridge.register_variable_name(name, typ, overwrite=overwrite)
        except RegistryError as error:
            raise ValueError(f"{name} is taken") from error


@of_bridge
class NeverOverwrites:
    """Breaks BRG-1d: a pair that is there stays, whatever is asked."""

    def register_variable_name_type_pair(name, typ, overwrite=False):
        if not overwrite:
            bridge.register_variable_name(name, typ)


def _renamed(name):
    return {"cache": "Cache", "Cache": "cache"}.get(name, name)


@of_bridge
class NoCache:
    """Breaks BRG-2: the type that is known from the start as `cache` has the name `Cache`."""

    def variable_type(name):
        return bridge.variable_type(_renamed(name))

    def variable_type_name(typ):
        return _renamed(bridge.variable_type_name(typ))


def _depth(typ):
    return sum(issubclass(base, nnx.Variable) for base in typ.__mro__)


@of_bridge
class BasesFirst:
    """Breaks BRG-3a: every type comes after its bases."""

    def sort_variable_types(types):
        return sorted(types, key=_depth)


@of_bridge
class Alphabetical:
    """Breaks BRG-3b: types of one depth are sorted by their names."""

    def sort_variable_types(types):
        return sorted(types, key=lambda typ: (-_depth(typ), typ.__name__))


# ---------------------------------------------------------------- crossings


@of_bridge
class NotesPlainValues:
    """Breaks BRG-4a: the variable of a plain value has metadata."""

    def to_nnx_var(col, x):
        variable = bridge.to_nnx_var(col, x)
        if not meta.is_axis_metadata(x):
            variable.set_metadata(plain=True)
        return variable


@of_bridge
class ForgetsTheMesh:
    """Breaks BRG-4b: the mesh of a box does not cross."""

    def to_nnx_var(col, x):
        return bridge.to_nnx_var(col, x.replace(mesh=None) if type(x) is meta.Partitioned else x)


@of_bridge
class ForgetsTheRules:
    """Breaks BRG-4c: the rules of a logical box do not cross."""

    def to_nnx_var(col, x):
        logically = isinstance(x, logical.LogicallyPartitioned)
        return bridge.to_nnx_var(col, x.replace(rules=None) if logically else x)


@of_bridge
class TuplesBecomeLists:
    """Breaks BRG-4d: tuples in the attributes of foreign boxes become lists."""

    def to_nnx_var(col, x):
        variable = bridge.to_nnx_var(col, x)
        for name in ("names", "called"):
            if variable.has_metadata(name):
                variable.set_metadata(name, list(variable.get_metadata(name)))
        return variable


@of_bridge
class ReturnsWithoutNames:
    """Breaks BRG-4b and BRG-4d: a `Partitioned` box comes back without names."""

    def to_linen_var(variable):
        box = bridge.to_linen_var(variable)
        return box.replace(names=()) if type(box) is meta.Partitioned else box


@of_bridge
class CreatesAgain:
    """Breaks BRG-4e: the variable that comes back is made anew, with its creation hooks."""

    def to_nnx_var(col, x):
        variable = bridge.to_nnx_var(col, x)
        if isinstance(x, bridge.NNXMeta):
            return type(variable)(variable.get_raw_value(), **variable.get_metadata())
        return variable


@of_bridge
class ForgetsTheClassOfTheBox:
    """Breaks BRG-4e: a variable that came from a box, and to which metadata were added, comes back
    without the class of the box.
    """

    def to_nnx_var(col, x):
        variable = bridge.to_nnx_var(col, x)
        if isinstance(x, bridge.NNXMeta) and variable.has_metadata("linen_meta_type"):
            variable.del_metadata("linen_meta_type")
        return variable


@of_bridge
class SharesContainers:
    """Breaks BRG-4h: the value on the other side is in the same containers."""

    def to_linen_var(variable):
        made, value = bridge.to_linen_var(variable), variable.get_raw_value()
        return made.replace_boxed(value) if meta.is_axis_metadata(made) else value


@of_bridge
class SharesNotesInTrees:
    """Breaks BRG-4h: the boxes of a converted tree have the lists of the variables."""

    def nnx_attrs_to_linen_vars(attributes):
        lists = [each.raw_metadata.get("list") for each in variables_in(attributes)]
        made = bridge.nnx_attrs_to_linen_vars(attributes)
        for box in jax.tree.leaves(made, is_leaf=meta.is_axis_metadata):
            held = getattr(box, "metadata", {})
            same = [each for each in lists if each is not None and each == held.get("list")]
            if same:
                object.__setattr__(box, "metadata", {**held, "list": same[0]})
        return made


@of_bridge
class EmptiesTheBox:
    """Breaks BRG-4f: a logical box that has crossed has no rules any more."""

    def to_nnx_var(col, x):
        variable = bridge.to_nnx_var(col, x)
        if type(x) is logical.LogicallyPartitioned:
            object.__setattr__(x, "rules", None)
        return variable


@of_bridge
class NotesTheCrossing:
    """Breaks BRG-4f: a list in the metadata of a variable that crosses is longer afterwards."""

    def to_linen_var(variable):
        for held in variable.raw_metadata.values():
            if isinstance(held, list):
                held.append("crossed")
        return bridge.to_linen_var(variable)


@of_bridge
class NotesTheConversion:
    """Breaks BRG-4f: variables with metadata, converted in a tree, have one more afterwards."""

    def nnx_attrs_to_linen_vars(attributes):
        for _, variable in nnx.to_flat_state(attributes):
            noted = isinstance(variable, nnx.Variable) and not bridge.is_vanilla_variable(variable)
            if noted and not variable.has_metadata("linen_meta_type"):
                variable.set_metadata(converted=True)
        return bridge.nnx_attrs_to_linen_vars(attributes)


@of_bridge
class AnyCollection:
    """Breaks BRG-4g: a box crosses to its own type, whatever the collection is."""

    def to_nnx_var(col, x):
        own = isinstance(x, bridge.NNXMeta)
        return bridge.to_nnx_var(bridge.variable_type_name(x.var_type) if own else col, x)


# ---------------------------------------------------------------- boxes of variables


@of_bridge
class HooksAreVanilla:
    """Breaks BRG-5a: a variable with nothing but hooks is vanilla."""

    def is_vanilla_variable(variable):
        return all(name.startswith("on_") for name in variable.get_metadata())


@of_bridge
class Untagged:
    """Breaks BRG-5b: the box of a variable does not have its tag."""

    def to_linen_var(variable):
        box = bridge.to_linen_var(variable)
        if not isinstance(box, bridge.NNXMeta):
            return box
        metadata = {name: each for name, each in box.metadata.items() if name != "tag"}
        return bridge.NNXMeta(box.var_type, box.value, metadata)


@inside
def EqualWithoutMetadata(variables):
    """Breaks BRG-5c: boxes are equal when their types and values are."""

    def alike(self, other):
        return self.var_type is other.var_type and equal(self.value, other.value)

    variables.NNXMeta.__eq__ = alike


@inside
def CanBeFilled(variables):
    """Breaks BRG-5c: the value of a box of a variable can be set."""
    variables.NNXMeta.__setattr__ = object.__setattr__


@inside
def AxesToDo(variables):
    """Breaks BRG-5d: a box of a variable neither gains nor loses an axis."""
    variables.NNXMeta.add_axis = variables.NNXMeta.remove_axis = lambda box, index, params: box


@inside
def AlwaysReplicated(variables):
    """Breaks BRG-5e: the partition spec of an `NNXMeta` box is always empty."""
    variables.NNXMeta.get_partition_spec = lambda box: PartitionSpec()


# ---------------------------------------------------------------- trees


@of_bridge
class OpensBoxes:
    """Breaks BRG-6a: partitioned boxes come back opened."""

    def nnx_attrs_to_linen_vars(attributes):
        bare = lambda box: box.value if isinstance(box, meta.Partitioned) else box  # noqa: E731
        return _mapped(bare, bridge.nnx_attrs_to_linen_vars(attributes))


@of_bridge
class ListsBareArrays:
    """Breaks BRG-6a and BRG-6b: an array that is in no box comes back as a list of numbers."""

    def nnx_attrs_to_linen_vars(attributes):
        return jax.tree_util.tree_map(
            lambda x: x if meta.is_axis_metadata(x) or not hasattr(x, "tolist") else x.tolist(),
            bridge.nnx_attrs_to_linen_vars(attributes),
            is_leaf=lambda x: meta.is_axis_metadata(x) or isinstance(x, nnx.GraphDef),
        )


@of_bridge
class BareAttributes:
    """Breaks BRG-6b: the metadata of variables stays behind."""

    def nnx_attrs_to_linen_vars(attributes):
        bare = lambda box: box.value if isinstance(box, bridge.NNXMeta) else box  # noqa: E731
        return _mapped(bare, bridge.nnx_attrs_to_linen_vars(attributes))


@of_bridge
class LowersNewNames:
    """Breaks BRG-6b: the collection of a new type is named like its class in small letters."""

    def nnx_attrs_to_linen_vars(attributes):
        made = bridge.nnx_attrs_to_linen_vars(attributes)
        is_new = lambda col: col != "nnx" and bridge.variable_type(col).__name__ == col  # noqa: E731
        return {col.lower() if is_new(col) else col: tree for col, tree in made.items()}


@of_bridge
class FirstComeFirstServed:
    """Breaks BRG-6c: a collection whose paths are taken is left out."""

    def linen_vars_to_nnx_attrs(collections):
        try:
            return bridge.linen_vars_to_nnx_attrs(collections)
        except CrossingError:
            return bridge.linen_vars_to_nnx_attrs(dict([next(iter(collections.items()))]))


@of_bridge
class ClashWithoutAPath:
    """Breaks BRG-6g: the error for a path in two collections shows neither."""

    def linen_vars_to_nnx_attrs(collections):
        try:
            return bridge.linen_vars_to_nnx_attrs(collections)
        except CrossingError as error:
            raise ValueError("a path is taken") from error


@of_bridge
class DictionariesOnly:
    """Breaks BRG-6d: mappings of other classes are refused."""

    def linen_vars_to_nnx_attrs(collections):
        if not isinstance(collections, dict):
            raise TypeError(f"{collections!r} is no dictionary")
        return bridge.linen_vars_to_nnx_attrs(collections)


@of_bridge
class LeavesOut:
    """Breaks BRG-6i: attributes that are neither variables nor graph definitions are left out."""

    def nnx_attrs_to_linen_vars(attributes):
        crossing = nnx.Variable | nnx.GraphDef
        flat = nnx.to_flat_state(attributes)
        kept = [(path, held) for path, held in flat if isinstance(held, crossing)]
        return bridge.nnx_attrs_to_linen_vars(nnx.from_flat_state(kept))


@of_bridge
class AnyKey:
    """Breaks BRG-6e: whatever a path begins with is taken for a collection."""

    def get_col_name(keypath):
        return str(getattr(keypath[0], "key", keypath[0]))


@of_bridge
class KeyUnnamed:
    """Breaks BRG-6h: the error for a path without a collection does not show the path."""

    def get_col_name(keypath):
        if not isinstance(keypath[0], jax.tree_util.DictKey):
            raise TypeError("no collection")
        return bridge.get_col_name(keypath)


@of_bridge
class GraphsElsewhere:
    """Breaks BRG-6f: graph definitions lie in the collection `graphs`."""

    def nnx_attrs_to_linen_vars(attributes):
        made = bridge.nnx_attrs_to_linen_vars(attributes)
        return {"graphs" if col == "nnx" else col: tree for col, tree in made.items()}
