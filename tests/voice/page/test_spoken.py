"""A spoken question on the page: real ears and voice, a scripted LLM, a browser whose microphone plays a clip."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadtests.wav import Clip
from tests.support.browser import microphone, page_of, wait_for
from tests.support.clips import silence
from tests.support.llm import ScriptedLlm
from tests.support.talk_page import check_answered, check_layout, press_talk

pytestmark = [pytest.mark.browser, pytest.mark.system]

REPLY = "The capital of France is Paris."
STORY = " ".join(f"This is sentence number {number} of a long story." for number in range(1, 9))


def test_a_spoken_question_is_shown_answered_and_timed(
    voice_url: str, llm: ScriptedLlm, say: Callable[[str], Clip], tmp_path: Path
) -> None:
    llm.reply = REPLY
    with page_of(voice_url, *microphone(tmp_path, say("What is the capital of France?"))) as page:
        press_talk(page)
        assert check_answered(page, "capital of france") == REPLY
        check_layout(page)


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (44_100, 2)])
def test_any_microphones_rate_and_channels_will_do(
    voice_url: str, llm: ScriptedLlm, say: Callable[[str], Clip], tmp_path: Path, rate: int, channels: int
) -> None:
    llm.reply = REPLY
    question = say("What is the capital of France?")
    with page_of(voice_url, *microphone(tmp_path, question, rate=rate, channels=channels)) as page:
        press_talk(page)
        assert check_answered(page, "capital of france") == REPLY


def test_speaking_interrupts_and_what_was_heard_stays(
    voice_url: str, llm: ScriptedLlm, say: Callable[[str], Clip], tmp_path: Path
) -> None:
    llm.reply = STORY
    clips = (say("Tell me a long story."), silence(7), say("Please stop, and tell me the capital of France."))
    with page_of(voice_url, *microphone(tmp_path, *clips)) as page:
        press_talk(page)
        wait_for(page, "document.querySelector('.cut') !== null")
        heard = page.locator(".entry.agent .words").first.inner_text()
        assert heard.startswith("This is sentence number 1")
        assert heard.endswith("… interrupted")
        assert "number 8" not in heard
        wait_for(page, "document.querySelectorAll('.took').length === 2")
        assert "capital of France" in page.locator(".entry.caller .words").last.inner_text()
        assert page.inner_text("#turn-count") == "2"
        page.locator(".chip").first.click()
        assert "Turn 1" in page.inner_text("#caption")
        check_layout(page)
