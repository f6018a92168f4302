"""What an engine tells the gateway of a request behind its reply: the last item of every stream of an LLMServer."""

from dataclasses import dataclass, field

from telemetry.clocks import Clocks


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The first token of a long prompt's unstreamed reply came: ahead of the reply itself."""


@dataclass(frozen=True, slots=True)
class CachedTokens:
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Usage:
    """As the engine's own counters counted it: every sequence of a request has its prompt. Shaped like OpenAI's."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: CachedTokens = CachedTokens(0)


@dataclass(frozen=True, slots=True)
class Report:
    """`used_rt`: the request's charge in resource tokens."""

    usage: Usage
    used_rt: float
    clocks: Clocks = field(default_factory=Clocks)
