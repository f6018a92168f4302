"""A scripted OpenAI-compatible server on loopback: does exactly what its script says, for tools to be checked against.

    python -m loadtests.truth.llm_server --script '{"base_ms": 100}'

prints its port, then serves until it is ended. Plain asyncio, so that connections can be left waiting or reset.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import struct
import time
from typing import Any

from loadtests.priority import take_precedence
from loadtests.truth.script import LlmScript, script_argument

MODEL = "scripted"
WORD = " café"
AWAKE_S = 0.0015
"""Timers fire late: the last stretch before a chunk is waited out awake."""


class Server:
    """Counts requests, and answers each by its number."""

    def __init__(self, script: LlmScript) -> None:
        self._script = script
        self._requests = 0
        self._slots = asyncio.Semaphore(script.slots or 2**31)
        self._begun: float | None = None

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=4096)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(self._script.accept_ms / 1000)
            request = await _read(reader)
            if request is not None:
                path, headers, body = request
                if path.endswith("/completions"):
                    async with self._slots:
                        await self._answer(writer, path, headers, body)
                else:
                    _respond(writer, 200, json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> None:
        script = self._script
        self._requests += 1
        number = self._requests
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        read_s = now - self._begun
        if script.die_after is not None and number > script.die_after:
            os._exit(1)
        if script.hits("refuse", number):
            _reset(writer)
        elif script.hits("status", number):
            _respond(writer, 503, json.dumps({"error": {"message": "scripted overload", "type": "server_error"}}))
        elif script.hits("wrong", number):
            await self._until(read_s + script.first_chunk_ms(number) / 1000)
            _respond(writer, 200, json.dumps({"message": "welcome to nginx"}))
        elif not body.get("stream"):
            await self._until(read_s + (script.first_chunk_ms(number) + (script.chunks - 1) * script.chunk_ms) / 1000)
            _respond(writer, 200, json.dumps(self._whole(path)))
        else:
            await self._stream(writer, number, read_s, path, headers, body)

    async def _stream(
        self, writer: asyncio.StreamWriter, number: int, read_s: float, path: str, headers: dict[str, str],
        body: dict[str, Any],
    ) -> None:  # fmt: skip
        script = self._script
        stream = Stream(writer, script.odd_pieces)
        stream.begin()
        options = body.get("stream_options") or {}
        if not path.endswith("/chat/completions"):
            role: dict[str, Any] = {"text": ""}
        else:
            role = {"delta": {"role": "assistant", "content": ""}}
        first_s = read_s + script.first_chunk_ms(number) / 1000
        for index in range(0 if script.hits("empty", number) else script.chunks):
            await self._until(first_s + index * script.chunk_ms / 1000)
            if index == 0:
                await stream.send(_chunk(role))
            if index == 2 and script.hits("drop", number):
                await writer.drain()
                return _reset(writer)
            if index == 2 and script.hits("error", number):
                await stream.send(json.dumps({"error": {"message": "scripted failure", "code": 500}}))
                return await stream.end()
            text = WORD * script.tokens_per_chunk
            content = {"delta": {"content": text}} if "delta" in role else {"text": text}
            usage = script.tokens_per_chunk * (index + 1) if options.get("continuous_usage_stats") else None
            await stream.send(_chunk(content, usage))
        if script.hits("empty", number):
            await self._until(first_s)
        await stream.send(_chunk({"delta": {}} if "delta" in role else {"text": ""}, finish="stop"))
        total = 0 if script.hits("empty", number) else script.tokens_per_chunk * script.chunks
        if options.get("include_usage"):
            await stream.send(json.dumps({"object": "chat.completion.chunk", "choices": [], "usage": _usage(total)}))
        if script.clocks and headers.get("x-clocks") == "1":
            clocks = {"engine_ttft_ms": script.base_ms}
            await stream.send(json.dumps({"object": "chat.completion.chunk", "choices": [], "clocks": clocks}))
        if not script.hits("unfinished", number):
            await stream.send("[DONE]")
        await stream.end()

    def _whole(self, path: str) -> dict[str, Any]:
        tokens = self._script.tokens_per_chunk * self._script.chunks
        text = WORD * tokens
        message: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
        choice = message if path.endswith("/chat/completions") else {"text": text}
        return {"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": _usage(tokens)}

    async def _until(self, nominal_s: float) -> None:
        """Sleep until what is nominally due then is really sent, in seconds since the first request."""
        assert self._begun is not None
        at = self._begun + self._script.moved_s(nominal_s)
        await asyncio.sleep(max(0.0, at - time.monotonic() - AWAKE_S))
        while time.monotonic() < at:  # noqa: ASYNC110  no event marks a moment
            await asyncio.sleep(0)


class Stream:
    """A chunked event stream, its events whole or in odd pieces."""

    def __init__(self, writer: asyncio.StreamWriter, odd: bool) -> None:
        self._writer, self._odd = writer, odd

    def begin(self) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )

    async def send(self, data: str) -> None:
        if not self._odd:
            self._piece(f"data: {data}\n\n".encode())
            return
        event = f": a comment\r\nid: 7\r\ndata: {data}\r\n\r\n".encode()
        for start in range(0, len(event), 7):
            self._piece(event[start : start + 7])
            await self._writer.drain()
            await asyncio.sleep(0)

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _piece(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], dict[str, Any]] | None:
    head = await reader.readuntil(b"\r\n\r\n")
    request, *lines = head.decode("latin-1").split("\r\n")
    parts = request.split(" ")
    if len(parts) != 3:
        return None
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    return parts[1], headers, json.loads(data) if data else {}


def _respond(writer: asyncio.StreamWriter, status: int, body: str) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write((head + "Connection: close\r\n\r\n" + body).encode())


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a RST, as a crashed process does."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _chunk(choice: dict[str, Any], tokens: int | None = None, finish: str | None = None) -> str:
    kind = "chat.completion.chunk" if "delta" in choice else "text_completion"
    chunk: dict[str, Any] = {"id": "x", "object": kind, "created": 0, "model": MODEL}
    chunk["choices"] = [{"index": 0, "finish_reason": finish, **choice}]
    if tokens is not None:
        chunk["usage"] = _usage(tokens)
    return json.dumps(chunk, ensure_ascii=False)


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=script_argument, default=LlmScript())
    take_precedence()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Server(parser.parse_args().script).serve())


if __name__ == "__main__":
    main()
