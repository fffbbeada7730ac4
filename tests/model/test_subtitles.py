"""Subtitles of real speech, judged by `benchmarks.subtitles`, which has its own rules and lists.

The only faults are those that no other times and no other lines could avoid.
"""

import re
import shlex
import subprocess
from collections import Counter
from pathlib import Path
from shutil import which

import pytest

import whisperbatch as wb
from benchmarks import corpora
from benchmarks.subtitles import faults, read_srt
from tests.unit.transcripts import segment, transcript
from whisperbatch.writers import SubtitleOptions, render, write

PAGE = Path(__file__).parents[2] / "docs/how-to/subtitle-a-video.md"
RECORDINGS = ("prompts:en:40:0", "sped_up:en:40:0", "prompts:fr:40:0", "prompts:ru:40:0")


@pytest.fixture(scope="module")
def transcripts() -> dict[str, wb.Transcript]:
    found = {}
    with wb.load("base") as model:
        for name in RECORDINGS:
            recording = corpora.build(name)
            found[name] = model.transcribe(
                recording.samples, language=recording.language, word_timestamps=True
            )
    return found


@pytest.mark.parametrize("name", RECORDINGS)
def test_only_speech_itself_breaks_a_rule(name: str, transcripts: dict[str, wb.Transcript]) -> None:
    spoken = transcripts[name]
    cues = read_srt(render(spoken, "srt"))
    assert len(cues) > 5
    found = list(faults(cues, spoken))
    assert [fault for fault in found if not fault.forced] == []
    assert len(found) <= len(cues) / 10
    words = " ".join(line for cue in cues for line in cue.lines).split()
    assert words == " ".join(part.text for part in spoken.segments).split()


def test_the_judge_finds_the_faults_of_untimed_cues(
    transcripts: dict[str, wb.Transcript],
) -> None:
    """Without rules for times, the same recordings have dozens of faults."""
    counts = Counter[str]()
    plain = SubtitleOptions(subtitle_rules="plain")
    for spoken in transcripts.values():
        cues = read_srt(render(spoken, "srt", plain))
        counts.update(fault.kind for fault in faults(cues, spoken) if not fault.forced)
    assert counts["gap"] > 10
    assert counts["too fast"] + counts["under 5/6 s"] > 4


@pytest.mark.skipif(which("ffmpeg") is None, reason="the FFmpeg program is not installed")
def test_the_commands_of_the_page_add_subtitles_to_a_video(tmp_path: Path) -> None:
    def run(command: str) -> None:
        program, *arguments = shlex.split(command)
        subprocess.run([program, "-v", "error", "-y", *arguments], cwd=tmp_path, check=True)

    run("ffmpeg -f lavfi -i testsrc=d=2:s=320x180 -f lavfi -i sine=d=2 -shortest film.mp4")
    for name in ("film.srt", "film.ass"):
        write(transcript(segment("Hello. This is a film.", 0.5, 1.5)), tmp_path / name)
    commands = re.findall(r"^ffmpeg .*$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        run(command)
        assert (tmp_path / command.split()[-1]).stat().st_size > 1000
