"""One streamed request over a connection of its own, read as it arrives; no pool, so nothing waits unseen.

Plain blocking sockets: under locust gevent makes them cooperative.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from loadtests.completion import Completion
from loadtests.sample import LlmSample
from loadtests.sse import SseParser


class Target:
    """Where requests go: an OpenAI-compatible server's base URL, with or without /v1."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.secure = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.secure else 80)
        self.path = parts.path.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"

    def resolve(self) -> None:
        """Look the name up once, errors aside: each request finds its own."""
        with contextlib.suppress(OSError):
            socket.getaddrinfo(self.host, self.port)

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.secure:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)


def stream(
    target: Target,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    sample: LlmSample,
    timeout_s: float,
    now_s: Callable[[], float],
) -> str:
    """Send `body` and fill `sample`; returns the answer's text. Never raises for what the server or network does."""
    completion = Completion(sample)
    sample.sent_s = now_s()
    deadline = time.monotonic() + timeout_s
    connection = target.connection(timeout_s)
    try:
        _exchange(connection, target, body, headers, sample, completion, deadline, now_s)
    except TimeoutError:
        completion.broke("timeout", f"not finished within {timeout_s:g} s")
    except (http.client.HTTPException, OSError) as error:
        outcome = "refused" if sample.status is None else "dropped"
        completion.broke(outcome, f"{type(error).__name__}: {error}".rstrip(": "))
    finally:
        connection.close()
        sample.ended_s = now_s()
    return "".join(completion.text)


def _exchange(
    connection: http.client.HTTPConnection,
    target: Target,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    sample: LlmSample,
    completion: Completion,
    deadline: float,
    now_s: Callable[[], float],
) -> None:
    connection.connect()
    sample.connected_s = now_s()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    socket_ = connection.sock
    _limit(socket_, deadline)
    data = json.dumps(body).encode()
    connection.request(
        "POST", target.path, data, {"Content-Type": "application/json", "Accept": "text/event-stream", **headers}
    )
    response = connection.getresponse()
    sample.status = response.status
    if response.status != 200:
        completion.broke("status", f"{response.status} {response.read(2000).decode(errors='replace')[:200]}".strip())
        return
    if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
        completion.broke("malformed", f"200 with Content-Type {response.headers.get('Content-Type', '(none)')}")
        return
    parser = SseParser()
    while not completion.done and not completion.failed:
        _limit(socket_, deadline)
        data = response.read1(65536)
        at_s = now_s()
        if not data:
            break
        for event in parser.feed(data):
            completion.take(event, at_s)
    completion.finish()


def _limit(socket_: socket.socket, deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    socket_.settimeout(remaining)
