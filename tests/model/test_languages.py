"""Languages on real weights and real speech: detected over the whole, and where they change."""

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import corpora, recordings, scoring
from benchmarks.languages import block_errors, errors_alone, in_language, opened_by
from tests.model.forms import Pipe
from whisperbatch.text.languages import foreign_letters

GREEDY = wb.Options(beam_size=1)


@pytest.mark.parametrize("opening", [pytest.param("music", marks=pytest.mark.slow), "fr"])
def test_the_whole_recording_decides(base: wb.Transcriber, opening: str) -> None:
    samples = opened_by(opening, "it", seed=0)
    detected = base.detect_language(samples)
    assert detected.language == "it"
    assert len(detected.windows) == 8
    assert [window.start for window in detected.windows] == sorted(
        window.start for window in detected.windows
    )
    assert detected.windows[-1].end > 250
    if opening != "music":
        assert detected.windows[0].language == opening
    # the last seconds of it are transcribed in the language of all of it
    ending = base.transcribe(samples, options=GREEDY, clip_timestamps=((345.0, None),))
    assert ending.language == "it"


def test_a_pipe_is_read_through_and_gives_the_same_language(
    base: wb.Transcriber, tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = recordings.prompts("ru", duration=20)
    path = recordings.write(recording, tmp_path_factory.mktemp("pipe") / "prompts.flac")
    found = base.detect_language(Pipe(path.read_bytes()))  # type: ignore[arg-type]
    assert found.language == base.detect_language(path).language == "ru"
    assert found.windows


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [2, 8])
def test_what_a_pipe_brings_later_revises_the_language(
    base: wb.Transcriber, tmp_path_factory: pytest.TempPathFactory, batch_size: int
) -> None:
    """Segments that are out keep the language they were decoded in."""
    first, then = (recordings.prompts(code, duration=60).samples for code in ("fr", "it"))
    samples = np.concatenate((first[: 16000 * 40], then, then))
    recording = recordings.Recording("revised", samples, ())
    path = recordings.write(recording, tmp_path_factory.mktemp("revised") / "revised.flac")
    options = wb.Options(beam_size=1, chunk_length=10.0, batch_size=batch_size)
    with base.stream(Pipe(path.read_bytes()), options=options) as segments:  # type: ignore[arg-type]
        languages = [(segment.language, segment.start) for segment in segments]
        assert segments.language == "it"
    codes = [code for code, _ in languages]
    assert codes == sorted(codes)  # first all in French, then all in Italian
    assert codes[0] == "fr"
    revised = next(start for code, start in languages if code == "it")
    assert 60 < revised < 160
    # a file of the same is judged by all of it, before the first segment
    assert {s.language for s in base.transcribe(path, options=options).segments} == {"it"}


@pytest.fixture(scope="module")
def switching() -> recordings.Recording:
    return recordings.switching(duration=240, seed=5)


@pytest.fixture(scope="module")
def hybrid(base: wb.Transcriber, switching: recordings.Recording) -> wb.Transcript:
    return base.transcribe(switching.samples, options=GREEDY, multilingual=True)


@pytest.mark.slow
def test_blocks_are_in_their_language(
    hybrid: wb.Transcript, switching: recordings.Recording
) -> None:
    assert len({block.language for block in switching.blocks()}) >= 4
    assert in_language(hybrid, switching.utterances) >= 0.95
    assert not [s for s in hybrid.segments if foreign_letters(s.text, s.language)]


@pytest.mark.slow
def test_a_change_of_language_costs_few_words(base: wb.Transcriber) -> None:
    """Single recordings of 4 minutes differ by up to 3 % in both directions."""
    total = apart = scoring.Score(0, 0, 0, 0)
    for seed in range(5, 10):
        recording = recordings.switching(duration=240, seed=seed)
        found = base.transcribe(recording.samples, options=GREEDY, multilingual=True)
        for block in recording.blocks():
            total += block_errors(found, block)
            apart += errors_alone(base, recording, block)
    assert total.words > 1000
    assert total.rate <= apart.rate + 0.02


@pytest.mark.slow
def test_one_language_stays_one(base: wb.Transcriber) -> None:
    """`multilingual` does not change the transcript of a recording in one language."""
    recording = recordings.prompts("it", duration=90, seed=2)
    plain, listened = (
        base.transcribe(recording.samples, options=GREEDY, multilingual=multilingual)
        for multilingual in (False, True)
    )
    assert {segment.language for segment in listened.segments} == {"it"}
    assert listened.text == plain.text


def test_short_blocks_get_their_languages(base: wb.Transcriber) -> None:
    """Rows of 30 s that straddle changes have improbable text, and are decoded again in parts."""
    recording = recordings.switching(("es", "it"), block=(8, 35), duration=150, seed=102)
    found = base.transcribe(recording.samples, options=GREEDY, multilingual=True)
    assert in_language(found, recording.utterances) >= 0.9  # 0.73 without the second decoding


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 5])
def test_chosen_languages_do_not_depend_on_batches(base: wb.Transcriber, batch_size: int) -> None:
    recording = recordings.switching(("ru", "it"), block=(8, 35), duration=60, seed=100)
    options = wb.Options(beam_size=1, multilingual=True)
    expected = base.transcribe(recording.samples, options=options)
    assert base.transcribe(recording.samples, options=options, batch_size=batch_size) == expected


def test_a_beginning_in_another_language_is_reported(base: wb.Transcriber) -> None:
    french, italian = (recordings.prompts(code, 15, seed=1).samples for code in ("fr", "it"))
    samples = np.concatenate((french, italian, italian, italian))
    found = base.transcribe(samples, options=GREEDY, language="it")
    [notice] = found.notices
    assert notice.kind == "language"
    assert 0 <= notice.start < 3
    assert 9 < notice.end < 18
    assert "French" in notice.text
    assert "multilingual=True" in notice.text


@pytest.mark.slow
@pytest.mark.parametrize(("spoken", "given"), [("ru", "fr"), ("es", "en"), ("en", "ru")])
def test_a_wrong_language_of_the_whole_recording_is_reported(
    base: wb.Transcriber, spoken: str, given: str
) -> None:
    samples = recordings.prompts(spoken, 30, seed=3).samples
    found = base.transcribe(samples, options=GREEDY, language=given)
    [notice] = found.notices
    assert notice.end - notice.start > 20
    assert f"language='{spoken}'" in notice.text
    translated = base.transcribe(samples, options=GREEDY, language=given, task="translate")
    assert translated.notices == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["telephone:fr:60:2", "noise_under:it:60:2", "whispered:es:60:2", "hoarse:en:60:2"]
)
def test_difficult_speech_in_one_language_gives_no_notice(base: wb.Transcriber, name: str) -> None:
    found = base.transcribe(
        corpora.build(name).samples, options=GREEDY, language=name.split(":")[1]
    )
    assert [notice for notice in found.notices if notice.kind == "language"] == []


@pytest.mark.slow
def test_subtitles_are_all_in_english(base: wb.Transcriber) -> None:
    recording = recordings.switching(("en", "fr"), duration=75, seed=1)
    found = base.transcribe(
        recording.samples, options=GREEDY, multilingual=True, code_switching_output="english"
    )
    assert {segment.language for segment in found.segments} == {"en"}
    english, french = recording.blocks()[:2]
    assert block_errors(found, english).rate < 0.2
    assert scoring.word_error_rate(french.text, found.text, "fr").rate > 0.7  # not in French
    own = " ".join(s.text for s in found.segments if s.start > french.start)
    assert len(own) > 100
