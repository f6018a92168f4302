"""A tool is called for the caller, who adds a word meanwhile."""

import asyncio
from typing import Any

import pytest

from tests.support.calls import Say, ask, calling, expect, heard_by_the_caller, is_message, replies, words
from tests.support.llm import ScriptedLlm

pytestmark = pytest.mark.system


def told(messages: list[dict[str, Any]]) -> str:
    """The reply: what the tool said."""
    return str(messages[-1]["content"])


async def test_the_agent_says_what_a_tool_found(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    llm.tool, llm.answer = ("weather", {"city": "Paris"}), told
    question, next_one = say("What is the weather in Paris?"), say("Is that nice?")
    async with calling(voice_url) as call:
        _, reply = await ask(call, question)
        assert reply == "It is sunny in Paris."
        assert [tool["function"]["name"] for tool in llm.offered] == ["weather", "time_of_day"]
        assert [message["role"] for message in llm.asked[-1]] == ["system", "user", "assistant", "tool"]
        llm.tool = None
        llm.answer = lambda messages: "Yes, it is."
        await ask(call, next_one)
        assert [m["role"] for m in llm.asked[-1]] == ["system", "user", "assistant", "user"], "no call is left over"


async def test_the_caller_adds_a_word_while_the_tool_works(voice_url: str, llm: ScriptedLlm, say: Say) -> None:
    llm.tool, llm.answer = ("weather", {"city": "Paris"}), told
    question, word = say("What is the weather in Paris?"), say("Today, please.")
    async with calling(voice_url) as call:
        await call.say(question)
        await expect(call, lambda event: event.type == "user-stopped-speaking")
        await call.say(word)
        await expect(call, lambda e: is_message("reply")(e) and not e.data["interrupted"])
        await asyncio.sleep(1.5)
        [reply] = [reply for reply in replies(call) if reply.data["text"]]
        assert reply.data["text"] == "It is sunny in Paris."
        assert words(heard_by_the_caller(call)).count("sunny") == 1
        [user] = [message["content"] for message in llm.asked[-1] if message["role"] == "user"]
        assert {"weather", "please"} <= set(words(user)), "one turn, with both in it"
