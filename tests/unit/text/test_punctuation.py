import pytest

from whisperbatch.text.sentences import ends_sentence, last_mark


@pytest.mark.parametrize(
    ("text", "mark", "ends"),
    [
        ("Yes.", ".", True),
        (' "Really?"', "?", True),
        ("はい。」", "。", True),
        ("well, ", ",", False),
        ("word", "d", False),
        ("»", "", False),
        ("", "", False),
    ],
)
def test_last_mark_before_closing_quotes_and_brackets(text: str, mark: str, ends: bool) -> None:
    assert last_mark(text) == mark
    assert ends_sentence(text) is ends
