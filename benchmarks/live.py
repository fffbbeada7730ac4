"""Measure live sessions: how late text is settled, how many words are wrong, how many sessions fit.

python -m benchmarks.live                        # ten recordings, one after the other, in real time
python -m benchmarks.live --policies             # the ways to settle, on two halves of the data
python -m benchmarks.live --sessions 1 2 4 8     # sessions at a time, beside the work on a file
python -m benchmarks.live --silence              # an hour with pauses: memory; silence: CPU

A settled word is as old as the audio that was fed since its end, when its event arrives. A final
text is as late as its event after the event of the end of its turn. Word errors are those of
`benchmarks.scoring`. With `--policies`, audio is fed in steps of 0.4 s, each when the text of the
step before is known: the ages have no time of the engine, and are the same on every machine.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import numpy as np
import psutil

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.crowd import quantile
from benchmarks.recordings import SAMPLING_RATE, Recording, Samples
from benchmarks.scoring import Score, word_error_rate
from whisperbatch.live import Failed, Lag, LiveEvent, LiveSession, Settled, TurnEnded
from whisperbatch.live import Final as FinalText
from whisperbatch.live import settings as live_settings
from whisperbatch.live.settling import Agreement, Policy

BLOCK: Final = 0.1  # seconds that are fed at a time
STEP: Final = 0.4  # seconds, with --policies
LATE: Final = 4.0  # seconds: the largest age of 95 % of the settled words of many sessions
LANGUAGES: Final = ("en", "es", "ru", "fr")  # of telephone prompts
KEPT: Final = 0.25  # of the speed of a file job
HOLD_BACKS: Final = (0.3, 0.6, 1.0)
AGREEMENTS: Final[tuple[Agreement, ...]] = ("never", "doubtful", "always")
WARM_UP: Final = 5.0  # seconds of audio before the first measurement


@dataclass(slots=True)
class Played:
    """What a session said about a recording.

    Attributes:
        events: each event, with the seconds that were fed and the time at which it arrived.
        lag: the largest lag.
    """

    events: list[tuple[float, float, LiveEvent]] = field(default_factory=list)
    lag: float = 0.0

    def collect(self, session: LiveSession) -> None:
        """Read the events until the end of a session."""
        for event in session:
            self.events.append((session.duration, time.monotonic(), event))
            if isinstance(event, Lag):
                self.lag = max(self.lag, event.seconds)

    @property
    def ages(self) -> list[float]:
        """Age of each settled word, in seconds."""
        return [
            fed - word.end
            for fed, _, event in self.events
            if isinstance(event, Settled)
            for word in event.words
        ]

    @property
    def final_delays(self) -> list[float]:
        """Seconds from the end of each turn to its last final text."""
        ended = {e.turn: at for _, at, e in self.events if isinstance(e, TurnEnded)}
        return [
            at - ended[event.turn]
            for _, at, event in self.events
            if isinstance(event, FinalText) and event.complete and event.turn in ended
        ]

    @property
    def settled(self) -> str:
        """The settled text."""
        turns: dict[int, str] = {}
        for _, _, event in self.events:
            if isinstance(event, Settled):
                turns[event.turn] = turns.get(event.turn, "") + event.text
        return " ".join(turns[turn] for turn in sorted(turns))

    @property
    def final(self) -> str:
        """The final text."""
        return " ".join(e.text for _, _, e in self.events if isinstance(e, FinalText))

    @property
    def failed(self) -> int:
        """Number of parts without a final text."""
        return sum(isinstance(event, Failed) for _, _, event in self.events)


@dataclass(slots=True)
class Figures:
    """The figures of several recordings."""

    ages: list[float] = field(default_factory=list)
    final_delays: list[float] = field(default_factory=list)
    whole: Score = field(default_factory=Score)
    final: Score = field(default_factory=Score)
    settled: Score = field(default_factory=Score)

    def add(self, recording: Recording, language: str, played: Played, text: str) -> None:
        """Add a recording; `text` is the text of its transcript."""
        self.ages += played.ages
        self.final_delays += played.final_delays
        self.whole += word_error_rate(recording.text, text, language)
        self.final += word_error_rate(recording.text, played.final, language)
        self.settled += word_error_rate(recording.text, played.settled, language)

    def __str__(self) -> str:
        return (
            f"settled after {median(self.ages):.2f} s, 95 % {quantile(self.ages, 0.95):.2f} s; "
            f"final {median(self.final_delays):.2f} s after the turn; word errors: transcript "
            f"{self.whole.rate:.2%}, final {self.final.rate:.2%}, settled {self.settled.rate:.2%} "
            f"({self.final.words} words)"
        )


def materials(seconds: float, seeds: Iterable[int]) -> list[tuple[str, Recording]]:
    """Return recordings in four languages: read speech, and telephone prompts with pauses."""
    found: list[tuple[str, Recording]] = []
    for seed in seeds:
        found.append(("en", recordings.read_speech(seconds, seed)))
        found += [
            (code, recordings.prompts(code, seconds, seed)) for code in ("en", "es", "ru", "fr")
        ]
    return found


@contextmanager
def collecting(session: LiveSession) -> Iterator[Played]:
    """Read the events of a session in a thread; at the end of the block, close the session."""
    played = Played()
    reader = threading.Thread(target=played.collect, args=(session,))
    reader.start()
    try:
        yield played
    finally:
        session.close()
        reader.join()


def play(session: LiveSession, samples: Samples) -> Played:
    """Feed samples in real time, and return what the session said."""
    size = round(BLOCK * SAMPLING_RATE)
    begun = time.monotonic()
    with collecting(session) as played:
        try:
            for start in range(0, len(samples), size):
                wait = begun + (start + size) / SAMPLING_RATE - time.monotonic()
                time.sleep(max(wait, 0.0))
                session.feed(samples[start : start + size])
        except wb.BacklogError:
            played.lag = session.lag
    return played


def play_in_steps(session: LiveSession, samples: Samples) -> Played:
    """Feed samples, each step when the text of the step before is known."""
    size = round(STEP * SAMPLING_RATE)
    with collecting(session) as played:
        for start in range(0, len(samples), size):
            session.feed(samples[start : start + size])
            session._wait_for_text()  # noqa: SLF001 - for measurements
            time.sleep(0.001)  # for the reader
    return played


def one_session(asr: wb.Transcriber, seconds: float, delay: str) -> Figures:
    """Play ten recordings in real time, one after the other."""
    figures = Figures()
    play(asr.live(language="en"), recordings.read_speech(WARM_UP, 9).samples)
    for language, recording in materials(seconds, (1, 2)):
        text = asr.transcribe(recording.samples, language=language).text
        played = play(asr.live(language=language, delay=delay), recording.samples)
        figures.add(recording, language, played, text)
        print(
            f"  {recording.name}: {played.failed} failed parts, lag {played.lag:.1f} s", flush=True
        )
    return figures


def policies(asr: wb.Transcriber, seconds: float) -> None:
    """Print the figures of each policy, on two halves of the recordings."""
    given = [
        (f"hold back {hold_back} s, agreement {agreement}", Policy(hold_back, agreement))
        for hold_back in HOLD_BACKS
        for agreement in AGREEMENTS
    ]
    given.append(("agreement alone", Policy(0.0, "always", patience=1e9)))
    halves = [materials(seconds, (seed,)) for seed in (1, 2)]
    texts = {
        recording.name: asr.transcribe(recording.samples, language=language).text
        for half in halves
        for language, recording in half
    }
    default = live_settings.POLICIES["medium"]
    for name, policy in given:
        live_settings.POLICIES["medium"] = policy
        for number, half in enumerate(halves, 1):
            figures = Figures()
            for language, recording in half:
                played = play_in_steps(asr.live(language=language), recording.samples)
                figures.add(recording, language, played, texts[recording.name])
            print(f"half {number}, {name}: {figures}", flush=True)
    live_settings.POLICIES["medium"] = default


def speed_of_a_file(asr: wb.Transcriber, stop: Callable[[], bool]) -> float:
    """Transcribe a long recording until `stop` is true; return seconds of audio per second."""
    samples = recordings.read_speech(600, 3).samples
    begun, before = time.monotonic(), 0.0
    while True:
        for segment in asr.stream(samples, language="en"):
            if stop():
                return (before + segment.end) / (time.monotonic() - begun)
        before += len(samples) / SAMPLING_RATE


def many_sessions(asr: wb.Transcriber, counts: Sequence[int], seconds: float) -> None:
    """Print the figures of sessions that are open at the same time, beside the work on a file."""
    deadline = time.monotonic() + seconds
    alone = speed_of_a_file(asr, lambda: time.monotonic() > deadline)
    print(f"a file alone: {alone:.1f} times real time")
    for count in counts:
        given = [recordings.read_speech(seconds, 10 + number).samples for number in range(count)]
        sessions = [asr.live(language="en") for _ in given]
        done = threading.Event()
        with ThreadPoolExecutor(count + 1) as pool:
            file = pool.submit(speed_of_a_file, asr, done.is_set)
            played = list(pool.map(play, sessions, given))
            done.set()
            kept = file.result() / alone
        ages = [age for each in played for age in each.ages]
        complete = all(each.final.split() and not each.failed for each in played)
        late = quantile(ages, 0.95)
        fits = late <= LATE and kept >= KEPT
        print(
            f"{count} sessions: settled after {median(ages):.2f} s, 95 % {late:.2f} s; the file "
            f"keeps {kept:.0%} of its speed; lag {max(each.lag for each in played):.1f} s; "
            f"{'all' if complete else 'NOT all'} final texts; {'fits' if fits else 'too many'}",
            flush=True,
        )


def silence(asr: wb.Transcriber, minutes: float) -> None:
    """Print memory over an hour with 60 % silence, and the processor time of silence."""
    process = psutil.Process()
    speech = (recordings.read_speech(24, 5).samples / 32768).astype(np.float32)
    minute = np.concatenate([speech, np.zeros(60 * SAMPLING_RATE - len(speech), np.float32)])
    memory = []
    with asr.live(language="en") as session:
        reader = threading.Thread(target=lambda: [None for _ in session])
        reader.start()
        for _ in range(round(minutes)):
            for start in range(0, len(minute), SAMPLING_RATE):
                session.feed(minute[start : start + SAMPLING_RATE])
                session._wait_for_text()  # noqa: SLF001 - for measurements
            memory.append(process.memory_info().rss / 1e6)
        quiet = np.zeros(round(BLOCK * SAMPLING_RATE), np.float32)
        before = time.process_time()
        for _ in range(round(60 / BLOCK)):
            session.feed(quiet)
        cpu = (time.process_time() - before) / 60
        session.close()
        reader.join()
    later = memory[len(memory) // 6 :]
    print(
        f"{minutes:.0f} minutes, 60 % silence: memory {later[0]:.0f} to {later[-1]:.0f} MB, at "
        f"most {max(later):.0f} MB; a minute of silence takes {cpu:.2%} of a core"
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="base")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each recording")
    parser.add_argument("--delay", default="medium")
    parser.add_argument("--policies", action="store_true")
    parser.add_argument("--sessions", type=int, nargs="+", metavar="N")
    parser.add_argument("--silence", action="store_true")
    arguments = parser.parse_args()
    with wb.load(arguments.model, engine=arguments.engine) as asr:
        if arguments.policies:
            policies(asr, arguments.seconds)
        elif arguments.sessions:
            many_sessions(asr, arguments.sessions, arguments.seconds)
        elif arguments.silence:
            silence(asr, 60)
        else:
            print(one_session(asr, arguments.seconds, arguments.delay))


if __name__ == "__main__":
    main()
