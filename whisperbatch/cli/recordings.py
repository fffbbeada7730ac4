"""The recordings that the arguments of a command name."""

from collections.abc import Collection, Iterable

from whisperbatch.errors import AudioError, OptionError
from whisperbatch.jobs import InputFile, find_inputs


def find_recordings(
    inputs: Iterable[str], output_suffixes: Collection[str] = ()
) -> tuple[tuple[InputFile, ...], tuple[AudioError, ...]]:
    """Return the recordings, and the errors of the folders that cannot be searched.

    Args:
        inputs: files, directories, patterns, URLs, "-".
        output_suffixes: see `find_inputs`.

    Raises:
        AudioError: there are no recordings, and a folder cannot be searched.
        OptionError: there are no recordings.
    """
    names = tuple(inputs)
    errors: list[AudioError] = []
    files = tuple(find_inputs(names, output_suffixes, on_error=errors.append))
    if not files:
        raise errors[0] if errors else OptionError(f"no recordings in {', '.join(names)}")
    return files, tuple(errors)
