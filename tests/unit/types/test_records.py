"""Results are read as the dictionaries of other programs, and say what to write instead."""

import _thread
import asyncio
import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.counting_source import wait_until
from tests.unit.transcripts import COMPLETE, segment, segment_with_words
from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.options.hints import RESULT_NAMES
from whisperbatch.types import Segment, Transcript, Word, iterate, records
from whisperbatch.types.records import Explained
from whisperbatch.writers import FORMATS, render

TALK = Transcript(
    (segment_with_words("One two.", 0.5), segment_with_words("Three.", 9.0)), "en", 1.0, 12.0, "a"
)
DYNAMIC: Any = TALK  # names that a type checker refuses
PYTHONS = sorted(
    {
        Path(sys.executable),
        *(Path.home() / ".pyenv/versions").glob("3.1[0-9]*/bin/python"),
    }
)


def test_every_field_and_property_is_read_by_its_name() -> None:
    word = TALK.words[1]
    for item in (TALK, TALK.segments[0], word):
        readable: Any = item
        names = [name for name in item.keys() if name != "chunks"]  # noqa: SIM118 - no mapping
        assert {field.name for field in fields(item)} - {"chunks"} <= set(names)
        for name in names:
            assert readable[name] is not None or getattr(item, name) is None
            assert readable[name] == getattr(item, name)
            assert name in readable
        assert dict(readable) == {name: getattr(item, name) for name in names}
    assert TALK["text"] == "One two. Three."
    assert TALK["segments"][1]["start"] == 9.0
    assert TALK["segments"][0]["words"] == TALK.segments[0].words
    assert word["word"] == " two."
    assert (TALK["language"], TALK["source"], TALK["speakers"]) == ("en", "a", ())


@pytest.mark.parametrize(
    ("item", "name", "words"),
    [
        (DYNAMIC, "chunks", "write transcript.segments"),
        (DYNAMIC, "word_segments", "write transcript.words"),
        (DYNAMIC, "speach", "it has segments, language, "),
        (DYNAMIC, 3, "has no 3; write transcript.segments[3]"),
        (DYNAMIC, 1.5, "it has segments, "),
        (DYNAMIC, "chunks", "the attribute transcript.chunks is a number"),
        (DYNAMIC, "txt", "write transcript.text"),
        (DYNAMIC.segments[0], "tokens", "faster_whisper has them"),
        (DYNAMIC.segments[0], "begin", "it has id, start, end, text, "),
        (DYNAMIC.words[0], "score", "write word.probability"),
    ],
)
def test_an_unknown_name_gets_the_names_or_what_to_write(
    item: Any, name: object, words: str
) -> None:
    with pytest.raises(KeyError, match=f"{type(item).__name__} has no ") as caught:
        item[name]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_value_has_a_default() -> None:
    first = TALK.segments[0]
    assert first.get("speaker", "nobody") == "nobody"
    assert first.get("text", "nothing") == first.text
    with pytest.raises(KeyError, match="has no 'tokens'"):
        first.get("tokens", [])


def test_attributes_of_other_programs_say_what_to_write() -> None:
    classes = {"Transcript": TALK, "Segment": TALK.segments[0], "Word": TALK.words[0]}
    for kind, item in classes.items():
        for name, remedy in RESULT_NAMES[kind].items():
            if name in dir(item):
                continue
            with pytest.raises(AttributeError) as caught:
                getattr(item, name)
            assert str(caught.value) == f"{kind} has no attribute {name!r}; {remedy}"
    with pytest.raises(AttributeError, match=r"^Transcript has no attribute 'texts'$"):
        _ = DYNAMIC.texts
    assert not hasattr(TALK, "_repr_png_")


@pytest.mark.parametrize("name", ["to_json", "to_txt", "to_srt", "to_vtt"])
def test_a_method_that_returns_text_says_what_writes_a_file(name: str) -> None:
    message = rf"^{name}\(\) returns the text and takes no path; write transcript.save\('r.srt'\)$"
    with pytest.raises(TypeError, match=message):
        getattr(TALK, name)("r.srt")
    assert getattr(TALK, name)() == getattr(TALK, name)()


class SegmentStream(Explained):
    """Has the hints of the class with this name."""


def test_objects_without_keys_say_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"^SegmentStream has no keys; a stream yields segments"):
        SegmentStream()["text"]  # type: ignore[index]
    with pytest.raises(TypeError, match=r"^SegmentStream has no keys$"):
        SegmentStream()[0]  # type: ignore[index]


def test_results_cannot_be_changed() -> None:
    for item in (TALK, TALK.segments[0], TALK.words[0]):
        for name in ("text", "start", "speakers", "other"):
            with pytest.raises(FrozenInstanceError, match=f"{name} cannot be changed"):
                setattr(item, name, "x")
        with pytest.raises(FrozenInstanceError):
            del item.source  # type: ignore[union-attr]
    assert replace(TALK, language="fr").language == "fr"


