"""Every option has an effect: one case for each option, with real weights and real speech.

An effect must be visible in the transcript on every processor. Processors differ in the last digits
of probabilities, so probabilities are not compared, and the two runs of a case differ by far more
than such a difference: another language, other words, another number of chunks, or removed text.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import clips, recordings, sounds
from benchmarks import speech as fetched
from whisperbatch.diarization import Progress, SpeakerLimits, open_diarizer
from whisperbatch.options import OptionKeywords
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn

# One decoding of each row. Retries take most of the time, and are options of their own.
GREEDY: OptionKeywords = {
    "beam_size": 1,
    "compression_ratio_threshold": None,
    "log_prob_threshold": None,
    "coverage_threshold": None,
}
BASIC: OptionKeywords = GREEDY | {"language": "en"}


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


# "Invalid choice" is removed, unless its span continues into the next sentence.
NO_SHORT_SPANS: OptionKeywords = BASIC | {"min_speech_duration": 2.0}

WINDOWS: OptionKeywords = GREEDY | {"chunk_length": 5.0}  # a recording above 20 s has windows
ONE_WINDOW: OptionKeywords = WINDOWS | {"language_detection_segments": 1}
SWITCHING: OptionKeywords = WINDOWS | {"multilingual": True}
STRICT: OptionKeywords = BASIC | {"log_prob_threshold": -0.01}
DIARIZED: OptionKeywords = BASIC | {"diarize": True}

# The first decoding is the result: nothing is retried or removed.
UNCHECKED: OptionKeywords = BASIC | {"no_speech_threshold": None, "hallucination_filter": False}

# Half a second has no parts to retry. At temperature 2, all tokens are improbable and random.
SAMPLED: OptionKeywords = UNCHECKED | {"vad": False, "temperature": 2.0, "max_new_tokens": 10}

# After a complete sentence, the end of the text is by far the most probable next token.
SENTENCE = "The conference is now being recorded."
COMPLETE: OptionKeywords = UNCHECKED | {"prefix": SENTENCE, "max_new_tokens": 30}

# A beam search that may end at once, and prefers long texts.
LONG: OptionKeywords = COMPLETE | {"suppress_blank": False, "beam_size": 5, "length_penalty": 10.0}

CAPITALS = "WELCOME TO THE TELEPHONE CONFERENCE PLEASE ENTER YOUR PASSWORD THANK YOU FOR CALLING"


class Ann:
    """A diarizer of the user: all speech is Ann's."""

    fingerprint = "Ann"

    def __call__(
        self, blocks: Iterable[Samples], _: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        """Yield one turn for each block."""
        end, turns = 0.0, []
        for block in blocks:
            turns.append(Turn(end, end + len(block) / SAMPLING_RATE, "Ann", 1.0))
            end = turns[-1].end
            yield Progress(end, (turns[-1],))
        yield Diarization(tuple(turns))

    def close(self) -> None:
        """Free nothing."""


CASES = {
    "track": Case({"track": 1}, source="two tracks"),
    "channel": Case({"channel": "right"}, source="stereo"),
    "sampling_rate": Case({"sampling_rate": 8000}, source="array"),
    "clip_timestamps": Case({"clip_timestamps": ((0.0, 6.0),)}),
    "max_duration": Case({"max_duration": 5.0}),  # the transcription fails
    "vad": Case({"vad": False}, source="silence"),
    "vad_onset": Case({"vad_onset": 0.99, "vad_offset": 0.98}),
    "vad_offset": Case({"vad_offset": 0.0}, NO_SHORT_SPANS),
    "min_speech_duration": Case({"min_speech_duration": 2.0}),
    "min_silence_duration": Case({"min_silence_duration": 2.0}, NO_SHORT_SPANS),
    "speech_pad": Case({"speech_pad": 1.5}, common=BASIC | {"chunk_length": 6.0}),
    "max_speech_duration": Case({"max_speech_duration": 1.5}, common=BASIC | {"chunk_length": 5.0}),
    "second_opinion": Case({"second_opinion": False}, source="muffled"),
    "second_opinion_threshold": Case({"second_opinion_threshold": -0.01}, source="muffled"),
    "chunk_length": Case({"chunk_length": 4.0}),
    "max_silence": Case({"max_silence": 0.0}, common=BASIC | {"chunk_length": 8.0}),
    "features": Case({"features": "kaldi-fbank"}, source="noisy"),
    "language": Case({"language": "fr"}, GREEDY, "sentence", "base"),
    "languages": Case({"languages": ("fr", "ru")}, GREEDY, "spanish", "base"),
    "language_detection_segments": Case(
        {"language_detection_segments": 1}, WINDOWS, "two languages", "base"
    ),
    "language_detection_length": Case(
        {"language_detection_length": 3.0}, ONE_WINDOW, "two languages", "base"
    ),
    "language_detection_threshold": Case(
        {"language_detection_threshold": 1.0}, SWITCHING, "two languages", "base"
    ),
    "multilingual": Case({"multilingual": True}, WINDOWS, "two languages", "base"),
    "code_switching_output": Case(
        {"code_switching_output": "english"}, SWITCHING, "two languages", "base"
    ),
    "latin_names": Case(
        {"latin_names": True},
        GREEDY | {"multilingual": True, "languages": ("ru",)},
        "sentence",
        "base",
    ),
    "task": Case({"task": "translate"}, GREEDY, "spanish", "base"),
    "beam_size": Case({"beam_size": 4}, UNCHECKED, "noisy"),
    "patience": Case({"patience": 0.2}, LONG, "sentence"),
    "length_penalty": Case({"length_penalty": -10.0}, LONG, "sentence"),
    "repetition_penalty": Case({"repetition_penalty": 3.0}),
    "no_repeat_ngram_size": Case({"no_repeat_ngram_size": 1}),
    "suppress_blank": Case({"suppress_blank": False}, COMPLETE, "sentence"),
    "suppress_tokens": Case({"suppress_tokens": (-1, 13, 11)}),  # full stop and comma
    "max_initial_timestamp": Case(
        {"max_initial_timestamp": 10.0}, UNCHECKED | {"timestamps": "tokens", "vad": False}, "late"
    ),
    "max_new_tokens": Case({"max_new_tokens": 5}),
    "temperature": Case({"temperature": 2.0}, SAMPLED | {"temperature": 0.0}, "brief"),
    "best_of": Case({"best_of": 1}, SAMPLED, "brief"),
    "seed": Case({"seed": 1}, SAMPLED, "brief"),
    "compression_ratio_threshold": Case({"compression_ratio_threshold": 0.1}),
    "log_prob_threshold": Case({"log_prob_threshold": -0.01}),
    "no_speech_threshold": Case({"no_speech_threshold": 0.0}, STRICT),
    "coverage_threshold": Case({"coverage_threshold": 0.0}),
    "hallucination_filter": Case(  # half a second is too short for the words of the prefix
        {"hallucination_filter": False}, BASIC | {"vad": False, "prefix": SENTENCE}, "brief"
    ),
    "initial_prompt": Case({"initial_prompt": CAPITALS}),
    "hotwords": Case({"hotwords": CAPITALS}),
    "prefix": Case({"prefix": "You have"}),
    "condition_on_previous_text": Case(
        {"condition_on_previous_text": True},
        BASIC | {"chunk_length": 4.0, "initial_prompt": CAPITALS.lower()},
        "long speech",
    ),
    "timestamps": Case({"timestamps": "tokens"}, BASIC | {"segments": "phrase"}),
    "segments": Case({"segments": "chunk"}),
    "word_timestamps": Case({"word_timestamps": True}),
    "diarize": Case({"diarize": True}),
    "num_speakers": Case({"num_speakers": 1}, DIARIZED, "telephone"),
    "min_speakers": Case({"min_speakers": 3}, DIARIZED, "telephone"),
    "max_speakers": Case({"max_speakers": 1}, DIARIZED, "telephone"),
    "speaker": Case({"speaker": "channel"}, DIARIZED, "stereo"),
    "known_speakers": Case(
        {"known_speakers": {"caller": fetched.telephone() / "sample.wav"}},
        DIARIZED | {"max_speakers": 1},
        "telephone",
    ),
    "diarizer": Case({"diarizer": Ann()}, DIARIZED, "telephone"),
}

WITHOUT_EFFECT_ON_TEXT = {"batch_size", "readers", "reader_processes"}  # see the last tests


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("sources")
    long_speech = recordings.prompts("en", duration=20, seed=2).samples
    speech = recordings.prompts("en", duration=10, seed=2).samples  # SENTENCE: 4.3 to 6.4 s
    second = recordings.prompts("en", duration=10, seed=1).samples
    sentence = excerpt(speech, 3.9, 6.9)
    french = recordings.dense("fr", duration=16).samples
    noise = 6400 * np.random.default_rng(0).standard_normal(len(speech))
    return {
        "speech": speech,
        "long speech": long_speech,
        "sentence": sentence,
        "brief": excerpt(speech, 4.5, 5.0),
        "array": sentence[::2].copy(),
        "silence": silence(2),
        "late": np.concatenate([silence(6), sentence]),
        "noisy": (speech + noise).clip(-32768, 32767).astype(np.int16),
        # windows of 10 s: mostly English, French, French; first window of 3 s with speech: French
        "two languages": np.concatenate([silence(3), excerpt(speech, 3.9, 9.9), french]),
        "telephone": clips.telephone_clip().samples,
        "muffled": muffled(excerpt(speech, 3.9, 9.9)),
        "spanish": recordings.prompts("es", duration=10).samples,
        "stereo": write_tracks(directory / "stereo.wav", [np.stack((speech, second))], "stereo"),
        "two tracks": write_tracks(directory / "tracks.mka", [speech[None], second[None]], "mono"),
    }


def excerpt(samples: Any, start: float, end: float) -> Any:
    return samples[int(start * 16000) : int(end * 16000)].copy()


def muffled(loud: Any) -> Any:
    """Return speech, and then a faint voice in a narrow band, which counts to ten."""
    [voice] = [clip for clip in clips.audioeval_clips() if "nine ten" in clip.utterances[0].text]
    band = sounds.band(voice.samples.astype(np.float64), 600, 2500)
    faint = sounds.rounded(sounds.at_level(band, -33))
    noise = sounds.white(len(faint) + 32000, recordings.random_from(0))
    padded = np.pad(faint, 16000) + sounds.at_level(noise, -62)
    return np.concatenate([loud, sounds.rounded(padded)])


def silence(duration: float) -> Any:
    return np.zeros(int(duration * 16000), np.int16)


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
    # a fixed engine: an option may change the text of one engine and not of another
    load = functools.partial(wb.load, engine="ctranslate2")
    with load("tiny.en") as tiny, load("base") as base:
        yield {"tiny.en": tiny, "base": base}


Run = Callable[[Case, OptionKeywords], tuple[object, ...]]


@pytest.fixture(scope="module")
def run(models: dict[str, wb.Transcriber], sources: dict[str, Any]) -> Run:
    """Return a function that transcribes the source of a case; equal runs are made only once."""
    results: dict[object, tuple[object, ...]] = {}

    def run_once(case: Case, options: OptionKeywords) -> tuple[object, ...]:
        key = case.model, case.source, repr(sorted(options.items()))
        if key not in results:
            try:
                transcript = models[case.model].transcribe(sources[case.source], **options)
                results[key] = observable(transcript)
            except wb.AudioError as error:
                results[key] = (str(error),)
        return results[key]

    return run_once


def observable(transcript: wb.Transcript) -> tuple[object, ...]:
    """The contents of a transcript without probabilities; times are rounded to 0.1 s."""
    segments = [
        (
            segment.text,
            round(segment.start, 1),
            round(segment.end, 1),
            segment.language,
            segment.speaker,
            None if segment.words is None else [word.word for word in segment.words],
        )
        for segment in transcript.segments
    ]
    omissions = [(omission.text, omission.reason) for omission in transcript.omissions]
    return segments, transcript.language, transcript.chunks, transcript.redecoded, omissions


def test_every_option_has_a_case() -> None:
    assert set(CASES) | WITHOUT_EFFECT_ON_TEXT == {field.name for field in fields(wb.Options)}
    for name, case in CASES.items():
        assert name in case.changed


@pytest.mark.parametrize("name", CASES)
def test_option_has_an_effect(name: str, run: Run) -> None:
    case = CASES[name]
    if name == "features" and not find_spec("torchaudio"):
        with pytest.raises(wb.MissingExtraError, match="whisperbatch\\[kaldi\\]"):
            run(case, case.common | case.changed)
        return
    if "diarize" in case.common | case.changed:
        try:
            open_diarizer()
        except wb.MissingExtraError as error:
            pytest.skip(str(error))
    assert run(case, case.common | case.changed) != run(case, case.common)


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
            sources["long speech"], chunk_length=4.0, batch_size=batch_size, beam_size=1
        )
        texts.append(transcript.text)
        assert max(sizes) == batch_size
        sizes.clear()
    assert texts[0] == texts[1]
