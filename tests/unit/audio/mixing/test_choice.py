"""The mix for a few seconds: which recordings keep the plain mix, and what hidden speech gets."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from tests.unit.audio.mixing.voices import counter, noise, relative_level, timecode, voice
from whisperbatch.audio.mixing import PLAIN, Choice, choose
from whisperbatch.audio.resampling import ChannelBlock
from whisperbatch.types import Samples

A, B = voice(1), voice(2)
SILENCE = np.zeros_like(A)
FIRST_HALF = np.arange(len(A)) < len(A) // 2


def quiet(seed: int) -> Samples:
    """Noise of a microphone, 40 dB below the voices."""
    return noise(seed, level=0.0005)


def chosen(
    channels: Sequence[Samples],
    previous: Choice = PLAIN,
    count: Callable[[Samples], int] | None = None,
) -> tuple[Choice, Samples]:
    """Return the choice and the mix."""
    block = ChannelBlock.of(np.stack(channels, axis=1).astype(np.float32))
    choice = choose(block, previous, count or counter(A, B))
    if choice.weights is None:
        return choice, block.mixed
    return choice, block.channels @ np.array(choice.weights, np.float32)


class Case(NamedTuple):
    situation: str
    source: str
    channels: Callable[[], Sequence[Samples]]
    text: str  # of the notice


@cache
def hidden_speech() -> tuple[Case, ...]:
    """Recordings whose plain mix hides the voice A; their sources are public reports."""
    loud = noise(3, level=0.16)
    tone = (0.2 * np.sin(2 * np.pi * 1000 * np.arange(len(A)) / 16_000)).astype(np.float32)
    hum = (0.5 * np.sin(2 * np.pi * 50 * np.arange(len(A)) / 16_000)).astype(np.float32)
    interface = [noise(10 + number, level=0.02) for number in range(16)]
    return (
        Case(
            "identical channels, one inverted",
            "m-bain/whisperX#750",
            lambda: [A, -A],
            "the right channel is inverted",
        ),
        Case(
            "balanced cable on a stereo recorder: inverted, softer, with noise",
            "https://forum.audacityteam.org/t/trying-to-convert-stereo-to-mono/63220",
            lambda: [A + quiet(1), -0.6 * A + quiet(2)],
            "the right channel is inverted",
        ),
        Case(
            "system sound with opposite phases, softer than the noise of the devices",
            "moona3k/macparakeet#953",
            lambda: [A + noise(4, level=0.02), -A + noise(5, level=0.02)],
            "the right channel is inverted",
        ),
        Case(
            "the polarity changes in the middle",
            "https://transom.org/2016/its-a-phase-youre-going-through/",
            lambda: [A, np.where(FIRST_HALF, A, -A)],
            "the polarity of the channels changes",
        ),
        Case(
            "four channels of an analog microphone, two inverted",
            "VocaHQ/vocalinux#829, r3dbars/transcripted#959",
            lambda: [A, A, -A, -A],
            "channels 3, 4 are inverted",
        ),
        Case(
            "many channels, half of them inverted",
            "audacity/audacity#7977",
            lambda: [A] * 20 + [-A] * 20,
            "the mix of all channels lacks speech",
        ),
        Case(
            "timecode on the left channel",
            "SubtitleEdit/subtitleedit#11",
            lambda: [timecode(level=0.2), A],
            "the left channel is loud",
        ),
        Case(
            "a test tone on the left channel",
            "altic-dev/FluidVoice#623, awslabs/aws-media-insights#17",
            lambda: [tone, A],
            "the left channel is loud",
        ),
        Case(
            "one channel has bad sound",
            "valpackett/soundfixer#30",
            lambda: [A, loud],
            "the right channel is loud",
        ),
        Case(
            "noise that comes and goes",
            "valpackett/soundfixer#30",
            lambda: [A, np.where(FIRST_HALF, loud, SILENCE)],
            "the right channel is loud",
        ),
        Case(
            "hum of an open input",
            "suitenumerique/meet#927",
            lambda: [A, hum],
            "the right channel is loud",
        ),
        Case(
            "a constant offset on one channel",
            "suitenumerique/meet#927",
            lambda: [A, SILENCE + np.float32(0.6)],
            "the right channel is loud",
        ),
        Case(
            "an interface with 16 inputs, the microphone on one of them, noise on the others",
            "T0mSIlver/localvoxtral#240",
            lambda: [*interface[:5], A, *interface[6:]],
            "channels 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 are loud",
        ),
    )


@pytest.mark.parametrize("case", hidden_speech(), ids=lambda case: case.situation)
def test_hidden_speech_is_heard(case: Case) -> None:
    channels = case.channels()
    plain = np.mean(channels, axis=0)
    before = relative_level(plain - plain.mean() * ("offset" not in case.situation), A)
    choice, mix = chosen(channels)
    assert case.text in choice.text
    after = relative_level(mix, A)
    assert after > 5
    assert after > before + 6
    assert np.sqrt(np.mean(np.square(mix))) > 0.3 * np.sqrt(np.mean(np.square(A)))


ORDINARY: dict[str, Callable[[], Sequence[Samples]]] = {
    "equal channels": lambda: [A, A],
    "different gains": lambda: [A, 0.3 * A],
    "nearly equal channels": lambda: [A + quiet(1), 0.8 * A + quiet(2)],
    "the other channel is silent (suitenumerique/meet#927)": lambda: [A, SILENCE],
    "callers on two channels (ggml-org/whisper.cpp#3263)": lambda: [
        np.where(FIRST_HALF, A, quiet(1)),
        np.where(FIRST_HALF, quiet(2), B),
    ],
    "callers who speak at the same time": lambda: [A, B],
    "a soft caller beside a loud caller": lambda: [A, 0.2 * B],
    "crosstalk": lambda: [A + 0.1 * B, B + 0.1 * A],
    "microphones 0.3 m apart": lambda: [A, np.roll(A, 14)],
    "twelve channels, eleven silent": lambda: [SILENCE] * 7 + [A] + [SILENCE] * 4,
    "noise on both, without a voice": lambda: [noise(1), noise(2)],
    "inverted noise without a voice": lambda: [noise(1), -noise(1)],
    "silence": lambda: [SILENCE, SILENCE],
    "a voice in the centre, ambience at the sides": lambda: [
        A + noise(3, level=0.02),
        A - noise(3, level=0.02),
    ],
}


@pytest.mark.parametrize("situation", ORDINARY)
def test_ordinary_recordings_keep_the_plain_mix(situation: str) -> None:
    assert chosen(ORDINARY[situation]())[0] == PLAIN


def test_the_choice_stays_in_a_pause_and_ends_with_the_reason_for_it() -> None:
    loud = noise(3, level=0.16)
    lowered = chosen([A, loud])[0]
    assert chosen([quiet(1), loud], lowered)[0] == lowered
    assert chosen([A, quiet(1)], lowered)[0] == PLAIN
    turned = chosen([A, -A])[0]
    assert chosen([SILENCE, SILENCE], turned)[0] == turned
    assert chosen([A, A], turned)[0] == PLAIN


def test_a_channel_without_speech_is_lowered_and_never_dropped() -> None:
    """The VAD may overlook a whisper: where the other channel is silent, it is heard."""
    choice, _ = chosen([A, noise(3, level=0.16)])
    assert choice.weights is not None
    assert choice.weights[0] == pytest.approx(1)
    assert choice.weights[1] > 0.005


def test_speech_on_two_of_three_channels_is_heard() -> None:
    choice, mix = chosen(
        [np.where(FIRST_HALF, A, 0), np.where(FIRST_HALF, 0, B), noise(3, level=0.3)]
    )
    assert choice.weights is not None
    first = np.where(FIRST_HALF, A, 0)
    second = np.where(FIRST_HALF, 0, B)
    assert relative_level(mix[: len(A) // 2], first[: len(A) // 2]) > 10
    assert relative_level(mix[len(A) // 2 :], second[len(A) // 2 :]) > 10


def test_a_copy_with_loud_noise_does_not_spoil_the_clear_channel() -> None:
    channels = [A, A + noise(3, level=0.15)]
    choice, mix = chosen(channels, count=counter(A, least=0.2))
    assert "right channel" in choice.text
    assert relative_level(mix, A) > relative_level(np.mean(channels, axis=0), A) + 6


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_absurd_samples_do_not_fail(value: float) -> None:
    broken = A.copy()
    broken[1000:1010] = value
    choice, _ = chosen([A, broken])
    assert choice.weights is None or np.isfinite(choice.weights).all()


@pytest.mark.parametrize("length", [1, 2, 799, 801, 1601, 5000])
def test_short_blocks(length: int) -> None:
    assert isinstance(chosen([A[:length], -A[:length]])[0], Choice)
