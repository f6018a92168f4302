"""What a spoken question on the talk page must show, whatever answers it: used with and without Ray."""

import re
from typing import Any

from configs.budgets import load_budget
from tests.support.browser import layout_problems, lines_ms, received_energy, wait_for

LINES = ("network", "endpoint", "asr", "llm_first_token", "clause", "tts")
TIMED = "document.querySelector('.took') !== null"
HEARD_OUT = "document.querySelector('.entry.agent:last-child .took') !== null && !document.querySelector('.speaking')"
# Speech of a second at -30 dBFS has an energy of 0.001; silence has none.
AUDIBLE_ENERGY = 0.0005


def press_talk(page: Any) -> None:
    page.click("#call-button")
    wait_for(page, "document.getElementById('call-label').textContent === 'Hang up'")


def check_answered(page: Any, heard: str) -> str:
    """The caller's words are shown, and a reply in words and in sound whose time adds up. Returns the reply."""
    wait_for(page, TIMED)
    wait_for(page, HEARD_OUT)
    assert re.search(heard, page.locator(".entry.caller .words").last.inner_text(), re.IGNORECASE)
    reply: str = page.locator(".entry.agent .words").last.inner_text()
    assert reply.strip()
    assert received_energy(page) > AUDIBLE_ENERGY
    check_waterfall(page)
    return reply


def check_waterfall(page: Any) -> None:
    """The lines in their order, each beside its allocation, add up to the total: the time beside the reply."""
    shown = lines_ms(page)
    assert tuple(shown) == (*LINES, "total")
    assert sum(shown[line] for line in LINES) == shown["total"]
    assert all(shown[line] >= 0 for line in LINES[1:])
    assert shown["total"] > 0
    took = page.locator(".took").last.inner_text()
    assert int(took.replace(",", "").removesuffix(" ms")) == shown["total"]
    assert page.inner_text("#total-ms").replace(",", "") == str(int(shown["total"]))
    allocations = page.locator(".line .of").all_inner_texts()
    expected = [*load_budget().allocation_ms().values(), 300]
    assert [float(text.removeprefix("of ").removesuffix(" ms")) for text in map(str.strip, allocations)] == expected
    if shown["network"] < 0:
        assert "Set aside" in page.inner_text("#flag")
    else:
        assert page.inner_text("#p50") == page.inner_text("#p95") or page.locator(".took").count() > 1
        assert int(page.inner_text("#turn-count")) >= 1


def check_layout(page: Any) -> None:
    """Nothing overlaps, sticks out or is cut off on a phone and on a desktop."""
    for width, height in ((360, 740), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(200)
        assert layout_problems(page) == [], f"at {width} pixels"
