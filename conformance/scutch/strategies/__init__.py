"""Strategies over descriptions; see `scutch.descriptions`."""

from scutch.strategies.boxes import any_boxes as any_boxes
from scutch.strategies.boxes import boxes as boxes
from scutch.strategies.boxes import foreign_boxes as foreign_boxes
from scutch.strategies.boxes import logical_placements as logical_placements
from scutch.strategies.boxes import nested_boxes as nested_boxes
from scutch.strategies.boxes import placed_boxes as placed_boxes
from scutch.strategies.meshes import meshes as meshes
from scutch.strategies.names import axis_names as axis_names
from scutch.strategies.names import logical_names as logical_names
from scutch.strategies.names import rules as rules
from scutch.strategies.objects import graphs as graphs
from scutch.strategies.objects import variables as variables
from scutch.strategies.programs import cells as cells
from scutch.strategies.programs import programs as programs
from scutch.strategies.programs import small_graphs as small_graphs
from scutch.strategies.programs import steps as steps
from scutch.strategies.trees import box_trees as box_trees
from scutch.strategies.trees import trees as trees
from scutch.strategies.trees import twins as twins
from scutch.strategies.values import abstract_values as abstract_values
from scutch.strategies.values import arrays as arrays
from scutch.strategies.values import leaves as leaves
from scutch.strategies.values import numbers as numbers
from scutch.strategies.values import values as values
