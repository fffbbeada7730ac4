"""Silero's network and weights, the calibration of probabilities, and steady sound."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.steady_sounds import STEADY, UNSTEADY, at_level, noise, syllables, with_sound
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.errors import ModelError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames
from whisperbatch.vad import NoVad, open_vad, silero, vad_fingerprint, weights
from whisperbatch.vad.levels import BLOCK, FRAME, CalibratedVad, reblock
from whisperbatch.vad.silero import CELLS, CONTEXT, SileroVad, network_with_products
from whisperbatch.vad.steady_sound import (
    CleanedBlock,
    CleanedVad,
    remove_steady_sound,
    without_steady_sound,
)
from whisperbatch.vad.weights import find_weights


def test_options_select_the_vad() -> None:
    assert isinstance(open_vad(Options(vad=False)), NoVad)
    assert isinstance(open_vad(Options()), CalibratedVad)
    assert open_vad(Options()) is open_vad(Options(vad_onset=0.7))  # loaded once


def test_the_first_installed_package_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("early_vad", "late_vad"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('never imported')")
    (tmp_path / "late_vad" / "net.onnx").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = ("no_such_vad", "early_vad", "late_vad")
    monkeypatch.setattr(weights, "WEIGHTS", [(package, "net.onnx") for package in packages])
    assert find_weights() == tmp_path / "late_vad" / "net.onnx"
    (tmp_path / "early_vad" / "net.onnx").touch()
    assert find_weights() == tmp_path / "early_vad" / "net.onnx"
    assert "early_vad" not in sys.modules


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of a package "net_vad" in version 1, whose SHA-256 is known."""
    for folder in ("net_vad", "net_vad-1.dist-info"):
        (tmp_path / folder).mkdir()
    (tmp_path / "net_vad" / "__init__.py").touch()
    (tmp_path / "net_vad-1.dist-info" / "METADATA").write_text("Name: net-vad\nVersion: 1\n")
    path = tmp_path / "net_vad" / "net.onnx"
    path.write_bytes(b"weights")
    known = {("net_vad", "1"): hashlib.sha256(b"weights").hexdigest()}
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(weights, "WEIGHTS", [("net_vad", "net.onnx")])
    monkeypatch.setattr(weights, "DIGESTS", known)
    return path


def test_known_weights_are_compared_with_their_pinned_hash(
    packaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_weights() == packaged
    packaged.write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"net\.onnx: .*net-vad 1.*--force-reinstall.*net-vad==1"):
        find_weights()
    packaged.write_bytes(b"weights")
    assert find_weights() == packaged
    assert not caplog.text


