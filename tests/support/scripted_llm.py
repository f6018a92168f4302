"""A scripted OpenAI-compatible server as a process: every chat is answered with the same text, streamed word by word.

python -m tests.support.scripted_llm --port 8021 --reply "The capital of France is Paris."
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse


def application(reply: str, word_s: float) -> FastAPI:
    """The server. `word_s` passes before each word."""
    api = FastAPI()

    async def chunks() -> AsyncIterator[str]:
        words = reply.split(" ")
        for index, word in enumerate(words):
            await asyncio.sleep(word_s)
            yield _event({"content": word if index == 0 else f" {word}"}, None)
        yield _event({}, "stop")
        yield "data: [DONE]\n\n"

    @api.post("/v1/chat/completions")
    async def chat() -> StreamingResponse:
        return StreamingResponse(chunks(), media_type="text/event-stream")

    return api


def _event(delta: dict[str, str], finish_reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--reply", required=True)
    parser.add_argument("--word-s", type=float, default=0.02)
    arguments = parser.parse_args()
    uvicorn.run(
        application(arguments.reply, arguments.word_s), host="127.0.0.1", port=arguments.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
