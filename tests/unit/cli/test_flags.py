"""The flags of the command line: their checks, and the options that they give."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import typer
from typer.testing import CliRunner

import whisperbatch
import whisperbatch as wb
from tests.unit.fakes import FakeEngine, write_noise
from whisperbatch import OptionError, SubtitleOptions, Transcriber
from whisperbatch.cli import flags, plans, transcribe
from whisperbatch.cli.app import DETECTION, LOAD_KEYWORDS, OPTIONS, app
from whisperbatch.cli.messages import usage_messages
from whisperbatch.cli.transcribe import (
    TranscribeArguments,
    _check_standard_input,
    _formats,
    _options,
    transcribe_all,
)
from whisperbatch.options import Options, documented_fields
from whisperbatch.writers import FORMATS


def arguments(
    layout: SubtitleOptions | None = None,
    *,
    inputs: tuple[str, ...] = ("talk.mp3",),
    formats: str = "",
    resume: bool | None = None,
    load: Mapping[str, object] | None = None,
    **options: object,
) -> TranscribeArguments:
    return TranscribeArguments(
        inputs=list(inputs),
        model="base",
        formats=formats,
        resume=resume,
        layout=layout or SubtitleOptions(),
        load_keywords=dict(load or {}),
        options=options,
    )


@pytest.mark.parametrize("name", ["srt", "vtt", "ttml", "lrc"])
def test_subtitles_have_word_timestamps(name: str) -> None:
    assert _options(arguments(), ("txt", name)).word_timestamps
    assert not _options(arguments(word_timestamps=False), (name,)).word_timestamps


def test_other_files_have_no_word_timestamps() -> None:
    assert not _options(arguments(), ("txt", "json", "csv", "tsv")).word_timestamps


def test_a_layout_by_words_needs_word_timestamps() -> None:
    highlighted = SubtitleOptions(highlight_words=True)
    assert _options(arguments(highlighted), ("srt",)).word_timestamps
    with pytest.raises(OptionError, match="highlight_words has no effect without word_timestamps"):
        _options(arguments(highlighted, word_timestamps=False), ("srt",))


def test_rttm_needs_speakers() -> None:
    assert _formats(arguments(formats="all")) == tuple(n for n in FORMATS if n != "rttm")
    assert _formats(arguments(formats="all", diarize=True)) == FORMATS
    assert _formats(arguments(formats="srt,rttm", diarize=True)) == ("srt", "rttm")
    with pytest.raises(OptionError, match="--format rttm needs speakers; add --diarize"):
        _formats(arguments(formats="srt,rttm"))


def test_only_one_recording_comes_from_standard_input() -> None:
    ann, both = Options(diarize=True, known_speakers={"Ann": "-"}), {"Ann": "-", "Ben": "-"}
    _check_standard_input(["talk.mp3"], ann)
    _check_standard_input(["-"], Options(diarize=True, known_speakers={"Ann": "ann.wav"}))
    for sources, options in (
        (["talk.mp3", "-"], ann),
        (["talk.mp3"], Options(diarize=True, known_speakers=both)),
    ):
        with pytest.raises(OptionError, match='only one recording can be "-"'):
            _check_standard_input(sources, options)


def test_no_model_is_loaded_for_missing_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.mp3").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wb, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    assert transcribe_all(arguments(inputs=("nowhere.mp3", "empty.mp3"))) == 1
    errors = capsys.readouterr().err
    assert "nowhere.mp3: there is no such file" in errors
    assert "empty.mp3: is empty" in errors


def typer_option(parameter: inspect.Parameter) -> Any:
    """Return Typer's description of a flag."""
    assert get_origin(parameter.annotation) is Annotated
    return get_args(parameter.annotation)[1]


def test_every_option_except_the_sampling_rate_of_arrays_is_a_flag() -> None:
    assert {field.name for field in fields(Options)} - {"sampling_rate"} == OPTIONS
    assert sorted(flag.name for flag in flags.option_flags(OPTIONS)) == sorted(OPTIONS)
    assert DETECTION < OPTIONS


