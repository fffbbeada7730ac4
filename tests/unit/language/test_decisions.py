"""Votes for the language of a recording, and decisions that threads share."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from whisperbatch.errors import EngineError
from whisperbatch.language.decisions import LAST_REVISION, LanguageDecisions
from whisperbatch.language.voting import Decision, decide, enough_to_decide, restrict_to
from whisperbatch.options import Options
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


def test_later_chunks_revise_the_first_decision() -> None:
    languages = LanguageDecisions(Options())
    languages.expect_decision(0)
    languages.set_decision(0, Decision("en", 0.9))
    for index in range(16):
        assert languages.needs_scores(0, index)
        probabilities = ENGLISH if index < 4 else FRENCH
        seconds = 10.0 if index < 8 else 30.0
        languages.add_scores(0, index, LanguageScores(probabilities, seconds))
    decided = [decision.language for n in range(32) if (decision := languages.decision_for(0, n))]
    # the first 8 chunks are a tie, with equal mean probabilities
    assert decided == ["en"] * 16 + ["fr"] * 16
    latest = languages.latest(0)
    assert latest is not None
    assert latest.language == "fr"


def test_a_revision_waits_for_its_scores() -> None:
    languages = LanguageDecisions(Options())
    languages.expect_decision(0)
    languages.set_decision(0, Decision("en", 0.9))
    for index in range(7):
        languages.add_scores(0, index, LanguageScores(FRENCH, 10.0))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(languages.decision_for, 0, 8)
        first = languages.decision_for(0, 7)
        assert first is not None
        assert first.language == "en"
        assert not future.done()
        languages.add_scores(0, 7, LanguageScores(FRENCH, 10.0))
        revised = future.result(5)
        assert revised is not None
        assert revised.language == "fr"
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(languages.decision_for, 0, 16)
        languages.fail(0, EngineError("out of memory"))
        with pytest.raises(EngineError, match="out of memory"):
            future.result(5)


def test_no_scores_are_needed_after_the_last_revision_or_a_final_decision() -> None:
    languages = LanguageDecisions(Options())
    languages.expect_decision(0)
    assert languages.needs_scores(0, LAST_REVISION - 1)
    assert not languages.needs_scores(0, LAST_REVISION)
    languages.set_decision(0, Decision("en", 0.9), final=True)
    assert languages.is_final(0)
    assert not languages.needs_scores(0, 1)
    assert languages.decision_for(0, 1000) == Decision("en", 0.9)
    assert not languages.is_final(1)
    assert LanguageDecisions(Options(language="en")).is_final(0)


def test_the_decision_for_an_ended_recording_is_deleted() -> None:
    languages = LanguageDecisions(Options())
    languages.set_decision(0, Decision("en", 0.9), final=True)
    languages.forget(0)
    languages.forget(1)
    assert languages.decision_for(0) is None


def test_a_given_language_is_the_decision_for_all_recordings() -> None:
    languages = LanguageDecisions(Options(language="fr"))
    assert languages.decision_for(0) == languages.decision_for(7) == Decision("fr", 1.0)


def test_a_recording_without_speech_has_no_language() -> None:
    assert LanguageDecisions(Options()).decision_for(0) is None


def test_later_batches_wait_for_the_decision() -> None:
    languages = LanguageDecisions(Options())
    languages.expect_decision(0)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(languages.decision_for, 0) for _ in range(4)]
        assert not any(future.done() for future in futures)
        languages.set_decision(0, Decision("de", 0.8))
        assert [future.result(5) for future in futures] == [Decision("de", 0.8)] * 4
    assert languages.decision_for(0) == Decision("de", 0.8)


def test_a_failure_reaches_all_threads_that_wait_for_this_recording_only() -> None:
    languages = LanguageDecisions(Options())
    languages.expect_decision(0)
    languages.expect_decision(1)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(languages.decision_for, 0) for _ in range(2)]
        languages.fail(0, EngineError("out of memory"))
        for future in futures:
            with pytest.raises(EngineError, match="out of memory"):
                future.result(5)
    languages.set_decision(1, Decision("en", 0.9))
    assert languages.decision_for(1) == Decision("en", 0.9)


def test_a_failure_after_the_decision_changes_nothing() -> None:
    languages = LanguageDecisions(Options())
    languages.expect_decision(0)
    languages.set_decision(0, Decision("en", 0.9))
    languages.fail(0, EngineError("later"))
    assert languages.decision_for(0) == Decision("en", 0.9)
