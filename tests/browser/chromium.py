"""Chromium, whose microphone plays a file, and what the tests look at on the page.

A test file that imports this module is skipped without Chromium and Playwright: `make browser`
installs Playwright.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
if CHROMIUM is None:
    pytest.skip("Chromium is not installed", allow_module_level=True)

PICTURES: Final = os.environ.get("WHISPERBATCH_PICTURES")  # a folder for the pictures of the page
FLAGS: Final = (
    *("--headless=new", "--no-sandbox", "--autoplay-policy=no-user-gesture-required"),
    *("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"),
    "--host-resolver-rules=MAP speech.internal 127.0.0.1",
)
LATE: Final = 60_000  # ms, on a busy machine


@contextmanager
def chromium(microphone: Path) -> Iterator[Any]:
    """Start a browser whose microphone plays a WAV file from its start, again and again."""
    flags = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@contextmanager
def window(browser: Any, width: int = 960, height: int = 720) -> Iterator[Any]:
    """Open a window, which must have no error on its console."""
    opened = browser.new_page(viewport={"width": width, "height": height}, locale="en-GB")
    opened.set_default_timeout(LATE)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda line: errors.append(line.text) if "Policy" in line.text else None)
    yield opened
    opened.close()
    assert errors == []


def state(page: Any, wanted: str) -> None:
    page.wait_for_selector(f"body[data-state={wanted}]")


def text_of(page: Any) -> str:
    return " ".join(page.locator("#transcript .words").all_inner_texts())


def wait_for_text(page: Any, text: str) -> None:
    sync_api.expect(page.locator("#transcript")).to_contain_text(text, timeout=LATE)


def message(page: Any, part: str) -> str:
    sync_api.expect(page.locator("#message")).to_contain_text(part, timeout=LATE)
    return str(page.locator("#message").inner_text())


def stop(page: Any) -> None:
    page.locator("#record").click()
    state(page, "done")


def downloaded(page: Any, form: str) -> str:
    with page.expect_download() as found:
        page.locator(f"[data-format={form}]").click()
    assert found.value.suggested_filename.endswith(f".{form}")
    return str(Path(found.value.path()).read_text(encoding="utf-8"))


def picture(page: Any, name: str) -> None:
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/{name}.png")


def fits(page: Any) -> bool:
    """Whether nothing is wider than the window, and no text of a button has two lines."""
    wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = page.evaluate(
        "[...document.querySelectorAll('button')].map((b) => b.offsetHeight).filter(Boolean)"
    )
    return bool(wide) and max(heights) <= 80
