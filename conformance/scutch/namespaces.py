"""The standard's names by capability, and namespaces, which claim all of them or some.

A *namespace* is any object that answers to the names of a *capability*. A `Namespace` claims some
names only, or leaves out options of a function. A law that touches an unclaimed name is not tried:
`Unclaimed` leaves it. An input with an unclaimed option is passed over by `UnclaimedOption`, and
the law is tried on others.
"""

import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType, MethodType
from typing import Any, NoReturn

NAMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "meta": frozenset(
            "AxisMetadata is_axis_metadata map_axis_meta add_axis remove_axis unbox replace_boxed "
            "PARTITION_NAME Partitioned with_partitioning get_partition_spec get_sharding".split()
        ),
        "logical": frozenset(
            "LogicallyPartitioned with_logical_partitioning with_logical_constraint RulesFallback "
            "logical_to_mesh_axes logical_to_mesh logical_to_mesh_sharding logical_axis_rules "
            "set_logical_axis_rules get_logical_axis_rules".split()
        ),
        "linen": frozenset(
            "Module compact Dense DenseGeneral Conv avg_pool BatchNorm Dropout LayerNorm Embed "
            "initializers init init_with_output apply scan vmap jit "
            "remat vjp jvp grad value_and_grad custom_vjp cond switch while_loop map_variables "
            "remat_scan add_metadata_axis DenyList TrainState Partitioned param_with_axes "
            "variable_with_axes get_axis_names scan_with_axes vmap_with_axes "
            "LogicallyPartitioned with_partitioning "
            "with_logical_partitioning with_logical_constraint get_partition_spec get_sharding "
            "logical_to_mesh_sharding meta broadcast PARTITION_NAME".split()
        ),
        "nnx": frozenset(
            "Variable Param BatchStat Cache Intermediate Module Pytree List Dict data static split "
            "merge update state clone pop graphdef iter_graph State split_state merge_state "
            "filter_state to_flat_state from_flat_state to_pure_dict replace_by_pure_dict Any All "
            "Not OfType WithTag PathContains Rngs split_rngs fork_rngs reseed with_partitioning "
            "get_partition_spec get_named_sharding get_abstract_model eval_shape "
            "find_duplicates PARTITION_NAME use_eager_sharding "
            "call TrainState ModelAndOptimizer map_state restore_int_paths set_metadata "
            "Perturbation Linear LinearGeneral Embed LayerNorm BatchNorm Dropout "
            "MultiHeadAttention using_eager_sharding update_context current_update_context "
            "split_context merge_context to_tree from_tree".split()
        ),
        "transforms": frozenset(
            "jit shard_map StateSharding grad value_and_grad DiffState vmap scan StateAxes Carry "
            "remat Optimizer cached_partial cond switch while_loop fori_loop vjp jvp "
            "custom_vjp".split()
        ),
        "bridge": frozenset(
            "variable_type variable_type_name register_variable_name_type_pair "
            "sort_variable_types NNXMeta is_vanilla_variable to_linen_var to_nnx_var get_col_name "
            "linen_vars_to_nnx_attrs nnx_attrs_to_linen_vars ToNNX ToLinen to_linen "
            "lazy_init with_partitioning".split()
        ),
        "export": frozenset(
            "JaxModule constants save load initialize_dtensor "
            "maybe_enable_dtensor_export_on".split()
        ),
    }
)
"""The names that a namespace must answer to, for each capability."""

OPTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "nnx": frozenset(
            {
                "Variable.out_sharding",
                "RngStream.normal",
                "RngStream.lecun_normal",
                "Rngs.fork",
                "with_metadata",
                "with_rngs",
            }
        ),
        "transforms": frozenset({"jit.graph", "jit.graph_updates", "shard_map.check_vma"}),
    }
)
"""Arguments, metadata and names that releases of Flax have had for a shorter time than the `NAMES`.
Where names are claimed one by one, so are these; laws that need them carry `marks.options`.
"""

_STANDARD = frozenset().union(*NAMES.values())

CAPABILITIES = tuple(NAMES)


NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "logical": ("meta",),
        "linen": ("meta", "logical"),
        "transforms": ("nnx",),
        "bridge": ("meta", "logical", "nnx"),
    }
)
"""By capability, the other capabilities whose names its laws use."""


class Unclaimed(BaseException):
    """A law touches a name that the implementation does not claim, so it is not tried.

    Wrong, in an adapter, if the library has one of the names only:

        Implementation("mine", "1", logical=my_library)

    Right:

        names = ["logical_to_mesh_axes"]
        Implementation("mine", "1", logical=Namespace("mine: logical", my_library, names=names))

    Attributes:
      reason: Which name, of which namespace.
    """

    def __init__(self, name: str) -> None:
        """Say which name."""
        self.reason = f"does not claim {name}"
        super().__init__(self.reason)


