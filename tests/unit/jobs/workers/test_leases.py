import secrets
from collections.abc import Callable

import pytest

from whisperbatch.errors import WriteError
from whisperbatch.jobs.leases import RENEWALS, HeldLeases, Lease, Leases
from whisperbatch.jobs.plans.format import PlannedSpan, Task
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import Results, SpanResult
from whisperbatch.jobs.workers.tasks import ClaimedTask, TaskQueue


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> Store:
    return Store(f"memory://{secrets.token_hex()}")


@pytest.fixture
def worker(store: Store, clock: Clock) -> Callable[..., Leases]:
    def leases(name: str, group: str = "") -> Leases:
        return Leases(store, name, group=group, duration=600.0, clock=clock)

    return leases


def tasks(count: int, spans: int = 2) -> list[Task]:
    return [
        Task(
            f"t{number}",
            tuple(
                PlannedSpan(f"s{number}{index}", "r", "a.mp3", "v", 0, None, 60.0)
                for index in range(spans)
            ),
        )
        for number in range(count)
    ]


def finish(results: Results, *spans: str) -> None:
    for span in spans:
        results.create(
            SpanResult(id=span, uri="a.mp3", worker="w", engine="e", started=0.0, finished=1.0)
        )


def test_one_worker_gets_a_task(worker: Callable[..., Leases]) -> None:
    one, two = worker("one"), worker("two")
    lease = one.acquire("t0")
    assert lease
    assert lease.expires == 1600.0
    assert two.acquire("t0") is None
    assert two.generations() == {"t0": 0}
    assert two.read("t0", 0) == lease
    assert two.is_held(lease)


def test_a_lease_that_is_not_extended_expires(worker: Callable[..., Leases], clock: Clock) -> None:
    one, two, three = worker("one"), worker("two"), worker("three")
    lease = one.acquire("t0")
    assert lease
    clock.now += 500
    extended = one.renew(lease)
    assert extended
    clock.now += 500
    assert two.is_held(extended)
    clock.now += 101
    assert not two.is_held(extended)
    taken = two.acquire("t0", extended)
    assert taken
    assert taken.generation == 1
    assert three.acquire("t0", extended) is None  # it was a little slower
    assert one.renew(extended) is None  # the first worker was asleep, and sees it


@pytest.mark.parametrize(("ahead", "held"), [(479.0, True), (481.0, False)])
def test_clocks_may_differ_by_four_fifths_of_a_lease(
    store: Store, worker: Callable[..., Leases], clock: Clock, ahead: float, *, held: bool
) -> None:
    lease = worker("one").acquire("t0")
    assert lease
    clock.now += 600.0 / RENEWALS  # it is extended now
    other = Leases(store, "other", duration=600.0, clock=lambda: clock.now + ahead)
    assert other.is_held(lease) == held


def test_a_task_that_was_given_up_is_free_at_once(worker: Callable[..., Leases]) -> None:
    lease = worker("one").acquire("t0")
    assert lease
    worker("one").give_up(lease)
    left = worker("two").read("t0", 0)
    assert left
    assert not worker("two").is_held(left)
    taken = worker("two").acquire("t0", left)
    assert taken
    worker("two").finish(taken)
    assert worker("two").generations() == {}


def test_a_shard_that_starts_again_takes_its_leases(worker: Callable[..., Leases]) -> None:
    lease = worker("one", "shard 0/2").acquire("t0")
    assert lease
    assert not worker("two", "shard 0/2").is_held(lease)
    assert worker("three", "shard 1/2").is_held(lease)


def test_a_lost_task_is_not_taken_back_from_the_same_group(worker: Callable[..., Leases]) -> None:
    one, two = worker("one", "ray"), worker("two", "ray")
    first = one.acquire("t0")
    second = two.acquire("t0", first)
    assert first
    assert second
    assert one.renew(first) is None
    assert one.is_held(second)
    assert not worker("three", "ray").is_held(second)
    two.give_up(second)
    given_up = one.read("t0", second.generation)
    assert given_up
    assert not one.is_held(given_up)


def test_a_task_that_another_worker_finished_meanwhile_is_not_held(
    worker: Callable[..., Leases],
) -> None:
    held = HeldLeases(worker("one"))
    assert held.claim("t0", None, lambda: None) is None
    assert held.count() == 0
    assert worker("two").generations() == {}


