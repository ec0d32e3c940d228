"""Laws for Flax-style sharding metadata, and the judge that tries implementations by them."""

__version__ = "0.1.0"

from scutch.implementation import Implementation as Implementation
from scutch.implementation import Namespace as Namespace
from scutch.implementation import SetupError as SetupError
from scutch.implementation import flax_shaped as flax_shaped
