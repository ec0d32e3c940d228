"""Copies of the bridge; the reference stands in the place of Flax around them."""

import re
import threading
from collections.abc import Mapping

import jax
from flax import traverse_util
from scutch.adapters.reference import implementation as reference
from trials.pieces.making import piece

BESIDE = {"meta": reference.meta, "logical": reference.logical, "nnx": reference.nnx}


def known_types():
    """The variable types of the collections that Flax knows."""
    nnx = reference.nnx
    return {
        "params": nnx.Param,
        "batch_stats": nnx.BatchStat,
        "cache": nnx.Cache,
        "intermediates": nnx.Intermediate,
    }


def two_tables(named):
    """A registry with a dictionary for each direction, under a lock.

    Args:
      named: The name of a new type.
    """
    types = known_types()
    names = {typ: name for name, typ in types.items()}
    lock = threading.RLock()

    def register(name, typ, overwrite=False):
        with lock:
            if name in types and not overwrite:
                raise ValueError(f"{name!r} is the name of {types[name]}, and was given to {typ}")
            names.pop(types.pop(name, None), None)
            types.pop(names.pop(typ, None), None)
            types[name], names[typ] = typ, name

    def variable_type(name):
        with lock:
            if name not in types:
                register(name, type(name, (reference.nnx.Variable,), {}))
            return types[name]

    def variable_type_name(typ):
        with lock:
            if typ not in names:
                register(named(typ), typ)
            return names[typ]

    return {
        "variable_type": variable_type,
        "variable_type_name": variable_type_name,
        "register_variable_name_type_pair": register,
        "sort_variable_types": lambda given: sorted(given, key=lambda typ: -len(typ.mro())),
    }


def of_trees(collection_of, to_attributes, to_collections):
    """The claims of a copy of the conversions of trees; the reference converts each variable.

    Args:
      collection_of: `get_col_name`.
      to_attributes: `linen_vars_to_nnx_attrs`.
      to_collections: `nnx_attrs_to_linen_vars`.
    """
    around = "variable_type variable_type_name NNXMeta is_vanilla_variable to_linen_var to_nnx_var"
    return {
        **{name: getattr(reference.bridge, name) for name in around.split()},
        "get_col_name": collection_of,
        "linen_vars_to_nnx_attrs": to_attributes,
        "nnx_attrs_to_linen_vars": to_collections,
    }


def flax_registry():
    """Flax 0.10, `bridge/variables.py`: one dictionary from names of collections to types.

    It claims the registry. A type without a name gets that of its class; a class made for a name
    has that name.
    """
    nnx = reference.nnx
    types = known_types()

    def variable_type(name):
        if name not in types:
            types[name] = type(name, (nnx.Variable,), {})
        return types[name]

    def variable_type_name(typ):
        for name, known in types.items():
            if known is typ:
                return name
        register(typ.__name__, typ)
        return typ.__name__

    def register(name, typ, overwrite=False):
        if name in types and not overwrite:
            raise ValueError(f"the name {name} is registered for {types[name]}; use overwrite=True")
        types[name] = typ

    def sort(types):
        def parents(typ):
            return sum(issubclass(parent, nnx.Variable) for parent in typ.mro())

        return sorted(types, key=parents, reverse=True)

    claims = {
        "variable_type": variable_type,
        "variable_type_name": variable_type_name,
        "register_variable_name_type_pair": register,
        "sort_variable_types": sort,
    }
    convicted = {
        "bridge/registry/overwriting-replaces-both": (
            "the contract (BRG-1) says that `overwrite=True` replaces both directions: a type that "
            "had another name keeps it here, and that name still leads to it"
        ),
        "bridge/registry/taken-name-is-refused[message]": (
            "a should, of the contract (BRG-1): a clash is an error that shows both parties"
        ),
    }
    return piece(
        "flax-0.10-registry", ("bridge/registry/*",), 6, convicted, beside=BESIDE, bridge=claims
    )


