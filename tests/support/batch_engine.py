"""A scripted engine for batch rows: a test sets its pace and faults, and sees what was answered, and how often."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from tests.support.net import served


@dataclass
class BatchEngine:
    """A prompt holds what is to become of it: 'refuse' (429), 'bad' (400), 'liar' (an error in a 200), 'crash' (500).

    Others are answered after `row_s` with their own text. `shut`: everybody is sent away with 503.
    """

    url: str
    row_s: float = 0.02
    shut: bool = False
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    abandoned: int = 0

    def reset(self) -> None:
        self.row_s, self.shut, self.abandoned, self.most_in_flight = 0.02, False, 0, 0
        for counter in (self.asked, self.answered, self.order, self.bodies):
            counter.clear()


def application(engine: BatchEngine) -> FastAPI:
    """The server."""
    api = FastAPI()

    @api.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "m", "object": "model"}]}

    @api.post("/v1/chat/completions", response_model=None)
    async def chat(request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        prompt = str(body["messages"][-1]["content"])
        engine.asked[prompt] += 1
        engine.bodies.append(body)
        if engine.shut or ("refuse" in prompt and engine.asked[prompt] < 3):
            return JSONResponse({"error": {"message": "busy"}}, 503 if engine.shut else 429)
        if "bad" in prompt:
            return JSONResponse({"error": {"message": "too long", "type": "BadRequestError"}}, 400)
        if "liar" in prompt:
            return JSONResponse({"object": "error", "message": "engine is dead", "code": 500})
        if "crash" in prompt:
            return Response("Internal Server Error", 500)
        engine.order.append(prompt)
        engine.in_flight += 1
        engine.most_in_flight = max(engine.most_in_flight, engine.in_flight)
        try:
            await asyncio.sleep(engine.row_s)
            if await request.is_disconnected():
                engine.abandoned += 1
                return Response(status_code=499)
        finally:
            engine.in_flight -= 1
        engine.answered[prompt] += 1
        message = {"role": "assistant", "content": prompt}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        document = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return JSONResponse(document | {"usage": usage})

    return api


@contextmanager
def batch_engine() -> Iterator[BatchEngine]:
    """A running one, on a free port."""
    engine = BatchEngine("")
    with served(application(engine)) as url:
        engine.url = url
        yield engine
