"""What `session.update` changes, and the formats of audio."""

from typing import Any

import numpy as np
import pytest

from whisperbatch import Options
from whisperbatch.live import LiveSettings
from whisperbatch.server.errors import ApiError
from whisperbatch.server.realtime.audio_formats import AudioFormat, a_law, mu_law
from whisperbatch.server.realtime.configuration import MAX_PROMPT, Configuration

INPUT = "session.audio.input"
PLAIN = Configuration()


def updated(before: Configuration = PLAIN, **fields: Any) -> Configuration:
    return before.updated({"type": "transcription", "audio": {"input": fields}})


def keywords(configuration: Configuration, **defaults: Any) -> dict[str, Any]:
    return configuration.keywords_for(Options(**defaults))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"format": "pcm16"}, "format"),
        ({"format": {"type": "audio/mp3"}}, "format.type"),
        ({"format": {"type": "audio/pcm", "rate": 44100}}, "format.rate"),
        ({"format": {"type": "audio/pcm", "rate": True}}, "format.rate"),
        ({"format": {"type": "audio/pcm", "rate": [24000]}}, "format.rate"),
        ({"format": {"type": "audio/pcmu", "rate": 16000}}, "format.rate"),
        ({"format": {"type": "audio/pcm", "bits": 16}}, "format.bits"),
        ({"transcription": []}, "transcription"),
        ({"transcription": {"model": 3}}, "transcription.model"),
        ({"transcription": {"temperature": 0}}, "transcription.temperature"),
        ({"transcription": {"delay": "none"}}, "transcription.delay"),
        ({"transcription": {"keywords": "Ann"}}, "transcription.keywords"),
        ({"transcription": {"keywords": ["Ann", 3]}}, "transcription.keywords"),
        ({"transcription": {"keywords": ["x" * 10_001]}}, "transcription.keywords"),
        ({"turn_detection": "server_vad"}, "turn_detection"),
        ({"turn_detection": {"type": "none"}}, "turn_detection.type"),
        ({"turn_detection": {"type": ["server_vad"]}}, "turn_detection.type"),
        ({"turn_detection": {"type": "server_vad", "threshold": 1.1}}, "turn_detection.threshold"),
        (
            {"turn_detection": {"type": "server_vad", "threshold": "0.5"}},
            "turn_detection.threshold",
        ),
        (
            {"turn_detection": {"type": "server_vad", "threshold": float("nan")}},
            "turn_detection.threshold",
        ),
        (
            {"turn_detection": {"type": "server_vad", "silence_duration_ms": 10**400}},
            "turn_detection.silence_duration_ms",
        ),
        (
            {"turn_detection": {"type": "server_vad", "prefix_padding_ms": -1}},
            "turn_detection.prefix_padding_ms",
        ),
        (
            {"turn_detection": {"type": "server_vad", "eagerness": "low"}},
            "turn_detection.eagerness",
        ),
        ({"turn_detection": {"type": "semantic_vad", "eagerness": 3}}, "turn_detection.eagerness"),
        (
            {"turn_detection": {"type": "semantic_vad", "threshold": 0.5}},
            "turn_detection.threshold",
        ),
        ({"noise_reduction": {"kind": "near_field"}}, "noise_reduction.kind"),
        ({"voice": "alloy"}, "voice"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        updated(**fields)
    assert raised.value.param == f"{INPUT}.{param}"
    assert raised.value.status == 400
    assert f"{INPUT}.{param}" in raised.value.message


@pytest.mark.parametrize(
    ("session", "param"),
    [
        (None, None),
        ({"type": "other"}, "session.type"),
        ({"type": ["realtime"]}, "session.type"),
        ({"audio": []}, "session.audio"),
        ({"audio": {"input": 3}}, INPUT),
        ({"include": "item.input_audio_transcription.logprobs"}, "session.include"),
        ({"include": ["item.input_audio_transcription.text"]}, "session.include"),
        ({"instructions": "Be kind."}, "session.instructions"),
        ({"type": "realtime", "instructions": "Be kind."}, None),
    ],
)
def test_wrong_sessions_are_named(session: Any, param: str | None) -> None:
    if param is None:
        Configuration().updated(session)
        return
    with pytest.raises(ApiError) as raised:
        PLAIN.updated(session)
    assert raised.value.param == param


def test_fields_that_are_left_out_stay() -> None:
    first = updated(
        format={"type": "audio/pcm", "rate": 16000},
        transcription={"model": "base", "language": "en", "prompt": "Yes", "delay": "high"},
        turn_detection={"type": "server_vad", "threshold": 0.6, "silence_duration_ms": 800},
    )
    second = updated(first, transcription={"prompt": None})
    assert (second.language, second.prompt, second.delay) == ("en", None, "high")
    assert (second.format, second.turns) == (AudioFormat("audio/pcm", 16000), first.turns)
    third = updated(second, turn_detection={"type": "server_vad", "threshold": None})
    assert third.turns is not None
    assert (third.turns.threshold, third.turns.silence) == (None, 0.8)
    assert updated(third, transcription=None).language is None
    assert updated(third, format=None).format == AudioFormat()
    assert updated(third) == third
    assert PLAIN.updated({"include": None}) == PLAIN


@pytest.mark.parametrize(
    ("eagerness", "silence"),
    [("low", 2.0), ("medium", 1.0), ("high", 0.6), ("auto", 1.0), (None, 1.0)],
)
def test_semantic_vad(eagerness: str | None, silence: float) -> None:
    """A rule: the silence that ends a turn follows the eagerness."""
    made = updated(turn_detection={"type": "semantic_vad", "eagerness": eagerness})
    assert (keywords(made)["turn_silence"], keywords(made)["sentence_silence"]) == (silence, 0.4)
    LiveSettings(turn_silence=silence, sentence_silence=0.4)
    assert keywords(updated(made, turn_detection=None))["sentence_silence"] is None
    assert keywords(PLAIN)["sentence_silence"] is None
    value = made.value("base", Options())["audio"]["input"]["turn_detection"]
    assert value == {"type": "semantic_vad", "eagerness": eagerness or "auto"}
    # the other kind begins with its own values
    assert keywords(updated(made, turn_detection={"type": "server_vad"}))["turn_silence"] == 0.5


def test_fields_without_effect() -> None:
    fields = {"create_response": False, "interrupt_response": True, "idle_timeout_ms": 5000}
    made = updated(
        turn_detection={"type": "server_vad", **fields},
        noise_reduction={"type": "far_field", "strength": 0.5},
    )
    assert made == PLAIN
    value = made.value("base", Options())["audio"]["input"]
    assert (value["noise_reduction"], value["turn_detection"]["idle_timeout_ms"]) == (None, None)


def test_turn_detection_of_streaming_models() -> None:
    """OpenAI's streaming models have none; a client may still ask for it."""
    model = {"model": "gpt-realtime-whisper"}
    assert updated(transcription=model).turns is None
    assert updated(transcription={"model": "gpt-live-transcribe-2026-04-01"}).turns is None
    assert updated(transcription={"model": "gpt-transcribe"}).turns is not None
    asked = updated(transcription=model, turn_detection={"type": "server_vad"})
    assert asked.turns is not None
    assert updated(asked, transcription=model).turns is not None


@pytest.mark.parametrize(
    ("given", "language", "languages"),
    [
        ({"language": "en"}, "en", ()),
        ({"languages": ["en"]}, "en", ()),
        ({"languages": ["en", "de"]}, None, ("en", "de")),
        ({"language": None}, None, ()),
        ({"language": "", "languages": []}, None, ()),
    ],
)
def test_languages(given: Any, language: str | None, languages: tuple[str, ...]) -> None:
    for before in (PLAIN, updated(transcription={"language": "ru"})):
        made = updated(before, transcription=given)
        assert (made.language, made.languages) == (language, languages)
        Options(language=language, languages=languages)


def test_defaults_of_the_server() -> None:
    defaults = {"language": "de", "initial_prompt": "Guten Tag", "vad_onset": 0.4}
    found = keywords(PLAIN, **defaults)
    assert {name: found[name] for name in defaults} == defaults
    own = updated(transcription={"languages": ["en", "fr"], "prompt": "", "keywords": ["Ann", ""]})
    found = keywords(own, **defaults)
    assert (found["language"], found["languages"]) == (None, ("en", "fr"))
    assert (found["initial_prompt"], found["hotwords"]) == (None, "Ann")
    assert PLAIN.value("base", Options(vad_onset=0.4))["audio"]["input"]["turn_detection"][
        "threshold"
    ] == pytest.approx(0.4)


def test_the_end_of_a_long_prompt_counts() -> None:
    made = updated(transcription={"prompt": "a" * MAX_PROMPT + "end"})
    assert made.prompt is not None
    assert made.prompt.endswith("aend")
    assert len(made.prompt) == MAX_PROMPT


def test_a_low_threshold() -> None:
    made = updated(turn_detection={"type": "server_vad", "threshold": 0.1})
    assert (keywords(made)["vad_onset"], keywords(made)["vad_offset"]) == (0.1, 0.0)


def test_telephone_samples() -> None:
    """Values of the tables in G.711: the smallest, the largest and zero of each sign."""
    assert [mu_law()[code] for code in (0x00, 0x80, 0x7F, 0xFF, 0x0F, 0xF0)] == [
        *(-32124, 32124, 0, 0, -16764, 120),
    ]
    assert [a_law()[code] for code in (0xD5, 0x55, 0xAA, 0x2A, 0x80, 0x00)] == [
        *(8, -8, 32256, -32256, 5504, -5504),
    ]


def test_pieces_of_audio() -> None:
    data = bytes(range(256)) * 100
    for audio_format in (AudioFormat(), AudioFormat("audio/pcm", 8000)):
        pieces = list(audio_format.pieces(data + b"\1"))  # half a sample at the end
        assert b"".join(piece for piece in pieces if isinstance(piece, bytes)) == data + b"\1"
        assert {len(piece) for piece in pieces[:-1]} == {audio_format.rate // 2}
    for kind, table in (("audio/pcmu", mu_law()), ("audio/pcma", a_law())):
        decoded = np.concatenate(list(AudioFormat(kind, 8000).pieces(data)))
        assert (decoded == table[np.frombuffer(data, np.uint8)]).all()
        assert decoded.dtype == np.int16
