"""Hypothesis strategies over the inputs of laws: everything that a law may draw.

Each function is a plural noun and returns a strategy; most draw *descriptions* (see
`scutch.inputs.descriptions`), which the judge builds before the law is called:

    @given(box=boxes(), tree=box_trees())

Options are keyword-only; where one is left out, every legal value is drawn. Simple values come
first, so that examples shrink to them: one device before eight, one attribute before several.
"""

from scutch.strategies.boxes import (
    any_boxes as any_boxes,
    boxes as boxes,
    boxes_with_mesh as boxes_with_mesh,
    foreign_boxes as foreign_boxes,
    logical_placements as logical_placements,
    nested_boxes as nested_boxes,
    placed_boxes as placed_boxes,
)
from scutch.strategies.bridge import (
    collection_names as collection_names,
    collections as collections,
    crossing_boxes as crossing_boxes,
    variable_trees as variable_trees,
)
from scutch.strategies.meshes import meshes as meshes
from scutch.strategies.models import (
    lifted_models as lifted_models,
    models as models,
    parts as parts,
)
from scutch.strategies.names import (
    axis_names as axis_names,
    logical_names as logical_names,
    rules as rules,
)
from scutch.strategies.objects import (
    filters as filters,
    graphs as graphs,
    object_trees as object_trees,
    state_dicts as state_dicts,
    type_filters as type_filters,
    variables as variables,
)
from scutch.strategies.programs import (
    cells as cells,
    programs as programs,
    small_graphs as small_graphs,
    steps as steps,
)
from scutch.strategies.trees import (
    box_trees as box_trees,
    copies as copies,
    trees as trees,
)
from scutch.strategies.values import (
    abstract_values as abstract_values,
    arrays as arrays,
    leaves as leaves,
    numbers as numbers,
    values as values,
)
