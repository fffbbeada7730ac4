"""Hints for unknown option names."""

import inspect
from dataclasses import fields

import pytest

import whisperbatch as wb
from whisperbatch import OptionError, Options
from whisperbatch.options.keywords import LOAD, OTHER_NAMES, hint_for, resolve

OPTIONS = {field.name for field in fields(Options)}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("beamsize", "did you mean beam_size?"),
        ("word_timestamp", "did you mean word_timestamps?"),
        ("langauge", "did you mean language?"),
        ("vad_filter", "use vad"),
        ("logprob_threshold", "use log_prob_threshold"),
        ("word_level_timestamps", "use word_timestamps"),
        ("chunk_length_s", "use chunk_length (in seconds)"),
        ("beam", "use beam_size"),
        ("lang", "use language"),
        ("fp16", "use compute_type (a keyword of load)"),
        ("speaker_labels", "use diarize"),
        ("diarize_model", "use diarizer"),
        ("hf_token", "set the environment variable HF_TOKEN"),
        ("zzz", ""),
        ("output", ""),
        ("verbose", ""),
    ],
)
def test_hints(name: str, hint: str) -> None:
    assert hint_for(name) == hint


def test_hints_for_flags() -> None:
    def spell(name: str) -> str:
        return "--" + name.replace("_", "-")

    assert hint_for("--Beam-Sise", spell=spell) == "did you mean --beam-size?"
    assert hint_for("--vad-filter", spell=spell) == "use --vad"
    assert hint_for("--fromat", ["format", "output_dir"], spell) == "did you mean --format?"


def test_hints_name_options_and_keywords_of_load() -> None:
    loading = set(inspect.signature(wb.load).parameters)
    for name, (here, remark) in OTHER_NAMES.items():
        assert name not in OPTIONS | loading
        assert here in (loading if remark == LOAD else OPTIONS | {""})
        assert here or remark


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("beamsize", "beamsize is not an option; did you mean beam_size?"),
        ("zzz", "zzz is not an option; help(whisperbatch.Options) lists all options"),
    ],
)
def test_unknown_keywords_are_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        resolve(None, **{name: 3})  # type: ignore[arg-type]
    assert str(caught.value) == message
