"""`Segmentation`: kinds of segments, the state of recordings, missing text, notices."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from tests.unit.fakes import Call, FakeEngine, noise
from whisperbatch import Options, Transcriber
from whisperbatch.errors import AudioError
from whisperbatch.recording import Decision, End, RecordingState
from whisperbatch.sections.joining import join_spans
from whisperbatch.segmentation import RowResult, Segmentation
from whisperbatch.segmentation.stage import add_doubts, explain_missing_text
from whisperbatch.segmentation.timed_text import (
    AlignedWord,
    LanguageDoubt,
    ScoredText,
    Scores,
    join_words,
)
from whisperbatch.types import (
    SAMPLING_RATE,
    SILENT,
    Omission,
    SectionSound,
    Segment,
    SpeechSpan,
    Transcript,
)
from whisperbatch.types.transcript import Notice

SECOND = 16_000
SCORES = Scores(-0.2, 0.1, 1.5, 0.0)
Result = RowResult | End


def scored(text: str, start: int, language: str = "en") -> ScoredText:
    """A text whose words last a second each; "_" is a second of silence."""
    speech: list[SpeechSpan] = []
    words: list[AlignedWord] = []
    for number, word in enumerate(text.split(), start):
        span = SpeechSpan(number * SECOND, (number + 1) * SECOND)
        if word == "_":
            continue
        if speech and speech[-1].end == span.start:
            speech[-1] = SpeechSpan(speech[-1].start, span.end)
        else:
            speech.append(span)
        words.append(AlignedWord(f" {word}", span.start, span.end, 0.5, len(speech) - 1))
    if speech:  # a pause follows
        speech[-1] = replace(speech[-1], after=SECOND)
    timed = (join_words(words),) if words else ()
    return ScoredText(language, SCORES, timed, tuple(speech))


def result(
    *texts: ScoredText, omissions: Iterable[Omission] = (), decision: Decision | None = None
) -> RowResult:
    return RowResult(texts, tuple(omissions), redecoded=False, decision=decision)


def row(
    text: str, start: int, language: str = "en", omissions: Iterable[Omission] = ()
) -> RowResult:
    decision = Decision(language, start / 100)
    return result(scored(text, start, language), omissions=omissions, decision=decision)


def stage(**options: Any) -> Segmentation:
    return Segmentation(Options(**options))


def texts(items: Iterable[Segment | End]) -> list[str]:
    return ["END" if isinstance(item, End) else item.text for item in items]


def end(recording: RecordingState, error: wb.WhisperBatchError | None = None) -> End:
    return End(recording, error)


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ("sentence", ["One two.", "Three _ four five six."]),
        ("phrase", ["One two.", "Three", "four", "five six."]),
        ("chunk", ["One two. Three _ four", "five six."]),
    ],
)
def test_the_kinds_of_segments(segments: str, expected: list[str]) -> None:
    recording = RecordingState(0)
    results: list[Result] = [row("One two. Three _ four", 0), row("five six.", 5), end(recording)]
    expected = [text.replace("_ ", "") for text in expected]
    assert texts(stage(segments=segments)(recording, results)) == [*expected, "END"]


def test_a_chunk_is_one_segment_although_it_was_split() -> None:
    recording = RecordingState(0)
    parts = (scored("One two.", 0), scored("Three", 4))
    both = result(*parts)
    items = list(stage(segments="chunk")(recording, [both, end(recording)]))
    segment = items[0]
    assert isinstance(segment, Segment)
    assert (segment.text, segment.start, segment.end) == ("One two. Three", 0.0, 5.0)
    assert texts(stage(segments="chunk")(recording, [result()])) == []


@pytest.mark.parametrize("segments", ["sentence", "chunk", "phrase"])
def test_timestamp_tokens_delimit_phrases_only(segments: str) -> None:
    recording = RecordingState(0)
    words = scored("One two. Three four.", 0).words
    timed = (join_words(words[:1]), join_words(words[1:]))
    text = ScoredText("en", SCORES, timed, (SpeechSpan(0, 4 * SECOND, after=SECOND),))
    results = [result(text)]
    expected = {
        "sentence": ["One two.", "Three four."],
        "chunk": ["One two. Three four."],
        "phrase": ["One", "two. Three four."],
    }[segments]
    assert texts(stage(segments=segments, timestamps="tokens")(recording, results)) == expected


@pytest.mark.parametrize("segments", ["sentence", "chunk", "phrase"])
def test_segments_have_words_times_and_numbers(segments: str) -> None:
    recording = RecordingState(0)
    results = [row(text, n) for n, text in ((0, "One. Two"), (2, "three."))]
    found = [
        item
        for item in stage(segments=segments, word_timestamps=True)(
            recording, [*results, end(recording)]
        )
        if not isinstance(item, End)
    ]
    assert [segment.id for segment in found] == list(range(len(found)))
    assert "".join(word.word for s in found for word in s.words or ()) == " One. Two three."
    for segment in found:
        assert segment.words
        assert (segment.start, segment.end) == (segment.words[0].start, segment.words[-1].end)
        assert segment.text == "".join(word.word for word in segment.words).strip()
    for before, after in pairwise(found):
        assert before.end <= after.start
    [first, *_] = stage(segments=segments)(recording, [row("One.", 0)])
    assert not isinstance(first, End)
    assert first.words is None


def test_the_state_of_the_recording_is_that_of_the_segment() -> None:
    """A segment of an earlier row comes with the language, the counts and omissions of its row."""
    recording = RecordingState(0)
    missed = [Omission(n, n + 1, "", "missed", 1.0) for n in range(4)]
    results: list[Result] = [
        row("One. Two", 0, omissions=missed[:1]),
        row("three. Four", 2, omissions=missed[1:2]),  # joined with row 0
        row("cinq", 4, "fr", missed[2:3]),  # another language
        row("_ _ _ six.", 5, "fr", missed[3:]),  # after a pause
        end(recording),
    ]
    states = []
    for item in stage()(recording, results):
        if isinstance(item, End):
            continue
        assert recording.published
        assert recording.published.language == item.language
        states.append((item.text, recording.chunks, len(recording.omissions)))
    assert states == [
        ("One.", 1, 1),
        ("Two three.", 2, 2),
        ("Four", 2, 2),
        ("cinq", 3, 3),
        ("six.", 4, 4),
    ]


def test_a_sentence_waits_if_its_speech_goes_on() -> None:
    recording = RecordingState(0)
    recording.segments = 1
    cut = scored("I wonder how.", 0)
    cut = replace(cut, speech=(replace(cut.speech[0], after=0),))
    rows: list[Result] = [result(cut), row("much there is.", 3)]
    assert texts(stage()(recording, rows)) == ["I wonder how. much there is."]
    pause: list[Result] = [row("I wonder how.", 0), rows[1]]
    assert texts(stage()(recording, pause)) == ["I wonder how.", "much there is."]


def test_clips_are_not_joined() -> None:
    recording = RecordingState(0)
    results: list[Result] = [row("One", 0), row("two.", 1)]
    assert texts(stage(clip_timestamps=((0, 1), (1, 3)))(recording, results)) == ["One", "two."]
    assert texts(stage(clip_timestamps=((0, 3),))(recording, results)) == ["One two."]


@pytest.mark.parametrize("error", [None, AudioError("talk.wav: broken")])
def test_the_end_of_a_recording_returns_what_was_held_back(
    error: wb.WhisperBatchError | None,
) -> None:
    recording = RecordingState(0)
    items = list(stage()(recording, [row("One. Two", 0), end(recording, error)]))
    assert texts(items) == ["One.", "Two", "END"]
    assert items[-1].error is error  # type: ignore[union-attr]  # the end


def test_a_row_that_cannot_be_divided_ends_its_recording_and_loses_no_other_text() -> None:
    recording = RecordingState(0)
    broken: Any = RowResult((None,), (), redecoded=False, decision=None)  # type: ignore[arg-type]  # broken
    results: list[Result] = [row("One", 0), broken, end(recording)]
    items: list[Segment | End] = []
    with pytest.raises(AttributeError):
        items.extend(stage()(recording, results))
    assert texts(items) == ["One"]
    assert recording.chunks == 1


def test_a_failure_of_the_run_loses_no_text() -> None:
    def results() -> Iterator[Result]:
        yield row("One", 0)
        raise wb.EngineError("the model failed")

    items = stage()(RecordingState(0), results())
    assert texts([next(items)]) == ["One"]
    with pytest.raises(wb.EngineError, match="the model failed"):
        next(items)


def tone(seconds: float) -> npt.NDArray[np.float32]:
    times = np.arange(round(seconds * SECOND)) / SECOND
    return (0.1 * np.sin(2 * np.pi * 440 * times)).astype(np.float32)


def noise_and_tone() -> npt.NDArray[np.float32]:
    """A recording of which `failing_engine` decodes the first chunk, and not the others."""
    return np.concatenate([noise(28), tone(60)])


def failing_engine() -> FakeEngine:
    """An engine that fails to decode a tone."""

    def decode(call: Call) -> str:
        if call.row.level < -0.5:
            raise wb.EngineError("decode failed")
        return "Unfinished"

    return FakeEngine(decode=decode)


def test_a_stream_returns_what_was_held_back_before_it_raises_the_error() -> None:
    with (
        Transcriber(failing_engine()) as asr,
        asr.stream(noise_and_tone(), vad=False, language="en", batch_size=1) as stream,
    ):
        assert next(stream).text == "Unfinished"
        with pytest.raises(wb.EngineError, match="decode failed"):
            next(stream)


def test_a_failed_recording_of_many_returns_what_was_held_back() -> None:
    with Transcriber(failing_engine()) as asr:
        items = list(
            asr.stream_many([noise_and_tone(), noise(9)], vad=False, language="en", batch_size=1)
        )
    kinds = [(number, type(item).__name__) for number, item in items]
    assert kinds == [(0, "Segment"), (0, "EngineError"), (1, "Segment"), (1, "Transcript")]


def of_channel(text: str, start: int, channel: int, *, completes: bool) -> RowResult:
    return replace(row(text, start), channel=channel, completes=completes)


def spoken_by(items: Iterable[Segment | End]) -> list[tuple[Any, str]]:
    return [(None, "END") if isinstance(item, End) else (item.speaker, item.text) for item in items]


LEFT, RIGHT = "SPEAKER_00", "SPEAKER_01"


def test_the_segments_of_channels_are_in_order_and_have_their_speaker() -> None:
    recording = RecordingState(0)
    results: list[Result] = [
        row("Good morning.", 0),
        of_channel("One two. _ Five six. Seven", 2, 0, completes=False),
        of_channel("Three four. _ _ Nine.", 4, 1, completes=True),
        of_channel("eight.", 9, 0, completes=False),
        of_channel("Ten.", 10, 1, completes=True),
        row("Goodbye.", 20),
        end(recording),
    ]
    items = list(stage()(recording, results))
    assert spoken_by(items) == [
        (None, "Good morning."),
        (LEFT, "One two."),
        (RIGHT, "Three four."),
        (LEFT, "Five six."),
        (LEFT, "Seven eight."),
        (RIGHT, "Nine."),
        (RIGHT, "Ten."),
        (None, "Goodbye."),
        (None, "END"),
    ]
    segments = [item for item in items if not isinstance(item, End)]
    assert [segment.id for segment in segments] == list(range(len(segments)))
    assert [s.start for s in segments] == sorted(s.start for s in segments)


def test_segments_of_channels_come_with_the_last_row_of_the_same_time() -> None:
    recording = RecordingState(0)
    given = iter(
        [
            of_channel("One two.", 0, 0, completes=False),
            of_channel("Three four.", 1, 1, completes=True),
            of_channel("never read", 9, 0, completes=True),
        ]
    )
    found = stage()(recording, given)
    assert spoken_by([next(found), next(found)]) == [(LEFT, "One two."), (RIGHT, "Three four.")]
    assert len(list(given)) == 1, "the third row is not read"


def test_held_text_of_a_channel_that_is_silent_or_mixed_again_is_not_lost() -> None:
    recording = RecordingState(0)
    results: list[Result] = [
        of_channel("One two", 0, 0, completes=False),
        of_channel("three four", 1, 1, completes=True),
        of_channel("five six", 4, 1, completes=True),
        row("seven.", 6),
        end(recording),
    ]
    assert spoken_by(stage()(recording, results)) == [
        (LEFT, "One two"),
        (RIGHT, "three four"),
        (RIGHT, "five six"),
        (None, "seven."),
        (None, "END"),
    ]
    assert spoken_by(stage()(recording, results[:2])) == []
    assert spoken_by(stage()(recording, [*results[:2], end(recording)]))[-1] == (None, "END")


FIVE_MINUTES = 300 * SAMPLING_RATE


def state(*sounds: tuple[SectionSound, int]) -> RecordingState:
    recording = RecordingState(0)
    for sound, checked in sounds:
        recording.add_check(sound.number, checked, 0)
        recording.add_sound(sound)
    return recording


def section(number: int, seconds: int = 300, sound: int = 200, speech: int = 0) -> SectionSound:
    start = number * FIVE_MINUTES
    return SectionSound(
        number,
        start,
        start + seconds * SAMPLING_RATE,
        sound * SAMPLING_RATE,
        speech * SAMPLING_RATE,
    )


def notices(recording: RecordingState, options: Options | None = None) -> list[Notice]:
    explain_missing_text(recording, options or Options())
    return list(recording.notices.all())


@pytest.mark.parametrize(
    ("sound", "checked", "options", "words"),
    [
        (section(0, sound=0), 0, Options(), "the audio is silent"),
        (section(0), 0, Options(), "detector found no speech in the sound; vad=False"),
        (
            section(0),
            12 * SAMPLING_RATE,
            Options(),
            "nor did the model in the parts that it checked",
        ),
        (section(0, speech=5), 0, Options(), "the model found none in the sound that may be"),
        (section(0), 0, Options(vad=False), "the model found none in the sound; another channel"),
    ],
    ids=["silence", "rejected", "checked", "no text in speech", "no vad"],
)
def test_a_recording_without_text_says_why(
    sound: SectionSound,
    checked: int,
    options: Options,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        [notice] = notices(state((sound, checked)), options)
    assert notice.kind == "no speech"
    assert (notice.start, notice.end) == (0.0, 300.0)
    assert words in notice.text
    assert words in caplog.text


def test_removed_text_is_the_reason() -> None:
    recording = state((section(0, speech=5), 0))
    recording.omissions.append(Omission(3.0, 4.0, "Thank you.", "boilerplate", 1.0))
    [notice] = notices(recording)
    assert "all text was removed" in notice.text


def test_speech_without_words_is_no_removed_text() -> None:
    recording = state((section(0, speech=5), 0))
    recording.omissions.append(Omission(3.0, 4.0, "", "missed", 1.0))
    [notice] = notices(recording)
    assert "the model found none" in notice.text


def test_sections_with_the_same_reason_have_one_notice() -> None:
    [notice] = notices(state(*((section(number), 24 * SAMPLING_RATE) for number in range(12))))
    assert (notice.start, notice.end) == (0.0, 3600.0)


def test_a_recording_of_no_length_has_no_notice() -> None:
    assert notices(state((section(0, seconds=0, sound=0), 0))) == []


def test_checks_of_earlier_sections_do_not_count() -> None:
    first, second = notices(state((section(0), SAMPLING_RATE), (section(1), 0)))
    assert "that it checked" in first.text
    assert "that it checked" not in second.text


def test_beside_text_only_long_sound_is_reported() -> None:
    recording = state((section(0), 0), (section(1), 0), (section(2, sound=0), 0))
    recording.sounds.append((section(3, seconds=40, sound=30), 0))
    recording.segments, recording.sections_with_text = 1, {0}
    [notice] = notices(recording)
    assert (notice.start, notice.end) == (300.0, 600.0)


def test_spans_have_the_notices_of_the_whole_recording() -> None:
    sounds = [section(0), section(1), section(2, sound=0), section(3, seconds=40, sound=30)]

    def transcript(numbers: range, texts: set[int]) -> Transcript:
        recording = state(*((sounds[number], 0) for number in numbers))
        recording.sections_with_text = texts & set(numbers)
        recording.segments = len(recording.sections_with_text)
        explain_missing_text(recording, Options())
        segments = (Segment(0, 0.0, 1.0, "Yes.", "en", -0.1, 0.0, 1.0, 0.0, None),)
        return Transcript(
            segments=segments * recording.segments,
            language="en",
            language_probability=1.0,
            duration=940.0,
            source="a",
            notices=recording.notices.all(),
        )

    for texts in (set[int](), {0}, {1}, {0, 1}):
        whole = transcript(range(4), texts)
        parts = [transcript(range(number, number + 1), texts) for number in range(4)]
        assert join_spans(parts).notices == whole.notices
        assert any(notice.text == SILENT for notice in whole.notices) == (not texts)


def doubt(start: float, end: float, language: str = "fr", *, whole: bool = True) -> LanguageDoubt:
    return LanguageDoubt(
        round(start * 16000), round(end * 16000), language, "en", from_start=whole, to_end=whole
    )


def ranges(recording: RecordingState) -> list[tuple[float, float]]:
    return [(notice.start, notice.end) for notice in recording.notices.all()]


def test_the_notice_names_both_languages_and_the_options_that_help() -> None:
    recording = RecordingState(0)
    add_doubts(recording, [doubt(1.0, 20.0)])
    [notice] = recording.notices.all()
    assert (notice.kind, notice.start, notice.end) == ("language", 1.0, 20.0)
    for part in ("French", "English", "multilingual=True", "language='fr'"):
        assert part in notice.text


def test_rows_in_a_row_give_one_notice_however_long_the_pause_is() -> None:
    recording = RecordingState(0)
    for start in (0.0, 40.0, 80.0):
        add_doubts(recording, [doubt(start, start + 20)])
    assert ranges(recording) == [(0.0, 100.0)]


def test_a_row_without_doubt_divides_two_notices() -> None:
    recording = RecordingState(0)
    add_doubts(recording, [doubt(0, 20)])
    add_doubts(recording, [])
    add_doubts(recording, [doubt(60, 80)])
    assert ranges(recording) == [(0.0, 20.0), (60.0, 80.0)]


def test_a_part_of_a_row_is_not_continued() -> None:
    recording = RecordingState(0)
    add_doubts(recording, [doubt(0, 20, whole=False)])
    add_doubts(recording, [doubt(40, 60)])
    add_doubts(recording, [doubt(80, 90, "de")])
    assert ranges(recording) == [(0.0, 20.0), (40.0, 60.0), (80.0, 90.0)]