def maxtext_wrappers():
    """MaxText, `layers/nnx_wrappers.py`: a copy of the conversions between Linen and NNX.

    It claims the conversions of one variable and of trees of them. A variable with hooks or notes
    is not vanilla. A box goes through its fields, or through its own methods.
    """
    bridge, nnx, meta = reference.bridge, reference.nnx, reference.meta

    def is_vanilla(variable):
        notes = variable.get_metadata()
        return all(key.startswith("on_") and not value for key, value in notes.items())

    def to_linen(variable):
        notes = variable.get_metadata()
        if "linen_meta_type" in notes:
            cls = notes["linen_meta_type"]
            fields = {"value": variable.get_raw_value(), **notes}
            if hasattr(cls, "from_nnx_metadata"):
                return cls.from_nnx_metadata(fields)
            return cls(
                **{name: value for name, value in fields.items() if name != "linen_meta_type"}
            )
        if is_vanilla(variable):
            return variable.get_raw_value()
        return bridge.NNXMeta(type(variable), variable.get_raw_value(), notes)

    def to_nnx(collection, given):
        typ = bridge.variable_type(collection)
        if isinstance(given, bridge.NNXMeta):
            if given.var_type is not typ:
                raise ValueError(f"{collection!r} is of {typ}, and the box of {given.var_type}")
            return given.to_nnx_variable()
        if not isinstance(given, meta.AxisMetadata):
            return typ(given)
        own = hasattr(given, "to_nnx_metadata")
        fields = dict(given.to_nnx_metadata() if own else vars(given))
        return typ(fields.pop("value"), **fields, linen_meta_type=type(given))

    def collection_of(path):
        if not isinstance(path[0], jax.tree_util.DictKey):
            raise TypeError(f"a path begins with the name of a collection: {path}")
        return str(path[0].key)

    def paths(tree, path=()):
        for key, part in tree.items():
            if isinstance(part, Mapping):
                yield from paths(part, (*path, key))
            else:
                yield (*path, key), part

    def nested(flat):
        tree = {}
        for path, leaf in flat.items():
            node = tree
            for key in path[:-1]:
                node = node.setdefault(key, {})
            node[path[-1]] = leaf
        return tree

    def to_attributes(collections):
        flat = {}
        for collection, tree in collections.items():
            for path, given in paths(tree):
                if path in flat:
                    raise ValueError(f"duplicate path {path}: {flat[path]} and {given}")
                flat[path] = to_nnx(collection, given)
        return nested(flat)

    def to_collections(attributes):
        flat = {}
        for path, variable in paths(attributes):
            if not isinstance(variable, nnx.Variable):
                raise ValueError(f"no collection for {variable!r}")
            flat[bridge.variable_type_name(type(variable)), *path] = to_linen(variable)
        return nested(flat)

    claims = {
        "variable_type": bridge.variable_type,
        "variable_type_name": bridge.variable_type_name,
        "NNXMeta": bridge.NNXMeta,
        "is_vanilla_variable": is_vanilla,
        "to_linen_var": to_linen,
        "to_nnx_var": to_nnx,
        "get_col_name": collection_of,
        "linen_vars_to_nnx_attrs": to_attributes,
        "nnx_attrs_to_linen_vars": to_collections,
    }
    convicted = {
        "bridge/trees/path-in-two-is-refused": (
            "the contract (BRG-6) says that a path in two collections is an error, never a lost "
            "variable: a variable takes the place of a layer of the same name here"
        ),
        "bridge/trees/path-in-two-is-refused[message]": (
            "a should: the message shows two variables, and neither of the two collections"
        ),
        "bridge/variables/variable-crosses": (
            "the contract (BRG-4) says that every further piece of metadata crosses: the class of "
            "the box has no field for what was added to its variable"
        ),
        "bridge/variables/crossing-shares-no-container": (
            "a should: a change of the value that crossed changes the variable that it came from"
        ),
    }
    return piece(
        "maxtext-nnx_wrappers",
        ("bridge/variables/*", "bridge/trees/*"),
        18,
        convicted,
        beside=BESIDE,
        bridge=claims,
    )