@pytest.mark.parametrize(
    "flag",
    [
        *flags.option_flags(),
        *flags.dataclass_flags(SubtitleOptions, "Subtitles"),
        *flags.load_flags(LOAD_KEYWORDS, "Model"),
    ],
    ids=lambda flag: flag.name,
)
def test_a_flag_has_a_name_a_description_and_the_default_none(flag: inspect.Parameter) -> None:
    option = typer_option(flag)
    assert flag.default is None
    names = str(option.default)  # Typer keeps the names there
    assert names.split("/", maxsplit=1)[0] == f"--{flag.name.replace('_', '-')}"
    assert option.help.lstrip('"1234567890 ')[0].isalpha()
    assert not option.help[0].islower()
    assert option.help.endswith(".")
    assert option.rich_help_panel


def test_the_help_text_states_the_default() -> None:
    [beam] = flags.option_flags({"beam_size"})
    assert typer_option(beam).help.endswith(" Default: 5.")
    for name in ("language", "batch_size"):  # chosen for the recording, and for the device
        [flag] = flags.option_flags({name})
        assert "Default" not in typer_option(flag).help


def test_a_value_of_a_boolean_option_is_the_form_of_its_flag() -> None:
    [flag] = flags.option_flags({"second_opinion_threshold"})
    assert "Refused with --no-second-opinion. " in typer_option(flag).help


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("suppress_tokens", "-1,50257", (-1, 50257)),
        ("suppress_tokens", "", ()),
        ("languages", "en, fr", ("en", "fr")),
        ("temperature", "0", 0.0),
        ("temperature", "0,0.2,0.4", (0.0, 0.2, 0.4)),
        ("clip_timestamps", "0,10.5,20,30", ((0.0, 10.5), (20.0, 30.0))),
        ("clip_timestamps", "5", ((5.0, None),)),
        ("max_new_tokens", "7", 7),
        ("batch_size", "16", 16),
        ("batch_size", "none", flags.NONE),
        ("compression_ratio_threshold", "2.1", 2.1),
        ("compression_ratio_threshold", "None", flags.NONE),
    ],
)
def test_text_is_parsed(name: str, text: str, expected: object) -> None:
    [flag] = flags.option_flags({name})
    assert typer_option(flag).parser(text) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("suppress_tokens", "1,b", "'b' is not a whole number; give one or several, as 1 or 1,2"),
        ("suppress_tokens", "1.5", "'1.5' is not a whole number; give one or several, as 1 or 1,2"),
        ("temperature", "hot", "'hot' is not a number; give one or several, as 0 or 0,0.2"),
        ("temperature", "0,warm,1", "'warm' is not a number; give one or several, as 0 or 0,0.2"),
        ("max_new_tokens", "1.5", "'1.5' is not a whole number"),
        ("patience", "much", "'much' is not a number"),
        ("clip_timestamps", "1:30", "'1:30' is not a list of times; give seconds, as 5,10 or 0"),
        ("clip_timestamps", "7-9", "'7-9' is not a list of times; give seconds, as 5,10 or 0"),
        ("known_speakers", "Ann", "'Ann' is not of the form NAME=FILE,NAME=FILE"),
    ],
)
def test_invalid_text_is_refused(name: str, text: str, message: str) -> None:
    [flag] = flags.option_flags({name})
    with pytest.raises(typer.BadParameter) as caught:
        typer_option(flag).parser(text)
    assert str(caught.value).startswith(message)


def test_the_text_none_becomes_none_and_flags_not_given_are_left_out() -> None:
    keywords = {"coverage_threshold": flags.NONE, "beam_size": 1, "prefix": None}
    keywords |= {"language": "None", "hotwords": "none"}  # any text is a hotword
    keywords |= {"batch_size": None}
    assert flags.given_flags(keywords) == {
        "coverage_threshold": None,
        "beam_size": 1,
        "hotwords": "none",
    }


