"""The mix of all channels: its blocks, the choice of channels, and its stream."""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import av
import numpy as np
import pytest

from tests.unit.audio.voices import counter, noise, relative_level, timecode, voice
from tests.unit.media_files import wav
from whisperbatch.audio import mixing
from whisperbatch.audio.mixing import CELL, LOOK_AHEAD, PLAIN, Choice, choose, mix
from whisperbatch.audio.resampling import ChannelBlock, ChannelResampler, Resampler
from whisperbatch.types import SAMPLING_RATE, SECTION, WARM_UP, Notices, Samples, Span


def media(channels: int, rate: int, seconds: float = 2.0) -> bytes:
    whole = np.stack([noise(n, seconds * rate / SAMPLING_RATE) for n in range(channels)], axis=1)
    return wav(rate, channels, 2, np.round(whole * 32767).astype("<i2").tobytes())


def decoded(data: bytes) -> tuple[ChannelBlock, Samples]:
    """Return all channels, and the plain mix as `Resampler` makes it."""
    resampler, plain = ChannelResampler("memory"), Resampler("memory", "mix")
    blocks: list[ChannelBlock] = []
    mixes: list[Samples] = []
    with av.open(io.BytesIO(data), "r") as container:
        for frame in container.decode(audio=0):
            blocks += resampler.push(frame)
            mixes += plain.push(frame)
    blocks += resampler.flush()
    mixes += plain.flush()
    return ChannelBlock.joined(blocks), np.concatenate(mixes)


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7, 8, 9, 16, 64, 65, 130])
def test_all_channels_and_the_plain_mix(channels: int, rate: int) -> None:
    block, plain = decoded(media(channels, rate))
    assert block.channels.shape == (len(plain), channels)
    if channels <= 64:
        np.testing.assert_array_equal(block.mixed, plain)
    else:
        np.testing.assert_allclose(block.mixed, plain, atol=1e-6)
    assert len(plain) == pytest.approx(2 * SAMPLING_RATE, abs=1)
    if rate == SAMPLING_RATE:
        sent = np.stack([noise(n, 2.0) for n in range(channels)], axis=1)
        np.testing.assert_allclose(block.channels, sent, atol=1e-4)


def test_parts() -> None:
    block = ChannelBlock.of(np.arange(20, dtype=np.float32).reshape(10, 2))
    assert len(block.part(2, 5)) == 3
    joined = ChannelBlock.joined([block.part(0, 4), block.part(4)])
    np.testing.assert_array_equal(joined.channels, block.channels)
    np.testing.assert_array_equal(joined.mixed, block.mixed)


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


VOICE = voice(1, 30)


@pytest.fixture(autouse=True)
def _counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        mixing, "count_speech", lambda sound: 60 if counter_of(sound) else 0, raising=True
    )


