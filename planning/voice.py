"""voice: 300 ms line by line, and the calls that a replica holds within its line.

A replica's batch may grow until first token and clause no longer fit their two lines; a call is in the LLM only a share
of the time, its duty.
"""

from typing import Annotated, Any

from pydantic import Field

from configs.errors import MISSING, InputError
from configs.schema import Frozen
from planning.profile import Profile
from planning.quantities import Ceiling, Count, NonNegative, Outputs, Positive, Scenario, round_down, round_up
from planning.topic import Picture, Row, Topic

RESPONSE_MS = 300.0


class AllocationMs(Frozen):
    """What each line of the answer may take (ms)."""

    network: NonNegative
    endpoint: NonNegative
    asr: NonNegative
    llm_first_token: NonNegative
    clause: NonNegative
    tts: NonNegative


class VoiceScenario(Scenario):
    allocation_ms: AllocationMs
    clause_tokens: Annotated[Count, Field(description="up to the end of the first clause")]
    itl_base_ms: NonNegative | None = None
    itl_per_sequence_ms: NonNegative | None = None
    ttft_ms: NonNegative | None = None
    calls: Count
    reply_tokens: Count
    turn_period_s: Positive
    llm_calls_per_turn: Positive
    utilization_ceiling: Ceiling
    profile: Profile | None = None


class VoiceOutputs(Outputs):
    total_ms: Annotated[float, Row("Σ allocation_ms", "ms")]
    over_ms: Annotated[float, Row("total_ms − 300", "ms")]
    largest_line: Annotated[str, Row("the line with the most")]
    batch_max: Annotated[
        int,
        Row(
            "largest b with ttft_ms + (clause_tokens − 1) · (itl_base_ms + b · itl_per_sequence_ms) "
            "<= llm_first_token + clause",
            "sequences",
        ),
    ]
    duty: Annotated[
        float,
        Row("llm_calls_per_turn · (ttft_ms + (reply_tokens − 1) · itl(batch_max)) / 1000 / turn_period_s"),
    ]
    calls_per_replica: Annotated[int, Row("⌊batch_max · utilization_ceiling / duty⌋", "calls")]
    replicas: Annotated[int, Row("⌈calls / calls_per_replica⌉", "replicas")]


class Pace(Frozen):
    """How fast a replica answers: first token on an idle engine, then itl_base_ms + b·itl_per_sequence_ms a token."""

    ttft_ms: NonNegative
    itl_base_ms: NonNegative
    itl_per_sequence_ms: NonNegative

    def itl_ms(self, batch: int) -> float:
        return self.itl_base_ms + batch * self.itl_per_sequence_ms


def pace_of(s: VoiceScenario) -> Pace:
    """The scenario's pace, from its profile where it gives none. Raises InputError where neither does."""
    rates: dict[str, Any] = {}
    for key in Pace.model_fields:
        own = getattr(s, key)
        rates[key] = getattr(s.profile, key, None) if own is None else own
        if rates[key] is None:
            raise InputError("voice", key, MISSING, "missing, and no profile gives it")
    return Pace(**rates)


def batch_max(pace: Pace, clause_tokens: int, allowed_ms: float) -> int:
    """The largest batch at which the first clause is there within `allowed_ms`.

    Raises InputError where there is none, or where nothing bounds it.
    """
    if clause_tokens == 1:
        raise InputError("voice", "clause_tokens", 1, "a clause of one token sets no bound on the batch")
    if pace.itl_per_sequence_ms == 0:
        raise InputError("voice", "itl_per_sequence_ms", 0, "where a sequence costs nothing, nothing bounds the batch")
    itl_ms = (allowed_ms - pace.ttft_ms) / (clause_tokens - 1)
    batch = round_down((itl_ms - pace.itl_base_ms) / pace.itl_per_sequence_ms)
    if batch < 1:
        alone_ms = pace.ttft_ms + (clause_tokens - 1) * pace.itl_ms(1)
        problem = f"even alone the first clause takes {alone_ms:g} ms; {allowed_ms:g} ms are allowed"
        raise InputError("voice", "clause_tokens", clause_tokens, problem)
    return batch


def plan_voice(s: VoiceScenario) -> VoiceOutputs:
    """The budget and the calls a replica holds. Raises InputError where a replica does not hold one."""
    lines: dict[str, float] = s.allocation_ms.model_dump()
    pace = pace_of(s)
    batch = batch_max(pace, s.clause_tokens, s.allocation_ms.llm_first_token + s.allocation_ms.clause)
    reply_s = (pace.ttft_ms + (s.reply_tokens - 1) * pace.itl_ms(batch)) / 1000
    duty = s.llm_calls_per_turn * reply_s / s.turn_period_s
    calls_per_replica = round_down(batch * s.utilization_ceiling / duty)
    if calls_per_replica < 1:
        problem = f"a call keeps {duty:.2f} sequences busy, a replica holds {batch * s.utilization_ceiling:.2f} in time"
        raise InputError("voice", "turn_period_s", s.turn_period_s, problem)
    return VoiceOutputs(
        total_ms=sum(lines.values()),
        over_ms=sum(lines.values()) - RESPONSE_MS,
        largest_line=max(lines, key=lambda line: lines[line]),
        batch_max=batch,
        duty=duty,
        calls_per_replica=calls_per_replica,
        replicas=round_up(s.calls / calls_per_replica),
    )


NO_MODEL = {"network", "endpoint"}
"""Lines that no model's speed shortens: the way there and back, and the silence that says a turn is over."""


def finding(s: VoiceScenario, o: VoiceOutputs) -> str:
    largest_ms = getattr(s.allocation_ms, o.largest_line)
    kind = "no model" if o.largest_line in NO_MODEL else "a model"
    over = f", {o.over_ms:g} over" if o.over_ms > 0 else ""
    return (
        f"The lines add up to {o.total_ms:g} of {RESPONSE_MS:g} ms{over}; the largest, {o.largest_line} at "
        f"{largest_ms:g} ms, is {kind}. A replica keeps its lines up to {o.batch_max} sequences at once; a call is in "
        f"it {o.duty:.1%} of the time, so it holds {o.calls_per_replica} calls, and {s.calls} calls take {o.replicas} "
        f"replicas."
    )


def picture(s: VoiceScenario, o: VoiceOutputs) -> Picture:
    lines: dict[str, float] = s.allocation_ms.model_dump()
    return Picture("line", "ms", list(lines), {"allocation_ms": list(lines.values())}, bars=True)


TOPIC = Topic(
    "Where do 300 ms go, how many calls does a replica hold, and how many replicas do the calls take?",
    VoiceScenario,
    plan_voice,
    finding,
    picture,
)