def test_the_fields_of_a_dataclass_are_removed_from_the_keywords() -> None:
    keywords = {"max_line_width": 30, "beam_size": 1}
    assert flags.pop_group(keywords, SubtitleOptions) == SubtitleOptions(max_line_width=30)
    assert keywords == {"beam_size": 1}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--beam_size 5 a_b.mp3", "--beam-size 5 a_b.mp3"),
        ("--beam_size=5", "--beam-size=5"),
        ("--initial_prompt=a_b=c", "--initial-prompt=a_b=c"),
        ("--word_timestamps True a.mp3", "--word-timestamps a.mp3"),
        ("--word_timestamps False a.mp3", "--no-word-timestamps a.mp3"),
        ("--word-timestamps=False", "--no-word-timestamps"),
        ("--word_timestamps false a.mp3", "--no-word-timestamps a.mp3"),
        ("--highlight_words True", "--highlight-words"),
        ("--verbose False a.mp3", "a.mp3"),
        ("--resume=False", "--no-resume"),
        ("--word_timestamps a.mp3 True", "--word-timestamps a.mp3 True"),
        ("--initial_prompt True", "--initial-prompt True"),
        ("--output_format srt --threads 4", "--format srt --intra-threads 4"),
        ("--logprob_threshold=-2", "--log-prob-threshold=-2"),
        ("--vad_filter True -l en", "--vad --language en"),
        ("--vad-filter=False -t 4", "--no-vad --intra-threads 4"),
        ("--device_id 0 --prompt=a_b", "--device-index 0 --initial-prompt=a_b"),
        ("a.mp3 -- -osrt", "a.mp3 -- -osrt"),
        ("--model -", "--model -"),
        ("a.mp3 -- --beam_size True", "a.mp3 -- --beam_size True"),
        ("-", "-"),
    ],
)
def test_spellings_of_other_programs_are_accepted(given: str, expected: str) -> None:
    commands: Any = typer.main.get_command(app)
    switches = flags.find_switches(commands.commands.values())
    assert flags.normalize(given.split(), switches) == expected.split()


@pytest.mark.parametrize(
    ("given", "rest", "notes"),
    [
        ("a.mp3 --vad_method silero -l en", "a.mp3 -l en", ["--vad_method silero is not needed: "]),
        ("--print_progress=False a.mp3", "a.mp3", ["--print_progress=False is not needed: "]),
        ("--batched True --pretty-json TRUE", "", ["--batched True", "--pretty-json TRUE"]),
        ("--batched False", "--batched False", []),
        ("--vad_method pyannote", "--vad_method pyannote", []),
        ("a.mp3 --vad_method", "a.mp3 --vad_method", []),
        ("--print_progress a.mp3", "--print_progress a.mp3", []),
        ("-- --batched True", "-- --batched True", []),
    ],
)
def test_flags_that_ask_for_what_happens_anyway_are_removed(
    given: str, rest: str, notes: list[str]
) -> None:
    found, lines = flags.without_same_values(given.split())
    assert found == rest.split()
    assert len(lines) == len(notes)
    for line, start in zip(lines, notes, strict=True):
        assert line.startswith(start)
        assert "leave it out" not in line
        assert "`" not in line


def test_all_unknown_flags_are_named_as_they_were_typed() -> None:
    commands: Any = typer.main.get_command(app)
    switches = flags.find_switches(commands.commands.values())
    flags_typed = "--align_model X -osrt --beam_size 2 --no_such=3 --prefix --flash"
    more = "--vad_method=pyannote --align_model Y -- --no-flag"
    typed = ["transcribe", "a.mp3", *flags_typed.split(), *more.split()]
    try:
        commands(flags.normalize(typed, switches), standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - Typer does not export its type
        messages = usage_messages(error, commands.commands.values(), typed)
    assert [message.partition("; ")[0] for message in messages] == [
        "No such option: --align_model",
        "No such option: -osrt",
        "No such option: --no_such",
        "No such option: --vad_method",
    ]
    assert "leave it out: --word-timestamps needs no alignment model" in messages[0]
    assert messages[1].endswith("use --format srt")
    assert messages[2].endswith("--help lists all options")


def test_a_recording_is_not_a_format() -> None:
    for arguments in (["-f", "talk.wav"], ["--format", "talks/a"]):
        with pytest.raises(OptionError, match="give a recording without a flag"):
            flags.normalize(arguments, {})
    assert flags.normalize(["-f", ".srt"], {}) == ["-f", ".srt"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("beam_size", None, "--beam-size"),
        ("vad", "False", "--no-vad"),
        ("vad", "True", "--vad"),
        ("language", "'en'", "--language en"),
        ("hotwords", "'two words'", "--hotwords 'two words'"),
        ("temperature", "(0.0, 0.2)", "--temperature 0.0,0.2"),
        ("clip_timestamps", "((0, 5), (6, None))", "--clip-timestamps 0,5,6"),
        ("known_speakers", '{"Ann": "ann.wav"}', "--known-speakers Ann=ann.wav"),
        ("batch_size", "None", "--batch-size none"),
        ("engine", "'onnxruntime' or 'torch'", "--engine onnxruntime or torch"),
        ("on_error", "'yield'", "on_error='yield'"),
    ],
)
def test_an_option_is_written_as_a_flag(name: str, value: str | None, text: str) -> None:
    assert flags.as_flag(name, value) == text


