"""What a request is reckoned at before it runs, and charged once it was measured, by planning.quotas."""

from dataclasses import dataclass
from typing import Any

from configs.tenants import TenantConfig
from planning.policies.quota import Limit
from planning.profile import Profile
from planning.quotas import charge

CHARS_PER_TOKEN = 3.0
"""English has four or more, code and other scripts fewer: an estimate that is put right when the engine has counted."""
TOKENS_PER_MESSAGE = 8
UNLIMITED_RT = 1e18


@dataclass(frozen=True, slots=True)
class Size:
    """A request's tokens; `sequences` share the prompt (n)."""

    prompt_tokens: float
    output_tokens: float
    sequences: int = 1


def resource_tokens(profile: Profile, prompt_tokens: float, cached_tokens: float, output_tokens: float) -> float:
    """The charge of one sequence. One that is longer than a replica's KV memory is charged as if it just fitted."""
    room = profile.kv_capacity_bytes / profile.kv_bytes_per_token
    prompt_tokens, output_tokens = min(prompt_tokens, room), min(output_tokens, max(0.0, room - prompt_tokens))
    cached = min(1.0, cached_tokens / prompt_tokens) if prompt_tokens else 0.0
    return charge(prompt_tokens, cached, output_tokens, profile).resource_tokens


def estimate_rt(profile: Profile, size: Size) -> float:
    """What a request is reserved at: nothing cached; what follows the first sequence has its prompt cached."""
    first = resource_tokens(profile, size.prompt_tokens, 0, size.output_tokens)
    if size.sequences == 1:
        return first
    another = resource_tokens(profile, size.prompt_tokens, size.prompt_tokens, size.output_tokens)
    return first + (size.sequences - 1) * another


def limit_of(config: TenantConfig) -> Limit:
    """The tenant's limit; one without a quota has a bucket that nothing empties."""
    quota = config.quota
    return Limit(
        rate_rt_per_s=quota.rate_rt_per_s if quota else UNLIMITED_RT,
        burst_rt=quota.burst_rt if quota else UNLIMITED_RT,
        max_kv_share=config.max_kv_share,
    )


def size_of(body: Any, context_tokens: int, unstated_output_tokens: int) -> Size:
    """What a chat or completion request may come to, from its text's length: the engine alone tokenises."""
    messages = getattr(body, "messages", None)
    if messages is not None:
        prompt = sum(TOKENS_PER_MESSAGE + _chars(message.get("content")) / CHARS_PER_TOKEN for message in messages)
        prompts = 1
    else:
        parts = _prompts(body.prompt)
        prompt = sum(len(part) / CHARS_PER_TOKEN if isinstance(part, str) else len(part) for part in parts)
        prompts = max(1, len(parts))
        prompt /= prompts
    stated = getattr(body, "max_completion_tokens", None) or body.max_tokens
    prompt = min(prompt, float(context_tokens))
    output = min(unstated_output_tokens if stated is None else max(0, stated), context_tokens - prompt)
    return Size(max(1.0, prompt), max(1.0, output), max(1, body.n or 1) * prompts)


def _chars(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(len(part.get("text") or "") for part in content if isinstance(part, dict))
    return 0


def _prompts(prompt: Any) -> list[Any]:
    """A text, token ids, or a list of either."""
    if prompt is None:
        return []
    if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], int)):
        return [prompt]
    return list(prompt)
