"""Every option that is accepted has an effect: one case for each, on real weights and speech."""

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

PLAIN: OptionKeywords = {"beam_size": 1, "language": "en"}


class Case(NamedTuple):
    """Options that must change the result, on top of some that both runs have.

    Attributes:
        changed: the option to try, and its value.
        both: options of both runs.
        source: which recording; see the fixture `sources`.
        model: which weights.
    """

    changed: OptionKeywords
    both: OptionKeywords = PLAIN
    source: str = "speech"
    model: str = "tiny.en"


SAMPLED: OptionKeywords = PLAIN | {"temperature": 1.0}
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
    "max_silence": Case({"max_silence": 0.0}, both=PLAIN | {"word_timestamps": True}),
    "features": Case({"features": "kaldi-fbank"}),
    "language": Case({"language": "fr"}, both={"beam_size": 1}, model="base"),
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
    "task": Case({"task": "translate"}, both={"beam_size": 1}, source="spanish", model="base"),
    "beam_size": Case({"beam_size": 4}, source="noisy"),
    "patience": Case({"patience": 0.25}, both=BEAM),
    "length_penalty": Case({"length_penalty": -5.0}, both=BEAM),
    "repetition_penalty": Case({"repetition_penalty": 3.0}),
    "no_repeat_ngram_size": Case({"no_repeat_ngram_size": 1}),
    "suppress_blank": Case({"suppress_blank": False}, both=PLAIN | {"vad": False}),
    "suppress_tokens": Case({"suppress_tokens": (-1, 13, 11)}),  # full stop and comma
    "max_initial_timestamp": Case(
        {"max_initial_timestamp": 10.0},
        both=PLAIN | {"vad": False, "timestamps": "tokens"},
        source="late",
    ),
    "max_new_tokens": Case({"max_new_tokens": 5}),
    "temperature": Case({"temperature": 1.0}),
    "best_of": Case({"best_of": 1}, both=SAMPLED, source="noisy"),
    "seed": Case({"seed": 1}, both=SAMPLED, source="noisy"),
    "compression_ratio_threshold": Case({"compression_ratio_threshold": 0.1}),
    "log_prob_threshold": Case({"log_prob_threshold": -0.01}),
    "no_speech_threshold": Case(
        {"no_speech_threshold": 0.0}, both=PLAIN | {"log_prob_threshold": -0.01}
    ),
    "coverage_threshold": Case({"coverage_threshold": 0.0}),
    "hallucination_filter": Case(
        {"hallucination_filter": False},
        both=PLAIN | {"vad": False, "log_prob_threshold": -0.01, "no_speech_threshold": None},
        source="noise",
    ),
    "initial_prompt": Case({"initial_prompt": "WE WRITE IN CAPITALS. ALL OF US DO."}),
    "hotwords": Case({"hotwords": "Asterisk, voicemail"}),
    "prefix": Case({"prefix": "You have"}),
    "condition_on_previous_text": Case(
        {"condition_on_previous_text": True}, both=PLAIN | {"chunk_length": 5.0}
    ),
    "timestamps": Case({"timestamps": "tokens"}),
    "word_timestamps": Case({"word_timestamps": True}),
}

ELSEWHERE = {"batch_size"}  # it must not change the text: see below


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("sources")
    speech = recordings.prompts("en", duration=20).samples
    other = recordings.prompts("en", duration=20, seed=1).samples
    rng = np.random.default_rng(0)
    quiet = recordings.prompts("en", duration=20, seed=2).samples
    noisy = quiet + 3200 * rng.standard_normal(len(quiet))
    return {
        "speech": speech,
        "array": speech[::2].copy(),
        "faint": (speech[: 16000 * 8] // 1000).astype(np.int16),
        "late": np.concatenate([(300 * rng.standard_normal(16000 * 6)).astype(np.int16), speech]),
        "noise": (300 * rng.standard_normal(16000 * 5)).astype(np.int16),
        "noisy": noisy.clip(-32768, 32767).astype(np.int16),
        "two languages": recordings.switching(("en", "fr"), duration=150, seed=1).samples,
        "spanish": recordings.prompts("es", duration=15).samples,
        "stereo": written(directory / "stereo.wav", [np.stack((speech, other))], "stereo"),
        "two tracks": written(directory / "tracks.mka", [speech[None], other[None]], "mono"),
    }


def written(path: Path, tracks: list[Any], layout: str) -> Path:
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
    # one arithmetic: an option may change the text in one and not in another
    load = functools.partial(wb.load, encoder="ctranslate2", decoder="ctranslate2")
    with load("tiny.en") as tiny, load("base") as base:
        yield {"tiny.en": tiny, "base": base}


def test_every_option_is_tried() -> None:
    assert set(CASES) | ELSEWHERE == {field.name for field in fields(wb.Options)}
    for name, case in CASES.items():
        assert name in case.changed


@pytest.mark.parametrize("name", CASES)
def test_option_has_an_effect(
    name: str, models: dict[str, wb.Transcriber], sources: dict[str, Any]
) -> None:
    case = CASES[name]
    asr, source = models[case.model], sources[case.source]
    before = asr.transcribe(source, **case.both)
    if name == "features" and not find_spec("torchaudio"):
        with pytest.raises(wb.MissingExtraError, match="whisperbatch\\[kaldi\\]"):
            asr.transcribe(source, **(case.both | case.changed))
        return
    after = asr.transcribe(source, **(case.both | case.changed))
    assert seen(after) != seen(before)


def seen(found: wb.Transcript) -> tuple[object, ...]:
    """All but how the last digits of a probability are rounded."""
    segments = [
        (s.text, s.start, s.end, s.language, s.words, round(s.avg_logprob, 4))
        for s in found.segments
    ]
    language = found.language, round(found.language_probability, 4)
    return (
        segments,
        language,
        found.redecoded,
        [(d.start, d.end, d.text, d.reason) for d in found.omissions],
    )


def test_batch_size_is_how_many_rows_go_together(
    models: dict[str, wb.Transcriber], sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes how the work is done, not what comes of it."""
    asr = models["tiny.en"]
    sizes: list[int] = []
    engine = asr._engine
    encode = engine.encode

    def counted(features: Any) -> Any:
        sizes.append(len(features))
        return encode(features)

    monkeypatch.setattr(engine, "encode", counted)
    texts = []
    for batch_size in (1, 3):
        found = asr.transcribe(
            sources["speech"], chunk_length=4.0, batch_size=batch_size, beam_size=1
        )
        texts.append(found.text)
        assert max(sizes) == batch_size
        sizes.clear()
    assert texts[0] == texts[1]
