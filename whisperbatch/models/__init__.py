"""Model weights: finding them by name, and checking that they are complete."""

from whisperbatch.models.config import measured_kept_frames, weights_digest
from whisperbatch.models.model_bin import fingerprint
from whisperbatch.models.packages import packaged_model
from whisperbatch.models.registry import (
    HUB_FILES,
    REPOSITORIES,
    available_models,
    find_model,
    is_of_hub,
    loaded_revision,
    locate_model,
)

__all__ = [
    "HUB_FILES",
    "REPOSITORIES",
    "available_models",
    "find_model",
    "fingerprint",
    "is_of_hub",
    "loaded_revision",
    "locate_model",
    "measured_kept_frames",
    "packaged_model",
    "weights_digest",
]
