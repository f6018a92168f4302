"""The talk page against the real deployment: `deployment` is its base URL."""

from pathlib import Path

import pytest

from cli.talk import speak
from tests.support.browser import microphone, page_of, wait_for
from tests.support.clips import silence
from tests.support.talk_page import check_answered, check_layout, press_talk

pytestmark = [pytest.mark.browser, pytest.mark.system]

GREETED_S = 8
"""The question waits until the greeting is over."""


def test_a_question_asked_aloud_is_answered_aloud(deployment: str, tmp_path: Path) -> None:
    [question] = speak(["What is the capital of France?"])
    with page_of(deployment, *microphone(tmp_path, silence(GREETED_S, question.rate), question)) as page:
        press_talk(page)
        wait_for(page, "document.querySelector('.entry.agent') !== null")  # the greeting
        check_answered(page, "capital of france")
        check_layout(page)


def test_a_typed_question_is_answered(deployment: str) -> None:
    with page_of(deployment) as page:
        page.fill("#text", "What is the capital of France?")
        page.press("#text", "Enter")
        wait_for(page, "document.querySelector('.entry.caller') !== null")
        wait_for(page, "document.querySelector('.entry.caller ~ .entry.agent:not(.speaking)') !== null")
        assert page.locator(".entry.agent .words").last.inner_text().strip()