def test_results_stay_dataclasses() -> None:
    def stored(item: Any) -> Any:
        return pickle.loads(pickle.dumps(item))  # noqa: S301 - our own

    for make in (copy.copy, copy.deepcopy, stored):
        for item in (COMPLETE, TALK, *TALK.segments, *TALK.words):
            assert make(item) == item
    assert hash(TALK) == hash(replace(TALK))
    assert {TALK: 1}[replace(TALK)] == 1


def test_a_transcript_is_the_sequence_of_its_segments() -> None:
    assert list(TALK) == list(TALK.segments)
    assert [each.text for each in TALK] == ["One two.", "Three."]
    assert len(TALK) == 2
    assert (*TALK,) == TALK.segments
    assert TALK.segments[1] in TALK
    assert segment("Other.") not in TALK
    assert "text" in TALK
    assert "chunks" not in TALK
    silence = Transcript((), None, 0.0, 1.0, "a")
    assert (len(silence), list(silence), bool(silence)) == (0, [], True)


@pytest.mark.parametrize(
    ("texts", "ending"),
    [
        (("Yes.",), "'Yes.')"),
        (("Yes.", "No.", "So."), "'Yes. No. So.')"),
        (("Yes.", "No.", "So.", "Well."), "'Yes. No. So. ...')"),
        (("A sentence of more than forty characters.",), "...')"),
    ],
)
def test_the_repr_shows_that_text_is_left_out(texts: tuple[str, ...], ending: str) -> None:
    segments = tuple(segment(text) for text in texts)
    assert repr(Transcript(segments, "en", 1.0, 3.0, "a.wav")).endswith(ending)


def test_words_are_those_of_all_segments() -> None:
    assert [word.word for word in TALK.words] == ["One", " two.", "Three."]
    assert Transcript((segment("No words."),), "en", 1.0, 1.0, "a").words == ()


def unpacks_two() -> None:
    _segments, _info = TALK


def unpacks_three() -> None:
    _a, _b, _c = TALK


def unpacks_the_rest() -> None:
    _first, *_rest = TALK


def unpacks_in_a_loop() -> None:
    for _a, _b in [TALK]:
        pass


@pytest.mark.parametrize(
    "unpack", [unpacks_two, unpacks_three, unpacks_the_rest, unpacks_in_a_loop]
)
def test_a_transcript_is_not_unpacked(unpack: Callable[[], None]) -> None:
    """A transcript of two segments would fit `segments, info = ...`, and both would be wrong."""
    for _ in range(20):  # Python specialises instructions that were executed
        with pytest.raises(TypeError, match=r"cannot be unpacked; write .*faster_whisper$"):
            unpack()
    first, *rest = list(TALK)
    assert [first, *rest] == list(TALK)