def flax_two_tables():
    """Flax 0.12, `variablelib.register_variable_name`: one table for each direction.

    It claims the registry. What overwrites leaves the tables by both directions.
    """
    claims = two_tables(lambda typ: typ.__name__)
    return piece("flax-0.12-registry", ("bridge/registry/*",), 7, beside=BESIDE, bridge=claims)


def unboxing():
    """Converters of checkpoints, as of Hugging Face: boxes are unboxed, and bare values cross.

    It claims the conversions of one variable.
    """
    bridge, meta = reference.bridge, reference.meta

    def to_nnx(collection, given):
        return bridge.variable_type(collection)(meta.unbox(given))

    def to_linen(variable):
        return variable.get_raw_value()

    claims = {
        "variable_type": bridge.variable_type,
        "variable_type_name": bridge.variable_type_name,
        "NNXMeta": bridge.NNXMeta,
        "to_linen_var": to_linen,
        "to_nnx_var": to_nnx,
    }
    lost = "the contract (BRG-4) says that all metadata cross: the names are lost here"
    convicted = {
        "bridge/variables/others-become-nnxmeta": lost,
        "bridge/variables/variable-crosses": lost,
        "bridge/variables/partitioned-box-crosses": lost,
        "bridge/variables/logical-box-crosses": lost,
        "bridge/variables/foreign-box-crosses": lost,
        "bridge/variables/other-collection-is-refused": (
            "the contract says that a box of another type than that of the collection is an error: "
            "here the box is gone before anyone asks for its type"
        ),
        "bridge/variables/crossing-shares-no-container": (
            "a should: a list or dict that is the value of a variable is that of the result too"
        ),
    }
    return piece(
        "unboxing-converter", ("bridge/variables/*",), 2, convicted, beside=BESIDE, bridge=claims
    )


def decorated():
    """Registries by decorator, `@register("cache")`: a type knows its name, and a table the type.

    It claims the registry.
    """
    nnx = reference.nnx
    types, names, lock = {}, {}, threading.RLock()

    def register(name, overwrite=False):
        def decorate(typ):
            with lock:
                if name in types and not overwrite:
                    raise ValueError(f"{name!r} is the name of {types[name]}: {typ} needs another")
                names.pop(types.get(name), None)
                types.pop(names.get(typ), None)
                types[name], names[typ] = typ, name
                return typ

        return decorate

    for name, typ in known_types().items():
        register(name)(typ)

    def variable_type(name):
        with lock:
            return types.get(name) or register(name)(type(name, (nnx.Variable,), {}))

    def variable_type_name(typ):
        with lock:
            return names.get(typ) or names[register(typ.__name__)(typ)]

    def sort(given):
        left, done = [*given], []
        while left:
            free = [t for t in left if not any(t in u.__mro__[1:] for u in left)]
            done += free
            left = [t for t in left if t not in free]
        return done

    claims = {
        "variable_type": variable_type,
        "variable_type_name": variable_type_name,
        "register_variable_name_type_pair": (
            lambda name, typ, overwrite=False: register(name, overwrite)(typ) and None
        ),
        "sort_variable_types": sort,
    }
    convicted = {
        "bridge/registry/equal-depth-keeps-order": (
            "a should: types of equal depth stay in order; here a type without subclasses is first"
        )
    }
    return piece(
        "decorated-registry", ("bridge/registry/*",), 7, convicted, beside=BESIDE, bridge=claims
    )


