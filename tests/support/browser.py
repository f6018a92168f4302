"""Headless Chromium with a microphone that plays a clip, and what a test asks of a page."""

import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loadtests.wav import Clip
from tests.support.clips import at, join, silence

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 30_000
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    # A browser leaves loopback out of its candidates; a machine without a network has nothing else.
    "--allow-loopback-in-peer-connection",
)
FAKE_MICROPHONE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
LEAD_S = 3
"""The microphone plays as soon as it is opened: the call is set up in the silence before the words."""

# Kept from the page's own code, so that a test can ask the browser what it sent and received.
KEEP_CONNECTION = """
const Real = RTCPeerConnection;
window.RTCPeerConnection = function (...args) { return (window.connection = new Real(...args)); };
"""


@contextmanager
def browser(*flags: str, executable: Path = CHROMIUM) -> Iterator[Any]:
    """A Chromium of its own. Skips where there is none. `executable` may start it somewhere else."""
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: install Debian's package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(executable), args=[*FLAGS, *flags])
        try:
            yield chromium
        finally:
            # Leaving a page hangs up: the next test finds the line free.
            for page in [page for context in chromium.contexts for page in context.pages]:
                page.goto("about:blank")
            chromium.close()


@contextmanager
def page_of(url: str, *flags: str, width: int = 1280, height: int = 800, executable: Path = CHROMIUM) -> Iterator[Any]:
    """The talk page in a browser of its own. An error of the page's script fails the test."""
    errors: list[str] = []
    with browser(*flags, executable=executable) as chromium:
        page = chromium.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(KEEP_CONNECTION)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        page.wait_for_selector('[data-line="total"]')
        yield page
    assert not errors


def microphone(folder: Path, *clips: Clip, rate: int | None = None, channels: int = 1) -> tuple[str, ...]:
    """Flags for a microphone that is silent, then plays the clips once, then is silent."""
    played = join(silence(LEAD_S, clips[0].rate), *clips, silence(60, clips[0].rate))
    sound = at(played, rate or played.rate, channels)
    path = folder / "microphone.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(sound.rate)
        file.writeframes(sound.samples.astype("<i2").tobytes())
    return (*FAKE_MICROPHONE, f"--use-file-for-fake-audio-capture={path}%noloop")


def wait_for(page: Any, expression: str) -> None:
    """Wait until a JavaScript expression holds. (Playwright's own way needs eval, which the page's policy forbids.)"""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"waited in vain for {expression}; the page says: {page.inner_text('body')}"
        page.wait_for_timeout(50)


def received_energy(page: Any) -> float:
    """The energy of all received sound, by the browser's own statistics: 1 is a second at 0 dBFS."""
    energy: float = page.evaluate(
        """async () => [...(await window.connection.getStats()).values()]
            .filter((one) => one.type === "inbound-rtp" && one.kind === "audio")
            .reduce((sum, one) => sum + (one.totalAudioEnergy ?? 0), 0)"""
    )
    return energy


def sent_energy(page: Any) -> float:
    """The energy of what the microphone has given to the call."""
    energy: float = page.evaluate(
        """async () => [...(await window.connection.getStats()).values()]
            .filter((one) => one.type === "media-source")
            .reduce((sum, one) => sum + (one.totalAudioEnergy ?? 0), 0)"""
    )
    return energy


def lines_ms(page: Any) -> dict[str, float]:
    """The waterfall as it is shown: line -> ms, 'total' among them."""
    shown: dict[str, float] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("[data-line]")]
            .map((row) => [row.dataset.line, Number(row.querySelector(".ms").textContent.replace(",", "")
                .replace("−", "-"))]))"""
    )
    return shown


def layout_problems(page: Any) -> list[str]:
    """What is wider than the page, sticks out of it, is cut off, or overlaps its neighbour. Empty is good."""
    problems: list[str] = page.evaluate(LAYOUT)
    return problems


# Boxes that show text or take input, compared pair by pair; a box and what it contains do not count.
LAYOUT = """() => {
  const problems = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) problems.push("the page scrolls sideways");
  const name = (one) => `${one.tagName.toLowerCase()}${one.id ? "#" + one.id : ""}.${one.className}`
    + ` "${one.textContent.trim().slice(0, 24)}"`;
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    return one.checkVisibility() && box.width > 1 && box.height > 1;
  };
  const own = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const leaves = [...document.querySelectorAll("body *")]
    .filter((one) => seen(one) && (own(one) || ["INPUT", "BUTTON"].includes(one.tagName)));
  for (const one of leaves) {
    const box = one.getBoundingClientRect();
    if (box.left < -0.5 || box.right > width + 0.5) problems.push(`sticks out: ${name(one)}`);
    const style = getComputedStyle(one);
    if (one.tagName !== "INPUT" && style.display !== "inline" && one.scrollWidth > one.clientWidth + 1) {
      problems.push(`is cut off: ${name(one)}`);
    }
  }
  const footer = document.querySelector("footer");
  for (const [index, one] of leaves.entries()) {
    for (const other of leaves.slice(index + 1)) {
      // The bar at the bottom lies over what scrolls beneath it; what scrolls in a box of its own may end beyond it.
      if (footer.contains(one) !== footer.contains(other)) continue;
      if (one.contains(other) || other.contains(one)) continue;
      const scrolls = (node) => node.closest("#scroll, #picker");
      if (scrolls(one) !== scrolls(other)) continue;
      const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 1) problems.push(`overlap: ${name(one)} and ${name(other)}`);
    }
  }
  return problems;
}"""
