"""The page in a real browser against a server whose models are faked: every button, and everything that goes wrong."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.browser import (
    FAKE_MICROPHONE,
    browser,
    layout_problems,
    page_of,
    received_energy,
    sent_energy,
    wait_for,
)
from tests.support.fake_services import REPLY

pytestmark = pytest.mark.browser

Until = Callable[[Callable[[], bool]], None]

IDLE = "document.getElementById('call-label').textContent === 'Talk'"
LIVE = "document.getElementById('call-label').textContent === 'Hang up'"
# The fake microphone's beeps may pass for a voice.
TALKING = """['Listening', 'Hearing you…', 'Thinking…', 'Speaking']
    .includes(document.getElementById('status').textContent)"""
# 0.4 s of a tone at -15 dBFS have an energy of 0.012; silence has none.
AUDIBLE_ENERGY = 0.004


def text(page: Any, selector: str) -> str:
    shown: str = page.inner_text(selector)
    return shown


def test_a_typed_question_is_answered_in_words_and_sound_without_a_microphone(fake_url: str) -> None:
    with page_of(fake_url) as page:
        page.fill("#text", "What is the capital?")
        page.press("#text", "Enter")
        page.wait_for_selector(".entry.agent")
        wait_for(page, "!document.querySelector('.speaking')")
        assert text(page, ".entry.caller .words") == "What is the capital?"
        assert text(page, ".entry.agent .words") == REPLY
        assert received_energy(page) > AUDIBLE_ENERGY
        assert text(page, "#status") == "Typing only"
        assert page.input_value("#text") == ""
        page.click("#call-button")
        wait_for(page, IDLE)
        assert text(page, "#alert") == ""


def test_hanging_up_and_closing_the_tab_free_the_place(fake_url: str, until: Until) -> None:
    with browser(*FAKE_MICROPHONE) as chromium:
        first, second = chromium.new_page(), chromium.new_page()
        for page in (first, second):
            page.goto(fake_url)
        first.click("#call-button")
        wait_for(first, TALKING)

        second.click("#call-button")
        wait_for(second, "!document.getElementById('alert').hidden")
        assert "busy" in text(second, "#alert")
        assert text(second, "#call-label") == "Talk"
        assert first.evaluate(TALKING)

        first.click("#call-button")
        wait_for(first, IDLE)

        def talks(page: Any) -> bool:
            page.click("#call-button")
            wait_for(page, f"{TALKING} || !document.getElementById('alert').hidden")
            return bool(page.evaluate(TALKING))

        until(lambda: talks(second))
        second.close()
        until(lambda: talks(first))


def test_hanging_up_while_it_rings_and_pressing_twice_make_no_second_call(fake_url: str) -> None:
    with page_of(fake_url, *FAKE_MICROPHONE) as page:
        page.evaluate("document.getElementById('call-button').click()")
        page.evaluate("document.getElementById('call-button').click()")
        page.fill("#text", "Hello?")
        page.press("#text", "Enter")
        page.wait_for_selector(".log .entry.caller")
        assert page.locator(".log .entry.caller").count() == 1
        assert text(page, "#mute") == "Mute"  # the call that was begun with the microphone
        page.click("#call-button")
        wait_for(page, IDLE)

        page.click("#call-button")
        wait_for(page, f"{LIVE}")
        page.click("#call-button")
        wait_for(page, IDLE)
        assert text(page, "#alert") == ""
        assert text(page, "#status") == "Ready"


def test_a_refused_microphone_is_said_and_typing_still_works(fake_url: str) -> None:
    with page_of(fake_url, "--use-fake-device-for-media-stream", "--deny-permission-prompts") as page:
        page.click("#call-button")
        wait_for(page, "!document.getElementById('alert').hidden")
        assert "microphone was refused" in text(page, "#alert")
        assert text(page, "#call-label") == "Talk"
        page.fill("#text", "Hello?")
        page.click("#typing button")
        page.wait_for_selector(".entry.agent")
        assert text(page, "#alert") == ""


def test_a_missing_microphone_is_said(fake_url: str) -> None:
    with page_of(fake_url, "--use-fake-ui-for-media-stream") as page:
        page.click("#call-button")
        wait_for(page, "!document.getElementById('alert').hidden")
        assert "No microphone was found" in text(page, "#alert")


def test_mute_sends_silence_and_unmute_sound_again(fake_url: str) -> None:
    # The fake microphone without a file beeps once a second.
    with page_of(fake_url, *FAKE_MICROPHONE) as page:
        assert page.is_disabled("#mute")
        page.click("#call-button")
        wait_for(page, TALKING)

        def energy_of_two_seconds() -> float:
            before = sent_energy(page)
            page.wait_for_timeout(2000)
            return sent_energy(page) - before

        aloud = energy_of_two_seconds()
        page.click("#mute")
        assert page.get_attribute("#mute", "aria-pressed") == "true"
        wait_for(page, "document.getElementById('status').textContent === 'Muted'")
        page.wait_for_timeout(200)
        assert energy_of_two_seconds() < aloud / 100
        page.click("#mute")
        assert page.get_attribute("#mute", "aria-pressed") == "false"
        assert energy_of_two_seconds() > aloud / 2


def test_a_call_without_a_microphone_can_take_one(fake_url: str) -> None:
    with page_of(fake_url, *FAKE_MICROPHONE) as page:
        page.fill("#text", "Hello?")
        page.press("#text", "Enter")
        page.wait_for_selector(".entry.agent")
        assert text(page, "#mute") == "Use mic"
        page.click("#mute")
        wait_for(page, "document.getElementById('mute').textContent === 'Mute'")
        before = sent_energy(page)
        page.wait_for_timeout(2000)
        assert sent_energy(page) > before


def test_a_server_that_is_gone_is_said_before_a_call_and_in_one(mortal: Any) -> None:
    with page_of(mortal.url, *FAKE_MICROPHONE) as page:
        page.click("#call-button")
        wait_for(page, TALKING)
        mortal.kill()
        wait_for(page, IDLE)
        assert "connection to the server was lost" in text(page, "#alert")

        page.click("#call-button")
        wait_for(page, "document.getElementById('alert').textContent.includes('does not answer')")
        assert text(page, "#call-label") == "Talk"

        mortal.start()
        page.click("#call-button")
        wait_for(page, TALKING)
        assert text(page, "#alert") == ""


def test_the_keyboard_is_enough(fake_url: str) -> None:
    with page_of(fake_url, *FAKE_MICROPHONE) as page:
        names = []
        for _ in range(4):
            page.keyboard.press("Tab")
            names.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        # Mute is not reachable before a call.
        assert names == ["scroll", "call-button", "text", "Send"]
        page.focus("#call-button")
        page.keyboard.press("Enter")
        wait_for(page, TALKING)
        assert page.evaluate("document.activeElement.id") == "call-button"
        page.keyboard.press("Space")
        wait_for(page, IDLE)


def test_a_screen_reader_is_told_what_happens(fake_url: str) -> None:
    with page_of(fake_url) as page:
        assert page.get_by_role("button", name="Talk", exact=True).count() == 1
        assert page.get_by_role("textbox", name="Type instead of speaking").count() == 1
        assert page.get_by_role("status").count() == 1
        assert page.get_by_role("log").count() == 1
        assert page.get_by_role("region", name="Response time").count() == 1
        rows = page.get_by_role("listitem").all_inner_texts()
        assert [" ".join(row.split()) for row in rows][-1] == "Total – of 300 ms"
        assert len(rows) == 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(fake_url: str, scheme: str) -> None:
    """Contrast of 4.5 to 1 at least, WCAG's AA, by its own formula for relative luminance."""
    with browser() as chromium:
        page = chromium.new_page(color_scheme=scheme)
        page.goto(fake_url)
        page.wait_for_selector('[data-line="total"]')
        page.evaluate("document.getElementById('alert').hidden = false")
        page.evaluate("document.getElementById('alert').textContent = 'Something is wrong.'")
        assert page.evaluate(LOW_CONTRAST) == []