def copying():
    """Wrappers that copy: whatever crosses is a copy, down to its lists and dictionaries.

    It claims the conversions of one variable. Arrays are not copied.
    """
    bridge, meta = reference.bridge, reference.meta

    def copied(given):
        if type(given) is dict:
            return {key: copied(part) for key, part in given.items()}
        if type(given) in (list, tuple):
            return type(given)(map(copied, given))
        return given

    def fields_of(box):
        return copied(dict(box.to_nnx_metadata() if hasattr(box, "to_nnx_metadata") else vars(box)))

    def rebuilt(cls, fields):
        try:
            own = getattr(cls, "from_nnx_metadata", None)
            box = own(dict(fields)) if own else cls(**fields)
        except TypeError:
            return None
        return box if fields_of(box).keys() >= fields.keys() else None

    def to_linen(variable):
        value, notes = copied(variable.get_raw_value()), copied(variable.get_metadata())
        if all(key.startswith("on_") and not note for key, note in notes.items()):
            return value
        fields = {name: note for name, note in notes.items() if name != "copied_from"}
        cls = notes.get("copied_from")
        box = rebuilt(cls, {"value": value, **fields}) if cls else None
        return bridge.NNXMeta(type(variable), value, notes) if box is None else box

    def to_nnx(collection, given):
        typ = bridge.variable_type(collection)
        if isinstance(given, bridge.NNXMeta):
            if given.var_type is not typ:
                raise ValueError(f"{collection!r} is of {typ}, and the box of {given.var_type}")
            return typ.from_metadata(copied(given.value), copied(dict(given.metadata)))
        if not isinstance(given, meta.AxisMetadata):
            return typ(copied(given))
        fields = fields_of(given)
        return typ.from_metadata(fields.pop("value"), {**fields, "copied_from": type(given)})

    claims = {
        "variable_type": bridge.variable_type,
        "variable_type_name": bridge.variable_type_name,
        "NNXMeta": bridge.NNXMeta,
        "to_linen_var": to_linen,
        "to_nnx_var": to_nnx,
    }
    return piece("copying-wrapper", ("bridge/variables/*",), 9, beside=BESIDE, bridge=claims)


def snake_case():
    """Registries by convention: the collection of `MoeLoss` is `moe_loss`, as of Django.

    It claims the registry.
    """
    words = "(?<=[a-z0-9])(?=[A-Z])"
    claims = two_tables(lambda typ: re.sub(words, "_", typ.__name__).lower())
    judged = ("bridge/registry/*",)
    return piece("snake_case-registry", judged, 8, beside=BESIDE, bridge=claims)


def flattened():
    """Converters by `flax.traverse_util`: trees are flattened to paths, and nested again.

    It claims the conversions of trees. `flatten_dict` knows dictionaries, frozen ones among them,
    and no other mapping.
    """
    bridge = reference.bridge

    def collection_of(path):
        if not isinstance(path[0], jax.tree_util.DictKey):
            raise ValueError(f"a path begins with the name of a collection, not with {path[0]}")
        return str(path[0].key)

    def to_attributes(collections):
        flat, origin = {}, {}
        for collection, tree in collections.items():
            for path, given in traverse_util.flatten_dict(tree).items():
                if path in flat:
                    raise ValueError(f"{path} is in {origin[path]!r} and in {collection!r}")
                flat[path], origin[path] = bridge.to_nnx_var(collection, given), collection
        for path in flat:
            for end in range(1, len(path)):
                if path[:end] in flat:
                    above = path[:end]
                    raise ValueError(
                        f"{above} is a variable in {origin[above]!r}, and a layer of {path} in "
                        f"{origin[path]!r}"
                    )
        return traverse_util.unflatten_dict(flat)

    def to_collections(attributes):
        flat = {}
        for path, variable in traverse_util.flatten_dict(attributes).items():
            if not isinstance(variable, reference.nnx.Variable):
                raise ValueError(f"{variable!r} at {path} is no variable")
            collection = bridge.variable_type_name(type(variable))
            flat[collection, *path] = bridge.to_linen_var(variable)
        return traverse_util.unflatten_dict(flat)

    claims = of_trees(collection_of, to_attributes, to_collections)
    convicted = {
        "bridge/trees/any-mapping-is-accepted": (
            "collections and layers may be any mappings: here some are refused, and others are "
            "taken for a variable, so that none of their parameters is found"
        )
    }
    return piece(
        "traverse_util-converter",
        ("bridge/trees/*",),
        8,
        convicted,
        beside=BESIDE,
        inputs=10,
        bridge=claims,
    )


