"""How many words are found under a louder steady sound?

Each row is a sound; the columns are its levels above the speech, with the words found, and the
words added. The speech is prompts in English. The tests use these sounds, too: all are float64 at
16 kHz.

python -m benchmarks.steady_sounds                            # base, beam 1, in five minutes
python -m benchmarks.steady_sounds --decibels 0 6 --no-vad    # without the speech detector
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

import whisperbatch as wb
from benchmarks import recordings, scoring
from whisperbatch.types import SAMPLING_RATE

Sound: TypeAlias = npt.NDArray[np.float64]
Maker: TypeAlias = Callable[[int, np.random.Generator], Sound]


def harmonics(hertz: float, count: int, slope: float) -> Maker:
    """Return a maker of a tone with harmonics: amplitudes fall with the number to the `slope`."""

    def make(length: int, rng: np.random.Generator) -> Sound:
        seconds = np.arange(length) / SAMPLING_RATE
        waves = [
            np.sin(2 * np.pi * hertz * number * seconds + rng.uniform(0, 6.28)) / number**slope
            for number in range(1, count + 1)
        ]
        sound: Sound = np.sum(waves, axis=0)
        return sound

    return make


def noise(low: float, high: float, slope: float = 0.0) -> Maker:
    """Return a maker of noise in a band; its power falls with the frequency to the `slope`."""

    def make(length: int, rng: np.random.Generator) -> Sound:
        hertz = np.fft.rfftfreq(length, 1 / SAMPLING_RATE)
        gain = np.maximum(hertz, max(low, 1.0)) ** (-slope / 2) * ((hertz >= low) & (hertz <= high))
        return np.fft.irfft(np.fft.rfft(rng.standard_normal(length)) * gain, length)

    return make


def mixed(*parts: tuple[float, Maker]) -> Maker:
    """Return a maker of several sounds, each with its root mean square."""

    def make(length: int, rng: np.random.Generator) -> Sound:
        sound: Sound = np.sum(
            [rms * at_level(maker(length, rng), 1.0) for rms, maker in parts], axis=0
        )
        return sound

    return make


def telephone_buzz(length: int, _: np.random.Generator) -> Sound:
    """Return the buzz of a GSM telephone: bursts of 0.58 ms, 217 times a second."""
    seconds = np.arange(length) / SAMPLING_RATE
    bursts = (seconds % (1 / 216.7) < 577e-6).astype(np.float64)
    sound: Sound = bursts * np.sin(2 * np.pi * 800 * seconds)
    return sound


STEADY: Final[Mapping[str, Maker]] = {
    "hum of 50 Hz": harmonics(50, 12, 0.5),
    "hum of 60 Hz": harmonics(60, 20, 1),
    "buzz of a ground loop": harmonics(60, 120, 0.7),
    "aircraft power": harmonics(400, 9, 0.5),
    "test tone": harmonics(1000, 1, 1),
    "whistle": harmonics(2637, 1, 1),
    "cabin": noise(20, 250, 1),
    "fan": mixed((1.0, noise(100, 700)), (0.6, harmonics(118, 5, 1))),
    "air conditioner": noise(40, 400),
    "telephone": telephone_buzz,
}
UNSTEADY: Final[Mapping[str, Maker]] = {
    "white": noise(0, 8000),
    "pink": noise(20, 8000, 1),
    "rain": noise(800, 8000),
}
BROWN: Final = noise(20, 8000, 2)  # of which a part is removed


def at_level(sound: Sound, rms: float) -> Sound:
    """Return the sound with another root mean square."""
    result: Sound = sound * (rms / np.sqrt(np.mean(sound**2)))
    return result


def syllables(seconds: float, seed: int = 0) -> Sound:
    """Return noise of 200 to 5000 Hz in syllables and phrases, with a root mean square of 0.05."""
    rng = np.random.default_rng(seed)
    length = round(seconds * SAMPLING_RATE)
    time = np.arange(length) / SAMPLING_RATE
    rhythm = np.sin(2 * np.pi * 2 * time) ** 2 * (time % 4 < 2.4)
    return at_level(noise(200, 5000, 1)(length, rng) * rhythm, 0.05)


def with_sound(speech: Sound, maker: Maker, decibels: float, seed: int = 0) -> Sound:
    """Return speech and a steady sound that is `decibels` louder; the speech is not changed."""
    rms = np.sqrt(np.mean(speech**2)) * 10 ** (decibels / 20)
    return speech + at_level(maker(len(speech), np.random.default_rng(seed)), float(rms))


def words_found(
    asr: wb.Transcriber, recording: recordings.Recording, sound: Sound, *, vad: bool
) -> scoring.Score:
    """Return the word errors of a recording in English that was made louder by a sound.

    Args:
        asr: decodes with one beam.
        recording: has the text of the speech.
        sound: speech and steady sound.
        vad: decode only the speech that the speech detector finds.
    """
    loudest = float(np.abs(sound).max())
    samples = (sound * min(1.0, 0.9 / loudest)).astype(np.float32)
    transcript = asr.transcribe(samples, language="en", beam_size=1, vad=vad)
    return scoring.word_error_rate(recording.text, transcript.text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.steady_sounds",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--model", default="base")
    parser.add_argument("--decibels", type=float, nargs="+", default=[12.0, 18.0])
    parser.add_argument("--duration", type=float, default=60.0, help="seconds")
    parser.add_argument("--no-vad", action="store_true")
    options = parser.parse_args(arguments)
    recording = recordings.prompts("en", options.duration, seed=3)
    speech = recording.samples / 32768
    print(f"{'words found, and added':24}" + "".join(f"{d:>8g} dB" for d in options.decibels))
    with wb.load(options.model, device="cpu") as asr:
        for name, maker in {**STEADY, **UNSTEADY, "brown": BROWN}.items():
            cells = []
            for decibels in options.decibels:
                sound = with_sound(speech, maker, decibels)
                score = words_found(asr, recording, sound, vad=not options.no_vad)
                found = score.words - score.substitutions - score.deletions
                cells.append(f"{found:>6}{f'+{score.insertions}':>5}")
            print(f"{name:24}{''.join(cells)}", flush=True)
    print(f"of {score.words} words")


if __name__ == "__main__":
    main()
