"""What the project promises of accuracy and memory, on recordings as long as the promises say."""

import statistics
from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring, timing
from benchmarks.recordings import Recording

pytestmark = pytest.mark.slow  # ten minutes and three hours of audio


@pytest.fixture(scope="module")
def transcript(long_speech_wav: Path, base_model: str) -> wb.Transcript:
    return wb.transcribe(long_speech_wav, model=base_model, language="en", beam_size=5)


def test_ten_minutes_of_prompts_have_few_errors(
    transcript: wb.Transcript, long_speech: Recording
) -> None:
    score = scoring.word_error_rate(long_speech.text, transcript.text, "en")
    assert score.words > 1000
    assert score.rate <= 0.04


def test_phrases_start_where_utterances_do(
    long_speech_wav: Path, long_speech: Recording, base_model: str
) -> None:
    """A sentence may continue after a pause of 0.7 s; a phrase does not."""
    transcript = wb.transcribe(
        long_speech_wav, model=base_model, language="en", beam_size=5, segments="phrase"
    )
    errors = scoring.start_errors(
        long_speech.utterances, [segment.start for segment in transcript.segments], min_pause=0.7
    )
    assert len(errors) > 50
    assert sum(error <= 0.2 for error in errors) >= 0.95 * len(errors)


def test_memory_does_not_grow_with_the_recording(
    tmp_path: Path, tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third hour beside the second one, and the peak of 3 hours beside that of 1 hour.

    Memory grows in the first half hour (docs/explanation/performance.md), and fluctuates then. The
    peak of three hours is therefore a little above that of one hour: by 7 to 11 % in four runs.

    Each run has a separate process, with the malloc of the command line. Otherwise the arenas of
    glibc, which keep freed memory, add from 10 to 110 MB by chance.
    """
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "524288")
    figures = []
    for hours in (1.0, 3.0):
        path = tmp_path / f"{hours:.1f}.wav"
        recordings.long_wav(path, hours)
        task = timing.Task(
            system="whisperbatch",
            model=tiny_model,
            beam=1,
            device="cpu",
            batch_size=8,
            paths=[str(path)],
        )
        figures.append(timing.in_process(task))
    short, long = figures
    assert len(long["text"]) > 2.5 * len(short["text"]) > 10_000
    third = len(long["memory"]) // 3
    second_hour, last_hour = long["memory"][third : 2 * third], long["memory"][2 * third :]
    assert statistics.median(last_hour) <= 1.05 * statistics.median(second_hour)
    assert long["peak"] <= 1.15 * short["peak"]
    for hours, run in zip((1, 3), figures, strict=True):
        assert run["first"] <= run["took"] / (10 * hours), "later than six minutes of audio"
