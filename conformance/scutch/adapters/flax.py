"""Flax, as installed."""

import flax

from scutch.implementation import flax_shaped

implementation = flax_shaped("flax", version=flax.__version__)