CALLS = f"""
import dis, sys
from opcode import opmap
UNPACKING = frozenset({{opmap["UNPACK_SEQUENCE"], opmap["UNPACK_EX"]}})
{inspect.getsource(records.refuse_unpacking)}
{inspect.getsource(records._start_of)}
{inspect.getsource(records._unpacked)}
def decorated(function):
    return lambda *arguments, **keywords: function(*arguments, **keywords)
@decorated
def transcribe(*_, **__):
    refuse_unpacking("transcribe", "a Two")
    return 1, 2
class Model:
    transcribe = staticmethod(transcribe)
model, keys = Model(), {{"beam_size": 5}}
def refused(code):
    names = dict(globals())
    exec("def function():\\n    " + code, names)
    answers = set()
    for _ in range(100):
        try:
            names["function"]()
            answers.add(False)
        except TypeError:
            answers.add(True)
    return answers
unpacked = (
    "a, b = model.transcribe('a.wav')",
    "a, b = model.transcribe('a.wav', vad=(1, 2), **keys)",
    "a, *b = transcribe(open)",
    "(a, b), c = Model().transcribe(*[1], str(3)), 4; a, b = transcribe()",
    "a, b = transcribe('a' if keys else 'b', **{{**keys}})",
)
used = (
    "result = model.transcribe('a.wav'); a, b = result",
    "a, b = list(map(model.transcribe, 'ab'))",
    "a, b = [model.transcribe(name) for name in 'ab']",
    "a, b = map(transcribe, 'ab')",
    "a, b = tuple(each['x'] for each in [{{'x': transcribe(1)}}, {{'x': transcribe(2)}}])",
    "a, b = transcribe(1), transcribe(2)",
    "a, b = dict(x=transcribe(1), y=2)",
    "return transcribe()",
)
expected = [{{sys.version_info >= (3, 11)}}] * len(unpacked), [{{False}}] * len(used)
answers = [refused(code) for code in unpacked], [refused(code) for code in used]
assert answers == expected, answers
sys.settrace(lambda *_: None)
answers = [refused(code) for code in unpacked], [refused(code) for code in used]
assert answers == expected, answers
"""


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_a_call_whose_result_is_unpacked_is_seen_by_each_version_of_python(python: Path) -> None:
    """Otherwise the error comes after hours of decoding, and the transcript is lost."""
    result = subprocess.run(
        [python, "-c", f"from __future__ import annotations\n{CALLS}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_thread_without_python_code_iterates() -> None:
    found: list[Segment] = []
    _thread.start_new_thread(found.extend, (TALK,))
    wait_until(lambda: len(found) == 2)


PROGRAM = f"""
import sys
from opcode import opmap
UNPACKING = frozenset({{opmap["UNPACK_SEQUENCE"], opmap["UNPACK_EX"]}})
{inspect.getsource(iterate)}
{inspect.getsource(records._unpacked)}
{inspect.getsource(records._caller_unpacks)}
class Two:
    def __iter__(self):
        return iterate((1, 2), "a Two")
def refused(code):
    function = eval(f"lambda: [0 for {{code}}]")
    answers = set()
    for _ in range(100):
        try:
            function()
            answers.add(False)
        except TypeError:
            answers.add(True)
    return answers
def all_answers():
    unpacked = "a, b in [Two()]", "a, *b in [Two()]", "[a] in [Two()]", "a, b, c in [Two()]"
    read = "a in Two()", "a in [*Two()]", "a in list(Two())", "a in map(str, Two())"
    return [refused(code) for code in unpacked], [refused(code) for code in read]
expected = [{{True}}] * 4, [{{False}}] * 4
assert all_answers() == expected, all_answers()
sys.settrace(lambda *_: None)
assert all_answers() == expected, all_answers()
"""


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_unpacking_is_seen_by_each_version_of_python(python: Path) -> None:
    header = "from __future__ import annotations\nimport typing\nT = typing.TypeVar('T')\n"
    result = subprocess.run(
        [python, "-c", header + PROGRAM], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_files_are_those_of_the_writers(tmp_path: Path) -> None:
    assert TALK.to_srt() == render(TALK, "srt")
    assert TALK.to_vtt(max_line_width=20) == render(TALK, "vtt", max_line_width=20)
    assert TALK.to_vtt(max_line_width=3) != TALK.to_vtt()
    assert TALK.to_json() == render(TALK, "json")
    assert TALK.to_txt() == "One two.\nThree.\n"
    for name in set(FORMATS) - {"rttm"}:
        path = TALK.save(tmp_path / f"talk.{name}")
        assert path.read_text(encoding="utf-8") == render(TALK, name)
    assert TALK.save(tmp_path / "other", "srt").read_text() == TALK.to_srt()


def test_wrong_options_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="max_lin_width is not an option of files; did you mean"):
        TALK.to_srt(max_lin_width=3)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="spreadsheet_safe has no effect on srt"):
        TALK.save(tmp_path / "a.srt", spreadsheet_safe=False)
    with pytest.raises(OptionError, match="max_line_width has no effect on json"):
        TALK.save(tmp_path / "a.json", max_line_width=3)
    with pytest.raises(OptionError, match=r"the suffix of path=.* is not a format"):
        TALK.save(tmp_path / "a.docx")
    assert list(tmp_path.iterdir()) == []


class Frame:
    """Stands for `pandas.DataFrame`."""

    def __init__(self, rows: list[list[object]], columns: list[str]) -> None:
        self.rows, self.columns = rows, columns


def test_tables_of_pandas_have_the_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = type(sys)("pandas")
    module.DataFrame = Frame
    monkeypatch.setitem(sys.modules, "pandas", module)
    segments, words = TALK.to_pandas(), TALK.to_pandas(words=True)
    assert segments.columns == [f.name for f in fields(Segment) if f.name != "words"]
    assert words.columns == [f.name for f in fields(Word)]
    assert [row[3] for row in segments.rows] == ["One two.", "Three."]
    assert [row[2] for row in words.rows] == ["One", " two.", "Three."]


def test_without_pandas_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"to_pandas needs pandas .*: pip install pandas"):
        TALK.to_pandas()


@pytest.mark.parametrize("words", [False, True])
def test_pandas_reads_a_transcript(*, words: bool) -> None:
    pytest.importorskip("pandas")
    frame = TALK.to_pandas(words=words)
    assert list(frame["start"]) == [item.start for item in (TALK.words if words else TALK)]


def test_a_needless_await_says_what_to_write() -> None:
    async def use() -> object:
        return await DYNAMIC

    with pytest.warns(RuntimeWarning, match=r"write await asr\.submit\(\.\.\.\)") as caught:
        assert asyncio.run(use()) is TALK
    assert [Path(each.filename).name for each in caught] == ["test_records.py"]
