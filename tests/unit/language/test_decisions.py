"""Votes for the language of a recording, and the decisions for its chunks."""

from dataclasses import replace

import pytest

from tests.unit.synthetic_speech import chunk, rows
from whisperbatch.language.detection import (
    LAST_REVISION,
    VOTERS,
    add_speech,
    decide,
    decide_from_windows,
    decision_for,
    enough_to_decide,
    needs_scores,
    restrict_to,
)
from whisperbatch.options import Options
from whisperbatch.recording import Decision, End, LanguageState, RecordingState
from whisperbatch.types import LanguageScores


def scores(*rows: tuple[float, dict[str, float]]) -> list[LanguageScores]:
    return [LanguageScores(probabilities, seconds) for seconds, probabilities in rows]


def test_votes_are_weighted_by_seconds_of_speech() -> None:
    german, english = {"en": 0.1, "de": 0.9}, {"en": 0.95, "de": 0.05}
    for seconds, language in ((5.0, "en"), (20.0, "de")):
        decision = decide(scores((10.0, english), (seconds, german)), Options())
        assert decision.language == language
        mean = (10 * english[language] + seconds * german[language]) / (10 + seconds)
        assert decision.probability == pytest.approx(mean)
        assert decision.probabilities == pytest.approx(
            {
                code: (10 * english[code] + seconds * german[code]) / (10 + seconds)
                for code in ("en", "de")
            }
        )


def test_uncertain_scores_do_not_vote() -> None:
    """By the means alone, one minute of music would outweigh twenty seconds of speech."""
    music = {"en": 0.45, "fr": 0.05, "de": 0.5}
    speech = {"en": 0.02, "fr": 0.97, "de": 0.01}
    voters = scores((30.0, music), (30.0, music), (20.0, speech))
    assert decide(voters, Options(language_detection_threshold=0.6)).language == "fr"
    assert decide(voters, Options(language_detection_threshold=0.0)).language == "de"


def test_the_mean_probabilities_decide_a_near_tie() -> None:
    unsure, sure = {"no": 0.55, "da": 0.45}, {"no": 0.05, "da": 0.95}
    assert decide(scores((10.0, unsure), (9.0, sure)), Options()).language == "da"
    assert decide(scores((10.0, unsure), (7.0, sure)), Options()).language == "no"


def test_the_mean_probabilities_decide_if_there_are_no_votes() -> None:
    voters = scores((5.0, {"en": 0.3, "de": 0.4}), (5.0, {"en": 0.35, "de": 0.2}))
    assert decide(voters, Options(language_detection_threshold=0.9)).language == "en"


def test_three_windows_with_a_vote_make_a_final_decision() -> None:
    sure, doubtful = {"en": 0.9, "fr": 0.1}, {"en": 0.3, "fr": 0.2}
    assert enough_to_decide(scores((5.0, doubtful), (5.0, sure), (5.0, doubtful)), Options())
    assert not enough_to_decide(scores(*[(5.0, doubtful)] * 3), Options())
    assert not enough_to_decide(scores((5.0, sure), (5.0, sure)), Options())
    assert enough_to_decide(scores((5.0, sure)), Options(language_detection_segments=1))
    assert not enough_to_decide([], Options())


def test_a_single_voter_decides() -> None:
    decision = decide(scores((0.1, {"en": 0.25, "de": 0.5, "fr": 0.25})), Options())
    assert decision == Decision("de", 0.5)


def test_only_candidate_languages_count() -> None:
    probabilities = {"en": 0.6, "de": 0.1, "nl": 0.3}
    assert restrict_to(probabilities, ()) == probabilities
    assert restrict_to(probabilities, ("de", "nl")) == pytest.approx({"de": 0.25, "nl": 0.75})
    assert restrict_to(probabilities, ("xx", "yy")) == {"xx": 0.5, "yy": 0.5}
    decision = decide(scores((1.0, probabilities)), Options(languages=("de", "nl")))
    assert decision.language == "nl"
    assert decision.probability == pytest.approx(0.75)


ENGLISH, FRENCH = {"en": 0.9, "fr": 0.1}, {"en": 0.1, "fr": 0.9}


def recording_with(*rows: tuple[float, dict[str, float]]) -> RecordingState:
    """A recording with the scores of its first chunks."""
    return RecordingState(0, language=LanguageState(scores=dict(enumerate(scores(*rows)))))


