"""Reading from a later sample gives exactly the samples of a reading from the start."""

import io
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.unit.media_files import damage, encode, pipe, read, wav
from whisperbatch.audio import media
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.media import MediaDecoder
from whisperbatch.audio.reader import open_audio
from whisperbatch.audio.track import Track
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Audio, Notices, Samples, Source, Span, SpanSource

SECONDS = 12
STARTS = (0, 1, 16_000, 31_999, 80_000, 100_003, 16_000 * (SECONDS + 5))
LATE = Span(1)  # begins at 283.616 s


def noise(rate: int, seconds: float = SECONDS) -> Samples:
    return (0.1 * np.random.default_rng(3).standard_normal(round(seconds * rate))).astype(
        np.float32
    )


@cache
def encoded_media(container: str, codec: str, rate: int, channels: int = 1) -> bytes:
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    planes = [noise(rate) * np.float32((1 + number) / channels) for number in range(channels)]
    return encode(planes, container, codec, rate=rate, layout=layout)


@cache
def from_the_start(kind: tuple[str, str, int, int]) -> Samples:
    return read(encoded_media(*kind))


def decoded(data: bytes, start: int, path: Path | None = None) -> tuple[int, Samples]:
    """Return the position and the samples of a decoder that begins before `start`."""
    file = str(path) if path else FileObject("memory", io.BytesIO(data))
    with closing(MediaDecoder("memory", file, Options(), Notices("memory"), start)) as decoder:
        return decoder.position, np.concatenate(list(decoder.blocks()))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "kind",
    [
        ("wav", "pcm_s16le", 16_000, 1),
        ("wav", "pcm_s16le", 44_100, 2),
        ("wav", "pcm_s24le", 48_000, 6),
        ("wav", "pcm_f32le", 8_000, 1),
        ("flac", "flac", 16_000, 1),
        ("flac", "flac", 44_100, 2),
        ("flac", "flac", 48_000, 1),
        ("ogg", "libopus", 48_000, 1),
        ("mp3", "libmp3lame", 44_100, 1),
        ("matroska", "flac", 16_000, 1),
    ],
)
def test_samples_after_a_seek(kind: tuple[str, str, int, int], start: int, tmp_path: Path) -> None:
    data = encoded_media(*kind)
    whole = from_the_start(kind)
    path = tmp_path / "recording"
    path.write_bytes(data)
    for position, samples in (decoded(data, start), decoded(data, start, path)):
        assert position <= start
        needed = samples[start - position :]
        np.testing.assert_array_equal(needed, whole[start:])
        exact = kind[0] in media.EXACT_FORMATS
        in_file = exact and start < SECONDS * SAMPLING_RATE
        assert position == (media.whole_second(start) * SAMPLING_RATE if in_file else 0)


@pytest.mark.parametrize(
    ("container", "codec", "exact"),
    [
        ("wav", "pcm_s16le", True),
        ("flac", "flac", True),
        ("wav", "adpcm_ima_wav", False),
        ("matroska", "flac", False),
        ("mp3", "libmp3lame", False),
        ("ogg", "libopus", False),
    ],
)
def test_only_exact_formats_are_read_by_seeking(
    container: str, codec: str, exact: bool, tmp_path: Path
) -> None:
    rate = 48_000 if codec == "libopus" else 16_000
    path = tmp_path / "recording"
    path.write_bytes(encoded_media(container, codec, rate))
    with closing(Track("recording", str(path))) as track:
        assert media.seeks_exactly(track, str(path)) is exact
        assert not media.seeks_exactly(track, "https://example.org/recording")
        assert not media.seeks_exactly(track, str(tmp_path))


def test_pipes_and_files_that_were_read_before_are_not_read_by_seeking() -> None:
    data = encoded_media("wav", "pcm_s16le", 16_000)
    opened = io.BytesIO(b"other" + data)
    opened.seek(5)
    with pipe(data) as stream:
        for source in (stream, opened):
            file = FileObject("file", source)
            with closing(
                MediaDecoder("file", file, Options(), Notices("file"), 100_000)
            ) as decoder:
                assert decoder.position == 0
                assert sum(map(len, decoder.blocks())) == SECONDS * SAMPLING_RATE


def test_the_audio_of_a_damaged_file_keeps_its_place() -> None:
    data = damage(encoded_media("flac", "flac", 16_000), 0.7, 3000)
    start = 60_000
    position, samples = decoded(data, start)
    assert position
    np.testing.assert_array_equal(samples[start - position :], read(data)[start:])


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("kind", ["array", "wav", "channels"])
def test_the_reader_of_a_span_begins_at_its_first_sample(kind: str, rate: int) -> None:
    samples = noise(rate, 290)
    integers = (samples * 32767).astype("<i2")
    source: Source = Audio(integers, rate)
    if kind == "wav":
        source = wav(rate, 1, 2, integers.tobytes())
    elif kind == "channels":
        source = Audio(np.stack([integers, integers], axis=1), rate)
    options = Options()
    if kind == "channels":
        options = Options(diarize=True, speaker="channel")
    with open_audio(SpanSource(source, LATE), options) as late, open_audio(source, options) as all_:
        assert late.start == LATE.start
        expected = np.concatenate(list(all_.channels()))
        np.testing.assert_array_equal(np.concatenate(list(late.channels())), expected[LATE.start :])
        assert late.position == all_.position == len(expected)


def test_a_reader_that_begins_after_the_end_has_no_audio() -> None:
    with open_audio(SpanSource(noise(16_000), LATE)) as reader:
        assert list(reader.blocks()) == []
        assert reader.position == SECONDS * SAMPLING_RATE
