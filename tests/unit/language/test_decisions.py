from concurrent.futures import ThreadPoolExecutor

import pytest

from whisperbatch.errors import EngineError
from whisperbatch.language.decisions import SETTLED, LanguageDecisions
from whisperbatch.language.voting import Decision, decide, enough_to_decide, restrict_to
from whisperbatch.options import Options
from whisperbatch.types import LanguageScores


def heard(*rows: tuple[float, dict[str, float]]) -> list[LanguageScores]:
    return [LanguageScores(probabilities, seconds) for seconds, probabilities in rows]


def test_places_vote_with_their_seconds_of_speech() -> None:
    german, english = {"en": 0.1, "de": 0.9}, {"en": 0.95, "de": 0.05}
    for seconds, language in ((5.0, "en"), (20.0, "de")):
        found = decide(heard((10.0, english), (seconds, german)), Options())
        assert found.language == language
        mean = (10 * english[language] + seconds * german[language]) / (10 + seconds)
        assert found.probability == pytest.approx(mean)
        assert found.probabilities == pytest.approx(
            {
                code: (10 * english[code] + seconds * german[code]) / (10 + seconds)
                for code in ("en", "de")
            }
        )


def test_a_weak_place_does_not_vote() -> None:
    """By the means alone, one minute of music would outweigh twenty seconds of speech."""
    music = {"en": 0.45, "fr": 0.05, "de": 0.5}
    speech = {"en": 0.02, "fr": 0.97, "de": 0.01}
    places = heard((30.0, music), (30.0, music), (20.0, speech))
    assert decide(places, Options(language_detection_threshold=0.6)).language == "fr"
    assert decide(places, Options(language_detection_threshold=0.0)).language == "de"


def test_a_near_tie_is_settled_by_the_probabilities() -> None:
    unsure, sure = {"no": 0.55, "da": 0.45}, {"no": 0.05, "da": 0.95}
    assert decide(heard((10.0, unsure), (9.0, sure)), Options()).language == "da"
    assert decide(heard((10.0, unsure), (7.0, sure)), Options()).language == "no"


def test_where_nothing_votes_the_probabilities_decide() -> None:
    places = heard((5.0, {"en": 0.3, "de": 0.4}), (5.0, {"en": 0.35, "de": 0.2}))
    assert decide(places, Options(language_detection_threshold=0.9)).language == "en"


def test_a_few_places_decide_to_the_end_if_one_votes() -> None:
    sure, doubtful = {"en": 0.9, "fr": 0.1}, {"en": 0.3, "fr": 0.2}
    assert enough_to_decide(heard((5.0, doubtful), (5.0, sure), (5.0, doubtful)), Options())
    assert not enough_to_decide(heard((5.0, doubtful), (5.0, doubtful), (5.0, doubtful)), Options())
    assert not enough_to_decide(heard((5.0, sure), (5.0, sure)), Options())
    assert enough_to_decide(heard((5.0, sure)), Options(language_detection_segments=1))
    assert not enough_to_decide([], Options())


def test_one_place_is_its_own_best() -> None:
    found = decide(heard((0.1, {"en": 0.25, "de": 0.5, "fr": 0.25})), Options())
    assert found == Decision("de", 0.5)


def test_only_candidates_are_heard() -> None:
    row = {"en": 0.6, "de": 0.1, "nl": 0.3}
    assert restrict_to(row, ()) == row
    assert restrict_to(row, ("de", "nl")) == pytest.approx({"de": 0.25, "nl": 0.75})
    assert restrict_to(row, ("xx", "yy")) == {"xx": 0.5, "yy": 0.5}
    found = decide(heard((1.0, row)), Options(languages=("de", "nl")))
    assert found.language == "nl"
    assert found.probability == pytest.approx(0.75)


ENGLISH, FRENCH = {"en": 0.9, "fr": 0.1}, {"en": 0.1, "fr": 0.9}


def test_what_is_heard_later_revises_the_first_decision() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    languages.settle(0, Decision("en", 0.9))
    for index in range(16):
        assert languages.needs_scores(0, index)
        row = ENGLISH if index < 4 else FRENCH
        seconds = 10.0 if index < 8 else 30.0
        languages.add_scores(0, index, LanguageScores(row, seconds))
    decided = [decision.language for n in range(32) if (decision := languages.decision_for(0, n))]
    # until chunk 8 it was a tie, that of the more probable one
    assert decided == ["en"] * 16 + ["fr"] * 16
    latest = languages.latest(0)
    assert latest is not None
    assert latest.language == "fr"


def test_a_revision_waits_for_what_it_is_made_of() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    languages.settle(0, Decision("en", 0.9))
    for index in range(7):
        languages.add_scores(0, index, LanguageScores(FRENCH, 10.0))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(languages.decision_for, 0, 8)
        before = languages.decision_for(0, 7)
        assert before is not None
        assert before.language == "en"
        assert not waiting.done()
        languages.add_scores(0, 7, LanguageScores(FRENCH, 10.0))
        revised = waiting.result(5)
        assert revised is not None
        assert revised.language == "fr"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(languages.decision_for, 0, 16)
        languages.fail(0, EngineError("out of memory"))
        with pytest.raises(EngineError, match="out of memory"):
            waiting.result(5)


def test_nobody_listens_for_ever_or_where_all_is_decided() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    assert languages.needs_scores(0, SETTLED - 1)
    assert not languages.needs_scores(0, SETTLED)
    languages.settle(0, Decision("en", 0.9), final=True)
    assert languages.settled(0)
    assert not languages.needs_scores(0, 1)
    assert languages.decision_for(0, 1000) == Decision("en", 0.9)
    assert not languages.settled(1)
    assert LanguageDecisions(Options(language="en")).settled(0)


def test_an_ended_recording_is_forgotten() -> None:
    languages = LanguageDecisions(Options())
    languages.settle(0, Decision("en", 0.9), final=True)
    languages.forget(0)
    languages.forget(1)
    assert languages.decision_for(0) is None


def test_a_given_language_is_never_decided() -> None:
    languages = LanguageDecisions(Options(language="fr"))
    assert languages.decision_for(0) == languages.decision_for(7) == Decision("fr", 1.0)


def test_a_recording_without_speech_has_no_language() -> None:
    assert LanguageDecisions(Options()).decision_for(0) is None


def test_later_batches_wait_for_the_decision() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(languages.decision_for, 0) for _ in range(4)]
        assert not any(future.done() for future in waiting)
        languages.settle(0, Decision("de", 0.8))
        assert [future.result(5) for future in waiting] == [Decision("de", 0.8)] * 4
    assert languages.decision_for(0) == Decision("de", 0.8)


def test_a_failed_decision_fails_all_who_wait_and_no_other() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    languages.claim(1)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(languages.decision_for, 0) for _ in range(2)]
        languages.fail(0, EngineError("out of memory"))
        for future in waiting:
            with pytest.raises(EngineError, match="out of memory"):
                future.result(5)
    languages.settle(1, Decision("en", 0.9))
    assert languages.decision_for(1) == Decision("en", 0.9)


def test_what_is_settled_cannot_fail() -> None:
    languages = LanguageDecisions(Options())
    languages.claim(0)
    languages.settle(0, Decision("en", 0.9))
    languages.fail(0, EngineError("later"))
    assert languages.decision_for(0) == Decision("en", 0.9)
