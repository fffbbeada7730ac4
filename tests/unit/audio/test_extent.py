"""What headers state, and recordings that end before their stated end."""

import io
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import av
import pytest

from tests.unit.media_files import bursts, encode, pipe, wav
from tests.unit.strange_files import edited_mp3, header, late_webm, short_sound, unseekable
from whisperbatch.audio.extent import (
    Parts,
    asf_extent,
    begins_stream,
    ends_within_frame,
    ends_within_page,
    frame_header,
    is_size,
    riff_bytes,
    second_sound,
    xing_seconds,
)
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError
from whisperbatch.types import SAMPLING_RATE, Notice, Source


class Pipe:
    """A file that cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        data, self._data = self._data[:size], self._data[size:]
        return data


def parts(data: bytes) -> Parts:
    return Parts(FileObject("recording", io.BytesIO(data)))


@pytest.mark.parametrize(
    "size", [0, 0x7FFFFFFF, 0x7FFFF000, 0x7F000000, 2**31, 2**32 - 1, 2**64 - 1]
)
def test_numbers_that_stand_for_an_unknown_size(size: int) -> None:
    assert not is_size(size)


@pytest.mark.parametrize("size", [1, 2**20, 2_000_000_000, 3_000_000_000, 2**33, 2**40])
def test_sizes(size: int) -> None:
    assert is_size(size)


def test_wav_with_chunks_before_and_after_its_sound() -> None:
    media = wav(8000, 1, 2, bytes(1000))
    odd = media[:36] + b"LIST" + struct.pack("<I", 5) + bytes(6) + media[36:]
    odd = b"RIFF" + struct.pack("<I", len(odd) - 8) + odd[8:]
    assert riff_bytes(parts(odd)) == (58, 1000)
    assert second_sound(parts(odd)) == 0
    assert second_sound(parts(odd + b"data" + struct.pack("<I", 400))) == 400


@pytest.mark.parametrize("media", [b"", b"RIFF", b"RIFF\x10\0\0\0WAVE", b"RIFF\x10\0\0\0WEBPabcd"])
def test_files_that_state_nothing(media: bytes) -> None:
    assert riff_bytes(parts(media)) is None
    assert xing_seconds(parts(media)) is None
    assert asf_extent(parts(media)) is None


@pytest.mark.parametrize(
    ("header", "samples", "rate", "size"),
    [
        ("fffb9064", 1152, 44_100, 417),
        ("fffb9264", 1152, 44_100, 418),
        ("fff388c4", 576, 16_000, 288),
        ("ffe318c4", 576, 8000, 72),
        ("fffb0064", 1152, 44_100, 0),  # the free format
    ],
)
def test_frames_of_mp3(header: str, samples: int, rate: int, size: int) -> None:
    found = frame_header(bytes.fromhex(header))
    assert found
    assert (found.samples, found.rate, found.size) == (samples, rate, size)
    frame = bytes.fromhex(header) + bytes(max(size - 4, 0))
    assert not ends_within_frame(frame)
    assert not size or ends_within_frame(frame[: size // 2])


@pytest.mark.parametrize("header", ["", "fffb", "00000000", "fffbf064", "fffb9c64", "ffeb9064"])
def test_bytes_that_are_no_frame_of_mp3(header: str) -> None:
    assert frame_header(bytes.fromhex(header)) is None


def test_vbri() -> None:
    frame = bytes.fromhex("fffb9064") + bytes(32) + b"VBRI" + bytes(10) + struct.pack(">I", 1000)
    assert xing_seconds(parts(frame + bytes(400))) == pytest.approx(1000 * 1152 / 44_100)


def test_header_frame_after_large_tags() -> None:
    mp3 = encode([bursts([1], 5, 16_000)], "mp3", "libmp3lame", rate=16_000)
    tag = b"ID3\x03\0\0" + bytes((0, 8, 0, 0)) + bytes(8 << 14)
    assert xing_seconds(parts(tag + mp3)) == pytest.approx(5, abs=0.2)


def test_pages_of_ogg() -> None:
    ogg = encode([bursts([1], 5, 48_000)], "ogg", "libopus", rate=48_000)
    last = ogg.rfind(b"OggS\0")
    assert not ends_within_page(ogg)
    assert not ends_within_page(ogg[:last])
    for length in (1, 4, 20, 27, 40, len(ogg) - last - 1):
        assert ends_within_page(ogg[: last + length]), length
    assert not ends_within_page(ogg + b"TAG of another program")
    assert not ends_within_page(b"no pages")
    assert begins_stream(ogg)
    assert not begins_stream(ogg[last:])


def test_parts_of_a_pipe() -> None:
    data = bytes(range(256)) * 4096
    file = FileObject("recording", Pipe(data))
    while file.read(30_000):
        pass
    found = Parts(file)
    assert found.size() == len(data)
    assert not found.can_seek()
    assert found.at(100, 50) == data[100:150]
    assert found.at(500_000, 10) == b""
    assert found.at(len(data) - 10, 20) == data[-10:]
    assert found.tail() == data[-131_072:]
    assert Parts("https://host/a.wav").at(0, 10) == b""
    assert Parts("https://host/a.wav").size() is None


SECONDS = 20.0
RATE = 48_000
FORMATS = {  # container, codec, rate; whether the header states the end
    "wav": ("wav", "pcm_s16le", RATE, True),
    "wav of 24 bits": ("wav", "pcm_s24le", RATE, True),
    "wav of mu-law": ("wav", "pcm_mulaw", 8000, True),
    "wav of adpcm": ("wav", "adpcm_ms", RATE, True),
    "w64": ("w64", "pcm_s16le", RATE, True),
    "aiff": ("aiff", "pcm_s16be", RATE, True),
    "au": ("au", "pcm_s16be", RATE, True),
    "caf": ("caf", "pcm_s16le", RATE, True),
    "mp3": ("mp3", "libmp3lame", RATE, True),
    "mp3 of 16 kHz": ("mp3", "libmp3lame", 16_000, True),
    "flac": ("flac", "flac", RATE, True),
    "tta": ("tta", "tta", RATE, True),
    "wv": ("wv", "wavpack", RATE, True),
    "webm": ("webm", "libopus", RATE, True),
    "mka": ("matroska", "aac", RATE, True),
    "avi": ("avi", "libmp3lame", RATE, True),
    "flv": ("flv", "aac", 44_100, True),
    "asf": ("asf", "libmp3lame", RATE, True),
    "sox": ("sox", "pcm_s32le", RATE, True),
    "ast": ("ast", "pcm_s16be_planar", RATE, True),
    "ogg opus": ("ogg", "libopus", RATE, False),
    "ogg flac": ("ogg", "flac", RATE, False),
    "ts": ("mpegts", "aac", RATE, False),
    "adts": ("adts", "aac", RATE, False),
    "ac3": ("ac3", "ac3", RATE, False),
    "mp2": ("mp2", "mp2", RATE, False),
}
STATED = [name for name, (*_, stated) in FORMATS.items() if stated]
PIPED = [name for name in STATED if name != "wv"]


@cache
def recording(kind: str) -> bytes:
    container, codec, rate, _ = FORMATS[kind]
    return encode([bursts([2, 15], SECONDS, rate)], container, codec, rate=rate)


def cut(media: bytes) -> bytes:
    return media[: len(media) * 4 // 10]


def notices(source: Source) -> tuple[float, tuple[Notice, ...]]:
    """Read a recording; return its length in seconds, and what was incomplete."""
    with open_audio(source) as reader:
        length = sum(map(len, reader.blocks())) / SAMPLING_RATE
        return length, tuple(each for each in reader.notices.all() if each.kind == "incomplete")


@pytest.mark.parametrize("kind", FORMATS)
def test_intact_recordings_are_complete(kind: str, tmp_path: Path) -> None:
    media = recording(kind)
    path = tmp_path / "recording"
    path.write_bytes(media)
    for source in (media, path, io.BytesIO(media)):
        length, found = notices(source)
        assert length == pytest.approx(SECONDS, abs=0.2)
        assert not found
    with pipe(media) as file:
        assert not notices(file)[1]


@pytest.mark.parametrize("kind", STATED)
def test_missing_audio_is_measured(kind: str, tmp_path: Path) -> None:
    media = cut(recording(kind))
    path = tmp_path / "recording"
    path.write_bytes(media)
    for source in (media, path, io.BytesIO(media)):
        if kind == "wv" and int(av.__version__.split(".")[0]) < 15:  # FFmpeg 7.1
            with pytest.raises(AudioError, match="Input/output error"):
                notices(source)
            continue
        length, (found,) = notices(source)
        assert 1 < length < 0.5 * SECONDS
        assert found.start == pytest.approx(length, abs=0.1)
        assert found.end == pytest.approx(SECONDS, abs=1)
        assert "cut off" in found.text


@pytest.mark.parametrize("kind", PIPED)
def test_missing_audio_of_a_pipe_is_measured(kind: str) -> None:
    with pipe(cut(recording(kind))) as file:
        _, (found,) = notices(file)
    assert found.end == pytest.approx(SECONDS, abs=1)


def sphere(samples: int) -> bytes:
    """A recording of `SECONDS` in NIST SPHERE, the format of many speech corpora."""
    fields = (
        *("NIST_1A", "   1024", f"sample_count -i {samples}", "sample_n_bytes -i 2"),
        *("channel_count -i 1", "sample_byte_format -s2 01", f"sample_rate -i {SAMPLING_RATE}"),
        *("sample_coding -s3 pcm", "end_head", ""),
    )
    sound = bursts([2, 15], SECONDS, SAMPLING_RATE)
    return "\n".join(fields).encode().ljust(1024) + (sound * 32767).astype("<i2").tobytes()


def test_a_recording_of_a_speech_corpus() -> None:
    media = sphere(round(SECONDS * SAMPLING_RATE))
    assert notices(media) == (SECONDS, ())
    length, (found,) = notices(cut(media))
    assert (found.start, found.end) == pytest.approx((length, SECONDS), abs=0.01)


@pytest.mark.parametrize("kind", ["ogg opus", "ogg flac"])
def test_ogg_that_breaks_off_within_a_page(kind: str) -> None:
    media = cut(recording(kind))
    length, (found,) = notices(media)
    assert found.start == found.end == pytest.approx(length, abs=0.1)
    assert "unknown part" in found.text
    with pipe(media) as file:
        assert notices(file)[1] == (found,)
    complete = media[: media.rfind(b"OggS")]  # a live stream that was stopped between two pages
    assert not notices(complete)[1]


@pytest.mark.parametrize("kind", ["ts", "adts", "ac3", "mp2"])
def test_estimated_durations_state_nothing(kind: str) -> None:
    assert not notices(cut(recording(kind)))[1]


@pytest.mark.parametrize("codec", ["aac", "alac"])
@pytest.mark.parametrize("fragments", [False, True])
def test_mp4_with_its_index_first(codec: str, tmp_path: Path, *, fragments: bool) -> None:
    options = {"movflags": "faststart"}
    if fragments:
        options = {"movflags": "dash+frag_keyframe+global_sidx", "frag_duration": "1000000"}
    media = encode([bursts([2], SECONDS, RATE)], "matroska", codec, rate=RATE)
    path = tmp_path / "recording.mp4"
    with (
        av.open(io.BytesIO(media), "r") as source,
        av.open(str(path), "w", options=options) as output,
    ):
        copy = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is not None:
                packet.stream = copy
                output.mux(packet)
    assert not notices(path)[1]
    path.write_bytes(cut(path.read_bytes()))
    _, (found,) = notices(path)
    assert found.end == pytest.approx(SECONDS, abs=0.1)


SIZE = round(SECONDS * SAMPLING_RATE) * 2
WHOLE = SIZE + 36
DS64 = b"ds64" + struct.pack("<IQQQI", 28, WHOLE + 36, SIZE, SIZE // 2, 0)
RS = "https://github.com/rs1729/RS/issues/39"

# situation, source, intact recording
INTACT: dict[str, tuple[str, Callable[[], bytes]]] = {
    "FFmpeg in a pipe: 0xffffffff": (
        "https://github.com/Borewit/music-metadata/issues/707",
        lambda: header(2**32 - 1, 2**32 - 1),
    ),
    "programs that never write the sizes": (
        "https://github.com/TooTallNate/node-wav/issues/20",
        lambda: header(0, 0),
    ),
    "sox in a pipe: 0x7ffff000": (RS, lambda: header(0x7FFFF024, 0x7FFFF000)),
    "largest signed number, less the header": (
        "https://github.com/bmc0/dsp/issues/79",
        lambda: header(0x7FFFFFFF, 0x7FFFFFFF - 36),
    ),
    "size of a stream without its header": (
        "https://github.com/evuraan/yellowShoes/issues/13",
        lambda: header(2**32 - 1, 2**32 - 45),
    ),
    "only one of the two sizes was completed": (
        "https://github.com/DeaDBeeF-Player/deadbeef/issues/1139",
        lambda: header(WHOLE, SIZE * 2),
    ),
    "RF64 with 64-bit sizes": (
        "https://github.com/libsndfile/libsndfile/pull/240",
        lambda: header(2**32 - 1, 2**32 - 1, name=b"RF64", extra=DS64),
    ),
    "film whose sound ends early (Matroska)": (
        "https://github.com/KirovAir/muxarr/issues/37",
        lambda: short_sound("matroska"),
    ),
    "film whose sound ends early (WebM)": (
        "https://github.com/webadderallorg/Recordly/issues/809",
        lambda: short_sound("webm"),
    ),
    "MP3 that an editor shortened": (
        "https://github.com/mp3splt/mp3splt/issues/338",
        lambda: edited_mp3(recording("mp3")),
    ),
    "MP3 files that were joined": (
        "https://github.com/benrr101/node-taglib-sharp/issues/95",
        lambda: recording("mp3") * 2,
    ),
    "Ogg files that were joined": (
        "https://github.com/meetecho/janus-gateway/pull/2250",
        lambda: recording("ogg opus") * 2,
    ),
    "browser's recording without a duration": (
        "https://github.com/chrisguttandin/extendable-media-recorder/issues/636",
        lambda: unseekable("matroska", "pcm_s16le"),
    ),
    "live recording whose clock starts late": (
        "https://github.com/muaz-khan/WebRTC-Experiment/issues/393",
        lambda: late_webm(recording("webm")),
    ),
    "FLAC in a pipe": (
        "https://github.com/DeaDBeeF-Player/deadbeef/issues/1139",
        lambda: unseekable("flac", "flac"),
    ),
    "AU in a pipe": (
        "https://github.com/bmc0/dsp/issues/79",
        lambda: unseekable("au", "pcm_s16be"),
    ),
    "FLV of a live stream": (
        "https://github.com/FFmpeg/FFmpeg/pull/220",
        lambda: unseekable("flv", "pcm_s16le"),
    ),
}


@pytest.mark.parametrize(("source", "make"), INTACT.values(), ids=INTACT)
def test_no_intact_recording_is_called_incomplete(
    source: str, make: Callable[[], bytes], tmp_path: Path
) -> None:
    assert source.startswith("https://")
    media = make()
    path = tmp_path / "recording"
    path.write_bytes(media)
    for given in (media, path):
        length, found = notices(given)
        assert length > SECONDS / 2 - 1
        assert not found
    with pipe(media) as file:
        assert not notices(file)[1]


# situation, source, recording of which a part is missing, seconds that are missing
MISSING: dict[str, tuple[str, Callable[[], bytes], float]] = {
    "WAV whose sound is shorter than its chunk": (
        "https://github.com/mono/taglib-sharp/issues/95",
        lambda: cut(recording("wav")),
        12,
    ),
    "WAV that lost its last bytes": (
        "https://github.com/MediaArea/MediaInfoLib/pull/352",
        lambda: recording("wav")[: -3 * 2 * RATE],
        3,
    ),
    "MP3 shorter than its Info frame says": (
        "https://github.com/Sjord/checkmate/issues/26",
        lambda: cut(recording("mp3")),
        12,
    ),
    "film that was cut off": (
        "https://github.com/Techiebutler/freeframe/issues/415",
        lambda: cut(
            encode([bursts([2], SECONDS, RATE)], "webm", "libopus", rate=RATE, video="libvpx")
        ),
        12,
    ),
    "RF64 that was cut off": (
        "https://github.com/libsndfile/libsndfile/pull/240",
        lambda: cut(header(2**32 - 1, 2**32 - 1, name=b"RF64", extra=DS64)),
        12,
    ),
    "second chunk of sound in a WAV file": (
        "https://github.com/naudio/NAudio/issues/688",
        lambda: header(WHOLE + SIZE + 8, SIZE) + b"data" + struct.pack("<I", SIZE) + bytes(SIZE),
        20,
    ),
}


@pytest.mark.parametrize(("source", "make", "missing"), MISSING.values(), ids=MISSING)
def test_missing_parts_are_reported(source: str, make: Callable[[], bytes], missing: float) -> None:
    assert source.startswith("https://")
    _, (found,) = notices(make())
    assert found.end - found.start == pytest.approx(missing, abs=1)


@pytest.mark.parametrize("kind", ["wav", "flac", "webm"])
def test_reading_that_stops_early_is_not_incomplete(kind: str) -> None:
    with open_audio(recording(kind)) as reader:
        next(reader.blocks())
    assert not reader.notices.all()


def test_the_position_of_a_file_object_stays_at_its_end() -> None:
    file = io.BytesIO(cut(recording("wav")))
    notices(file)
    assert not file.read()
    assert not file.closed
