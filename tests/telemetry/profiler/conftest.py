"""An engine of known rates on no clock at all, a scripted completions server, and a checkpoint written by hand."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from telemetry.profiler.target import Reply
from tests.support.net import served


@dataclass
class VirtualEngine:
    """Answers in computed times: a request spends overhead_s outside, prompts are computed one after the other at
    500 tokens a second, but in no less than a step of one; a step of b sequences takes 20 + 5·b ms."""

    overhead_s: float = 0.040
    slower: Callable[[int], float] = lambda number: 1.0
    asked: list[tuple[int, int]] = field(default_factory=list)
    prompts: list[Sequence[int]] = field(default_factory=list)
    _now_s: float = 0.0
    _together: list[int] = field(default_factory=list)

    async def complete(self, prompt: Sequence[int], output_tokens: int) -> Reply:
        self.asked.append((len(prompt), output_tokens))
        self.prompts.append(prompt)
        together = self._together
        together.append(len(prompt))
        place = len(together)
        await asyncio.sleep(0)  # those sent with it come first
        self._together = []
        slow = self.slower(len(self.asked))
        prefill_s = sum(max(0.025, tokens / 500) for tokens in together[:place]) * slow
        step_s = (0.020 + 0.005 * len(together)) * slow
        first_s = self._now_s + self.overhead_s + prefill_s
        at_s = tuple(first_s + i * step_s for i in range(output_tokens))
        return Reply(self._now_s, at_s, tuple(range(1, output_tokens + 1)), len(prompt), 0)


@dataclass
class Completions:
    """A scripted server of /v1/completions. `fault`: none, refuse, drop (after three tokens), error, short, cached."""

    url: str
    token_s: float = 0.001
    fault: str = "none"
    counted: bool = True
    bodies: list[dict[str, Any]] = field(default_factory=list)
    open: int = 0
    abandoned: int = 0


@pytest.fixture
def virtual_engine() -> VirtualEngine:
    return VirtualEngine()


@pytest.fixture
def completions() -> Iterator[Completions]:
    """A running one, on a free port; it lists the demo's model."""
    server = Completions("")
    with served(_application(server)) as url:
        server.url = url
        yield server


def _application(server: Completions) -> FastAPI:
    api = FastAPI()

    @api.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "smollm2-135m-instruct-w8a8"}]}

    @api.post("/v1/completions", response_model=None)
    async def complete(request: Request) -> Response:
        body: dict[str, Any] = await request.json()
        server.bodies.append(body)
        if server.fault == "refuse":
            return JSONResponse({"error": {"message": "no replica"}}, status_code=503)
        return StreamingResponse(_stream(server, body), media_type="text/event-stream")

    return api


async def _stream(server: Completions, body: dict[str, Any]) -> AsyncIterator[str]:
    server.open += 1
    finished = False
    try:
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": 0}
        for number in range(1, body["max_tokens"] + (server.fault != "short")):
            await asyncio.sleep(server.token_s)
            if number == 4 and server.fault == "drop":
                return
            if number == 4 and server.fault == "error":
                yield f"data: {json.dumps({'error': {'message': 'engine died'}})}\n\n"
                return
            usage["completion_tokens"] = number
            chunk: dict[str, Any] = {"choices": [{"index": 0, "text": ""}]}
            yield f"data: {json.dumps(chunk | ({'usage': usage} if server.counted else {}))}\n\n"
        details = {"cached_tokens": 32 if server.fault == "cached" else 0}
        yield f"data: {json.dumps({'choices': [], 'usage': usage | {'prompt_tokens_details': details}})}\n\n"
        yield "data: [DONE]\n\n"
        finished = True
    finally:
        server.open -= 1
        server.abandoned += not finished


@pytest.fixture
def write_checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """write_checkpoint({tensor: (dtype, shape, bytes a number)}, **config): the folder of a model with these."""

    def write(tensors: dict[str, tuple[str, list[int], int]], **config: Any) -> Path:
        header, end = {}, 0
        for name, (dtype, shape, size) in tensors.items():
            begin = end
            end += size * (shape[0] if len(shape) == 1 else shape[0] * shape[1])
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
        base = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 4}
        (tmp_path / "config.json").write_text(json.dumps(base | {"vocab_size": 10} | config))
        return tmp_path

    return write
