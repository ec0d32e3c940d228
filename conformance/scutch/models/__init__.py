"""A user's own model: show where its arrays lie."""

from scutch.models.model import Model as Model
