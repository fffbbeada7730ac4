"""The benchmark of constants: the inventory, the faults of rows, the checks and the command."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.constants import __main__ as command
from benchmarks.constants import first_pass, languages, rates, rows, runs, sounds, speakers, truth
from benchmarks.constants.figures import TITLES, Check, Figures
from benchmarks.constants.first_pass import FirstPass, StoredRow
from benchmarks.constants.inventory import (
    OPTIONS,
    UNCHECKED,
    constants,
    setting,
    shipped,
)
from benchmarks.lost_speech import nonspeech
from benchmarks.recordings import Recording, Utterance
from whisperbatch import pipeline_run
from whisperbatch.decoding import audit
from whisperbatch.language import detection
from whisperbatch.protocols import Hypothesis
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.types import LanguageScores, SpeechSpan, to_samples
from whisperbatch.vad import open_vad

PAGE = Path(__file__).parents[2] / "docs/reference/constants.md"


def test_every_constant_is_checked_or_has_a_reason() -> None:
    """A new constant needs a check in benchmarks/constants, or an entry in UNCHECKED.

    Constants of the diarization have a state instead of a check.
    """
    checked = {check.key for check in command.CHECKS if "options." not in check.key}
    listed = [*checked, *UNCHECKED, *speakers.STATES]
    assert len(listed) == len(set(listed))
    assert set(constants()) == set(listed)


@pytest.mark.parametrize("check", command.CHECKS, ids=lambda check: check.key)
def test_the_shipped_value_is_between_the_other_values(check: Check) -> None:
    low, high = check.values
    value = shipped(check.key)
    assert isinstance(value, int | float)
    assert low < value < high
    assert check.kind in TITLES


def test_a_constant_has_its_comment_and_source() -> None:
    coverage = constants()["decoding.hallucinations.MIN_COVERAGE"]
    assert (coverage.value, coverage.source) == (0.3, "0.3")
    assert coverage.meaning == "spoken text covers at least this fraction of its speech"
    assert constants()["chunking.merge.BREAK_COST"].meaning.startswith("Cost of a boundary")
    assert constants()["decoding.words.VAD_ERROR"].source == "to_samples(0.02)"
    assert constants()["second_opinion.checks.BAND"].value == (200, 3400)


def test_a_value_is_changed_wherever_it_is_imported() -> None:
    with setting("language.detection.VOTERS", 9) as options:
        assert detection.VOTERS == vars(pipeline_run)["VOTERS"] == 9
        assert options == OPTIONS
    assert (
        detection.VOTERS
        == vars(pipeline_run)["VOTERS"]
        == constants()["language.detection.VOTERS"].value
    )
    with setting("options.coverage_threshold", 3.0) as options:
        assert options == replace(OPTIONS, coverage_threshold=3.0)
    with setting("options.coverage_threshold", None) as options:
        assert options == OPTIONS


def test_the_page_has_all_constants_with_their_values() -> None:
    """After a change of a constant, measure it again: `python -m benchmarks.constants`."""
    page = PAGE.read_text(encoding="utf-8")
    published = dict(re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    expected = {key: constant.source for key, constant in constants().items()}
    expected |= {c.key: f"{shipped(c.key):g}" for c in command.CHECKS if "options." in c.key}
    assert published == expected


def stored(
    text: str, start: float, seconds: float, *, stop: float | None = None, scores: str | None = None
) -> StoredRow:
    """Return a row whose words fill its speech, or end at `stop` seconds of the row."""
    spans = (SpeechSpan(to_samples(start), to_samples(start + seconds)),)
    words = text.split()
    step = (stop or seconds) / max(len(words), 1)
    aligned = [(to_samples(step * n), to_samples(step * (n + 1))) for n in range(len(words))]
    return StoredRow(
        0,
        spans,
        spans,
        to_samples(seconds),
        Hypothesis((7,) * len(words), -0.2, 0.01),
        text,
        tuple(
            AlignedWord(f" {word}", 0, 0, 0.9, 0, times)
            for word, times in zip(words, aligned, strict=True)
        ),
        LanguageScores({scores: 0.9}, seconds) if scores else None,
    )


SPOKEN = "one small step for a man and one giant leap for mankind"


def recording(*texts: str, name: str = "prompts:en:60:0", stop: float | None = None) -> FirstPass:
    """Return rows of 6 s, in each of which SPOKEN is spoken."""
    utterances = [Utterance(10.0 * n, 10.0 * n + 6, SPOKEN, "en") for n in range(len(texts))]
    stored_rows = [stored(text, 10.0 * n, 6.0, stop=stop) for n, text in enumerate(texts)]
    return FirstPass(name, "en", 10.0 * len(texts), tuple(utterances), tuple(stored_rows))


def test_faults_belong_to_the_row_of_their_time() -> None:
    lost = SPOKEN.replace("for a man and ", "")
    added = SPOKEN.replace("a man", "a man thank you so much")
    wrong = "the quick brown fox jumps over my lazy dogs at noon today"
    judged = truth.judged(recording(SPOKEN, lost, added, wrong))
    assert [row.right for row in judged] == [True, False, False, False]
    assert [row.has("lost") for row in judged] == [False, True, False, False]
    assert [row.has("added") for row in judged] == [False, False, True, False]
    assert [row.has("wrong") for row in judged] == [False, False, False, True]
    assert not any(row.has("invented") for row in judged)
    assert [(row.words, row.errors) for row in judged[:3]] == [(12, 0), (12, 4), (12, 4)]
    assert judged[0].correct == (True,) * 12


def test_text_without_speech_is_invented() -> None:
    silence = replace(recording("thank you", name="vad_off:room:en:60:0"), utterances=())
    (row,) = truth.judged(silence)
    assert row.has("invented")
    assert not row.right
    assert truth.judged(replace(silence, rows=())) == ()


def test_an_empty_row_loses_its_words() -> None:
    (row,) = truth.judged(recording(""))
    assert row.has("lost")
    assert row.lost == row.words == 12


def test_a_check_counts_right_rows_and_faults() -> None:
    check = Check("options.coverage_threshold", "uncovered", (0.5, 2.0))
    half = recording("one small step", stop=1.5)  # 4.5 s without words
    assert rows.measure(check, [half], None) == Figures(passed=0, faults=1)
    assert rows.measure(check, [half], 20.0) == Figures(passed=1, faults=1)
    late = recording(SPOKEN, stop=5.3)  # the words end 0.7 s too early
    with setting("decoding.words.MAX_EXTENSION", to_samples(0.1)):
        assert rows.measure(check, [late], None) == Figures(speech=1)
        assert rows.measure(check, [late], 0.5) == Figures(harmed=1, speech=1)


def test_words_are_placed_again_with_the_changed_constant() -> None:
    check = Check("decoding.words.MAX_EXTENSION", "uncovered", (0, to_samples(1.0)))
    late = recording(SPOKEN, stop=4.8)
    assert rows.measure(check, [late], None).harmed == 1
    assert rows.measure(check, [late], to_samples(1.3)).harmed == 0


def test_constants_of_the_audit_are_changed_for_the_rule_only() -> None:
    check = Check("decoding.audit.MAX_LETTERS_PER_SECOND", "fast", (50.0, 100.0))
    fast = recording(SPOKEN, stop=0.9)  # 53 to 62 letters per second
    assert rows.measure(check, [fast], 50.0) == Figures(harmed=1, speech=1)
    assert rows.measure(check, [fast], None) == Figures(speech=1)
    assert shipped(check.key) == audit.MAX_LETTERS_PER_SECOND


def scored(code: str, count: int, name: str) -> FirstPass:
    stored_rows = tuple(stored("text", 10.0 * n, 6.0, scores=code) for n in range(count))
    language = name.split(":")[1]
    return FirstPass(name, language, 60.0, (Utterance(0, 6, "x", language),), stored_rows)


def test_languages_of_rows_and_recordings() -> None:
    passes = [scored("en", 4, "prompts:en:60:0"), scored("fr", 4, "prompts:it:60:0")]
    sequence = Check("language.code_switching.CHANGE_PENALTY", "sequence", (0.7, 3.0))
    assert languages.measure(sequence, passes, None) == Figures(4, 8, 4, 8)
    decision = Check("language.detection.VOTERS", "decision", (2, 8))
    assert languages.measure(decision, passes, None) == Figures(1, 2, 4, 8)
    # a high penalty allows no change, so the rows of one language get the other
    right = [passes[0], scored("it", 4, "prompts:it:60:0")]
    assert languages.measure(sequence, right, None) == Figures(0, 8, 0, 8)
    assert languages.measure(sequence, right, 1000.0) == Figures(0, 8, 4, 8)
    assert languages.measure(sequence, [recording(SPOKEN)], None) == Figures()


def test_samples_near_an_utterance_are_neither_speech_nor_other_sound() -> None:
    spoken = Recording("x", np.zeros(16_000 * 10, np.int16), (Utterance(2, 4, "x", "en"),))
    speech, other = sounds.masks(spoken, 160_000)
    assert np.flatnonzero(speech)[[0, -1]].tolist() == [32_000, 63_999]
    assert np.count_nonzero(other) == 160_000 - 3 * 16_000
    assert not other[24_000:72_000].any()


def test_the_vad_that_remembers_gives_the_same_probabilities() -> None:
    built = sounds.built("prompts:en:20:0")
    samples = (built.samples / 32768).astype(np.float32)
    expected = np.concatenate([b.probabilities for b in open_vad(OPTIONS)([samples])])
    remembered = sounds.recorded_vad()
    for _ in range(2):
        frames = list(remembered([samples]))
        assert np.array_equal(np.concatenate([f.probabilities for f in frames]), expected)
        assert np.array_equal(np.concatenate([f.samples for f in frames]), samples)


def test_a_threshold_of_the_vad_rejects_more_speech() -> None:
    check = Check("options.vad_onset", "vad", (0.4, 0.98))
    low, high = (sounds.measure(check, ["prompts:en:20:0"], value) for value in check.values)
    assert low.harmed < high.harmed < high.speech
    assert (
        low.speech
        == high.speech
        == pytest.approx(
            sum(u.end - u.start for u in corpora.build("prompts:en:20:0").utterances), abs=0.01
        )
    )


@pytest.mark.slow
def test_command_measures_resumes_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "SPEECH", ("prompts",))
    monkeypatch.setattr(nonspeech, "KINDS", {"hold_music": None})
    arguments = [
        *("--model", "tiny.en", "--languages", "en", "--half", "development", "--seconds", "20"),
        *("--constants", "options.coverage_threshold", "segmentation.sentences.MAX_PAUSE"),
        *("--results", str(tmp_path), "--json", str(tmp_path / "out.json")),
    ]
    monkeypatch.setattr(runs, "names_for", lambda *_: ["prompts:en:20:0"])
    assert command.main(arguments) == 0
    output = capsys.readouterr().out
    assert re.search(r"`options.coverage_threshold` \| 0.5 / 1 / 2 \| [\d.]+ / [\d.]+ /", output)
    value = json.loads((tmp_path / "out.json").read_text())
    assert value["model"] == "tiny.en"
    names = value["figures"]["options.coverage_threshold"]["None"]
    assert set(names) == {
        *("prompts:en:20:0", "read:en:20:0", "clips:en:0:0", "vad_off:hold_music:en:20:0")
    }
    monkeypatch.setattr(first_pass, "decode", None)  # everything is known
    monkeypatch.setattr(wb, "load", lambda *_, **__: pytest.fail("loads the model"))
    assert command.main([*arguments, "--kinds", "uncovered"]) == 0
    assert output.startswith(capsys.readouterr().out)


def test_command_lists_the_constants(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(constants())
    assert "* decoding.retries.MIN_GAIN = 0.25" in "\n".join(lines)
    assert "  vad.levels.FRAME = 512" in "\n".join(lines)


def test_command_names_a_missing_directory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--json", "/nowhere/out.json"])
    assert "there is no directory /nowhere" in capsys.readouterr().err


def test_rates_count_the_words_of_right_rows() -> None:
    lines = list(rates.table([recording(SPOKEN, "one small step")]))
    # 44 letters and 12 tokens in 6 s; the words last equally long
    assert lines[2].startswith("| en | 1 | 7.3 | 7.3 | ")
    assert "| 2.0 | 12 | 0 (0.0 %) |" in lines[2]
    assert list(rates.table([])) == lines[:2]


def test_clips_of_a_language_are_a_recording() -> None:
    japanese = first_pass.build("clips:ja:0:0")
    assert [utterance.language for utterance in japanese.utterances] == ["ja"] * 3
    assert first_pass.language_of("vad_off:clips:ja:0:0") == "ja"


def test_the_worst_language_has_enough_rows() -> None:
    figures = {
        "clips:ja:0:0": Figures(1, 1),
        "prompts:fr:60:0": Figures(1, 6),
        "prompts:fr:60:1": Figures(0, 6),
        "prompts:en:60:0": Figures(0, 20),
    }
    assert command.worst_language(figures) == ("fr", "8.3")
