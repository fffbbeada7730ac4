"""Features of a transcription, and an engine whose text shows whether each option has arrived.

The engine says ten words for a row. Nine depend on the sound of the row; the last also depends on
the prompt, the search and the sampling. An option that is lost on its way therefore changes the
text, the times, or the speakers.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.unit.fakes import Call, EncodedRow, FakeEngine, multilingual_tokenizer
from tests.unit.media_files import encode
from whisperbatch.protocols import Hypothesis
from whisperbatch.types import SAMPLING_RATE, Samples

WORDS: Final = """
alder amber anvil apple ashes badge bacon barge basin beach bench birch blade bloom board brick
brook brush cabin cable camel canal cedar chalk cliff cloud coast coral crane creek delta diver
eagle elbow ember fable field flint flute frost glade grain grove hazel heron honey ivory jewel
kayak lemon linen maple medal metal moose novel ocean olive opera otter
"""
LOUD: Final = 0.02  # amplitude from which a frame is speech for `LoudVad`
AUDIBLE: Final = 0.002  # amplitude from which a frame may be speech
TALK: Final = ((0.2, 2.2), (2.8, 4.8), (5.2, 7.2), (7.8, 9.6), (10.0, 11.8))
"""The stretches of speech in the recordings, in seconds."""
LENGTH: Final = 12.0  # seconds of each recording
FAINT: Final = slice(round(5.2 * SAMPLING_RATE), round(7.2 * SAMPLING_RATE))


@dataclass(frozen=True)
class Feature:
    """Options that are transcribed together. Each of them changes the transcript.

    Attributes:
        name: of the test.
        options: as keywords of `transcribe`.
        recording: name of the file.
        needed: the options without which others are refused.
    """

    name: str
    options: Mapping[str, Any]
    recording: str = "talk.wav"
    needed: tuple[str, ...] = ()


COMMON: Final[Mapping[str, Any]] = {"chunk_length": 2.5}
"""Options of all transcriptions: a recording has several chunks."""

FEATURES: Final = (
    Feature(
        "prompts",
        {"language": "fr", "initial_prompt": "In Ruritania", "hotwords": "Zenda", "prefix": "Oh"},
    ),
    Feature(
        "search",
        {
            "beam_size": 2,
            "patience": 1.5,
            "length_penalty": 0.9,
            "repetition_penalty": 1.1,
            "no_repeat_ngram_size": 3,
            "suppress_blank": False,
            "suppress_tokens": (5, 6),
            "max_new_tokens": 200,
            "task": "translate",
        },
        needed=("beam_size",),
    ),
    Feature(
        "retries",
        {"temperature": (0.0, 0.4, 0.8), "best_of": 3, "seed": 7, "log_prob_threshold": -0.05},
        needed=("temperature",),
    ),
    Feature("languages", {"languages": ("fr", "de")}),
    Feature(
        "multilingual",
        {"multilingual": True, "code_switching_output": "english"},
        needed=("multilingual",),
    ),
    Feature("previous text", {"condition_on_previous_text": True}),
    Feature("clips", {"clip_timestamps": ((2.5, 5.0), (7.5, None)), "word_timestamps": True}),
    Feature("no VAD", {"vad": False, "segments": "chunk"}),
    Feature(
        "speech", {"second_opinion": False, "speech_pad": 0.2, "segments": "phrase"}, "faint.wav"
    ),
    Feature("pauses", {"max_silence": 0.05, "chunk_length": 6.0}),
    Feature("track", {"track": 1}, "tracks.mkv"),
    Feature("channel", {"channel": "right"}, "call.wav"),
    Feature("cut off", {}, "cut.wav"),
    Feature(
        "speakers",
        {"diarize": True, "max_speakers": 1, "word_timestamps": True},
        needed=("diarize",),
    ),
    Feature(
        "known speakers",
        {"diarize": True, "known_speakers": {"Ann": "ann.wav"}},
        needed=("diarize",),
    ),
    Feature(
        "speakers by channel",
        {"diarize": True, "speaker": "channel", "word_timestamps": True},
        "call.wav",
        needed=("diarize",),
    ),
)


LONG: Final = (
    Feature("multilingual", {"multilingual": True}, "long.wav"),
    Feature("previous text", {"condition_on_previous_text": True}, "long.wav"),
    Feature("clips", {"clip_timestamps": ((2.5, 320.0), (330.0, None))}, "long.wav"),
    Feature("prefix", {"language": "fr", "prefix": "Oh", "vad": False}, "long.wav"),
    Feature("speakers", {"diarize": True, "word_timestamps": True}, "long.wav"),
)
"""Features of a recording of several sections that a plan does not divide."""

DIVIDED: Final = (
    Feature("defaults", {}, "long.wav"),
    Feature(
        "options",
        {"language": "fr", "hotwords": "Zenda", "word_timestamps": True, "segments": "phrase"},
        "long.wav",
    ),
    Feature("no retries", {"log_prob_threshold": None, "languages": ("fr", "de")}, "long.wav"),
)
"""Features of a recording that a plan divides, which must be longer than six minutes."""


def speaking_engine(**keywords: Any) -> FakeEngine:
    """An engine with text that depends on the sound and on all options of a row."""
    return FakeEngine(detect=_hear, decode=_say, **keywords)


def _sound(row: EncodedRow) -> str:
    return f"{row.level:.5f}"


def _chance(*values: object) -> random.Random:
    """Random numbers that depend on some values only."""
    return random.Random(repr(values))  # noqa: S311 - no secret


def _hear(row: EncodedRow) -> dict[str, float]:
    first, second = _chance("language", _sound(row)).sample(("en", "fr"), 2)
    return {first: 0.8, second: 0.15, "de": 0.05}


def _say(call: Call) -> Hypothesis:
    chance = _chance(_sound(call.row))
    words = chance.sample(WORDS.split(), 40)
    search = [float(value) if type(value) is int else value for value in astuple(call.options)]
    told = _chance(_sound(call.row), search, call.sampling, call.prompt)
    end = chance.choice((".", ""))  # some sentences continue in the next row
    text = f" {' '.join([*words[:9], told.choice(words[9:])]).capitalize()}{end}"
    tokens = multilingual_tokenizer().encode(text, add_special_tokens=False).ids
    improbable = -1.3 if chance.random() < 0.5 else -0.1
    return Hypothesis(tuple(tokens), -0.02 if call.sampling else improbable, 0.0)


def write_recordings(folder: Path) -> None:
    """Write the recordings of the features."""
    first, second = _voice(TALK[::2], 1), _voice(TALK[1::2], 2)
    talk = _voice(TALK, 3)
    faint = talk.copy()
    faint[FAINT] *= 0.1
    files = {
        "talk.wav": encode([talk], "wav", "pcm_s16le", rate=SAMPLING_RATE),
        "faint.wav": encode([faint], "wav", "pcm_s16le", rate=SAMPLING_RATE),
        "tracks.mkv": encode([talk], "matroska", "pcm_s16le", rate=SAMPLING_RATE, more=[first]),
        "call.wav": encode(
            [first, second], "wav", "pcm_s16le", rate=SAMPLING_RATE, layout="stereo"
        ),
        "ann.wav": encode([talk[: 2 * SAMPLING_RATE]], "wav", "pcm_s16le", rate=SAMPLING_RATE),
    }
    pause = np.zeros(360 * SAMPLING_RATE, np.float32)
    long = np.concatenate([talk, pause, talk[::-1]])
    files["long.wav"] = encode([long], "wav", "pcm_s16le", rate=SAMPLING_RATE)
    files["cut.wav"] = files["talk.wav"][: len(files["talk.wav"]) * 3 // 5]
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _voice(spoken: Iterable[tuple[float, float]], seed: int) -> Samples:
    """Noise in some stretches, given as (start, end) in seconds; otherwise silence."""
    random_numbers = np.random.default_rng(seed)
    samples = np.zeros(round(LENGTH * SAMPLING_RATE), np.float32)
    for start, end in spoken:
        part = slice(round(start * SAMPLING_RATE), round(end * SAMPLING_RATE))
        samples[part] = 0.1 * random_numbers.uniform(-1, 1, len(samples[part]))
    return samples
