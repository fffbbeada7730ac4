"""Transcripts with strange text and values: files stay harmless, and errors name the field."""

import csv
import dataclasses
import io
import re
import unicodedata
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.property.random_transcripts import diarized_transcripts, fewer_examples
from whisperbatch.errors import OptionError, WriteError
from whisperbatch.types import Transcript
from whisperbatch.writers import FORMATS, render

BIDIRECTIONAL_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@fewer_examples
@given(diarized_transcripts(), st.sampled_from(FORMATS))
def test_no_file_contains_controls_that_reorder_text(
    transcript: Transcript,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    text = render(transcript, format)
    assert BIDIRECTIONAL_CONTROLS.search(text) is None
    assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text)


@fewer_examples
@given(diarized_transcripts())
def test_no_cell_is_a_formula(transcript: Transcript) -> None:
    _, *table = csv.reader(io.StringIO(render(transcript, "csv"), newline=""))
    cells = [cell for *_, text, speaker in table for cell in (text, speaker)]
    rows = render(transcript, "tsv").split("\n")[1:-1]
    cells += [cell for row in rows for cell in row.split("\t")[2:]]
    for cell in cells:
        characters = [c for c in cell if unicodedata.category(c) != "Cf" and not c.isspace()]
        assert not characters or unicodedata.normalize("NFKC", characters[0]) not in "=+-@"


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from((10**400, -(10**5000), b"bytes", {}, object())),
    st.floats(),
    st.text(max_size=3),
    st.tuples(st.text(max_size=3)),
)


@settings(fewer_examples, max_examples=up_to(400))
@given(diarized_transcripts(with_words=True), st.data(), st.sampled_from(FORMATS))
def test_any_value_in_any_field_is_written_or_refused_by_name(
    transcript: Transcript,
    data: st.DataObject,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    """Replaces a field of the transcript, of a segment or of a word."""

    def changed(owner: Any, name: str = "") -> tuple[Any, str]:
        if isinstance(owner, str):  # one of `other_speakers`
            return data.draw(STRANGE), name.removesuffix(".")
        field = data.draw(st.sampled_from([field.name for field in dataclasses.fields(owner)]))
        members = getattr(owner, field)
        full_name = f"{name}{field}"
        if dataclasses.is_dataclass(members) and data.draw(st.booleans()):
            member, full_name = changed(members, f"{full_name}.")
            return dataclasses.replace(owner, **{field: member}), full_name
        if isinstance(members, tuple) and members and data.draw(st.booleans()):
            number = data.draw(st.integers(0, len(members) - 1))
            member, full_name = changed(members[number], f"{full_name}[{number}].")
            value: Any = (*members[:number], member, *members[number + 1 :])
        else:
            value = data.draw(STRANGE)
        return dataclasses.replace(owner, **{field: value}), full_name

    strange, name = changed(transcript)
    message = name
    try:
        render(strange, format).encode()
    except WriteError as error:
        message = str(error)
    except OptionError:
        assert (format, name) == ("rttm", "diarization")
    assert message.startswith(name)
    assert "\n" not in message
