import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled networks are not written into the user's cache."""
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
