"""Calls of tools: what the LLM is told, what is checked before anything is called, and when a call has to wait."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from configs.errors import InputError
from configs.voice import Tool
from voice.history import Message
from voice.llm import LlmError, Piece, ToolCall
from voice.tools import ToolChat, Tools

HERE = __name__
CONFIRMED = asyncio.Event()
CONFIRMED.set()


def area(width_m: float, unit: Annotated[Literal["m2", "ha"], Field(description="of the result")] = "m2") -> float:
    """The area of a square field."""
    return width_m**2 / (10_000 if unit == "ha" else 1)


async def slow() -> str:
    """Waits for ever."""
    await asyncio.Event().wait()
    return ""


def thoughtful() -> dict[str, int]:
    """Blocks its thread for a moment."""
    time.sleep(0.05)
    return {"answer": 42}


def broken() -> str:
    """Raises."""
    raise OSError("the secret path /etc/x")


def undocumented() -> str:
    return ""


def tools(*names: str, **more: Any) -> Tools:
    return Tools([Tool(function=f"tests.voice.test_tools:{name}", while_guessing=True, **more) for name in names])


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' modules are no package: this one is found under the name that a config would give it."""
    import sys

    monkeypatch.setitem(sys.modules, "tests.voice.test_tools", sys.modules[HERE])


async def result(names: Tools, name: str, **arguments: Any) -> str:
    return await names.call(ToolCall("1", name, json.dumps(arguments)), CONFIRMED)


def test_a_function_is_offered_by_its_signature() -> None:
    [schema] = tools("area").schemas()
    function = schema["function"]
    assert (function["name"], function["description"]) == ("area", "The area of a square field.")
    assert function["parameters"]["required"] == ["width_m"]
    assert function["parameters"]["properties"]["unit"]["enum"] == ["m2", "ha"]


async def test_functions_of_either_kind_are_called() -> None:
    assert await result(tools("area"), "area", width_m=200, unit="ha") == "4.0"
    assert await result(tools("thoughtful"), "thoughtful") == '{"answer": 42}'


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"width_m": "wide"}', "width_m"),
        ('{"width_m": 1, "unit": "acre"}', "unit"),
        ('{"width_m": 1, "colour": 2}', "colour"),
        ("{}", "width_m"),
        ("[1]", "failed"),
        ("{not json", "failed"),
    ],
)
async def test_what_the_model_made_up_is_not_called(arguments: str, problem: str) -> None:
    answer = await tools("area").call(ToolCall("1", "area", arguments), CONFIRMED)
    assert answer.startswith("error: ") and problem in answer


async def test_an_unknown_a_slow_and_a_broken_function_are_told_to_the_model() -> None:
    assert await result(tools(), "area") == "error: there is no tool area"
    assert await result(tools("slow", timeout_s=0.05), "slow") == "error: slow gave no answer in 0.05 s"
    assert await result(tools("broken"), "broken") == "error: broken failed", "its reason is for the log alone"


@pytest.mark.parametrize("name", ["undocumented", "missing"])
def test_a_function_that_cannot_be_offered_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"tools\.function.*{name}"):
        tools(name)


async def test_a_function_that_does_something_waits_for_the_turns_end() -> None:
    doing = Tools([Tool(function="tests.voice.test_tools:area")])
    confirmed = asyncio.Event()
    call = asyncio.create_task(doing.call(ToolCall("1", "area", '{"width_m": 2}'), confirmed))
    await asyncio.sleep(0.05)
    assert not call.done()
    confirmed.set()
    assert await call == "4.0"


class CallingChat:
    """Asks for a call of `area` so many times, then says what it was told."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.asked: list[Sequence[Any]] = []

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        self.asked.append(messages)
        if len(self.asked) <= self.rounds:
            yield Piece("Let me see. ")
            yield Piece("", calls=(ToolCall(f"c{len(self.asked)}", "area", '{"width_m": 3}'),))
        else:
            yield Piece(f"It is {messages[-1]['content']}.")


async def test_the_reply_goes_on_with_the_results() -> None:
    chat = CallingChat(1)
    question: list[Message] = [{"role": "user", "content": "How large?"}]
    pieces = [piece.text async for piece in ToolChat(chat, tools("area"), CONFIRMED).reply(question, "r")]
    assert pieces == ["Let me see. ", "It is 9.0."]
    assert [message["role"] for message in chat.asked[1]] == ["user", "assistant", "tool"]
    assert chat.asked[1][1]["tool_calls"][0]["id"] == chat.asked[1][2]["tool_call_id"] == "c1"
    assert question == [{"role": "user", "content": "How large?"}]


async def test_a_model_that_asks_for_ever_is_given_up() -> None:
    chat = CallingChat(99)
    with pytest.raises(LlmError, match="4 times"):
        async for _ in ToolChat(chat, tools("area"), CONFIRMED).reply([], "r"):
            pass
