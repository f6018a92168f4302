"""One request on its way through the simulated fleet."""

from typing import Any

PrefixChain = tuple[tuple[int, int], ...]
"""(key, cumulative tokens up to the key's end), shortest first: what of a prompt others may have computed."""


class Request:
    """What a request asks for, and what has happened to it so far. Times in seconds of the virtual clock."""

    __slots__ = (
        "adapter",
        "among",
        "arrival_s",
        "cached_tokens",
        "charged_rt",
        "computed_tokens",
        "finish_s",
        "first_token_s",
        "grows",
        "number",
        "output_tokens",
        "prefix",
        "priority",
        "prompt_tokens",
        "replica",
        "retries",
        "sent_s",
        "tenant",
        "ticket",
    )

    def __init__(
        self,
        number: int,
        tenant: int,
        priority: int,
        arrival_s: float,
        prompt_tokens: int,
        output_tokens: int,
        prefix: PrefixChain = (),
        grows: bool = False,
        adapter: int = 0,
    ) -> None:
        self.number, self.tenant, self.priority = number, tenant, priority
        self.arrival_s = arrival_s
        self.prompt_tokens, self.output_tokens = prompt_tokens, output_tokens
        self.prefix = prefix
        self.grows = grows  # the last key of `prefix` holds this prompt and its reply afterwards: a conversation
        self.adapter = adapter  # 0: the base model
        self.cached_tokens = 0
        self.computed_tokens = 0  # of the prompt, the cached ones included
        self.sent_s = self.first_token_s = self.finish_s = -1.0
        self.replica: Any = None
        self.ticket: Any = None  # the routing rule's own note
        self.among: list[int] | None = None  # the replicas, by number, that it may go to, where not to all
        self.charged_rt = 0.0  # in the fair order, so far
        self.retries = 0
