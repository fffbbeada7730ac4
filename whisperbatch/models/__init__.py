"""Model weights: where they are, and whether they are complete."""

from whisperbatch.models.model_bin import fingerprint
from whisperbatch.models.packages import packaged_model
from whisperbatch.models.registry import (
    HUB_FILES,
    REPOSITORIES,
    available_models,
    find_model,
    where_is,
)

__all__ = [
    "HUB_FILES",
    "REPOSITORIES",
    "available_models",
    "find_model",
    "fingerprint",
    "packaged_model",
    "where_is",
]
