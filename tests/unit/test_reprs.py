"""The repr of everything public is one line that says what it is."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, noise
from tests.unit.transcripts import COMPLETE
from whisperbatch import Transcriber
from whisperbatch.diarization.adapters import WholeRecordingDiarizer
from whisperbatch.submissions import Places, Submitted
from whisperbatch.types import SpeechSpan

LONGEST = 120
LONG = "What a long sentence, 日本語 with \x1b[31m and a\nline break! " * 50
WINDOW = wb.LanguageWindow(0.5, 28.123456789, "en", 0.987654321)
SEGMENT = wb.Segment(
    *(3, 0.1 + 0.2, 3600.25, LONG, "en", -0.25, 0.01, 1.5, 0.2, COMPLETE.words * 100),
    *(LONG, 0.9, (LONG, "b"), True),
)
TURNS = (wb.Turn(0.0, 1 / 3, LONG, 0.5),) * 1000
DIARIZATION = wb.Diarization(TURNS, LONG, 1e5, {"a": np.zeros(256, np.float32)}, TURNS)
OMISSION = wb.Omission(0.0, 2.0, LONG, "boilerplate", float("nan"))
NOTICE = wb.Notice("no speech", 0.0, 1e5, LONG)
SPAN = SpeechSpan(0, 16000)


def everything(stack: ExitStack) -> Iterator[object]:
    """An object of each public class, with values as long as they come."""
    asr = stack.enter_context(Transcriber(FakeEngine()))
    samples = noise(4)
    yield from (asr, asr.activity, asr.submitted, Places(4, 2))
    yield Submitted(1, 2, 3, 4, Places(4, 2), 123.456789)
    yield stack.enter_context(asr.stream(samples, vad=False))
    yield stack.enter_context(asr.live())
    yield asr.submit(samples, vad=False, language="en")
    many = asr.transcribe_many([samples], vad=False)
    yield many
    many.close()
    yield stack.enter_context(wb.open_audio(samples))
    yield wb.Audio(samples)
    yield wb.Chunk(0, 3, (SPAN,) * 9, (SPAN,) * 9, samples)
    scores = {f"l{number}": 1 / 99 for number in range(99)}
    yield wb.LanguageDetection("en", 0.98, scores, (WINDOW,) * 8, LONG)
    yield wb.Transcript(
        *((SEGMENT,) * 1000, "en", 1 / 3, 36000.1, LONG, (OMISSION,) * 99, 9, 9, 9.0, 9.0),
        *(DIARIZATION, (wb.Notice("incomplete", 1.0, 2.0, LONG),)),
    )
    yield from (SEGMENT, *COMPLETE.words, OMISSION, NOTICE, *TURNS[:1], DIARIZATION, WINDOW)
    yield wb.Progress("transcribe", LONG, 1e5 / 3, 1e6 / 3, 1234.5678)
    yield wb.Options(initial_prompt=LONG[:500], hotwords=LONG[:500], language="en", beam_size=3)
    yield from (wb.SubtitleOptions(max_line_width=30), wb.TableOptions(spreadsheet_safe=False))
    yield wb.CTranslate2Settings(compute_type="int8", inter_threads=2, intra_threads=4)
    yield wb.OnnxRuntimeSettings(inter_threads=2)
    yield wb.OpenVinoSettings(intra_threads=3, revision="main")
    yield wb.TorchSettings(draft_model=f"/models/{'long' * 99}")


def test_every_public_object_has_one_short_line() -> None:
    seen = set()
    with ExitStack() as stack:
        for item in everything(stack):
            seen.add(type(item))
            line = repr(item)
            assert len(line) <= LONGEST, line
            assert line.isprintable(), ascii(line)
            assert re.fullmatch(r"\w+\(.*\)", line), line
            assert line.startswith(f"{type(item).__name__}(")
            assert " at 0x" not in line
    public = {value for name in wb.__all__ if inspect.isclass(value := getattr(wb, name))}
    assert {kind for kind in public if not issubclass(kind, Exception)} <= seen


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (
            COMPLETE,
            "Transcript('talk.mp3', 2.5 s, language='en', 2 segments, 2 speakers, 1 omission, 'Yes. No.')",  # noqa: E501
        ),
        (
            COMPLETE.segments[0],
            "Segment(id=0, start=0.5, end=1, text='Yes.', language='en', 1 word, speaker='Ann')",
        ),
        (
            COMPLETE.words[0],
            "Word(start=0.5, end=1, word=' Yes.', probability=0.75, speaker='Ann')",
        ),
        (wb.Options(), "Options()"),
        (wb.Options(language="en", beam_size=2), "Options(beam_size=2, language='en')"),
        (
            wb.LanguageDetection("en", 0.987, {"en": 0.987}, (WINDOW, WINDOW)),
            "LanguageDetection(language='en', probability=0.987, 2 windows)",
        ),
        (wb.Audio(np.zeros(16000, np.int16)), "Audio(int16 samples (16000,), sampling_rate=16000)"),
    ],
)
def test_the_line_has_what_matters(item: object, line: str) -> None:
    assert repr(item) == line


def test_the_line_of_work_has_its_state() -> None:
    asr = Transcriber(FakeEngine(multilingual=False))
    assert repr(asr) == "Transcriber('fake', FakeEngine, cpu, open)"
    stream = asr.stream(noise(40), vad=False)
    assert repr(stream) == "SegmentStream('<array>', open, at 0.0 of 40.0 s, language='en')"
    list(stream)
    assert repr(stream) == "SegmentStream('<array>', ended, at 40.0 of 40.0 s, language='en')"
    submission = asr.submit(noise(4), vad=False)
    transcript = submission.result()
    assert repr(submission).startswith(f"Submission(done, {transcript!r}"[:100])
    asr.close()
    assert repr(asr) == "Transcriber('fake', FakeEngine, cpu, closed)"


@pytest.mark.parametrize("work", [lambda reader: list(reader.blocks()), lambda reader: None])
def test_a_reader_has_its_position(work: Callable[[Any], object]) -> None:
    with wb.open_audio(noise(4)) as reader:
        assert repr(reader) == "AudioReader('<array>', at 0.0 of 4.0 s, open)"
        work(reader)
        position = reader.position / 16000
    assert repr(reader) == f"AudioReader('<array>', at {position:.1f} of 4.0 s, closed)"


def test_of_a_long_path_the_end_is_shown() -> None:
    path = f"/data/{'recordings/' * 20}talk.mp3"
    assert repr(wb.Transcript((), None, 0.0, 1.0, path)) == (
        "Transcript('...ings/recordings/recordings/talk.mp3', 1.0 s, language=None, 0 segments)"
    )


def test_the_repr_of_a_url_has_no_secrets() -> None:
    for source in ("https://ann:secret@example.com/a.mp3", "https://example.com/a.mp3?sig=secret"):
        for item in (wb.Transcript((), None, 0.0, 1.0, source), wb.Diarization((), source)):
            assert "secret" not in repr(item)
            assert "example.com" in repr(item)


class SilentDiarizer(WholeRecordingDiarizer):
    fingerprint = "silent 1.0"

    def find(self, samples: object, limits: object) -> Any:
        raise NotImplementedError


def test_diarizers_have_their_weights() -> None:
    assert repr(SilentDiarizer()) == "SilentDiarizer('silent 1.0')"
