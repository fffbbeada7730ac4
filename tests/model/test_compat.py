"""Programs written for faster-whisper run on the drop-in; only their import changes.

Each program runs with both packages and the same weights. It stores results in
`result`, which must have the same structure, and in `same`, which must be equal. The transcript of
the drop-in must have few word errors.
"""

import wave
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from benchmarks import recordings, scoring
from benchmarks.faster_whisper_files import let_faster_whisper_open_files
from benchmarks.recordings import Recording
from whisperbatch.models.registry import find_model

LOAD = """
model = WhisperModel(BASE, device="cpu", compute_type="int8")
"""


@dataclass(frozen=True)
class Program:
    """A program and its expected results.

    Attributes:
        source: reads AUDIO, STEREO, FRENCH, TINY and BASE; sets `result`, `text` if the program
            transcribes AUDIO, and `same` if both packages must give an equal value.
        max_word_error_rate: of `text` with the drop-in; None if the program sets no `text`.
        runs_with_theirs: whether the program also runs with faster-whisper.
    """

    source: str
    max_word_error_rate: float | None = None
    runs_with_theirs: bool = True


PROGRAMS = {
    "first example of the README": Program(
        """
from faster_whisper import WhisperModel
"""
        + LOAD
        + """
segments, info = model.transcribe(AUDIO, beam_size=5)
line = "Detected language '%s' with probability %f" % (info.language, info.language_probability)
lines = []
for segment in segments:
    lines.append("[%.2fs -> %.2fs] %s" % (segment.start, segment.end, segment.text))
    last = segment
text = "".join(line.split("] ")[1] for line in lines)
result = (line, lines, last, info.duration)
""",
        max_word_error_rate=0.05,
    ),
    "words": Program(
        """
from faster_whisper import WhisperModel
model = WhisperModel(TINY, device="cpu", compute_type="int8")
segments, _ = model.transcribe(AUDIO, word_timestamps=True, temperature=0, language="en")
lines, text = [], ""
for segment in segments:
    for word in segment.words:
        lines.append("[%.2fs -> %.2fs] %s" % (word.start, word.end, word.word))
        text += word.word
    assert segment.text == "".join(word.word for word in segment.words)
result = (lines, segment)
""",
        max_word_error_rate=0.1,
    ),
    "voice activity": Program(
        """
from faster_whisper import WhisperModel
from faster_whisper.vad import VadOptions
model = WhisperModel(TINY, compute_type="int8")
with open(AUDIO, "rb") as file:
    segments, info = model.transcribe(
        file, vad_filter=True, vad_parameters=dict(min_silence_duration_ms=500, threshold=0.4)
    )
    text = "".join(segment.text for segment in segments)
assert info.vad_options.min_silence_duration_ms == 500
assert info.vad_options.threshold == 0.4
assert 0 < info.duration_after_vad < info.duration
again, _ = model.transcribe(AUDIO, vad_filter=True, vad_parameters=VadOptions(speech_pad_ms=200))
result = (text, info, next(iter(again)))
""",
        max_word_error_rate=0.1,
    ),
    "two speakers": Program(
        """
from faster_whisper import WhisperModel, decode_audio
model = WhisperModel(TINY, "cpu", compute_type="int8")
left, right = decode_audio(STEREO, split_stereo=True)
texts = []
for channel in (left, right):
    segments, info = model.transcribe(channel, "en", beam_size=1)
    texts.append("".join(segment.text for segment in segments).strip())
text = texts[0]
assert left.dtype == right.dtype == "float32"
assert decode_audio(STEREO).shape == left.shape
result = (texts, len(left), info)
""",
        max_word_error_rate=0.15,
    ),
    "languages": Program(
        """
from faster_whisper import WhisperModel, decode_audio
"""
        + LOAD
        + """
samples = decode_audio(FRENCH)
language, probability, ranked = model.detect_language(samples)
_, info = model.transcribe(samples)
features = model.feature_extractor(samples)
again = model.detect_language(features=features)[0]
assert language == info.language == again == "fr"
assert probability > 0.5 and ranked[0][0] == "fr" and len(ranked) > 90
assert "fr" in model.supported_languages and model.model.is_multilingual
result = (language, probability, ranked, info.all_language_probs)
"""
    ),
    "options": Program(
        """
from faster_whisper import WhisperModel
model = WhisperModel(TINY, compute_type="int8", cpu_threads=2, num_workers=1)
segments, info = model.transcribe(
    audio=AUDIO, language="en", task="transcribe", beam_size=1, best_of=1, patience=1,
    length_penalty=1, repetition_penalty=1.01, no_repeat_ngram_size=8, temperature=[0.0, 0.4],
    compression_ratio_threshold=2.4, log_prob_threshold=-1.0, no_speech_threshold=0.6,
    condition_on_previous_text=False, initial_prompt="Asterisk.", suppress_blank=True,
    suppress_tokens=[-1], max_new_tokens=200, clip_timestamps="0,15", hotwords="voicemail",
    hallucination_silence_threshold=2.0, word_timestamps=True, log_progress=False,
)
segments = list(segments)
assert all(segment.end <= 16 for segment in segments)
result = (segments, info.transcription_options)
"""
    ),
    "subtitles": Program(
        """
from faster_whisper import BatchedInferencePipeline, WhisperModel, format_timestamp
from faster_whisper.transcribe import Segment
model = BatchedInferencePipeline(WhisperModel(TINY, compute_type="int8"))
segments, info = model.transcribe(
    AUDIO, without_timestamps=False, clip_timestamps=[{"start": 0, "end": 15}], vad_filter=False
)
lines = []
for segment in segments:
    assert isinstance(segment, Segment)
    times = [format_timestamp(t, True, ",") for t in (segment.start, segment.end)]
    lines.append(f"{segment.id}\\n{times[0]} --> {times[1]}\\n{segment.text.strip()}\\n")
assert lines[0].startswith("1\\n00:00:0")
result = (lines, info.language)
"""
    ),
    "clips": Program(
        """
from faster_whisper import BatchedInferencePipeline, WhisperModel
model = WhisperModel(TINY, compute_type="int8")
clips = [{"start": 0.0, "end": 9.0}, {"start": 10.0, "end": 20.5}]
segments, info = BatchedInferencePipeline(model).transcribe(AUDIO, clip_timestamps=clips)
segments = list(segments)
same = [(segment.id, segment.start, segment.end) for segment in segments]
result = segments
"""
    ),
    "chunks": Program(
        """
from faster_whisper import BatchedInferencePipeline, WhisperModel
model = WhisperModel(TINY, compute_type="int8")
segments, info = BatchedInferencePipeline(model).transcribe(AUDIO, batch_size=4)
segments = list(segments)
text = "".join(segment.text for segment in segments)
same = len(segments)
result = segments
""",
        max_word_error_rate=0.1,
    ),
    "audio without samples": Program(
        """
import numpy as np
from faster_whisper import BatchedInferencePipeline, WhisperModel
"""
        + LOAD
        + """
audio = np.zeros(0, np.float32)
segments, info = model.transcribe(audio)
batched, _ = BatchedInferencePipeline(model).transcribe(audio)
same = list(segments), list(batched), info.duration, info.duration_after_vad
result = [type(part).__name__ for part in model.detect_language(audio)]
"""
    ),
    "prefix": Program(
        """
from faster_whisper import WhisperModel
model = WhisperModel(TINY, compute_type="int8")
segments, _ = model.transcribe(AUDIO, prefix="Hello and welcome.", clip_timestamps="0,10")
segment = next(segments)
same = segment.id, segment.start, segment.text.startswith(" Hello and welcome."), segment.words
segments.close()
result = segment
"""
    ),
    "hotwords and languages": Program(
        """
from faster_whisper import WhisperModel, decode_audio
"""
        + LOAD
        + """
segments, info = model.transcribe(
    decode_audio(FRENCH), multilingual=True, hotwords="Asterisk", condition_on_previous_text=False
)
texts = [segment.text for segment in segments]
same = info.language, info.transcription_options.hotwords, info.transcription_options.multilingual
result = (texts, info)
"""
    ),
    "one window": Program(
        """
import numpy as np
from faster_whisper import WhisperModel, decode_audio
from faster_whisper.audio import pad_or_trim
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_compression_ratio, get_suppressed_tokens
model = WhisperModel(TINY, device="cpu", compute_type="float32")
tokenizer = Tokenizer(model.hf_tokenizer, model.model.is_multilingual, "transcribe", "en")
features = model.feature_extractor(decode_audio(AUDIO))
encoder_output = model.encode(pad_or_trim(features))
prompt = model.get_prompt(tokenizer, [], without_timestamps=True, hotwords="voicemail")
suppressed = get_suppressed_tokens(tokenizer, [-1])
output = model.model.generate(
    encoder_output, [prompt], beam_size=3, suppress_tokens=suppressed, return_scores=True,
    return_no_speech_prob=True, max_length=model.max_length,
)[0]
tokens = output.sequences_ids[0]
text = tokenizer.decode(tokens)
assert output.sequences[0][0] == model.hf_tokenizer.id_to_token(tokens[0])
assert -1 < output.scores[0] < 0 <= output.no_speech_prob < 1
assert get_compression_ratio(text) < 2.4
[words] = model.find_alignment(tokenizer, [tokens], encoder_output, features.shape[1])
assert "".join(word["word"] for word in words).startswith(text)
assert all(word["start"] <= word["end"] for word in words)
[aligned] = model.model.align(encoder_output, tokenizer.sot_sequence, [tokens], 3000)
assert aligned.alignments[-1][0] == len(tokens) == len(aligned.text_token_probs)
same = prompt, suppressed, features.shape, model.supported_languages, text
result = sorted(words[0])
""",
        max_word_error_rate=0.1,
    ),
    "language detection of an older version": Program(
        """
from faster_whisper import WhisperModel
"""
        + LOAD
        + """
result = model.detect_language_multi_segment(FRENCH)
assert result["language_code"] == "fr"
assert result["language_confidence"] > 0.5
""",
        runs_with_theirs=False,
    ),
    "parameters that batches ignored": Program(
        """
from faster_whisper import BatchedInferencePipeline, WhisperModel
model = BatchedInferencePipeline(WhisperModel(TINY, compute_type="int8"))
segments, info = model.transcribe(
    AUDIO, condition_on_previous_text=True, prefix="Hello and welcome.", clip_timestamps="0,15"
)
text = "".join(segment.text for segment in segments)
assert text.startswith(" Hello and welcome.")
assert info.transcription_options.condition_on_previous_text
assert info.transcription_options.temperatures[-1] == 1.0
result = text
""",
        runs_with_theirs=False,
    ),
}