def test_option_names_in_help_texts_are_flags() -> None:
    text = 'needs `beam_size=1` or `timestamps="tokens"`, not `vad` (extra `torch`) [4]'
    flag = flags.make_flag("name", int, 1, text, "Panel")
    expected = "Needs --beam-size 1 or --timestamps tokens, not --vad (extra torch) (4) Default: 1."
    assert typer_option(flag).help == expected


def test_values_of_python_in_help_texts_are_values_of_flags() -> None:
    text = "how it is. In Python, a tuple of 0.5. None or False is the end. An array has none."
    flag = flags.make_flag("a_name", bool | None, None, text, "Panel")
    assert typer_option(flag).help == 'How it is. "none" or --no-a-name is the end.'


def test_the_entries_of_docstrings_are_found() -> None:
    assert "1 is greedy search" in documented_fields(Options)["beam_size"]
    assert documented_fields(object()) == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--engine torch --draft-model tiny", {"engine": "torch", "draft_model": "tiny"}),
        ("--engine openvino --intra-threads 2", {"engine": "openvino", "intra_threads": 2}),
        ("--device-index 1 --flash-attention", {"device_index": 1, "flash_attention": True}),
        ("--device-index 0,1 --device cuda", {"device_index": (0, 1), "device": "cuda"}),
        ("--quantization hqq4 --group-size 32", {"quantization": "hqq4", "group_size": 32}),
        ("--quantization int8 --compile", {"quantization": "int8", "compile": True}),
        ("--compute-type int8 --inter-threads 3", {"compute_type": "int8", "inter_threads": 3}),
    ],
)
def test_the_flags_of_load_are_parsed(arguments: str, expected: dict[str, Any]) -> None:
    found: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @flags.with_flags(*flags.load_flags(LOAD_KEYWORDS, "Model"))
    def command(**keywords: Any) -> None:
        found.update(flags.given_flags(keywords))

    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 0, result.output
    assert found == expected


@pytest.mark.parametrize(("given", "retries"), [([], False), (["--retry-failed"], True)])
def test_failures_are_retried_if_the_flag_says_so(
    monkeypatch: pytest.MonkeyPatch, given: list[str], *, retries: bool
) -> None:
    found: list[bool] = []

    def note(arguments: plans.WorkArguments) -> int:
        found.append(arguments.retry_failed)
        return 0

    monkeypatch.setattr(plans, "work_on_plan", note)
    result = CliRunner().invoke(plans.app, ["work", "a.plan", *given])
    assert result.exit_code == 0, result.output
    assert found == [retries]


class Runs:
    """Transcribes a recording on the command line, unless its output is finished."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recording = write_noise(folder / "talk.wav")
        self.loaded = 0
        monkeypatch.setattr(whisperbatch, "load", self._load)
        monkeypatch.setattr(transcribe, "find_model", lambda *_, **__: folder)
        monkeypatch.setattr(transcribe, "fingerprint", lambda *_: "fake")

    def _load(self, *_: Any, **__: Any) -> Transcriber:
        self.loaded += 1
        return Transcriber(FakeEngine())

    def transcribes(self, **load: float) -> bool:
        loaded = self.loaded
        run = arguments(inputs=(str(self.recording),), formats="txt", resume=True, load=load)
        assert transcribe.transcribe_all(run) == 0
        assert self.recording.with_suffix(".txt").exists()
        return self.loaded > loaded


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def test_the_share_that_was_measured_for_a_model(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, is_new in ((1.0, True), (1.0, False), (0.8, True), (0.8, False)):
        monkeypatch.setattr(transcribe, "measured_kept_frames", lambda _, share=share: share)
        assert runs.transcribes() == is_new


def test_the_share_of_the_option(runs: Runs) -> None:
    assert runs.transcribes()
    for share, is_new in ((0.5, True), (0.5, False), (0.6, True), (0.6, False)):
        assert runs.transcribes(kept_frames=share) == is_new
