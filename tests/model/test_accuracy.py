"""Nothing said is lost, nothing is made up, and words are where they are said: real weights."""

import math
from itertools import pairwise
from statistics import median

import pytest

import whisperbatch as wb
from benchmarks import corpora, recordings, scoring
from benchmarks.recordings import Recording
from whisperbatch.decoding import consensus


def words_of(found: wb.Transcript) -> list[wb.Word]:
    return [word for segment in found.segments for word in segment.words or ()]


def test_what_a_row_leaves_out_is_decoded_again(base: wb.Transcriber) -> None:
    """One row of these prompts stops after 12 of 29 s, at an average log-probability of -0.26."""
    recording = recordings.prompts("es", duration=75, seed=1)
    audited, plain = (
        base.transcribe(recording.samples, language="es", beam_size=1, coverage_threshold=threshold)
        for threshold in (1.0, None)
    )
    lost, kept = (
        scoring.word_error_rate(recording.text, found.text, "es").deletions
        for found in (plain, audited)
    )
    assert audited.redecoded >= 1
    assert plain.redecoded == 0
    assert lost > 20
    assert kept <= 5
    assert not [one for one in audited.omissions if one.reason == "missed"]


@pytest.mark.parametrize(
    "name",
    ["music_between:en:100:1", pytest.param("noise_between:en:100:1", marks=pytest.mark.slow)],
)
def test_nothing_is_made_of_music_and_noise(base: wb.Transcriber, name: str) -> None:
    recording = corpora.build(name)
    found = base.transcribe(recording.samples, language="en", word_timestamps=True)
    timed = [scoring.TimedWord(word.start, word.end, word.word) for word in words_of(found)]
    assert scoring.made_up(recording.utterances, timed, recording.duration) == 0
    score = scoring.word_error_rate(recording.text, found.text)
    assert score.words > 50
    assert score.deletions <= 0.04 * score.words
    assert score.rate <= 0.1


@pytest.mark.slow
def test_improbable_texts_in_babble_are_compared(
    base: wb.Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {language: corpora.build(f"cafe:{language}:120:1") for language in ("en", "fr", "it")}

    def transcribe() -> list[wb.Transcript]:
        return [
            base.transcribe(recording.samples, language=language, word_timestamps=True)
            for language, recording in made.items()
        ]

    def errors(found: list[wb.Transcript]) -> int:
        scores = [
            scoring.word_error_rate(recording.text, transcript.text, language)
            for (language, recording), transcript in zip(made.items(), found, strict=True)
        ]
        return sum(s.substitutions + s.deletions + s.insertions for s in scores)

    compared = transcribe()
    for transcript in compared:
        words = words_of(transcript)
        assert all(word.start <= word.end for word in words)
        assert all(word.start <= next_word.start for word, next_word in pairwise(words))
    monkeypatch.setattr(consensus, "IMPROBABLE", -math.inf)
    decoded_once = transcribe()
    assert [t.text for t in compared] != [t.text for t in decoded_once]
    assert sum(t.redecoded for t in compared) > sum(t.redecoded for t in decoded_once)
    assert errors(compared) <= errors(decoded_once)


@pytest.mark.slow
def test_a_telephones_band_costs_few_words(base: wb.Transcriber) -> None:
    """Silero gives half of this speech less than 0.5."""
    recording = corpora.build("telephone:en:90:1")
    found = base.transcribe(recording.samples, language="en")
    score = scoring.word_error_rate(recording.text, found.text)
    assert score.words > 120
    assert score.deletions <= 0.04 * score.words
    assert score.rate <= 0.1


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("prompts:en:90:1", marks=pytest.mark.slow),
        "dense:en:30:2",
        pytest.param("prompts:fr:60:0", marks=pytest.mark.slow),
    ],
)
def spoken(request: pytest.FixtureRequest) -> Recording:
    return corpora.build(request.param)


def test_words_start_and_end_where_they_are_said(base: wb.Transcriber, spoken: Recording) -> None:
    language = spoken.utterances[0].language
    found = base.transcribe(spoken.samples, language=language, word_timestamps=True)
    words = words_of(found)
    starts = [min(abs(w.start - said.start) for w in words) for said in spoken.utterances]
    ends = [min(abs(w.end - said.end) for w in words) for said in spoken.utterances]
    assert median(starts) <= 0.04
    assert median(ends) <= 0.1
    for one, other in pairwise(words):
        assert one.start <= one.end
        assert one.start <= other.start
    for segment in found.segments:
        assert segment.words
        assert segment.words[0].start == segment.start
        assert segment.words[-1].end == segment.end


@pytest.mark.slow
@pytest.mark.parametrize(
    "prompted",
    [
        wb.Options(language="en", initial_prompt="Asterisk, made by Digium"),
        wb.Options(language="en", hotwords="Asterisk, made by Digium"),
    ],
    ids=["initial_prompt", "hotwords"],
)
def test_a_prompt_spells_names_and_is_not_in_the_text(
    base: wb.Transcriber, prompted: wb.Options
) -> None:
    samples = recordings.prompts("en", duration=300).samples[178 * 16000 : 208 * 16000]
    plain = base.transcribe(samples, language="en")
    found = base.transcribe(samples, options=prompted)
    assert plain.text.count("asterisk") >= 2
    assert found.text.count("asterisk") <= 1  # a word of an odd phrase, by some arithmetic
    assert found.text.count("Asterisk") >= 2
    assert "made by" not in found.text
    assert found.omissions == ()
    assert scoring.word_error_rate(plain.text, found.text).rate <= 0.1


def test_silence_and_music_make_a_transcript_without_text(base: wb.Transcriber) -> None:
    music = corpora.build("music_between:en:60:2")
    first = round((music.utterances[0].start - 0.2) * 16000)
    last = round((music.utterances[-1].end + 1) * 16000)
    for samples in (music.samples[:first], music.samples[last:]):
        if len(samples) > 16000:
            found = base.transcribe(samples, language="en")
            assert found.text == ""
