"""Names from other programs: what each place says about them."""

import inspect
import re
from dataclasses import fields
from importlib import import_module

import pytest

import whisperbatch as wb
from whisperbatch.cli.app import OPTIONS
from whisperbatch.cli.flags import FLAG_NAMES, as_flag
from whisperbatch.options import OPTION_NAMES, device_hint, hint_for, in_python, same_option
from whisperbatch.options.hints import (
    COMPAT_NAMES,
    MODEL_NAMES,
    OTHER_FORMATS,
    OTHER_NAMES,
    OURS,
    PACKAGE_NAMES,
    PROGRAMS,
    SHORT_FLAGS,
    advice_on,
)
from whisperbatch.server.settings import ServerSettings
from whisperbatch.writers import FORMATS

LOADING = set(inspect.signature(wb.load).parameters)
LAYOUT = {field.name for field in fields(wb.SubtitleOptions)}


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
        ("device", "give it to load"),
        ("speaker_labels", "use diarize"),
        ("diarize_model", "use diarizer"),
        ("hf_token", "set the environment variable HF_TOKEN"),
        ("temperature_inc", "use temperature=(0.0, 0.2, 0.4)"),
        ("zzz", ""),
        ("output", ""),
    ],
)
def test_hints_for_keywords(name: str, hint: str) -> None:
    spell = in_python(OPTION_NAMES, "a keyword of load")
    assert hint_for(name, OPTION_NAMES, spell) == hint


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--Beam-Sise", "did you mean --beam-size?"),
        ("--vad-filter", "use --vad"),
        ("--fp16", "use --compute-type"),
        ("--temperature-inc", "use --temperature 0.0,0.2,0.4"),
        ("--print_progress", "leave it out: a terminal shows the progress"),
        ("--translate", "use --task translate"),
        ("--zzz", ""),
    ],
)
def test_hints_for_flags(flag: str, hint: str) -> None:
    assert hint_for(flag, ["beam_size", "format"], as_flag, command_line=True) == hint


def test_no_name_of_another_program_is_a_name_of_ours() -> None:
    assert not (OTHER_NAMES.keys() - OURS.keys()) & (set(OPTION_NAMES) | LOADING)
    assert sum(map(len, (*PROGRAMS.values(), OURS))) == len(OTHER_NAMES), "a name occurs twice"
    assert {name for name in PACKAGE_NAMES if name in wb.__all__} == set()
    assert {name for name in MODEL_NAMES if name in dir(wb.Transcriber)} == set()
    assert not OTHER_FORMATS.keys() & {*FORMATS}


def test_what_prints_nothing_or_is_the_default_is_left_out() -> None:
    for name in ("verbose", "temperature_increment_on_fallback", "return_timestamps"):
        assert hint_for(name, ()).startswith("leave it out")
    assert hint_for("verbose", ()).endswith("or use progress=True")
    assert "segments have times" in hint_for("return_timestamps", ())


@pytest.mark.parametrize("command_line", [False, True])
def test_the_options_of_each_advice_exist(*, command_line: bool) -> None:
    known = {*OPTION_NAMES, *LOADING}
    for name in OTHER_NAMES:
        advice = advice_on(name, command_line=command_line)
        assert advice
        error = wb.OptionError(advice)
        assert "`" not in str(error)
        assert set(error.options) <= known | (
            {"format", "output_dir"} if command_line else set()
        ), advice
        plain = re.sub("`[^`]*`", "", advice)
        if command_line:
            flags = {flag.replace("-", "_") for flag in re.findall(r"--([\w-]+)", plain)}
            own = {"format", "output", "quiet", "verbose"}
            assert flags <= OPTIONS | LAYOUT | own, advice
        else:
            assert name not in LAYOUT or "transcript.save" in plain
    assert set(OTHER_FORMATS.values()) <= {*FORMATS}


def test_a_name_with_the_same_meaning_is_a_flag() -> None:
    assert same_option("vad_filter") == "vad"
    assert same_option("-t") == "intra_threads"
    assert same_option("output_format") == "format"
    assert same_option("beam_size") == "beam_size"
    assert same_option("fp16") is None
    assert same_option("-osrt") is None
    same = {name: same_option(name) for name in (*OTHER_NAMES, *SHORT_FLAGS)}
    assert {option for option in same.values() if option} <= FLAG_NAMES | {
        "format",
        "model",
        "output_dir",
    }
    renamed = {name for name, option in same.items() if option not in (None, name)}
    assert not renamed & {*ServerSettings.model_fields}


def test_the_short_flags_of_whisper_cpp_have_an_answer() -> None:
    for flag, name in SHORT_FLAGS.items():
        assert same_option(flag) or hint_for(name, (), as_flag, command_line=True)


@pytest.mark.parametrize(
    ("device", "hint"),
    [
        ("cuda:0", "`device='cuda'` with `device_index=0`"),
        ("GPU:3", "`device_index=3`"),
        ("gpu", "use `device='cuda'`"),
        ("mps", "`device='cpu'`: no engine here runs on Apple's GPU"),
        ("cpu", ""),
        ("tpu", ""),
        ("cuda:0,1", ""),
    ],
)
def test_devices_of_other_programs(device: str, hint: str) -> None:
    assert hint in device_hint(device)
    assert bool(device_hint(device)) == bool(hint)
    if device != "cpu":
        with pytest.raises(wb.OptionError, match="none of auto, cpu, cuda"):
            wb.load("base", device=device)  # type: ignore[arg-type]


def test_packages_and_models_say_what_to_use() -> None:
    for name, advice in PACKAGE_NAMES.items():
        assert not hasattr(wb, name)
        with pytest.raises(AttributeError, match=re.escape(advice)):
            getattr(wb, name)
        with pytest.raises(ImportError, match=re.escape(advice)):
            exec(f"from whisperbatch import {name}")  # noqa: S102 - a line of this test
    for name, advice in COMPAT_NAMES.items():
        with pytest.raises(ImportError, match=re.escape(f"whisperbatch has no {name}; {advice}")):
            import_module(f"whisperbatch.{name}")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'whisperbatch\.compat\.no'$"):
        import_module("whisperbatch.compat.no")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from whisperbatch import nothing")  # noqa: S102 - as above
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        wb.nothing  # noqa: B018 - as above
