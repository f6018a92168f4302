"""What one request did, as the generator saw it. Times are seconds of the run, on the generator's monotonic clock."""

from dataclasses import asdict, dataclass, field
from typing import Any, get_args, get_type_hints

from telemetry.clocks import NAMES

CLOCKS = NAMES

OUTCOMES = {
    "ok": "a whole answer: content, and [DONE] after it",
    "refused": "no connection, or one that broke before the first byte of an answer",
    "status": "an HTTP status other than 200",
    "malformed": "200 with something that is no stream of completion chunks",
    "error_event": "an error inside a stream that began with 200",
    "dropped": "the connection broke inside the stream",
    "unfinished": "the stream ended without [DONE]",
    "aborted": "the server ended the answer itself (finish_reason abort or error)",
    "empty": "a finished answer without any content",
    "timeout": "not finished within the request's time limit",
    "interrupted": "the run was stopped first: neither good nor bad",
}


@dataclass
class LlmSample:
    """One request. Token counts are the server's own where it reports usage, else content chunks are counted."""

    conversation: int
    turn: int
    due_s: float
    sent_s: float = 0.0
    """When the connection was begun: setting it up counts."""
    connected_s: float | None = None
    first_token_s: float | None = None
    ended_s: float = 0.0
    outcome: str = "ok"
    detail: str = ""
    status: int | None = None
    tenant: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int = 0
    tokens_from: str = "usage"
    """'usage' or 'chunks'."""
    chunk_s: list[float] = field(default_factory=list)
    """When each chunk with content was read."""
    chunk_tokens: list[int] = field(default_factory=list)
    """Tokens in each, where the server said so chunk by chunk; else empty."""
    engine_ttft_ms: float | None = None
    engine_queue_ms: float | None = None
    engine_prefill_ms: float | None = None
    gateway_queue_ms: float | None = None
    route_ms: float | None = None
    server_ttft_ms: float | None = None

    @property
    def good(self) -> bool:
        return self.outcome == "ok"

    def inter_token_ms(self) -> float | None:
        """The mean time between two output tokens: the first chunk's tokens came at once, so the stretch after it
        belongs to the others. None where there is no other."""
        if len(self.chunk_s) < 2:
            return None
        first = self.chunk_tokens[0] if self.chunk_tokens else self.output_tokens / len(self.chunk_s)
        others = self.output_tokens - first
        return (self.chunk_s[-1] - self.chunk_s[0]) * 1000 / others if others > 0 else None

    def document(self) -> dict[str, Any]:
        return asdict(self)


def columns(sample_type: type[Any]) -> dict[str, type[Any]]:
    """A sample type's columns and their plain types (None taken out)."""
    plain = {}
    for name, hint in get_type_hints(sample_type).items():
        options = [option for option in get_args(hint) if option is not type(None)]
        plain[name] = options[0] if len(options) == 1 and type(None) in get_args(hint) else hint
    return plain
