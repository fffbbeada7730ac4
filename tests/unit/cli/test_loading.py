import logging
from collections.abc import Iterator

import pytest

from whisperbatch.cli.loading import loading_status

LOG = logging.getLogger("whisperbatch")


@pytest.fixture(autouse=True)
def _info_level() -> Iterator[None]:
    level = LOG.level
    LOG.setLevel(logging.INFO)
    yield
    LOG.setLevel(level)


def test_progress_records_replace_the_status_which_is_removed_at_the_end() -> None:
    shown: list[str] = []
    with loading_status("base", shown.append):
        logging.getLogger("whisperbatch.engines").info("compiling", extra={"progress": True})
        LOG.info("model base on cpu")  # not a progress record
    LOG.info("after the context", extra={"progress": True})
    assert shown == ["loading model base ...", "compiling", ""]


def test_the_status_is_removed_after_an_error() -> None:
    shown: list[str] = []
    with pytest.raises(RuntimeError), loading_status("base", shown.append):
        raise RuntimeError
    assert shown[-1] == ""
    assert not any(type(handler).__name__ == "_ProgressHandler" for handler in LOG.handlers)