LOW_CONTRAST = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => channels(colour).slice(0, 3)
    .map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (one) => {
    for (let node = one; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.checkVisibility() && !one.disabled
      && [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .filter((one) => {
      const [a, b] = [luminance(getComputedStyle(one).color), luminance(ground(one))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05) < 4.5;
    })
    .map((one) => one.textContent.trim());
}"""


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 800), (1280, 600)])
def test_nothing_overlaps_or_is_cut_off(fake_url: str, width: int, height: int) -> None:
    with page_of(fake_url, width=width, height=height) as page:
        assert layout_problems(page) == []
        page.fill("#text", "What is the capital?")
        page.press("#text", "Enter")
        page.wait_for_selector(".entry.agent")
        assert layout_problems(page) == []


def test_nothing_is_loaded_from_another_host_or_inline(fake_url: str) -> None:
    with browser() as chromium:
        page = chromium.new_page()
        asked: list[str] = []
        refused: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
        page.goto(fake_url)
        page.wait_for_selector('[data-line="total"]')
        page.wait_for_load_state("networkidle")
        assert asked and all(url.startswith(fake_url) for url in asked)
        # A policy that blocks one of the page's own parts says so on the console.
        assert refused == []


def test_the_pages_files_are_small_guarded_and_kept_by_the_browser(fake_url: str) -> None:
    with httpx.Client(base_url=fake_url, trust_env=False) as client:
        page = client.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
        assert again.status_code == 304
        total = len(page.content)
        for name in ("app.js", "call.js", "scoreboard.js", "sound.js", "meter.js", "style.css"):
            total += len(client.get(f"/{name}").raise_for_status().content)
        assert total < 60_000
        assert client.get("/nothing-here").status_code == 404
        assert client.get("/../webrtc.py").status_code == 404
