"""Objects, variables and programs over them, described.

    Graph((Object("Node", {"a": Ref(1), "b": Ref(1)}), Variable("Param", Array((2,)))))

is an object that holds one variable twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scutch.inputs import graphs, programs
from scutch.inputs.descriptions import Builder, Description, build


@dataclass(frozen=True, repr=False)
class Ref(Description):
    """Inside a `Graph`: a reference to its object or variable of this number."""

    node: int

    def build(self, builder: Builder) -> Any:
        """The object or variable itself, which has no attributes yet if it comes later."""
        return builder.nodes[self.node]


@dataclass(frozen=True, repr=False)
class Variable(Description):
    """A variable with a value and metadata.

    Args:
      kind: The name of its type, one of `graphs.VARIABLES`.
      value: The value of the variable: an array, a key, a number or a tree.
      metadata: A dictionary, `None` for no metadata.
    """

    kind: str
    value: Any
    metadata: Any = None

    def build(self, builder: Builder) -> Any:
        """The variable, made by the constructor of its type; creation hooks run."""
        kind = graphs.classes(builder.nnx)[self.kind]
        return kind(build(self.value, builder), **build(self.metadata or {}, builder))


@dataclass(frozen=True, repr=False)
class Object(Description):
    """An object with attributes.

    Args:
      kind: The name of its type, one of `graphs.MODULES` or `graphs.TRACKED`.
      attributes: Values by name; a tracked `List` takes them in order and ignores the names.
    """

    kind: str
    attributes: Mapping[str, Any]

    def build(self, builder: Builder) -> Any:
        """The object with its attributes."""
        return self.fill(graphs.classes(builder.nnx)[self.kind](), builder)

    def fill(self, node: Any, builder: Builder) -> Any:
        """Set the described attributes on an object.

        Args:
          node: An object of the described type.
          builder: The implementation that the values of the attributes are built for.

        Returns:
          `node` itself.
        """
        for name, value in self.attributes.items():
            graphs.put(builder.nnx, node, name, build(value, builder))
        return node


@dataclass(frozen=True, repr=False)
class Data(Description):
    """The value of an attribute that is marked as data: it is a leaf of the graph."""

    value: Any

    def build(self, builder: Builder) -> Any:
        """The value in `nnx.data(...)`, from which it is taken when the attribute is set."""
        return builder.nnx.data(build(self.value, builder))


@dataclass(frozen=True, repr=False)
class Static(Description):
    """The value of an attribute that is marked as static: it is part of the graph definition."""

    value: Any

    def build(self, builder: Builder) -> Any:
        """The value in `nnx.static(...)`, from which it is taken when the attribute is set."""
        return builder.nnx.static(build(self.value, builder))


@dataclass(frozen=True, repr=False)
class Graph(Description):
    """Numbered objects and variables that refer to each other by `Ref`; number 0 is the root."""

    nodes: tuple[Object | Variable, ...]

    def grow(self, builder: Builder) -> tuple[Any, ...]:
        """Build every object and variable of the graph, in the order of their numbers."""
        made: list[Any] = []
        inside = replace(builder, nodes=made)
        for node in self.nodes:
            bare = replace(node, attributes={}) if isinstance(node, Object) else node
            made.append(bare.build(inside))
        for node, described in zip(made, self.nodes, strict=True):
            if isinstance(described, Object):
                described.fill(node, inside)
        return tuple(made)

    def build(self, builder: Builder) -> Any:
        """The root, from which the others can be reached unless nothing refers to them."""
        return self.grow(builder)[0]


@dataclass(frozen=True, repr=False)
class Step(Description):
    """One operation on objects: a word of `programs.STEPS`, `METADATA` or `RESULTS`, and numbers.

    The numbers choose the operands, modulo how many there are; see `programs.Interpreter`.

    Args:
      kind: The operation.
      at: Chooses the variable, container, module or place that is changed.
      other: Chooses a second operand: another variable or place, the attribute's name, an index.
      n: Chooses the new value or the new type.
    """

    kind: str
    at: int = 0
    other: int = 0
    n: int = 0


@dataclass(frozen=True, repr=False)
class Program(Description):
    """Objects, and a function that changes them when it is called, once or several times.

    Args:
      graph: The objects.
      arguments: The arguments of the function: each is a `Ref`, or a container of `Ref`s.
      steps: The steps that the function takes, in order.
      results: One step for each result of the function.
      between: For each call but the last, the steps that follow it outside of the function.
    """

    graph: Graph
    arguments: tuple[Any, ...] = (Ref(0),)
    steps: tuple[Step, ...] = ()
    results: tuple[Step, ...] = ()
    between: tuple[tuple[Step, ...], ...] = ()

    def build(self, builder: Builder) -> programs.BuiltProgram:
        """The program with its objects built and its function ready to be called."""
        inside = replace(builder, nodes=self.graph.grow(builder))
        arguments = build(self.arguments, inside)
        return programs.BuiltProgram(builder.nnx, arguments, self.steps, self.results, self.between)