def test_an_error_of_the_store_after_the_lease_leaves_the_task(
    store: Store, worker: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, span: str) -> bool:
        raise WriteError(f"{span}: the store does not answer")

    queue = TaskQueue(tasks(1), worker("one"), Results(store))
    with monkeypatch.context() as patch:
        patch.setattr(Results, "exists", fail)
        with pytest.raises(WriteError, match="does not answer"):
            queue.claim()
    assert TaskQueue(tasks(1), worker("two"), Results(store)).claim()


def test_a_lease_that_is_created_during_a_stop_is_given_up(store: Store, clock: Clock) -> None:
    class Slow(Leases):
        def acquire(self, task: str, before: Lease | None = None) -> Lease | None:
            held.give_up_all()  # as a signal handler
            return super().acquire(task, before)

    held = HeldLeases(Slow(store, "one", clock=clock))
    assert not held.acquire("t0")
    other = Leases(store, "two", clock=clock)
    left = other.read("t0", 0)
    assert left
    assert not other.is_held(left)
    assert not held.acquire("t1")


def test_deaths_at_a_span_are_counted(worker: Callable[..., Leases], clock: Clock) -> None:
    leases = worker("one")
    for deaths in range(4):
        generations = leases.generations()
        before = leases.read("t0", generations["t0"]) if generations else None
        held = HeldLeases(leases)
        assert held.acquire("t0", before)
        lease = held.get("t0")
        assert lease
        assert lease.attempts == ({"s00": deaths - 1} if deaths > 1 else {})
        if deaths:  # the first death happens while several spans run
            held.note_alone("t0", "s00")
        clock.now += 601


def test_a_queue_gives_every_task_once(store: Store, worker: Callable[..., Leases]) -> None:
    results = Results(store)
    queues = [TaskQueue(tasks(20), worker(str(number)), results) for number in range(3)]
    claims: list[ClaimedTask] = []
    while found := [claim for queue in queues if (claim := queue.claim())]:
        claims += found
    assert sorted(claim.task.id for claim in claims) == sorted(task.id for task in tasks(20))
    assert all(len(claim.remaining) == 2 and not claim.alone for claim in claims)
    assert not any(queue.has_ended() for queue in queues)  # the others may die


def test_finished_spans_are_not_transcribed_again(
    store: Store, worker: Callable[..., Leases], clock: Clock
) -> None:
    results = Results(store)
    finish(results, "s00", "s01", "s10")
    queue = TaskQueue(tasks(3), worker("one"), results)
    claims = {claim.task.id: claim for claim in (queue.claim(), queue.claim()) if claim}
    assert claims.keys() == {"t1", "t2"}
    assert [span.id for span in claims["t1"].remaining] == ["s11"]
    assert queue.claim() is None
    finish(results, "s20")
    clock.now += 601  # the worker died after it wrote this result
    other = TaskQueue(tasks(3), worker("two"), results)
    spans = {span.id for _ in range(2) if (c := other.claim()) for span in c.remaining if c.alone}
    assert spans == {"s11", "s21"}


def test_tasks_that_others_finished_are_noticed(
    store: Store, worker: Callable[..., Leases]
) -> None:
    results = Results(store)
    queue = TaskQueue(tasks(4), worker("one"), results)
    finish(results, *(f"s{number}{index}" for number in range(4) for index in range(2)))
    assert queue.claim() is None
    assert queue.has_ended()
    assert worker("two").generations() == {}


def test_leases_of_a_worker_that_died_after_its_last_result_are_deleted(
    store: Store, worker: Callable[..., Leases]
) -> None:
    results, dead = Results(store), worker("dead")
    before = dead.acquire("t0")
    assert dead.acquire("t0", before)
    assert dead.acquire("t1")
    finish(results, "s00", "s01", "s10")
    TaskQueue(tasks(2), worker("one"), results)
    assert dead.generations() == {"t1": 0}  # t1 has a span without a result


def test_a_task_that_this_worker_left_is_not_taken_again(
    store: Store, worker: Callable[..., Leases]
) -> None:
    queue = TaskQueue(tasks(1), worker("one"), Results(store))
    claim = queue.claim()
    assert claim
    claim.error = "the store does not answer"
    queue.end(claim)
    assert queue.claim() is None
    assert queue.has_ended()
    assert TaskQueue(tasks(1), worker("two"), Results(store)).claim()