class UnclaimedOption(Unclaimed):
    """A law passes an option that the implementation lacks, so it is not tried on this input.

    Wrong, in an adapter, if `lift` takes no `axis_name`:

        Implementation("mine", "1", transforms=Namespace("mine", my_library, names=["vmap"]))

    Right, with `lacks=["vmap.axis_name"]` beside `names`.
    """


class Namespace:
    """Several modules seen as one: a name is looked up in each, in order.

    Where only some names are claimed, a law that touches another one is not tried: its requirement
    is unclaimed. Where a function lacks an option, laws are tried on inputs without it.
    """

    def __init__(
        self,
        title: str,
        *modules: Any,
        names: Iterable[str] | None = None,
        lacks: Iterable[str] = (),
    ) -> None:
        """Join modules.

        Args:
          title: For messages.
          modules: Anything with attributes, earlier ones first.
          names: The claimed names; where left out, all names of the standard.
          lacks: Options of functions that are not claimed: an argument, such as
            `jit.static_argnums`, or a member of `STAGED`, such as `jit.lower`.
        """
        self._title = title
        self._modules = modules
        self._names = None if names is None else frozenset(names)
        self._lacks = frozenset(lacks)

    def claimed(self, names: Iterable[str]) -> frozenset[str]:
        """The names, of those given, that the implementation claims."""
        there = frozenset(names) if self._names is None else self._names.intersection(names)
        return there - self._lacks

    def plain(self) -> "Namespace":
        """A `Namespace` of the same modules and claims, also where this is one of a subclass.

        A subclass could claim one thing when it is asked, and another while laws are tried.
        """
        own = object.__getattribute__(self, "__dict__")
        title, modules, names = own["_title"], own["_modules"], own["_names"]
        return Namespace(title, *modules, names=names, lacks=own["_lacks"])

    def pass_over(self, name: str) -> NoReturn:
        """Leave an input of a law that passes an option which is not claimed.

        Args:
          name: Such as `jit.static_argnums`.

        Raises:
          UnclaimedOption: Always.
        """
        raise UnclaimedOption(f"{self._title}.{name}")

    @property
    def lacks(self) -> tuple[str, ...]:
        """The options that are not claimed, sorted."""
        return tuple(sorted(self._lacks))

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names that are claimed, sorted; `None` for all of the standard's."""
        return None if self._names is None else tuple(sorted(self._names))

    def __getattr__(self, name: str) -> Any:
        if name in _STANDARD and not self.claimed([name]):
            raise Unclaimed(f"{self._title}.{name}")
        for module in self._modules:
            try:
                found = getattr(module, name)
            except AttributeError:
                continue
            lacks = {o.partition(".")[2] for o in self._lacks if o.startswith(f"{name}.")}
            return (
                Lacking(found, self, name, lacks)
                if lacks and not isinstance(found, type)
                else found
            )
        raise AttributeError(f"{self._title} has no {name!r}")

    def __repr__(self) -> str:
        return f"<{self._title}>"


STAGED = frozenset({"eval_shape", "lower", "trace", "**"})
"""Members of a lifted function that an implementation may lack; `**` are keyword arguments."""

_MAY_BE_EMPTY = ("argnums", "argnames", "reduce_axes", "compiler_options")
"""Ends of the names of options that an empty container leaves out; of a sharding it is one."""


class Lacking:
    """A function of an implementation that lacks some options of the standard's.

    A law that passes such an option is left for this input. `None`, and empty numbers, names or
    compiler options, mean that the option is not given, and are not passed on.
    """

    def __init__(
        self, function: Any, space: Namespace, name: str, lacks: Iterable[str], lifted: bool = False
    ) -> None:
        """Stand before a function.

        Args:
          function: The implementation's.
          space: The namespace that claims it.
          name: Its name there.
          lacks: Names of arguments, and members of `STAGED`.
          lifted: Whether `function` is the result of the lift, whose arguments are the user's.
        """
        functools.update_wrapper(self, function, updated=())
        if lifted:
            del self.__wrapped__  # it is the user's function, which `function` tells
        self._function, self._space, self._name = function, space, name
        self._lacks, self._lifted = frozenset(lacks), lifted

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function without the options that it lacks.

        Raises:
          UnclaimedOption: One of them is given.
        """
        if self._lifted:
            if options and "**" in self._lacks:
                self._space.pass_over(f"{self._name}.**")
            return self._function(*args, **options)
        for option in self._lacks.intersection(options):
            value = options.pop(option)
            empty = isinstance(value, tuple | list | dict) and not value
            if value is not None and not (empty and option.endswith(_MAY_BE_EMPTY)):
                self._space.pass_over(f"{self._name}.{option}")
        found = self._function(*args, **options)
        staged = self._lacks & STAGED
        if not staged or isinstance(found, type) or not callable(found):
            return found
        return Lacking(found, self._space, self._name, staged, lifted=bool(args))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind the function, where it is a method of a class."""
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks & STAGED:
            self._space.pass_over(f"{self._name}.{name}")
        return getattr(self._function, name)
