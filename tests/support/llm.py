"""A scripted OpenAI-compatible LLM in this process: a test sets its reply, pace and faults, and sees what was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from tests.support.net import served

Fault = Literal["none", "refuse", "drop"]


@dataclass
class ScriptedLlm:
    """`answer` makes a reply from a request's messages; `tool`, as (name, arguments), is a call that the caller's words
    are first answered with. `refuse` answers 503; `drop` breaks the stream off after three words. `open` counts streams
    being generated."""

    url: str
    reply: str = "The answer is forty two."
    answer: Callable[[list[dict[str, Any]]], str] | None = None
    tool: tuple[str, dict[str, Any]] | None = None
    first_word_s: float = 0.0
    word_s: float = 0.02
    fault: Fault = "none"
    asked: list[list[dict[str, Any]]] = field(default_factory=list)
    offered: list[Any] = field(default_factory=list)
    """The last request's tools."""
    authorized: set[str | None] = field(default_factory=set)
    """The Authorization headers that came."""
    open: int = 0
    abandoned: int = 0

    def reset(self) -> None:
        self.reply, self.word_s, self.fault = "The answer is forty two.", 0.02, "none"
        self.answer, self.tool, self.first_word_s = None, None, 0.0
        self.asked.clear()
        self.offered.clear()
        self.abandoned = 0


def application(llm: ScriptedLlm) -> FastAPI:
    """The server."""
    api = FastAPI()

    async def chunks(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
        llm.open += 1
        finished = False
        try:
            await asyncio.sleep(llm.first_word_s)
            if llm.tool is not None and messages[-1]["role"] == "user":
                for delta in _call_deltas(*llm.tool):
                    yield _event(delta, None)
                yield _event({}, "tool_calls")
                yield "data: [DONE]\n\n"
                finished = True
                return
            reply = llm.answer(messages) if llm.answer else llm.reply
            for index, word in enumerate(reply.split(" ")):
                if llm.fault == "drop" and index == 3:
                    raise ConnectionAbortedError
                await asyncio.sleep(llm.word_s)
                yield _event({"content": word if index == 0 else f" {word}"}, None)
            yield _event({}, "stop")
            yield "data: [DONE]\n\n"
            finished = True
        finally:
            llm.open -= 1
            llm.abandoned += not finished

    @api.post("/v1/chat/completions", response_model=None)
    async def chat(request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        llm.asked.append(body["messages"])
        llm.authorized.add(request.headers.get("authorization"))
        llm.offered = body.get("tools", [])
        if llm.fault == "refuse":
            return JSONResponse({"error": {"message": "no replica", "type": "unavailable"}}, status_code=503)
        return StreamingResponse(chunks(body["messages"]), media_type="text/event-stream")

    return api


@contextmanager
def scripted_llm() -> Iterator[ScriptedLlm]:
    """A running one, on a free port."""
    llm = ScriptedLlm("")
    with served(application(llm)) as url:
        llm.url = f"{url}/v1"
        yield llm


def _call_deltas(name: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A tool call as servers stream it: its name first, its arguments in pieces."""
    yield {
        "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}]
    }
    text = json.dumps(arguments)
    for start in range(0, len(text), 5):
        yield {"tool_calls": [{"index": 0, "function": {"arguments": text[start : start + 5]}}]}


def _event(delta: dict[str, Any], finish_reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"
