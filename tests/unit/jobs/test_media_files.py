"""What counts as a recording in a directory, a pattern or a store."""

import logging
import unicodedata
import zipfile
from pathlib import Path

import fsspec
import pytest

from tests.unit.media_files import encode, tone
from whisperbatch.jobs.inputs import find_inputs, plan_outputs
from whisperbatch.jobs.plans.sources import find_recordings, output_names

WAV = encode([tone(440.0, 0.5)], "wav", "pcm_s16le", rate=16_000)
MP3 = encode([tone(440.0, 0.5)], "mp3", "libmp3lame", rate=16_000)
OPUS = encode([tone(440.0, 0.5, 48_000)], "ogg", "libopus", rate=48_000)

# name, content, whether it is a recording, who reported such a file
FILES = [
    ("zoom/SR009MS.WAV", WAV, True, "audacity/audacity#11228"),
    ("UPPER.Mp3", MP3, True, "fishaudio/audio-preprocess#39"),
    ("message.aac.download", MP3, True, "NousResearch/hermes-agent#3865"),
    ("call.awb", OPUS, True, "pasrom/meeting-transcriber#542"),
    ("lecture.mpga", MP3, True, "OpenWhispr/openwhispr#2188"),
    ("book.m4b", MP3, True, "meizhong986/WhisperJAV#194"),
    ("camera.m4v", MP3, True, "mehtabmahir/easy-whisper-ui#5"),
    ("show.divx", MP3, True, "Purfview/whisper-standalone-win#111"),
    ("corpus/talk.mk3d", MP3, True, "paiml/whisper.apr#65"),
    ("export.part1", OPUS, True, "a browser's or a recorder's own suffix"),
    ("voice_message", OPUS, True, "mkiol/dsnote#45: a file without a suffix"),
    ("backup.mp3.old", MP3, True, "a suffix after the suffix"),
    ("notes.txt", b"notes of the meeting\n" * 50, False, "iver56/torch-audiomentations#58"),
    ("README", b"# Recordings\n" * 50, False, "text without a suffix"),
    ("cover.jpg", WAV, False, "a picture's suffix is not opened"),
    ("list.m3u8", b"#EXTM3U\n#EXTINF:4,\ntalk.wav\n", False, "a playlist names other files"),
    ("list", b"ffconcat version 1.0\nfile zoom/SR009MS.WAV\n", False, "a script for FFmpeg"),
    ("noise.bin", bytes(range(256)) * 400, False, "bytes without a format"),
    ("empty", b"", False, "an empty file without a suffix"),
    (".hidden.mp3", MP3, False, "a hidden file"),
]


def write_files(folder: Path) -> tuple[list[str], list[str]]:
    """Return the recordings and the other files."""
    found: tuple[list[str], list[str]] = ([], [])
    for name, content, is_recording, _ in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        found[not is_recording].append(str(path))
    with zipfile.ZipFile(folder / "archive", "w") as archive:
        archive.writestr("talk.wav", WAV)
    found[1].append(str(folder / "archive"))
    return sorted(found[0]), sorted(found[1])


def test_a_directory_yields_all_that_ffmpeg_reads(tmp_path: Path) -> None:
    recordings, others = write_files(tmp_path)
    reported: list[str] = []
    found = find_inputs([str(tmp_path)], on_others=reported.extend)
    assert sorted(file.source for file in found) == recordings
    assert sorted(reported) == others


def test_files_that_are_not_taken_are_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, others = write_files(tmp_path)
    with caplog.at_level(logging.INFO):
        list(find_inputs([str(tmp_path)]))
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [text.partition(" ")[0] for text in warnings] == [str(len(others))]
    named = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert sorted(text.partition(": not taken")[0] for text in named) == others


def test_a_plan_and_a_store_take_the_same_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recordings, others = write_files(tmp_path)
    assert sorted(found.uri for found in find_recordings([str(tmp_path)])) == recordings
    store = fsspec.filesystem("memory")
    for path in recordings + others:
        store.pipe(f"/taken/{Path(path).relative_to(tmp_path)}", Path(path).read_bytes())
    caplog.clear()
    try:
        in_store = find_recordings(["memory://taken"])
        assert len(in_store) == len(recordings)
        assert f"{len(others)} files" in caplog.text
    finally:
        store.rm("/taken", recursive=True)


def test_a_pattern_that_ends_with_a_suffix_names_its_files(tmp_path: Path) -> None:
    write_files(tmp_path)
    names = [Path(file.source).name for file in find_inputs([str(tmp_path / "*.bin")])]
    assert names == ["noise.bin"]  # reading the file says what is wrong
    names = [Path(file.source).name for file in find_inputs([str(tmp_path / "*.part1")])]
    assert names == ["export.part1"]
    everything = [Path(file.source).name for file in find_inputs([str(tmp_path / "*")])]
    assert "noise.bin" not in everything
    assert "voice_message" in everything


