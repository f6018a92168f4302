"""The client against a scripted server over real sockets: every way in which a request can end."""

import socket
import threading
import time
from collections.abc import Callable

import pytest

from loadtests.llm_client import Target, stream
from loadtests.sample import LlmSample

BODY = {"model": "m", "stream": True, "messages": [], "stream_options": {"include_usage": True}}


def ask(url: str, timeout_s: float = 10) -> tuple[LlmSample, str]:
    begun = time.monotonic()
    sample = LlmSample(0, 0, 0.0)
    text = stream(Target(url), BODY, {}, sample, timeout_s, lambda: time.monotonic() - begun)
    return sample, text


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ({}, "ok"),
        ({"odd_pieces": True}, "ok"),
        ({"refuse_every": 1}, "refused"),
        ({"status_every": 1}, "status"),
        ({"wrong_every": 1}, "malformed"),
        ({"error_every": 1}, "error_event"),
        ({"drop_every": 1}, "dropped"),
        ({"unfinished_every": 1}, "unfinished"),
        ({"empty_every": 1}, "empty"),
    ],
)
def test_outcomes(llm_server: Callable[..., str], script: dict[str, int], outcome: str) -> None:
    sample, _ = ask(llm_server(base_ms=1, chunk_ms=1, **script))
    assert sample.outcome == outcome
    assert sample.detail or sample.good


def test_text_tokens_and_order_of_times(llm_server: Callable[..., str]) -> None:
    sample, text = ask(llm_server(base_ms=20, chunks=5, chunk_ms=5, tokens_per_chunk=3, odd_pieces=True))
    assert text == " café" * 15
    assert (sample.output_tokens, sample.prompt_tokens, len(sample.chunk_s)) == (15, 10, 5)
    assert sample.connected_s is not None and sample.first_token_s is not None
    assert sample.sent_s <= sample.connected_s <= sample.first_token_s == sample.chunk_s[0] <= sample.ended_s
    assert sample.chunk_s == sorted(sample.chunk_s)


def test_base_urls_with_and_without_v1(llm_server: Callable[..., str]) -> None:
    url = llm_server(base_ms=1, chunk_ms=1)
    assert all(ask(f"{url}{path}")[0].good for path in ("", "/", "/v1", "/v1/"))


def test_timeout_before_and_inside_the_stream(llm_server: Callable[..., str]) -> None:
    late, _ = ask(llm_server(base_ms=60_000), timeout_s=0.3)
    assert (late.outcome, late.first_token_s) == ("timeout", None)
    slow, _ = ask(llm_server(base_ms=1, chunk_ms=60_000), timeout_s=0.5)
    assert slow.outcome == "timeout" and slow.first_token_s is not None


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        sample, _ = ask(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert (sample.outcome, sample.connected_s) == ("refused", None)


def test_something_that_is_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        sample, _ = ask(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert sample.outcome == "refused"
    assert "BadStatusLine" in sample.detail
