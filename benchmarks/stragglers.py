"""A simulation of the workers of a plan: how the length of the spans changes the finishing time.

Recordings are divided and packed by the functions of `plan`. Simulated workers hold two tasks at a
time, as `work` does, and share their speed between them. They have different speeds, they die and
are replaced, and their leases expire. All times are in seconds.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, Literal, TypeAlias

from whisperbatch.jobs.leases import DURATION as LEASE
from whisperbatch.jobs.leases import RENEWALS
from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.plans.planning import divide, pack, span_duration
from whisperbatch.jobs.workers.worker import MAX_POLL, MAX_TASKS

Order: TypeAlias = Literal["longest first", "random"]
Work: TypeAlias = tuple[float, float]
"""A span: seconds of audio, and seconds of audio before it that are decoded and skipped."""

LONGEST: Final = 36 * 3600.0  # one recording of this length
MAX_RECORDING: Final = 6 * 3600.0  # of all others
MIN_RECORDING: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The workers.

    Attributes:
        workers: how many.
        rate: times real time of the median worker.
        spread: standard deviation of the logarithm of the speeds; 0 if all are equal.
        deaths: of a worker in an hour.
        replaced: seconds from a death until a new worker has loaded the model.
        lease: seconds.
        warned: share of the deaths with a signal, on which a worker gives up its leases.
        skipping: times real time at which audio before a span is decoded; 0 if it can be skipped.
        shards: number of shards for each worker, which a scheduler starts one after the other; 0 if
            workers take tasks by leases.
        loading: seconds until a worker that begins with a further shard has loaded the model.
    """

    workers: int = 200
    rate: float = 32.3
    spread: float = 0.3
    deaths: float = 0.0
    replaced: float = 300.0
    lease: float = LEASE
    warned: float = 0.0
    skipping: float = 0.0
    shards: int = 0
    loading: float = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulated job ended.

    Attributes:
        finished: seconds until all spans had results.
        ideal: seconds, if the audio could be divided without limit and no worker died.
        repeated: seconds of work that deaths destroyed, as a share of the work that was needed.
        waited: seconds in which living workers had no task, as a share of all.
    """

    finished: float
    ideal: float
    repeated: float
    waited: float

    @property
    def ratio(self) -> float:
        """The finishing time relative to the ideal."""
        return self.finished / self.ideal


def recordings(hours: float, median: float, spread: float, rng: Random) -> list[float]:
    """Return lengths of recordings: log-normal, and one of 36 hours.

    Args:
        hours: of all recordings; more than 36.
        median: seconds.
        spread: standard deviation of the logarithm.
        rng: source of random numbers.
    """
    lengths, left = [LONGEST], hours * 3600 - LONGEST
    while left > 0:
        length = median * rng.lognormvariate(0.0, spread)
        lengths.append(min(max(length, MIN_RECORDING), MAX_RECORDING, max(left, MIN_RECORDING)))
        left -= lengths[-1]
    return lengths


def planned_spans(lengths: Sequence[float], longest: float | None) -> Iterator[PlannedSpan]:
    """Yield the spans of recordings, as `plan` divides them.

    Args:
        lengths: of the recordings.
        longest: span; None if every recording is one span.
    """
    for number, length in enumerate(lengths):
        parts = divide(length, longest) if longest else ((0, None),)
        for first, last in parts:
            duration = span_duration(first, last, length)
            id_ = f"{number}-{first}"
            yield PlannedSpan(id_, f"{number}", "", "", first, last, duration)


def tasks_of(lengths: Sequence[float], longest: float | None, task: float) -> list[list[Work]]:
    """Return the tasks, the longest first.

    Args:
        lengths: of the recordings.
        longest: span; None if every recording is one span.
        task: seconds of audio of a task of short recordings.
    """
    groups = pack(planned_spans(lengths, longest), task)
    tasks = [[(span.duration, span.first * 300.0) for span in group] for group in groups]
    return sorted(tasks, key=lambda works: -sum(duration for duration, _ in works))


@dataclass(slots=True, eq=False)
class _Running:
    """A task that a worker holds: `left` is the rest of the span `index`, in seconds alone."""

    works: Sequence[Work]
    left: float
    total: float
    index: int = 0


@dataclass(slots=True, eq=False)
class _Shard:
    """Tasks that no worker holds; `interrupted` are what dead workers have left of theirs."""

    queue: list[Sequence[Work]]
    interrupted: list[Sequence[Work]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Worker:
    speed: float
    shard: _Shard
    running: list[_Running] = field(default_factory=list)
    since: float = 0.0  # when `left` of its tasks was true
    version: int = 0  # events of other versions are out of date
    alive: bool = True
    alone: bool = False  # it does a task of a dead worker, and nothing else
    idle_since: float | None = None


class Simulation:
    """A job on a cluster. Call `run` once.

    Args:
        tasks: the longest first.
        cluster: the workers.
        order: in which workers take the tasks.
        rng: source of random numbers.
    """

    def __init__(
        self, tasks: Sequence[Sequence[Work]], cluster: Cluster, order: Order, rng: Random
    ) -> None:
        self._cluster, self._rng = cluster, rng
        self._workers = [
            _Worker(cluster.rate * rng.lognormvariate(0.0, cluster.spread), _Shard([]))
            for _ in range(cluster.workers)
        ]
        self._left = sum(len(works) for works in tasks)
        self._audio = sum(duration for works in tasks for duration, _ in works)
        self._order = order
        count = cluster.workers * cluster.shards or 1
        self._shards = [_Shard([*tasks[number::count]]) for number in range(count)]
        for shard in self._shards:
            if order == "random":
                rng.shuffle(shard.queue)
        self._next_shard = 0
        for worker in self._workers:
            worker.shard = self._shards[self._next_shard]
            self._next_shard += bool(cluster.shards)
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._now = self._lost = self._waited = self._needed = 0.0

    def run(self) -> Outcome:
        """Return how the job ended."""
        for worker in self._workers:
            self._start(worker)
        while self._left:
            self._now, _, handle = heapq.heappop(self._events)
            handle()
        still = [self._now - at for w in self._workers if (at := w.idle_since) is not None]
        ideal = self._audio / sum(worker.speed for worker in self._workers)
        every = self._now * len(self._workers)
        return Outcome(
            self._now, ideal, self._lost / self._needed, (self._waited + sum(still)) / every
        )

    def _push(self, after: float, handle: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self._now + after, self._count, handle))

    def _start(self, worker: _Worker) -> None:
        worker.alive = True
        self._plan_death(worker)
        self._fill(worker)

    def _plan_death(self, worker: _Worker) -> None:
        if self._cluster.deaths:
            after = self._rng.expovariate(self._cluster.deaths / 3600)
            self._push(after, partial(self._die, worker))

    def _look(self, worker: _Worker) -> None:
        """Look for tasks again, after a time without any."""
        if worker.alive and not worker.running:
            self._fill(worker)

    def _seconds(self, worker: _Worker, work: Work) -> float:
        """Return how long a worker takes for a span, if it does nothing else."""
        duration, before = work
        skipping = before / self._cluster.skipping if self._cluster.skipping else 0.0
        return duration / worker.speed + skipping

    def _advance(self, worker: _Worker) -> None:
        """Share the time since the last event between the tasks of a worker."""
        if worker.running:
            share = (self._now - worker.since) / len(worker.running)
            for running in worker.running:
                running.left -= share
        worker.since = self._now

    def _fill(self, worker: _Worker) -> None:
        """Let a worker take tasks, and plan its next event."""
        self._advance(worker)
        while len(worker.running) < MAX_TASKS and not worker.alone:
            works = self._taken(worker)
            if works is None:
                break
            seconds = self._seconds(worker, works[0])
            worker.running.append(_Running(works, seconds, seconds))
        if worker.running:
            if worker.idle_since is not None:
                self._waited += self._now - worker.idle_since
                worker.idle_since = None
            worker.version += 1
            least = min(running.left for running in worker.running)
            after = max(least, 0.0) * len(worker.running)
            self._push(after, partial(self._end_span, worker, worker.version))
        elif worker.idle_since is None:
            worker.idle_since = self._now
            if self._cluster.shards and self._next_shard < len(self._shards):
                worker.shard = self._shards[self._next_shard]
                self._next_shard += 1
                self._push(self._cluster.loading, partial(self._look, worker))

    def _taken(self, worker: _Worker) -> Sequence[Work] | None:
        """Return the next task: one of the first by chance; interrupted tasks come last."""
        queue, interrupted = worker.shard.queue, worker.shard.interrupted
        if queue:
            held = 0
            if self._order == "longest first" and not self._cluster.shards:
                held = MAX_TASKS * len(self._workers)
            return queue.pop(self._rng.randrange(min(held + 1, len(queue))))
        if interrupted and not worker.running:
            worker.alone = True
            return interrupted.pop(0)
        return None

    def _end_span(self, worker: _Worker, version: int) -> None:
        """End the span that is ready, and go on with the next of its task."""
        if worker.version != version:
            return
        self._advance(worker)
        running = min(worker.running, key=lambda each: each.left)
        self._left -= 1
        self._needed += running.total
        running.index += 1
        if running.index < len(running.works):
            running.left = running.total = self._seconds(worker, running.works[running.index])
        else:
            worker.running.remove(running)
            worker.alone = False
        self._fill(worker)

    def _die(self, worker: _Worker) -> None:
        """Lose the spans that run; their tasks are free when their leases end."""
        self._advance(worker)
        warned = self._rng.random() < self._cluster.warned
        for running in worker.running:
            self._lost += running.total - running.left
            rest = running.works[running.index :]
            if self._cluster.shards:
                worker.shard.interrupted.append(rest)  # for the shard when it starts again
            else:
                oldest = self._cluster.lease * (1 - 1 / RENEWALS)
                after = 0.0 if warned else self._rng.uniform(oldest, self._cluster.lease)
                self._push(after, partial(self._free, rest))
        worker.running.clear()
        if worker.idle_since is not None:
            self._waited += self._now - worker.idle_since
        worker.idle_since = None
        worker.alive = worker.alone = False
        worker.version += 1
        self._push(self._cluster.replaced, partial(self._start, worker))

    def _free(self, works: Sequence[Work]) -> None:
        """Offer an interrupted task; a worker that waits looks for tasks now and then."""
        self._shards[0].interrupted.append(works)
        waiting = [w for w in self._workers if w.alive and w.idle_since is not None]
        if waiting:
            worker = self._rng.choice(waiting)
            self._push(self._rng.uniform(0, MAX_POLL), partial(self._look, worker))
