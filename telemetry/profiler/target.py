"""What is measured: anything that completes a prompt of token ids, one stream of tokens a prompt.

TargetFailed          the target refused, broke off or answered something else than was asked; a retry may help
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class TargetFailed(RuntimeError):
    """No answer, a broken one, or one with other token counts than were asked for."""


@dataclass(frozen=True)
class Reply:
    """One streamed answer. Times are seconds of the client's monotonic clock.

    at_s: when each chunk was read; tokens: output tokens received up to and with each chunk.
    """

    sent_s: float
    at_s: tuple[float, ...]
    tokens: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int

    @property
    def ttft_s(self) -> float:
        return self.at_s[0] - self.sent_s


class Target(Protocol):
    """Raises TargetFailed. Cancelling `complete` ends the request."""

    async def complete(self, prompt: Sequence[int], output_tokens: int) -> Reply:
        """Exactly `output_tokens` tokens, whatever the model would rather say."""


class Prober:
    """Asks a target with prompts that nobody asked before, so that nothing of them is cached, and checks the counts."""

    def __init__(self, target: Target, vocabulary: int, seed: int) -> None:
        self._target, self._vocabulary = target, vocabulary
        self._rng = np.random.default_rng(seed)

    async def ask(self, prompt_tokens: int, output_tokens: int) -> Reply:
        """A fresh prompt's reply. Raises TargetFailed."""
        # Vocabularies keep their special tokens at either end.
        low, high = self._vocabulary // 8, self._vocabulary * 7 // 8
        prompt = self._rng.integers(low, high, prompt_tokens).tolist()
        reply = await self._target.complete(prompt, output_tokens)
        if reply.prompt_tokens != prompt_tokens or not reply.tokens or reply.tokens[-1] != output_tokens:
            said = reply.tokens[-1] if reply.tokens else 0
            raise TargetFailed(
                f"asked for {prompt_tokens} prompt and {output_tokens} output tokens, "
                f"the answer counts {reply.prompt_tokens} and {said}"
            )
        if reply.cached_tokens:
            raise TargetFailed(f"{reply.cached_tokens} tokens of a fresh random prompt were found in the prefix cache")
        return reply

    async def ask_together(self, count: int, prompt_tokens: int, output_tokens: int) -> list[Reply]:
        """So many fresh prompts at once. Raises TargetFailed, the first one's, and ends the others."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.ask(prompt_tokens, output_tokens)) for _ in range(count)]
        except* TargetFailed as failed:
            raise TargetFailed(str(failed.exceptions[0])) from failed
        return [task.result() for task in tasks]
