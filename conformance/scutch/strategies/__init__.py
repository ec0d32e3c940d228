"""Hypothesis strategies over the inputs of laws: everything that a law may draw.

Each function is a plural noun and returns a strategy; most draw *descriptions* (see
`scutch.inputs.descriptions`), which the judge builds before the law is called:

    @given(box=boxes(), tree=box_trees())

Options are keyword-only; where one is left out, every legal value is drawn. What shrinks to a
smaller example comes first: one device before eight, one attribute before several.
"""

from scutch.strategies.boxes import any_boxes as any_boxes
from scutch.strategies.boxes import boxes as boxes
from scutch.strategies.boxes import boxes_with_mesh as boxes_with_mesh
from scutch.strategies.boxes import foreign_boxes as foreign_boxes
from scutch.strategies.boxes import logical_placements as logical_placements
from scutch.strategies.boxes import nested_boxes as nested_boxes
from scutch.strategies.boxes import placed_boxes as placed_boxes
from scutch.strategies.bridge import collection_names as collection_names
from scutch.strategies.bridge import collections as collections
from scutch.strategies.bridge import crossing_boxes as crossing_boxes
from scutch.strategies.bridge import variable_trees as variable_trees
from scutch.strategies.meshes import meshes as meshes
from scutch.strategies.models import lifted_models as lifted_models
from scutch.strategies.models import models as models
from scutch.strategies.models import parts as parts
from scutch.strategies.names import axis_names as axis_names
from scutch.strategies.names import logical_names as logical_names
from scutch.strategies.names import rules as rules
from scutch.strategies.objects import filters as filters
from scutch.strategies.objects import graphs as graphs
from scutch.strategies.objects import object_trees as object_trees
from scutch.strategies.objects import state_dicts as state_dicts
from scutch.strategies.objects import type_filters as type_filters
from scutch.strategies.objects import variables as variables
from scutch.strategies.programs import cells as cells
from scutch.strategies.programs import programs as programs
from scutch.strategies.programs import small_graphs as small_graphs
from scutch.strategies.programs import steps as steps
from scutch.strategies.trees import box_trees as box_trees
from scutch.strategies.trees import copies as copies
from scutch.strategies.trees import trees as trees
from scutch.strategies.values import abstract_values as abstract_values
from scutch.strategies.values import arrays as arrays
from scutch.strategies.values import leaves as leaves
from scutch.strategies.values import numbers as numbers
from scutch.strategies.values import values as values
