"""Every option has an effect: one case for each option, with real weights and real speech."""

import functools
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import recordings
from whisperbatch.options.keywords import OptionKeywords

BASIC: OptionKeywords = {"beam_size": 1, "language": "en"}


class Case(NamedTuple):
    """Two runs whose results must differ: with and without the options in `changed`.

    Attributes:
        changed: the option under test and its value.
        common: options of both runs.
        source: name of the recording in the fixture `sources`.
        model: name of the model.
    """

    changed: OptionKeywords
    common: OptionKeywords = BASIC
    source: str = "speech"
    model: str = "tiny.en"


SAMPLED: OptionKeywords = BASIC | {"temperature": 1.0}
BEAM: OptionKeywords = {"beam_size": 4, "language": "en"}

GREEDY: OptionKeywords = {"beam_size": 1}
CLIPPED: OptionKeywords = GREEDY | {"clip_timestamps": ((38.0, 62.0),)}
BRIEF: OptionKeywords = GREEDY | {"clip_timestamps": ((30.0, 40.0), (60.0, 70.0))}
SWITCHING: OptionKeywords = CLIPPED | {"multilingual": True}

CASES = {
    "track": Case({"track": 1}, source="two tracks"),
    "channel": Case({"channel": "right"}, source="stereo"),
    "sampling_rate": Case({"sampling_rate": 8000}, source="array"),
    "clip_timestamps": Case({"clip_timestamps": ((0.0, 6.0),)}),
    "vad": Case({"vad": False}, source="faint"),
    "vad_onset": Case({"vad_onset": 0.99, "vad_offset": 0.98}),
    "vad_offset": Case({"vad_offset": 0.0}),
    "min_speech_duration": Case({"min_speech_duration": 3.0}),
    "min_silence_duration": Case({"min_silence_duration": 2.0}),
    "speech_pad": Case({"speech_pad": 0.0}),
    "max_speech_duration": Case({"max_speech_duration": 1.5}),
    "chunk_length": Case({"chunk_length": 5.0}),
    "max_silence": Case({"max_silence": 0.0}, common=BASIC | {"word_timestamps": True}),
    "features": Case({"features": "kaldi-fbank"}),
    "language": Case({"language": "fr"}, common={"beam_size": 1}, model="base"),
    "languages": Case({"languages": ("fr", "ru")}, GREEDY, "spanish", "base"),
    "language_detection_segments": Case(
        {"language_detection_segments": 1}, BRIEF, "two languages", "base"
    ),
    "language_detection_length": Case(
        {"language_detection_length": 3.0}, BRIEF, "two languages", "base"
    ),
    "language_detection_threshold": Case(
        {"language_detection_threshold": 1.0}, SWITCHING, "two languages", "base"
    ),
    "multilingual": Case({"multilingual": True}, CLIPPED, "two languages", "base"),
    "code_switching_output": Case(
        {"code_switching_output": "english"}, SWITCHING, "two languages", "base"
    ),
    "latin_names": Case(
        {"latin_names": True}, GREEDY | {"multilingual": True, "languages": ("ru",)}, model="base"
    ),
    "task": Case({"task": "translate"}, common={"beam_size": 1}, source="spanish", model="base"),
    "beam_size": Case({"beam_size": 4}, source="noisy"),
    "patience": Case({"patience": 0.25}, common=BEAM),
    "length_penalty": Case({"length_penalty": -5.0}, common=BEAM),
    "repetition_penalty": Case({"repetition_penalty": 3.0}),
    "no_repeat_ngram_size": Case({"no_repeat_ngram_size": 1}),
    "suppress_blank": Case({"suppress_blank": False}, common=BASIC | {"vad": False}),
    "suppress_tokens": Case({"suppress_tokens": (-1, 13, 11)}),  # full stop and comma
    "max_initial_timestamp": Case(
        {"max_initial_timestamp": 10.0},
        common=BASIC | {"vad": False, "timestamps": "tokens"},
        source="late",
    ),
    "max_new_tokens": Case({"max_new_tokens": 5}),
    "temperature": Case({"temperature": 1.0}),
    "best_of": Case({"best_of": 1}, common=SAMPLED, source="noisy"),
    "seed": Case({"seed": 1}, common=SAMPLED, source="noisy"),
    "compression_ratio_threshold": Case({"compression_ratio_threshold": 0.1}),
    "log_prob_threshold": Case({"log_prob_threshold": -0.01}),
    "no_speech_threshold": Case(
        {"no_speech_threshold": 0.0}, common=BASIC | {"log_prob_threshold": -0.01}
    ),
    "coverage_threshold": Case({"coverage_threshold": 0.0}),
    "hallucination_filter": Case(
        {"hallucination_filter": False},
        common=BASIC | {"vad": False, "log_prob_threshold": -0.01, "no_speech_threshold": None},
        source="noise",
    ),
    "initial_prompt": Case({"initial_prompt": "WE WRITE IN CAPITALS. ALL OF US DO."}),
    "hotwords": Case({"hotwords": "Asterisk, voicemail"}),
    "prefix": Case({"prefix": "You have"}),
    "condition_on_previous_text": Case(
        {"condition_on_previous_text": True}, common=BASIC | {"chunk_length": 5.0}
    ),
    "timestamps": Case({"timestamps": "tokens"}),
    "word_timestamps": Case({"word_timestamps": True}),
}

