"""What a scripted server does to each request, by the request's number: so that what a tool must report is known."""

import argparse
from typing import Annotated

from pydantic import Field

from configs.schema import Frozen

Every = Annotated[int, Field(ge=1)] | None


class LlmScript(Frozen):
    """Faults hit the requests whose number (from 1) `…_every` divides. A stall moves what falls into it to its end."""

    base_ms: float = 50
    """From the request read to the first chunk."""
    chunks: int = 8
    chunk_ms: float = 20
    tokens_per_chunk: int = 1
    stall_s: tuple[float, float] | None = None
    """Nothing is sent between these, counted from the first request."""
    slow_every: Every = None
    slow_ms: float = 0
    """Added to base_ms."""
    accept_ms: float = 0
    """Every connection is left waiting this long before a byte of it is read."""
    refuse_every: Every = None
    """The connection is reset before an answer's first byte."""
    status_every: Every = None
    """503."""
    wrong_every: Every = None
    """200 and a JSON text that is no completion."""
    error_every: Every = None
    """An error event after two chunks of a 200 stream."""
    drop_every: Every = None
    """The connection is reset after two chunks."""
    unfinished_every: Every = None
    """The stream ends well, but for [DONE]."""
    empty_every: Every = None
    """[DONE] without content."""
    slots: int | None = None
    """So many are answered at a time; the others wait their turn."""
    odd_pieces: bool = False
    """Events are cut at every seventh byte, with CRLF, comments and characters of several bytes."""
    clocks: bool = False
    """Report base_ms as engine_ttft_ms to requests with X-Clocks."""
    die_after: int | None = None
    """The next request after this many finds the server gone, and so do those under way."""

    def hits(self, fault: str, number: int) -> bool:
        every = getattr(self, f"{fault}_every")
        return every is not None and number % every == 0

    def first_chunk_ms(self, number: int) -> float:
        return self.base_ms + (self.slow_ms if self.hits("slow", number) else 0)

    def moved_s(self, at_s: float) -> float:
        """When what is nominally due at `at_s` is sent."""
        if self.stall_s and self.stall_s[0] <= at_s < self.stall_s[1]:
            return self.stall_s[1]
        return at_s


def script_argument(text: str) -> LlmScript:
    try:
        return LlmScript.model_validate_json(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