@pytest.mark.parametrize("other", ["version", "place"])
def test_unknown_weights_give_one_warning(
    packaged: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    info = packaged.parents[1] / "net_vad-1.dist-info" / "METADATA"
    if other == "version":
        info.write_text("Name: net-vad\nVersion: 2\n")
    else:
        info.unlink()
        info.parent.rmdir()
    packaged.write_bytes(f"new weights in another {other}".encode())
    for _ in range(3):
        assert find_weights() == packaged
    assert caplog.text.count(f"{packaged}: unknown weights") == 1


def test_the_installed_weights_are_known(caplog: pytest.LogCaptureFixture) -> None:
    assert hashlib.sha256(find_weights().read_bytes()).hexdigest() in weights.DIGESTS.values()
    assert not caplog.text


def test_the_fingerprint_records_which_weights_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    monkeypatch.setattr(weights, "find_weights", lambda: path)
    fingerprints = set[str]()
    for content in (b"weights of one package", b"weights of another", b"weights of another"):
        path.write_bytes(content)
        fingerprints.add(vad_fingerprint(Options()))
    assert len(fingerprints) == 2
    assert vad_fingerprint(Options(vad=False)) not in fingerprints
    path.unlink()
    with pytest.raises(ModelError, match=r"net\.onnx: cannot be read"):
        vad_fingerprint(Options())
    assert vad_fingerprint(Options(vad=False))  # reads no weights


def test_missing_weights_name_what_to_reinstall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "WEIGHTS", [("no_such_vad", "a"), ("faster_whisper", "no/such")])
    with pytest.raises(ModelError, match="reinstall no_such_vad or faster_whisper"):
        SileroVad()


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
def test_broken_weights_name_their_file(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    monkeypatch.setattr(silero, "find_weights", lambda: path)
    with pytest.raises(ModelError, match=r"net\.onnx: does not load") as caught:
        SileroVad()
    assert caught.value.__cause__ is not None
    assert "\n" not in str(caught.value)


class FakeVad:
    """A Vad that yields fixed probabilities, in blocks of 32 VAD frames (about a second)."""

    hop = 512

    def __init__(self, probabilities: Sequence[float]) -> None:
        self._probabilities = np.array(probabilities, np.float32)

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for start in range(0, len(self._probabilities), 32):
            block = self._probabilities[start : start + 32]
            yield SpeechFrames(np.zeros(512 * len(block), np.float32), block)


def calibrated(probabilities: Sequence[float]) -> list[float]:
    blocks = list(CalibratedVad(FakeVad(probabilities))([]))
    assert sum(len(block.samples) for block in blocks) == 512 * len(probabilities)
    return [float(probability) for block in blocks for probability in block.probabilities]


def test_high_probabilities_stay_unchanged() -> None:
    probabilities = [0.99, 0.4, 0.01, 0.98] * 500
    assert calibrated(probabilities) == np.array(probabilities, np.float32).tolist()


def test_low_probabilities_of_clear_speech_are_raised() -> None:
    """Silero gives similar probabilities for a telephone's narrow band."""
    result = calibrated([0.73, 0.52, 0.2, 0.01] * 500)
    clear_speech, speech, faint_speech, silence = result[1000:1004]
    assert clear_speech > speech > 0.8
    assert faint_speech > 0.5
    assert silence < 0.1


def test_without_clear_speech_probabilities_stay_unchanged() -> None:
    """Silero gives similar probabilities for music."""
    probabilities = [0.3, 0.2, 0.1, 0.05] * 500
    assert calibrated(probabilities) == np.array(probabilities, np.float32).tolist()


def test_a_turn_between_normal_voices_is_raised() -> None:
    """Silero gives similar probabilities for a hoarse voice."""
    normal, hoarse = [0.99, 0.3] * 157, [0.7, 0.3] * 250  # 10 s, 16 s
    result = calibrated([*normal, *hoarse, *normal])
    middle = result[len(normal) + len(hoarse) // 2 :]
    assert middle[1] > 0.5
    assert result[1] == result[-1] == pytest.approx(0.3)


def test_distant_audio_has_no_effect() -> None:
    result = calibrated([*([0.7, 0.3] * 2000), *([0.99, 0.3] * 2000)])
    assert result[1] > 0.5
    assert result[-1] == pytest.approx(0.3)


Session: TypeAlias = onnxruntime.InferenceSession


@pytest.fixture(scope="module")
def network() -> bytes:
    return network_with_products(find_weights())


@pytest.fixture(scope="module")
def sessions(network: bytes) -> tuple[Session, Session]:
    """The network as it is installed, and with products."""
    original, providers = find_weights().read_bytes(), ["CPUExecutionProvider"]
    return Session(original, providers=providers), Session(network, providers=providers)


def test_the_convolutions_are_products(network: bytes) -> None:
    operators = [node.op_type for node in onnx.load_from_string(network).graph.node]
    assert operators.count("MatMul") == 5
    assert operators.count("Conv") == 1  # after the LSTM: one filter of one sample


@pytest.mark.parametrize("frames", [1, 2, 64])
@pytest.mark.parametrize("level", [0.0, 1e-3, 0.1, 1.0])
def test_probabilities_are_those_of_the_original(
    sessions: tuple[Session, Session], frames: int, level: float
) -> None:
    rng = np.random.default_rng(frames)
    inputs = {
        "input": level * rng.standard_normal((frames, CONTEXT + FRAME)).astype(np.float32),
        "h": rng.standard_normal((1, 1, CELLS)).astype(np.float32),
        "c": rng.standard_normal((1, 1, CELLS)).astype(np.float32),
    }
    expected, found = (session.run(None, inputs) for session in sessions)
    for expected_array, array in zip(expected, found, strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=1e-4, atol=1e-5)


def test_unused_weights_are_left_out(network: bytes) -> None:
    assert len(network) < 1.01 * find_weights().stat().st_size


def cleaned(sound: np.ndarray) -> list[CleanedBlock]:
    return list(remove_steady_sound(reblock([sound.astype(np.float32)])))


def rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


@pytest.mark.parametrize("name", STEADY)
@pytest.mark.parametrize("decibels", [15, 22])
def test_steady_sound_is_removed_and_speech_remains(name: str, decibels: float) -> None:
    speech = syllables(12.0)
    sound = with_sound(speech, STEADY[name], decibels)
    blocks = cleaned(sound)
    np.testing.assert_array_equal(
        np.concatenate([block.samples for block in blocks]), sound.astype(np.float32)
    )
    assert all(block.cleaned is not None for block in blocks[:-1])  # the last block is short
    result = without_steady_sound(sound.astype(np.float32))
    assert len(result) == len(sound)
    rest = sound - speech
    assert rms((result - speech).astype(np.float32)) < 0.5 * rms(rest.astype(np.float32))
    before, after = np.corrcoef(sound, speech)[0, 1], np.corrcoef(result, speech)[0, 1]
    assert after > 1.2 * before


@pytest.mark.parametrize("seconds", [0.01, 0.3, 1.9, 4.1])
def test_short_recordings_are_complete(seconds: float) -> None:
    sound = with_sound(syllables(seconds), STEADY["hum of 50 Hz"], 20)
    assert sum(len(block.samples) for block in cleaned(sound)) == len(sound)
    assert len(without_steady_sound(sound.astype(np.float32))) == len(sound)


def test_no_audio_gives_no_block() -> None:
    assert list(remove_steady_sound([])) == []


QUIET_ROOM = at_level(noise(20, 8000, 1)(12 * SAMPLING_RATE, np.random.default_rng(1)), 5e-4)


@pytest.mark.parametrize(
    "sound",
    [
        syllables(12.0),
        np.zeros(12 * SAMPLING_RATE),
        QUIET_ROOM,
        np.concatenate([syllables(12.0), 0.2 * QUIET_ROOM]),
        *(with_sound(syllables(12.0), maker, 12) for maker in UNSTEADY.values()),
        with_sound(syllables(12.0), STEADY["hum of 50 Hz"], -6),
    ],
    ids=["speech", "silence", "room", "pause", *UNSTEADY, "soft hum"],
)
def test_other_audio_stays_exactly_as_it_is(sound: np.ndarray) -> None:
    assert all(block.cleaned is None for block in cleaned(sound))
    samples = sound.astype(np.float32)
    assert without_steady_sound(samples) is samples


def test_hum_that_begins_and_ends_is_removed_where_it_is() -> None:
    speech = syllables(30 * BLOCK / SAMPLING_RATE)
    hum = with_sound(speech, STEADY["hum of 60 Hz"], 20) - speech
    hum[: 10 * BLOCK] = hum[20 * BLOCK :] = 0
    numbers = [n for n, block in enumerate(cleaned(speech + hum)) if block.cleaned is not None]
    assert numbers == list(range(10, 20))


def test_a_block_depends_on_one_block_before_and_after() -> None:
    sound = with_sound(syllables(9 * BLOCK / SAMPLING_RATE), STEADY["telephone"], 14)
    other = sound.copy()
    other[: 3 * BLOCK] = other[6 * BLOCK :] = 0
    for block, changed in list(zip(cleaned(sound), cleaned(other), strict=True))[4:5]:
        assert block.cleaned is not None
        assert changed.cleaned is not None
        assert block.cleaned.tobytes() == changed.cleaned.tobytes()


class LevelVad:
    """A Vad that holds a block; its probability is high where the level of frames varies."""

    hop = FRAME

    def __init__(self) -> None:
        self.read = 0  # blocks, of all runs

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        held: list[Samples] = []
        for block in reblock(blocks):
            self.read += 1
            held.append(block)
            if len(held) > 1:
                yield self._frames(held.pop(0))
        for block in held:
            yield self._frames(block)

    def _frames(self, block: Samples) -> SpeechFrames:
        powers = np.array(
            [np.mean(frame**2) for frame in np.array_split(block, -(-len(block) // FRAME))]
        )
        varies = powers.max() > 20 * np.quantile(powers, 0.2)
        return SpeechFrames(block, np.full(len(powers), 0.9 if varies else 0.1, np.float32))


def audio(hum_from: int, hum_to: int, blocks: int = 12) -> Samples:
    speech = syllables(blocks * BLOCK / SAMPLING_RATE)
    hum = with_sound(speech, STEADY["hum of 50 Hz"], 17) - speech
    hum[: hum_from * BLOCK] = hum[hum_to * BLOCK :] = 0
    return (speech + hum).astype(np.float32)


def test_speech_under_hum_is_detected() -> None:
    samples = audio(4, 8)
    plain = list(LevelVad()([samples]))
    found = list(CleanedVad(LevelVad())([samples]))
    assert b"".join(f.samples.tobytes() for f in found) == samples.tobytes()
    assert [bool((f.probabilities > 0.5).all()) for f in plain] == [True] * 4 + [False] * 4 + [
        True
    ] * 4
    assert all((f.probabilities > 0.5).all() for f in found)
    assert [f.cleaned is not None for f in found] == [4 <= n < 8 for n in range(12)]
    assert all(f.varying is (f.samples if f.cleaned is None else f.cleaned) for f in found)


def test_without_steady_sound_there_is_no_second_run() -> None:
    vad, plain = LevelVad(), LevelVad()
    samples = audio(0, 0)
    for frames, expected in zip(CleanedVad(vad)([samples]), plain([samples]), strict=True):
        assert frames.probabilities.tobytes() == expected.probabilities.tobytes()
        assert frames.cleaned is None
    assert vad.read == plain.read


def test_the_second_run_ends_with_the_hum() -> None:
    vad = LevelVad()
    list(CleanedVad(vad)([audio(3, 5, blocks=40)]))
    assert vad.read <= 40 + 2 + 2 + 3


def test_hum_that_returns_has_a_new_run() -> None:
    samples = np.concatenate([audio(3, 6), audio(3, 6)])
    found = list(CleanedVad(LevelVad())([samples]))
    assert all((f.probabilities > 0.5).all() for f in found)


@pytest.mark.parametrize("extra", [1, 700, BLOCK - 1])
def test_an_incomplete_last_block(extra: int) -> None:
    samples = audio(0, 12)[: 5 * BLOCK + extra]
    found = list(CleanedVad(LevelVad())([samples]))
    assert b"".join(f.samples.tobytes() for f in found) == samples.tobytes()
    assert all(len(f.probabilities) == -(-len(f.samples) // FRAME) for f in found)


def test_cuts_under_hum_lie_in_pauses() -> None:
    """Without a VAD, long audio is cut where it is quietest; hum must not hide the pauses."""
    samples = audio(0, 40, blocks=40)
    finder = SpanFinder(Options(vad=False, max_speech_duration=20.0), FRAME)
    spans = [span for block in NoVad()([samples]) for span in finder.push(block)]
    assert len(spans) >= 3
    for span in spans:
        assert 2.4 <= span.end / SAMPLING_RATE % 4 <= 4.0  # `syllables` pauses there
