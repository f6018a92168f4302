"""What the agent answers and when: numbers and abbreviations, a slow LLM, turns in several parts."""

import asyncio

import pytest

from tests.support.calls import (
    Say,
    ask,
    calling,
    expect,
    heard_by_the_caller,
    is_message,
    replies,
    said_by_caller,
    spoken_since,
    words,
)
from tests.support.clips import join, silence
from tests.support.llm import ScriptedLlm

pytestmark = [pytest.mark.system, pytest.mark.long]

QUESTION = "How many legs does a spider have?"


@pytest.mark.parametrize(
    ("reply", "clauses"),
    [
        (
            "Dr. Smith paid 3.14 dollars for it on Jan 1, 1980. That was at 6 p.m. in the U.S. office.",
            ["Dr. Smith paid", "3.14", "Jan 1, 1980.", "6 p.m. in"],
        ),
        (
            "You can read it on example.com, e.g. on page 7. Mr. Jones (who wrote it) agrees.",
            ["example.com,", "(who wrote it)"],
        ),
    ],
)  # fmt: skip
async def test_numbers_and_abbreviations_are_spoken_whole(
    voice_url: str, llm: ScriptedLlm, say: Say, reply: str, clauses: list[str]
) -> None:
    llm.reply = reply
    question = say(QUESTION)
    async with calling(voice_url) as call:
        since = len(call.events)
        _, said = await ask(call, question)
        assert said == spoken_since(call, since) == reply
        spoken = [event.data["text"] for event in call.events[since:] if event.type == "bot-tts-text"]
        for piece in clauses:
            assert any(piece in clause for clause in spoken), (piece, spoken)
        heard = heard_by_the_caller(call)
    assert len(words(heard)) >= 0.6 * len(words(reply)), heard


async def test_a_slow_llm_is_waited_for(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    llm.first_word_s = 4.0
    question = say(QUESTION)
    async with calling(voice_url) as call:
        _, reply = await ask(call, question)
        assert reply == llm.reply
        assert len(replies(call)) == 1


async def test_an_llm_without_a_word_is_apologised_for_once(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    llm.first_word_s = 20.0
    question = say(QUESTION)
    async with calling(voice_url) as call:
        await call.say(question)
        await expect(call, lambda e: is_message("notice")(e) and e.data["reason"] == "no_answer")
        await expect(call, is_message("reply"))
        llm.first_word_s = 0.0
        since = len(call.events)
        _, reply = await ask(call, question)
        assert reply == spoken_since(call, since) == llm.reply
        assert llm.open == 0 or llm.abandoned >= 1, "what was given up generates no more"


async def test_two_final_transcripts_make_one_turn(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    """The caller goes on behind a long part and a pause: both are recognised for good, and answered once."""
    first = say(
        "Yesterday I went to the market with my sister, and we bought apples, bread and a bag of potatoes, because"
    )
    rest = say("we wanted to cook a big dinner for our parents.")
    async with calling(voice_url) as call:
        await call.say(join(first, silence(0.6, first.rate), rest))
        reply = await expect(call, lambda e: is_message("reply")(e) and not e.data["interrupted"])
        await asyncio.sleep(1.0)
        assert [event for event in replies(call) if event.data["text"]] == [reply]
        heard = words(said_by_caller(llm))
        assert {"market", "potatoes", "dinner", "parents"} <= set(heard)
        assert heard.count("market") == heard.count("parents") == 1
        assert [message["role"] for message in llm.asked[-1]] == ["system", "user"]