THEIRS = "faster_whisper"
OURS = "whisperbatch.compat.faster_whisper"

FILES = {"AUDIO": "talk.mp3", "FRENCH": "french.mp3", "STEREO": "stereo.wav"}

# other programs use most of the same names
SLOW = (
    "first example of the README",
    "languages",
    "two speakers",
    "voice activity",
    "audio without samples",
    "one window",
    "subtitles",
    "prefix",
    "hotwords and languages",
)


@pytest.fixture(scope="module")
def talk() -> Recording:
    return recordings.prompts("en", duration=30, seed=3)


@pytest.fixture(scope="module")
def variables(talk: Recording, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The global variables that the programs read."""
    directory = tmp_path_factory.mktemp("compat")
    second = recordings.prompts("en", duration=30, seed=4)
    length = min(len(talk.samples), len(second.samples))
    stereo = np.stack((talk.samples[:length], second.samples[:length]), 1)
    recordings.write(talk, directory / "talk.mp3")
    recordings.write(recordings.prompts("fr", duration=30), directory / "french.mp3")
    with wave.open(str(directory / "stereo.wav"), "wb") as file:
        file.setparams((2, 2, recordings.SAMPLING_RATE, 0, "NONE", ""))
        file.writeframes(stereo.tobytes())
    paths = {name: str(directory / file) for name, file in FILES.items()}
    return {**paths, "BASE": str(find_model("base")), "TINY": str(find_model("tiny.en"))}


def run(program: Program, module: str, variables: dict[str, str]) -> dict[str, Any]:
    source = program.source.replace(f"from {THEIRS}", f"from {module}")
    source = source.replace(f"import {THEIRS}", f"import {module} as {THEIRS}")
    scope: dict[str, Any] = dict(variables)
    exec(compile(source, f"<{module}>", "exec"), scope)  # noqa: S102 - the programs above
    return scope


def structure(value: Any) -> Any:
    """Return the structure of a result: types, names and the first item of lists, without values.

    Two fields are left out, because the options in effect may differ in form: `vad_options` is None
    in faster-whisper where the drop-in uses its VAD.
    """
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.name not in ("clip_timestamps", "vad_options")]
        return type(value).__name__, {name: structure(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: structure(item) for key, item in value.items()}
    if isinstance(value, tuple) and not all(isinstance(item, int) for item in value):
        return tuple(structure(item) for item in value)
    if isinstance(value, list | tuple):
        return type(value)([structure(value[0])] if value else [])
    if isinstance(value, bool | str) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PROGRAMS]
)
def test_program(name: str, variables: dict[str, str], talk: Recording) -> None:
    program = PROGRAMS[name]
    ours = run(program, OURS, variables)
    if program.max_word_error_rate is not None:
        score = scoring.word_error_rate(talk.text, ours["text"], "en")
        assert score.rate <= program.max_word_error_rate
    if program.runs_with_theirs:
        let_faster_whisper_open_files()
        theirs = run(program, THEIRS, variables)
        assert structure(ours["result"]) == structure(theirs["result"])
        assert ours.get("same") == theirs.get("same")
