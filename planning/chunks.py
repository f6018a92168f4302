"""How many tokens an engine may take into one step, so that no step is longer than the SLO says.

A step decodes what runs and prefills a chunk: itl_base + b·itl_per_sequence + chunk/F. (Not a topic of its own: the LLM
tier's engine arguments call it.)
"""

from dataclasses import dataclass

from configs.errors import InputError
from planning.profile import Profile


@dataclass(frozen=True, slots=True)
class Chunks:
    """`step_tokens`: of one step, decode tokens included; `prompt_tokens`: of one prompt's in a step."""

    step_tokens: int
    prompt_tokens: int


def chunks(step_slo_ms: float, sequences: int, block_tokens: int, profile: Profile) -> Chunks:
    """The largest step within `step_slo_ms` beside `sequences` that decode.

    A single prompt gets half of the chunk, in whole blocks, so that a short one finds room in a long one's steps.
    Raises InputError where the SLO leaves no block to prefill.
    """
    base_ms = profile.inter_token_ms if profile.itl_base_ms is None else profile.itl_base_ms
    decode_ms = base_ms + sequences * (profile.itl_per_sequence_ms or 0.0)
    chunk_tokens = int((step_slo_ms - decode_ms) / 1000 * profile.prefill_tokens_per_s)
    if chunk_tokens < block_tokens:
        problem = f"{sequences} sequences take {decode_ms:.0f} ms: no time is left to prefill {block_tokens} tokens"
        raise InputError("chunks", "step_slo_ms", step_slo_ms, problem)
    return Chunks(chunk_tokens + sequences, max(block_tokens, chunk_tokens // 2 // block_tokens * block_tokens))
