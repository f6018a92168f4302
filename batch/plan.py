"""What a job will cost, and what it did: its tokens, priced by planning.offline on a replica's profile.

The same formula prices both, so that what differs is the tokens: the estimate takes a row's longest answer
(max_tokens) times `output_share`, and a prefix cache that keeps what the row before left (rows are ordered by prefix).
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise, takewhile
from typing import Any

from batch import window
from batch.rows import Request
from configs.gateway import UNSTATED_OUTPUT_TOKENS
from planning.offline import Cuts, OfflineOutputs, OfflineScenario, Pass, plan_offline
from planning.profile import Profile

SAMPLE_ROWS = 5000
"""Rows that are tokenised; more are taken to be like them."""


@dataclass(frozen=True)
class Tokens:
    """A job's rows and tokens. `asked_rows`: those that the engine is asked about; prompt and cached are theirs."""

    rows: float
    asked_rows: float
    prompt_tokens: float
    cached_tokens: float
    output_tokens: float

    def scaled(self, factor: float) -> "Tokens":
        return Tokens(**{name: value * factor for name, value in asdict(self).items()})


def estimate(
    windows: Iterable[list[Request]], tokenised: Callable[[Request], list[int]], output_share: float, block_tokens: int
) -> Tokens:
    """Of the first SAMPLE_ROWS rows or so, whole windows; all of them with `scaled`. A cache has whole blocks."""
    rows = asked = prompt = cached = output = 0.0
    for requests in windows:
        found = window.groups(requests)
        tokens = [tokenised(group[0]) for group in found]
        rows += len(requests)
        asked += len(found)
        prompt += sum(map(len, tokens))
        cached += sum(_shared(one, next_) // block_tokens * block_tokens for one, next_ in pairwise(tokens))
        output += sum(_most(group[0]) for group in found) * output_share
        if rows >= SAMPLE_ROWS:
            break
    return Tokens(rows, asked, prompt, cached, output)


def _shared(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _most(request: Request) -> int:
    most = request.body.get("max_completion_tokens") or request.body.get("max_tokens")
    return most if isinstance(most, int) else UNSTATED_OUTPUT_TOKENS


def scenario(name: str, tokens: Tokens, profile: Profile, weights_bytes: float) -> OfflineScenario:
    """The job as planning.offline's: one pass, its mean row. What is cached is the shared prefix.

    The memory's rate is the one at which a step of one sequence takes itl_base_ms, as the profile measured it.
    """
    step_ms = profile.itl_base_ms or profile.inter_token_ms
    asked = max(tokens.asked_rows, 1e-9)
    prompt, cached = tokens.prompt_tokens / asked, min(tokens.cached_tokens, tokens.prompt_tokens - asked) / asked
    one = Pass(
        name=name, shared_prefix_tokens=max(0.0, cached), document_tokens=prompt - max(0.0, cached),
        output_tokens=tokens.output_tokens / asked, fraction=1.0,
    )  # fmt: skip
    cuts = Cuts(prefix_caching=True, deduplicated_fraction=1 - tokens.asked_rows / tokens.rows)
    return OfflineScenario(
        documents=tokens.rows, passes=(one,), weights_bytes=weights_bytes,
        memory_bytes_per_s=weights_bytes / (step_ms / 1000), cuts=cuts, profile=profile,
    )  # fmt: skip


def priced(name: str, tokens: Tokens, profile: Profile, weights_bytes: float) -> OfflineOutputs:
    """Raises InputError where not even one row fits the KV memory."""
    return plan_offline(scenario(name, tokens, profile, weights_bytes))


def measured(usage: dict[str, Any], rows: int, asked_rows: float) -> Tokens:
    """What a batch's `usage` says."""
    cached = usage["input_tokens_details"]["cached_tokens"]
    return Tokens(rows, asked_rows, usage["input_tokens"], cached, usage["output_tokens"])
