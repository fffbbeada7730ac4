"""Alignment heads that config.json lacks."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.contract.model_directories import write_model_directory
from whisperbatch.engines.ctranslate2.weights import with_settings
from whisperbatch.engines.model_info import ModelInfo

__all__ = ["write_model_directory"]  # a fixture


def test_missing_heads_are_those_of_the_upper_half(
    write_model_directory: Callable[[str], Path],
) -> None:
    for name, layers, heads in (
        ("base without alignment heads", (3, 4, 5), 8),
        ("tiny.en without alignment heads", (2, 3), 6),
        ("random, 51866 tokens, no tokenizer, no alignment heads", (1, 2), 4),
    ):
        directory = write_model_directory(name)
        settings = ModelInfo.read(directory, name).missing_settings()
        with with_settings(directory, settings) as complete:
            config = json.loads((complete / "config.json").read_text())
        expected = [[layer, head] for layer in layers for head in range(heads)]
        assert config.pop("alignment_heads") == expected
        assert config == json.loads((directory / "config.json").read_text())
