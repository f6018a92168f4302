"""A streamed chat completion, judged event by event: when content came, how much, and whether it was whole."""

import json
from typing import Any

from loadtests.sample import CLOCKS, LlmSample
from loadtests.sse import ServerEvent

CONTENT = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")


class Completion:
    """Takes a stream's events and writes what they say into a sample."""

    def __init__(self, sample: LlmSample) -> None:
        self._sample = sample
        self._said: int | None = None
        self._reported = 0
        self.text: list[str] = []
        self.done = False
        self.failed = False

    def take(self, event: ServerEvent, at_s: float) -> None:
        """One event, read at `at_s`. After an error or [DONE] nothing more is taken."""
        if self.done or self.failed:
            return
        if event.data == "[DONE]":
            self.done = True
            return
        try:
            chunk = json.loads(event.data)
        except ValueError:
            chunk = None
        if event.name == "error" or (
            isinstance(chunk, dict) and (chunk.get("error") or chunk.get("object") == "error")
        ):
            self._fail(
                "error_event", _short(chunk["error"] if isinstance(chunk, dict) and "error" in chunk else event.data)
            )
        elif not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
            self._fail("malformed", _short(event.data))
        else:
            self._chunk(chunk, at_s)

    def finish(self) -> None:
        """The stream ended well as HTTP: whether it was an answer."""
        sample = self._sample
        self._count()
        if self.failed or sample.outcome != "ok":
            return
        if not self.done:
            self._fail("unfinished" if sample.chunk_s else "malformed", "the stream ended without [DONE]")
        elif not sample.chunk_s:
            self._fail("empty", "no content before [DONE]")

    def broke(self, outcome: str, detail: str) -> None:
        """The stream broke off. After [DONE] that hurts nobody."""
        if self.done or self.failed:
            self.finish()
        else:
            self._count()
            self._fail(outcome, detail)

    def _chunk(self, chunk: dict[str, Any], at_s: float) -> None:
        sample = self._sample
        usage = chunk.get("usage") or {}
        clocks = chunk.get("clocks") or {}
        for name in CLOCKS:
            if isinstance(clocks.get(name), int | float):
                setattr(sample, name, float(clocks[name]))
        if isinstance(usage.get("completion_tokens"), int):
            self._said = usage["completion_tokens"]
            sample.prompt_tokens = usage.get("prompt_tokens")
            sample.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            content = next((delta[name] for name in CONTENT if delta.get(name)), None) or choice.get("text")
            if content:
                if sample.first_token_s is None:
                    sample.first_token_s = at_s
                sample.chunk_s.append(at_s)
                if isinstance(content, str):
                    self.text.append(content)
                if self._said is not None:
                    sample.chunk_tokens.append(self._said - self._reported)
                    self._reported = self._said
            if choice.get("finish_reason") in ("abort", "error"):
                self._fail("aborted", f"finish_reason {choice['finish_reason']}")

    def _count(self) -> None:
        sample = self._sample
        if len(sample.chunk_tokens) != len(sample.chunk_s):
            sample.chunk_tokens.clear()
        if self._said is None:
            sample.tokens_from = "chunks"
            sample.output_tokens = len(sample.chunk_s)
        else:
            sample.output_tokens = self._said

    def _fail(self, outcome: str, detail: str) -> None:
        self.failed = True
        self._sample.outcome, self._sample.detail = outcome, detail


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else text[:199] + "…"
