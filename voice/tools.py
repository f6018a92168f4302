"""Functions that the LLM may have called while it makes a reply: loaded by name, offered by their signature.

A function takes what its annotations say (JSON's types) and returns what the LLM is to read; its docstring tells the
LLM what it is for. What the LLM asks for is checked against the signature before anything is called, and what goes
wrong is told to the LLM, not to the caller. A call of a reply that is withdrawn is cancelled; a function that is no
coroutine runs on to its end in its thread, and nobody reads its result.
"""

import asyncio
import importlib
import inspect
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from loguru import logger
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from configs.errors import InputError
from configs.voice import Tool
from voice.history import Message
from voice.llm import LlmError, Piece, ReplyModel, ToolCall
from voice.tally import Tally, uncounted

MOST_ROUNDS = 4
"""So often may one reply ask for calls: a model that goes on asking has lost its way."""
MOST_RESULT_CHARACTERS = 4000


@dataclass(frozen=True)
class _Function:
    config: Tool
    name: str
    about: str
    adapter: TypeAdapter[Any]


class Tools:
    """The functions that a configuration names. Raises InputError for one that cannot be loaded or offered."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._functions = {function.name: function for function in map(_load, tools)}

    def __bool__(self) -> bool:
        return bool(self._functions)

    def schemas(self) -> list[dict[str, Any]]:
        """As an OpenAI request's `tools`."""
        return [
            {
                "type": "function",
                "function": {"name": f.name, "description": f.about, "parameters": f.adapter.json_schema()},
            }
            for f in self._functions.values()
        ]

    async def call(self, call: ToolCall, confirmed: asyncio.Event) -> str:
        """What the LLM reads of a call. A function that does more than look something up waits for `confirmed`."""
        function = self._functions.get(call.name)
        if function is None:
            return f"error: there is no tool {call.name}"
        if not function.config.while_guessing:
            await confirmed.wait()
        try:
            arguments = json.loads(call.arguments or "{}")
            if not isinstance(arguments, dict):
                raise ValueError("the arguments are no JSON object")
            async with asyncio.timeout(function.config.timeout_s):
                result = await asyncio.to_thread(function.adapter.validate_python, ArgsKwargs((), arguments))
                if inspect.isawaitable(result):
                    result = await result
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return f"error: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
        except TimeoutError:
            return f"error: {call.name} gave no answer in {function.config.timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - a function of the user's: whatever it raises, the call goes on
            logger.error("the tool {} failed: {!r}", call.name, error)
            return f"error: {call.name} failed"
        text = result if isinstance(result, str) else json.dumps(result, default=str)
        return text[:MOST_RESULT_CHARACTERS]


@dataclass(frozen=True)
class ToolChat:
    """A ReplyModel that has the calls made that another one asks for, and has it go on with their results."""

    chat: ReplyModel
    tools: Tools
    confirmed: asyncio.Event
    """Set when the caller's turn is over: until then the reply is made on a guess."""
    tally: Tally = uncounted

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        """See ReplyModel."""
        asked = list(messages)
        for number in range(MOST_ROUNDS):
            calls: tuple[ToolCall, ...] = ()
            async for piece in self.chat.reply(asked, request_id if number == 0 else f"{request_id}.{number}"):
                calls += piece.calls
                if piece.text or piece.cut:
                    yield piece
            if not calls:
                return
            self.tally("llm_calls", 1)
            results = await asyncio.gather(*(self.tools.call(call, self.confirmed) for call in calls))
            asked += cast(list[Message], [_asked_for(calls), *map(_answered, calls, results)])
        raise LlmError(f"the reply asked for tools {MOST_ROUNDS} times over")


def _asked_for(calls: Sequence[ToolCall]) -> dict[str, Any]:
    functions = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": functions}


def _answered(call: ToolCall, result: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": result}


def _load(tool: Tool) -> _Function:
    module, _, name = tool.function.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        adapter = TypeAdapter(function)
        adapter.json_schema()
    except (ImportError, AttributeError, PydanticUserError) as error:
        raise InputError("voice", "tools.function", tool.function, f"cannot be offered: {error}") from error
    about = inspect.getdoc(function) or ""
    if not about:
        raise InputError("voice", "tools.function", tool.function, "has no docstring, which tells the LLM its use")
    return _Function(tool, name, about, adapter)