def counter_of(sound: Samples) -> bool:
    """Whether a sound has pauses, as a voice has."""
    frames = sound[: len(sound) // 800 * 800].reshape(-1, 800)
    levels = 10 * np.log10(np.mean(np.square(frames), axis=1) + 1e-12)
    return bool(levels.max() - levels.min() > 20)


def blocks(channels: Samples, size: int = SAMPLING_RATE) -> Iterator[Samples]:
    for start in range(0, len(channels), size):
        yield channels[start : start + size]


def mixed(channels: Samples, notices: Notices | None = None, position: int = 0) -> Samples:
    return np.concatenate(list(mix(blocks(channels), notices, position)))


def test_ordinary_stereo_is_exactly_the_mean() -> None:
    channels = np.stack([VOICE, 0.7 * VOICE], axis=1)
    notices = Notices("memory")
    samples = mixed(channels, notices)
    np.testing.assert_array_equal(samples, channels.mean(axis=1, dtype=np.float32))
    assert notices.all() == ()


def test_inverted_from_the_middle_on() -> None:
    later = np.arange(len(VOICE)) >= 15 * SAMPLING_RATE
    channels = np.stack([VOICE, np.where(later, -VOICE, VOICE)], axis=1)
    notices = Notices("memory")
    samples = mixed(channels, notices)
    np.testing.assert_allclose(samples, VOICE, atol=1e-6)
    assert [notice.kind for notice in notices.all()] == ["channels", "channels"]
    first, second = notices.all()
    assert first.start <= 15 <= first.end == second.start
    assert second.end == 30
    assert "inverted" in second.text


def test_a_choice_depends_on_its_cell_and_the_look_ahead_alone() -> None:
    channels = np.stack([VOICE, -VOICE], axis=1)
    changed = channels.copy()
    changed[3 * CELL + LOOK_AHEAD :] = noise(1)[0]
    np.testing.assert_array_equal(mixed(channels)[: 3 * CELL], mixed(changed)[: 3 * CELL])


def test_the_sizes_of_blocks_do_not_matter() -> None:
    channels = np.stack([VOICE, noise(3, 30, level=0.2)], axis=1)
    expected = mixed(channels)
    for size in (1000, 16_001, len(channels)):
        samples = np.concatenate(list(mix(blocks(channels, size))))
        np.testing.assert_array_equal(samples, expected)


def test_a_span_has_the_samples_of_the_whole() -> None:
    """Inverted at first: what was chosen before a span is not remembered."""
    start = Span(1).start
    assert start == SECTION - WARM_UP
    sound = np.tile(VOICE, 11)[: start + 20 * SAMPLING_RATE]
    sound[start : start + SAMPLING_RATE] = 0
    channels = np.stack([sound, -sound], axis=1)
    channels[start:, 1] += noise(4, 20, level=0.2)
    whole = mixed(channels)
    np.testing.assert_array_equal(mixed(channels[start:], None, start), whole[start:])
    earlier = start - 17_000  # as a reader that begins at a whole second
    np.testing.assert_array_equal(mixed(channels[earlier:], None, earlier)[17_000:], whole[start:])


def test_the_first_samples_come_after_a_cell_and_its_look_ahead() -> None:
    count = 0

    def counted() -> Iterator[Samples]:
        nonlocal count
        for block in blocks(np.stack([VOICE, -VOICE], axis=1), 1600):
            count += len(block)
            yield block

    first = next(mix(counted()))
    assert len(first) <= SAMPLING_RATE
    assert count <= CELL + LOOK_AHEAD + 1600


def test_no_click_where_the_choice_changes() -> None:
    later = np.arange(len(VOICE)) >= 14.4 * SAMPLING_RATE
    tone = np.sin(2 * np.pi * 300 * np.arange(len(VOICE)) / SAMPLING_RATE).astype(np.float32)
    channels = np.stack([VOICE, np.where(later, tone, VOICE)], axis=1)
    samples = mixed(channels)
    steps = np.abs(np.diff(samples))
    assert steps.max() <= 1.5 * np.abs(np.diff(VOICE)).max()


def test_the_number_of_channels_changes() -> None:
    parts = [VOICE[:50_000], np.stack([VOICE, -VOICE], axis=1)[50_000:150_000], VOICE[150_000:]]
    samples = np.concatenate(list(mix(parts)))
    assert len(samples) == len(VOICE)
    assert relative_level(samples, VOICE) > 20
    np.testing.assert_array_equal(samples[150_000:], VOICE[150_000:])


def test_no_notice_comes_before_the_first_sample_that_is_needed() -> None:
    channels = np.stack([VOICE, -VOICE], axis=1)
    notices = Notices("memory")
    first = SECTION - WARM_UP
    begin = first - 10 * SAMPLING_RATE - 100
    list(mixing.Mixer(notices, begin, first)(map(ChannelBlock.of, blocks(channels))))
    [notice] = notices.all()
    assert notice.start == first / SAMPLING_RATE
    assert notice.end == (begin + len(VOICE)) / SAMPLING_RATE
