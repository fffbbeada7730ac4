"""Subtitles of real speech, judged by `benchmarks.subtitles`, which has its own rules and lists.

The only faults are those that no other times and no other lines could avoid.
"""

from collections import Counter

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.subtitles import faults, read_srt
from whisperbatch.writers import SubtitleOptions, render

RECORDINGS = ("prompts:en:40:0", "sped_up:en:40:0", "prompts:fr:40:0", "prompts:ru:40:0")


@pytest.fixture(scope="module")
def transcripts() -> dict[str, wb.Transcript]:
    found = {}
    with wb.load("base") as model:
        for name in RECORDINGS:
            recording = corpora.build(name)
            samples = recording.samples.astype(np.float32) / 2**15
            found[name] = model.transcribe(
                samples, language=recording.language, word_timestamps=True
            )
    return found


@pytest.mark.parametrize("name", RECORDINGS)
def test_only_speech_itself_breaks_a_rule(name: str, transcripts: dict[str, wb.Transcript]) -> None:
    transcript = transcripts[name]
    cues = read_srt(render(transcript, "srt"))
    assert len(cues) > 5
    found = list(faults(cues, transcript))
    assert [fault for fault in found if not fault.forced] == []
    assert len(found) <= len(cues) / 10
    words = " ".join(line for cue in cues for line in cue.lines).split()
    assert words == " ".join(segment.text for segment in transcript.segments).split()


def test_the_judge_finds_the_faults_of_untimed_cues(
    transcripts: dict[str, wb.Transcript],
) -> None:
    """Without rules for times, the same recordings have dozens of faults."""
    counts = Counter[str]()
    plain = SubtitleOptions(subtitle_rules="plain")
    for transcript in transcripts.values():
        cues = read_srt(render(transcript, "srt", plain))
        counts.update(fault.kind for fault in faults(cues, transcript) if not fault.forced)
    assert counts["gap"] > 10
    assert counts["too fast"] + counts["under 5/6 s"] > 4
