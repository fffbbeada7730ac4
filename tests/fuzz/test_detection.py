"""The fuzz program finds every kind of failure, and its cases can be repeated."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import av
import pytest

import whisperbatch as wb
from tests.fuzz import driver, report
from tests.fuzz.broken_cases import FAULTS
from tests.fuzz.cases import Case, Failure, Record
from tests.fuzz.inputs import mutations
from tests.fuzz.inputs import option_values as values
from tests.fuzz.inputs.containers import CONTAINERS, VIDEO, build, speech
from tests.fuzz.verdicts import check_transcript, judge
from tests.unit.media_files import encode, read
from tests.unit.transcripts import segment, transcript

BROKEN = driver.Settings("tests.fuzz.broken_cases:run", limit=2, workers=2)


def broken_case(number: int) -> Case:
    return Case(0, "file", number)


def random(seed: int = 0) -> Random:
    return Random(seed)  # noqa: S311 - not a secret


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Every fault, each between cases without fault."""
    numbers = [n for fault in range(len(FAULTS)) for n in (100 + fault, fault, 200 + fault)]
    return driver.run([broken_case(number) for number in numbers], BROKEN)


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=list(FAULTS))
def test_a_fault_fails_its_case_and_no_other(records: list[Record], number: int) -> None:
    before, fault, after = records[3 * number : 3 * number + 3]
    assert fault.failed
    assert list(FAULTS)[number] in fault.message
    assert fault.notes == (f"fault {number}",)
    assert (before.verdict, after.verdict) == ("transcript", "transcript")


def test_a_hang_shows_where_each_thread_is(records: list[Record]) -> None:
    hang = next(record for record in records if record.verdict == "hang")
    assert "broken_cases.py" in hang.message


def test_a_run_with_a_failure_fails(records: list[Record]) -> None:
    assert report.failed(records)
    assert not report.failed([record for record in records if not record.failed])


@pytest.mark.parametrize(("each", "fails"), [(0.5, True), (0.01, False)])
def test_growing_memory_fails_a_run(*, each: float, fails: bool) -> None:
    records = [
        Record(f"file-{n}", "transcript", memory=300 + n * each + n % 7, process=1)
        for n in range(2000)
    ]
    assert report.growth(records) == pytest.approx(1000 * each, abs=2)
    assert report.failed(records) is fails


@pytest.mark.parametrize(("each", "fails"), [(20, True), (1, False)])
def test_memory_that_models_leave_behind_fails_a_run(*, each: float, fails: bool) -> None:
    records = [
        Record(f"option-{n}", "transcript", memory=300 + n // 8 * each, process=1)
        for n in range(400)
    ]
    for record in records[::8]:
        record.frees_model = True
    assert report.growth_of_loading(records) == pytest.approx(each, rel=0.1)
    assert report.failed(records) is fails
    assert not report.failed(records[:80])  # too few models


def test_models_that_are_loaded_late_are_no_growth() -> None:
    records = [
        Record(
            f"file-{n}",
            "transcript",
            memory=300 + 500 * (n >= 1600),
            loading=500 * (n == 1600),
            process=1,
        )
        for n in range(2000)
    ]
    assert report.growth(records) == pytest.approx(0, abs=1)


def test_a_case_depends_only_on_seed_kind_and_number() -> None:
    case = Case.named(3, "option-14")
    assert case == Case(3, "option", 14)
    numbers = case.random().random()
    assert numbers == Case(3, "option", 14).random().random()
    others = (Case(4, "option", 14), Case(3, "file", 14), Case(3, "option", 15))
    assert numbers not in [other.random().random() for other in others]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(20, 200, 20))]
)
def test_the_media_of_a_case_are_the_same_each_time(seed: int) -> None:
    for number in range(seed, seed + 20):
        first, second = build(random(number)), build(random(number))
        assert first.text == second.text
        assert first.content == second.content, first.text


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_codec_of_a_container_can_be_encoded_and_read(container: str) -> None:
    for codec in CONTAINERS[container]:
        for rate, layout in zip(codec.rates[::8], codec.layouts[::7], strict=False):
            planes = [speech(random(), 1.0, rate)] * av.AudioLayout(layout).nb_channels
            media = encode(
                planes, container, codec.name, rate=rate, layout=layout, options=codec.options
            )
            assert len(read(media)) == pytest.approx(16_000, rel=0.15)
        for video in VIDEO.get(container, ()):
            assert encode(planes, container, codec.name, rate=rate, layout=layout, video=video)


@pytest.mark.parametrize("mutation", [mutation for mutation, _ in mutations.MUTATIONS])
def test_a_mutation_changes_a_file(mutation: mutations.Mutation) -> None:
    content = bytes(range(256)) * 20
    changed = [mutation(content, random(seed), lambda: b"other" * 100) for seed in range(20)]
    assert sum(result != content for result in changed) > 10


@pytest.mark.parametrize("mutation", [mutation for mutation, _ in mutations.MUTATIONS])
def test_a_mutation_accepts_short_files(mutation: mutations.Mutation) -> None:
    for content in (b"", b"a", b"abc"):
        mutation(content, random(), lambda: b"")


@pytest.mark.parametrize(
    "declared",
    [*values.options().values(), *values.settings().values()],
    ids=lambda declared: declared.name,
)
def test_each_option_gets_valid_and_wrong_values(declared: values.Declared) -> None:
    generator = random()
    texts = [values.value(declared, generator)[1] for _ in range(60)]
    for kind in ("valid", "boundary", "extreme", "wrong"):
        assert any(text.endswith(f"({kind})") for text in texts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"duration": math.nan},
        {"duration": 0.5},
        {"language": "xx"},
        {"language_probability": 2.0},
        {"segments": (segment("b", 1.0, 2.0), segment("a", 0.0, 1.0, id=1))},
        {"segments": (segment("a", 1.0, 0.5),)},
        {"segments": (segment(" "),)},
        {"segments": (replace(segment("a"), avg_logprob=math.inf),)},
        {"segments": (segment("a", words=[wb.Word(0, 99, " a", 0.5)]),)},
        {"omissions": (wb.Omission(0, math.inf, "", "missed", 1),)},
    ],
)
def test_a_wrong_transcript_is_a_failure(wrong: dict[str, Any]) -> None:
    good = transcript(segment("a"))
    assert check_transcript(good).verdict == "transcript"
    with pytest.raises(Failure):
        check_transcript(replace(good, **wrong))


def test_errors_of_the_source_may_pass_unless_they_are_exceptions() -> None:
    own = KeyboardInterrupt()
    assert judge(own, [own], ()).verdict == "the source's own exception"
    error = KeyError("x")
    with pytest.raises(Failure, match="KeyError"):
        judge(error, [error], ())


def test_an_option_error_names_an_option_of_the_call() -> None:
    assert judge(wb.OptionError("seed=-1 is wrong"), (), {"seed": -1}).verdict == "OptionError"
    with pytest.raises(Failure, match="names no option"):
        judge(wb.OptionError("the value is wrong"), (), {"seed": -1})