WITHOUT_EFFECT_ON_TEXT = {"batch_size"}  # see the last test


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("sources")
    speech = recordings.prompts("en", duration=20).samples
    second = recordings.prompts("en", duration=20, seed=1).samples
    rng = np.random.default_rng(0)
    clean = recordings.prompts("en", duration=20, seed=2).samples
    noisy = clean + 3200 * rng.standard_normal(len(clean))
    return {
        "speech": speech,
        "array": speech[::2].copy(),
        "faint": (speech[: 16000 * 8] // 1000).astype(np.int16),
        "late": np.concatenate([(300 * rng.standard_normal(16000 * 6)).astype(np.int16), speech]),
        "noise": (300 * rng.standard_normal(16000 * 5)).astype(np.int16),
        "noisy": noisy.clip(-32768, 32767).astype(np.int16),
        "two languages": recordings.switching(("en", "fr"), duration=150, seed=1).samples,
        "spanish": recordings.prompts("es", duration=15).samples,
        "stereo": write_tracks(directory / "stereo.wav", [np.stack((speech, second))], "stereo"),
        "two tracks": write_tracks(directory / "tracks.mka", [speech[None], second[None]], "mono"),
    }


def write_tracks(path: Path, tracks: list[Any], layout: str) -> Path:
    with av.open(str(path), "w") as container:
        streams = [container.add_stream("pcm_s16le", rate=16000, layout=layout) for _ in tracks]
        for stream, samples in zip(streams, tracks, strict=True):
            packed = np.ascontiguousarray(samples.T).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, format="s16", layout=layout)
            frame.sample_rate = 16000
            container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, wb.Transcriber]]:
    # fixed engines: an option may change the text of one engine and not of another
    load = functools.partial(wb.load, encoder="ctranslate2", decoder="ctranslate2")
    with load("tiny.en") as tiny, load("base") as base:
        yield {"tiny.en": tiny, "base": base}


def test_every_option_has_a_case() -> None:
    assert set(CASES) | WITHOUT_EFFECT_ON_TEXT == {field.name for field in fields(wb.Options)}
    for name, case in CASES.items():
        assert name in case.changed


@pytest.mark.parametrize("name", CASES)
def test_option_has_an_effect(
    name: str, models: dict[str, wb.Transcriber], sources: dict[str, Any]
) -> None:
    case = CASES[name]
    asr, source = models[case.model], sources[case.source]
    before = asr.transcribe(source, **case.common)
    if name == "features" and not find_spec("torchaudio"):
        with pytest.raises(wb.MissingExtraError, match="whisperbatch\\[kaldi\\]"):
            asr.transcribe(source, **(case.common | case.changed))
        return
    after = asr.transcribe(source, **(case.common | case.changed))
    assert observable(after) != observable(before)


def observable(transcript: wb.Transcript) -> tuple[object, ...]:
    """The contents of a transcript, with probabilities rounded to four digits."""
    segments = [
        (
            segment.text,
            segment.start,
            segment.end,
            segment.language,
            segment.words,
            round(segment.avg_logprob, 4),
        )
        for segment in transcript.segments
    ]
    language = transcript.language, round(transcript.language_probability, 4)
    return (
        segments,
        language,
        transcript.redecoded,
        [
            (omission.start, omission.end, omission.text, omission.reason)
            for omission in transcript.omissions
        ],
    )


def test_batch_size_is_the_number_of_rows_encoded_together(
    models: dict[str, wb.Transcriber], sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch size does not change the text."""
    asr = models["tiny.en"]
    sizes: list[int] = []
    engine = asr._engine
    encode = engine.encode

    def counting_encode(features: Any) -> Any:
        sizes.append(len(features))
        return encode(features)

    monkeypatch.setattr(engine, "encode", counting_encode)
    texts = []
    for batch_size in (1, 3):
        transcript = asr.transcribe(
            sources["speech"], chunk_length=4.0, batch_size=batch_size, beam_size=1
        )
        texts.append(transcript.text)
        assert max(sizes) == batch_size
        sizes.clear()
    assert texts[0] == texts[1]
