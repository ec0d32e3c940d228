"""Liars: implementations that are right but for one law. See `trials.liars.tale`."""

from trials.liars import axes as axes
from trials.liars import constraints as constraints
from trials.liars import identity as identity
from trials.liars import layout as layout
from trials.liars import logical as logical
from trials.liars import nodes as nodes
from trials.liars import objects as objects
from trials.liars import rules as rules
from trials.liars import states as states
from trials.liars import trees as trees
from trials.liars import variables as variables
from trials.liars.tale import LIARS as LIARS
from trials.liars.tale import Liar as Liar
