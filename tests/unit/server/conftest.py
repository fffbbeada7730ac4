"""Every temporary file of a test is closed at its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from whisperbatch.server.uploads import Spool


@pytest.fixture(autouse=True)
def closed_spools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    spools: list[Spool] = []
    initialize = Spool.__init__

    def noted(self: Spool, name: str, directory: Path | None = None) -> None:
        initialize(self, name, directory)
        spools.append(self)

    monkeypatch.setattr(Spool, "__init__", noted)
    yield
    for spool in spools:
        spool.close()