def test_later_chunks_revise_the_first_decision(caplog: pytest.LogCaptureFixture) -> None:
    rows = [(10.0, ENGLISH)] * 4 + [(10.0, FRENCH)] * 4 + [(30.0, FRENCH)] * 8
    recording = recording_with(*rows)
    decisions = [decision_for(recording, index, Options()) for index in range(32)]
    # the first 8 chunks are a tie, with equal mean probabilities
    assert [decision.language for decision in decisions] == ["en"] * 16 + ["fr"] * 16
    assert [decision.probability for decision in decisions[:8]] == pytest.approx([0.9] * 8)
    assert [decision.probability for decision in decisions[8:16]] == pytest.approx([0.5] * 8)
    assert recording.language.decision is decisions[31]
    messages = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert messages == ["recording 0: language fr from chunk 16 on; en before"]


@pytest.mark.parametrize("voters", [8, 16, 32, 64])
def test_a_revision_uses_the_scores_of_exactly_the_first_chunks(voters: int) -> None:
    """Scores of later chunks may already be there."""
    rows = [(10.0, ENGLISH)] * 4 + [(100.0, FRENCH)] * (voters - 4) + [(9999.0, {"de": 1.0})] * 8
    recording = recording_with(*((s, {"en": 0, "fr": 0, "de": 0, **p}) for s, p in rows))
    decision = [decision_for(recording, index, Options()) for index in range(voters + 1)][-1]
    total = 40 + 100 * (voters - 4)
    assert decision.language == "fr"
    assert decision.probability == pytest.approx((40 * 0.1 + (total - 40) * 0.9) / total)


def test_the_first_decision_uses_the_voters_only() -> None:
    recording = recording_with(*[(5.0, ENGLISH)] * VOTERS, (99.0, FRENCH))
    assert decision_for(recording, 0, Options()) == Decision("en", 0.9)
    short = recording_with((5.0, FRENCH))
    assert decision_for(short, 0, Options()) == Decision("fr", 0.9)


def test_chunks_after_the_last_revision_need_no_scores() -> None:
    recording = recording_with(*[(5.0, ENGLISH)] * LAST_REVISION)
    (row,) = rows(chunk([(0, 1)], index=LAST_REVISION - 1))
    assert needs_scores(row, Options())
    (row,) = rows(chunk([(0, 1)], index=LAST_REVISION))
    assert not needs_scores(row, Options())
    assert needs_scores(row, Options(multilingual=True))
    assert not needs_scores(End(recording), Options(multilingual=True))
    decisions = [decision_for(recording, index, Options()) for index in range(1000)]
    assert decisions[LAST_REVISION] is decisions[-1]
    assert recording.language.voters == LAST_REVISION


def test_windows_make_a_final_decision() -> None:
    recording = RecordingState(0)
    decide_from_windows(recording, scores((5.0, FRENCH)), Options())
    assert recording.language == LanguageState()  # too few windows
    decide_from_windows(recording, scores(*[(5.0, FRENCH)] * 3), Options())
    assert recording.language.final
    (row,) = rows(chunk([(0, 1)]))
    assert not needs_scores(replace(row, recording=recording), Options())
    recording.language.scores |= dict(enumerate(scores(*[(5.0, ENGLISH)] * 8)))
    assert decision_for(recording, 1000, Options()) == Decision("fr", 0.9)


def test_a_given_language_is_final() -> None:
    given = Decision("fr", 1.0)
    recording = RecordingState.beginning(0, given)
    assert recording.language.final
    assert recording.published is given
    assert decision_for(recording, 0, Options(language="fr")) is given
    assert decision_for(recording, 99, Options(language="fr")) is given
    unknown = RecordingState.beginning(0, None)
    assert (unknown.published, unknown.language) == (None, LanguageState())


def test_with_code_switching_the_language_is_that_of_most_speech() -> None:
    recording = RecordingState(0)
    spoken = [("en", 10.0, ENGLISH), ("fr", 8.0, FRENCH), ("fr", 4.0, {"en": 0.7, "fr": 0.3})]
    decisions = [
        add_speech(recording, language, LanguageScores(p, seconds), Options())
        for language, seconds, p in spoken
    ]
    assert decisions[:2] == [Decision("en", 0.9)] * 2
    assert decisions[2].language == "fr"
    assert decisions[2].probability == pytest.approx((8 * 0.9 + 4 * 0.3) / 12)
    assert recording.language.decision is decisions[2]
