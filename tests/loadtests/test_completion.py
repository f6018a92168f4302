"""A completion's events -> outcome, tokens and times."""

import json
from typing import Any

import pytest

from loadtests.completion import Completion
from loadtests.sample import LlmSample
from loadtests.sse import ServerEvent


def chunk(content: str | None = None, **more: Any) -> ServerEvent:
    delta = {} if content is None else {"content": content}
    return ServerEvent(json.dumps({"choices": [{"delta": delta, "finish_reason": more.pop("finish", None)}], **more}))


def taken(*events: ServerEvent) -> LlmSample:
    """Events that arrive a second apart, from 1 s on, and then the stream's end."""
    sample = LlmSample(0, 0, 0.0)
    completion = Completion(sample)
    for at_s, event in enumerate(events, 1):
        completion.take(event, float(at_s))
    completion.finish()
    return sample


DONE = ServerEvent("[DONE]")


def test_whole_answer() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    sample = taken(chunk(""), chunk("a"), chunk("b"), ServerEvent(json.dumps({"choices": [], "usage": usage})), DONE)
    assert (sample.outcome, sample.first_token_s, sample.chunk_s) == ("ok", 2.0, [2.0, 3.0])
    assert (sample.output_tokens, sample.tokens_from, sample.prompt_tokens, sample.cached_tokens) == (5, "usage", 9, 4)


def test_a_role_is_no_first_token() -> None:
    role = ServerEvent(json.dumps({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    assert taken(role, role, chunk("a"), DONE).first_token_s == 3.0


def test_inter_token_time_with_usage_in_each_chunk() -> None:
    """1 token, then 4, then 4, a second apart: 8 tokens came in 2 s after the first."""
    chunks = [chunk("x", usage={"completion_tokens": n}) for n in (1, 5, 9)]
    sample = taken(*chunks, DONE)
    assert sample.chunk_tokens == [1, 4, 4]
    assert sample.inter_token_ms() == 250


def test_inter_token_time_without_it_shares_the_tokens_out() -> None:
    """12 tokens in 3 chunks a second apart: 8 of them came after the first chunk, in 2 s."""
    sample = taken(
        chunk("x"), chunk("x"), chunk("x"),
        ServerEvent(json.dumps({"choices": [], "usage": {"completion_tokens": 12}})), DONE,
    )  # fmt: skip
    assert sample.inter_token_ms() == 250


def test_one_chunk_has_no_inter_token_time() -> None:
    assert taken(chunk("all of it"), DONE).inter_token_ms() is None


def test_without_usage_chunks_are_counted() -> None:
    sample = taken(chunk("a"), chunk("b"), DONE)
    assert (sample.output_tokens, sample.tokens_from) == (2, "chunks")


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ((chunk("a"),), "unfinished"),
        ((chunk("a"), ServerEvent('{"error": {"message": "no"}}'), DONE), "error_event"),
        ((chunk("a"), ServerEvent('{"object": "error", "message": "no"}'), DONE), "error_event"),
        ((chunk("a"), ServerEvent("the engine died", "error"), DONE), "error_event"),
        ((chunk("a"), ServerEvent("<html>"), DONE), "malformed"),
        ((ServerEvent("[1, 2]"), DONE), "malformed"),
        ((), "malformed"),
        ((chunk(""), DONE), "empty"),
        ((DONE,), "empty"),
        ((chunk("a"), chunk(finish="abort"), DONE), "aborted"),
        ((chunk("a"), chunk(finish="stop"), DONE), "ok"),
        ((chunk("a"), DONE, ServerEvent('{"error": 1}')), "ok"),
    ],
)
def test_outcomes(events: tuple[ServerEvent, ...], outcome: str) -> None:
    assert taken(*events).outcome == outcome


def test_tool_calls_and_reasoning_are_content() -> None:
    call = ServerEvent(json.dumps({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}))
    thought = ServerEvent(json.dumps({"choices": [{"delta": {"reasoning_content": "hm"}}]}))
    assert taken(thought, call, DONE).chunk_s == [1.0, 2.0]


def test_server_clocks() -> None:
    clocks = ServerEvent(json.dumps({"choices": [], "clocks": {"engine_ttft_ms": 40, "route_ms": 1.5, "other": 1}}))
    sample = taken(chunk("a"), clocks, DONE)
    assert (sample.engine_ttft_ms, sample.route_ms, sample.gateway_queue_ms) == (40.0, 1.5, None)


def test_a_break_after_done_hurts_nobody() -> None:
    sample = LlmSample(0, 0, 0.0)
    completion = Completion(sample)
    completion.take(chunk("a"), 1.0)
    completion.take(DONE, 2.0)
    completion.broke("dropped", "reset")
    assert sample.outcome == "ok"