def discriminators():
    """Pydantic's discriminators: a class says its name itself, and a name is looked for in classes.

    It claims the registry. There is no table: the subclasses of `Variable` are searched.
    """
    nnx, known, lock = reference.nnx, known_types(), threading.RLock()

    def subclasses(typ):
        yield typ
        for each in typ.__subclasses__():
            yield from subclasses(each)

    def told(typ):
        own = vars(typ).get("collection")
        return own or next((name for name, each in known.items() if each is typ), None)

    def owner(name):
        return next((typ for typ in subclasses(nnx.Variable) if told(typ) == name), None)

    def register(name, typ, overwrite=False):
        with lock:
            before = owner(name)
            if before is not None and not overwrite:
                raise ValueError(f"{name!r} is the name of {before}, and was to be that of {typ}")
            if before is not None:
                before.collection = None
            typ.collection = name

    def variable_type(name):
        with lock:
            return owner(name) or type(name, (nnx.Variable,), {"collection": name})

    def variable_type_name(typ):
        with lock:
            if told(typ) is None:
                register(typ.__name__, typ)
            return told(typ)

    claims = {
        "variable_type": variable_type,
        "variable_type_name": variable_type_name,
        "register_variable_name_type_pair": register,
        "sort_variable_types": lambda given: sorted(given, key=lambda typ: -len(typ.mro())),
    }
    return piece(
        "pydantic-discriminators",
        ("bridge/registry/*",),
        8,
        inputs=10,
        beside=BESIDE,
        bridge=claims,
    )


def flax_paths():
    """Flax 0.12, `bridge/variables.py`: trees are mapped with paths, and only a `dict` is no leaf.

    It claims the conversions of trees.
    """
    bridge = reference.bridge

    def is_leaf(node):
        return not isinstance(node, dict)

    def collection_of(path):
        if not isinstance(path[0], jax.tree_util.DictKey):
            raise ValueError(f"{path[0]} is no name of a collection")
        return str(path[0].key)

    def named(tree):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf):
            yield collection_of(path), tuple(part.key for part in path), leaf

    def insert(tree, path, leaf, of):
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise ValueError(f"{path} of {of!r} leads through {node}")
        if path[-1] in node:
            raise ValueError(f"{path} of {of!r} is there already: {node[path[-1]]}")
        node[path[-1]] = leaf

    def to_attributes(collections):
        tree = {}
        for collection, path, leaf in named(collections):
            insert(tree, path[1:], bridge.to_nnx_var(collection, leaf), collection)
        return tree

    def to_collections(attributes):
        tree = {}
        for path, leaf in jax.tree_util.tree_leaves_with_path(attributes, is_leaf=is_leaf):
            keys = tuple(part.key for part in path)
            if not isinstance(leaf, reference.nnx.Variable):
                raise ValueError(f"{leaf!r} at {keys} is no variable")
            collection = bridge.variable_type_name(type(leaf))
            insert(tree, (collection, *keys), bridge.to_linen_var(leaf), collection)
        return tree

    claims = of_trees(collection_of, to_attributes, to_collections)
    convicted = {
        "bridge/trees/any-mapping-is-accepted": (
            "collections and layers may be any mappings: here one of another class than `dict` is "
            "taken for a variable, so that none of its parameters is found"
        ),
        "bridge/trees/path-in-two-is-refused[message]": (
            "a should: the message shows one of the two collections"
        ),
    }
    return piece(
        "flax-0.12-trees",
        ("bridge/trees/*",),
        6,
        convicted,
        beside=BESIDE,
        inputs=5,
        bridge=claims,
    )


PIECES = (
    flax_registry(),
    maxtext_wrappers(),
    # Chosen after the judge was mended for the first.
    flax_two_tables(),
    unboxing(),
    # Chosen after it was mended for these, too.
    decorated(),
    copying(),
    # Chosen after it was mended for these of the third set, too.
    snake_case(),
    flattened(),
    # Chosen after it was mended for these of the fourth set, too.
    discriminators(),
    flax_paths(),
)
