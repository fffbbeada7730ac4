import os

import pytest

from whisperbatch.jobs.names import MAX_NAME, name_of_url, output_name


def size(name: str) -> int:
    return len(os.fsencode(name))


@pytest.mark.parametrize("character", ["z", "é", "日", "👍", "\udce9"])
@pytest.mark.parametrize("suffix", [".srt", ".json", ".timeline.html"])
def test_a_name_is_shortened_only_if_it_is_too_long_in_bytes(character: str, suffix: str) -> None:
    for count in range(240 // size(character), 300 // size(character)):
        name = character * count
        shortened = output_name(name, suffix)
        fits = size(name + suffix) <= MAX_NAME
        assert (shortened == name + suffix) == fits
        assert shortened.endswith(suffix)
        assert MAX_NAME - size(character) < size(shortened) <= MAX_NAME or fits


def test_a_shortened_name_is_the_same_on_every_machine() -> None:
    assert output_name("z" * 251, ".json") == "z" * 233 + "~76279e70cc8f57dd.json"
    assert output_name("日" * 90, ".srt") == "日" * 78 + "~6d03724a655031cf.srt"


def test_long_names_with_the_same_start_stay_different() -> None:
    names = ["z" * 252, "z" * 253, "z" * 252 + "é", "z" * 252 + "e\u0301", "z" * 251 + "Z"]
    assert len({output_name(name, ".json").casefold() for name in names}) == len(names)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/talks/a%20b.mp3?x=1", "a b.mp3"),
        ("https://example.org/", "example.org"),
        ("https://example.org/..%2F..%2Fetc%2Fx.mp3", ".._.._etc_x.mp3"),
        ("https://example.org/a%00%0Ab.mp3", "a_b.mp3"),
        ("https://example.org/%2e%2e", "recording"),
        ("https://example.org/.", "example.org"),
        ("http://[bad/x.mp3", "recording"),
        ("s3://talks/über #1 100%.wav", "über #1 100%.wav"),
        ("memory://talks/日本 %41?.mp3", "日本 %41?.mp3"),
        ("gs://talks/a/b%2Fc::d.wav", "b%2Fc::d.wav"),
        ("s3://talks/..", "recording"),
        ("s3://talks/a\x00\\b.wav", "a_b.wav"),
        ("az://talks/a.wav?sig=9f2c3e4d", "a.wav?"),
    ],
)
def test_the_name_of_a_url_is_a_file_name(url: str, name: str) -> None:
    assert name_of_url(url) == name