def test_transcripts_next_to_their_recordings_are_not_counted(tmp_path: Path) -> None:
    for name in ("a.mp3", "b.mp3", "b.wav"):
        (tmp_path / name).write_bytes(MP3)
    for name in ("a.srt", "b.mp3.srt", "alone.srt", ".whisperbatch.db", ".whisperbatch.db-wal"):
        (tmp_path / name).write_text("1")
    reported: list[str] = []
    list(find_inputs([str(tmp_path)], {".srt"}, on_others=reported.extend))
    assert reported == [str(tmp_path / "alone.srt")]


# paths of recordings that would have the same output, and who reported the loss
SAME_NAMES = [
    (("monday/a.wav", "tuesday/a.wav"), "recordings of the same name in two folders"),
    (("monday/a.wav", "tuesday/A.WAV"), "the same, with letters of another case"),
    (("a.mp3", "a.wav", "a.mp3.ogg"), "linto-ai/whisper-timestamped#189"),
    (("1.wav", "1.wav.wav", "1.wav.wav.wav"), "tigros/Whisperer#86"),
    (("x/file.mp3", "y/file.mp3", "z/file.m4a"), "ml-explore/mlx-examples#1441"),
    (("x/" + "z" * 251 + ".mp3", "y/" + "z" * 251 + ".mp3"), "names of the greatest length"),
    (("input.m4v", "input.mkv"), "apsun/AniConvert#3"),
    (("one/audio.wav", "two/audio.wav", "two/audio.mp3"), "heygen-com/hyperframes#2493"),
    (("x/Day.mp3", "y/day.mp3", "z/DAY.mp3"), "jely2002/youtube-dl-gui#455"),
    # "ü" in the form of Windows and Linux, and as Apple's programs write it
    (("x/f\u00fcr.mp3", "y/fu\u0308r.mp3"), "owncloud/client#10693"),
    (("x/caf\u00c9.mp3", "x/cafe\u0301.mp3"), "rfjakob/gocryptfs#992"),
]

# addresses of recordings that would have the same output, and who reported the loss
SAME_URLS = [
    (("https://a.org/ep-1/media.mp3", "https://a.org/ep-2/media.mp3"), "mlj/castget#21"),
    (("https://a.org/media.mp3?ep=1", "https://a.org/media.mp3?ep=2"), "brtmr/podfox#34"),
    (
        ("https://a.org/e/7/1.mp3?token-hash=x", "https://a.org/e/8/1.mp3?token-hash=y"),
        "CarolusMagnus/Podcatcher#79",
    ),
    (("http://a.org/1/episode.mp3", "https://b.org/Episode.mp3"), "AntennaPod/AntennaPod#48"),
]


@pytest.mark.parametrize("urls", [urls for urls, _ in SAME_URLS], ids=[u[1] for u in SAME_URLS])
def test_addresses_of_the_same_name_get_different_outputs(urls: tuple[str, ...]) -> None:
    def outputs(order: tuple[str, ...]) -> dict[str, Path]:
        items = plan_outputs(tuple(find_inputs(order)), ("txt",), Path("texts"))
        return {item.source: item.outputs[0] for item in items}

    found = outputs(urls)
    assert len({str(path).casefold() for path in found.values()}) == len(urls)
    assert all(path.parent == Path("texts") for path in found.values())
    assert outputs(urls[::-1]) == found


@pytest.mark.parametrize("urls", [urls for urls, _ in SAME_URLS], ids=[u[1] for u in SAME_URLS])
def test_addresses_of_the_same_name_in_a_plan_get_different_outputs(urls: tuple[str, ...]) -> None:
    pytest.importorskip("aiohttp", reason="fsspec needs this package for addresses")
    planned = output_names(find_recordings(urls))
    assert len({name.casefold() for name in planned}) == len(urls)


@pytest.mark.parametrize("names", [names for names, _ in SAME_NAMES])
def test_recordings_of_the_same_name_get_different_outputs(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(WAV)
    into = tmp_path / "texts"

    def outputs(order: list[Path]) -> dict[str, Path]:
        files = tuple(find_inputs(map(str, order)))
        items = plan_outputs(files, ("txt",), into)
        return {item.source: item.outputs[0] for item in items}

    def on_disk(name: str) -> str:
        return unicodedata.normalize("NFD", name).casefold()

    found = outputs(paths)
    assert len({on_disk(str(path)) for path in found.values()}) == len(names)
    assert all(path.parent == into for path in found.values())
    assert outputs(paths[::-1]) == found  # a later run finds them, in whatever order
    planned = output_names(find_recordings(map(str, paths)))
    assert len({on_disk(name) for name in planned}) == len(names)
