"""The engine's meter: what each request used, by the engine's own count, whether or not anybody read the reply.

It looks at the states that vLLM's output processor keeps of a request's sequences, the very numbers that vLLM's
counters add up: a client that leaves before its usage chunk is charged what it was served. What leaves before its first
token has no tokens in those counters, and is charged for its time at the prefill rate, up to its prompt.
"""

import json
import logging
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from planning.policies.quota import Limit
from planning.profile import Profile
from serve_apps.gateway.admission import ACCOUNT_HEADER
from serve_apps.gateway.books import Books, Entry
from serve_apps.gateway.charges import resource_tokens
from serve_apps.gateway.report import CachedTokens, Report, Usage
from telemetry.clocks import Clocks

logger = logging.getLogger("ray.serve")

NOBODY = "unaccounted"
"""The tenant of calls that came past every admission."""
RETRY_S = 2.0
KEPT = 1000
"""Requests that are remembered behind their end, for who asks how callers fared."""


@dataclass(eq=False, slots=True)
class Account:
    """One request, and vLLM's RequestState of each of its sequences."""

    request_id: str
    tenant: str
    tenant_class: str
    model: str
    limit: Limit | None
    begun_s: float
    long: bool = False
    states: list[Any] = field(default_factory=list)
    ended_s: float | None = None

    @property
    def prefilled(self) -> bool:
        """Whether a first token came."""
        return any(state.stats.first_token_ts > 0 for state in self.states)

    @property
    def ttft_ms(self) -> float | None:
        """The engine's, of the first sequence; None while it has no token."""
        stats = self.states[0].stats if self.states else None
        return float(stats.first_token_latency * 1000) if stats is not None and stats.first_token_ts > 0 else None

    def report(self, profile: Profile, now_s: float) -> Report:
        """What it came to so far."""
        prompt = cached = output = 0
        used_rt = 0.0
        for state in self.states:
            if state.stats.first_token_ts > 0:
                sequence = (state.prompt_len, state.num_cached_tokens or 0, state.stats.num_generation_tokens)
                prompt, cached, output = prompt + sequence[0], cached + sequence[1], output + sequence[2]
                used_rt += resource_tokens(profile, *sequence)
            else:
                used_rt += min(state.prompt_len, (now_s - self.begun_s) * profile.prefill_tokens_per_s)
        return Report(Usage(prompt, output, CachedTokens(cached)), used_rt, self._clocks())

    def _clocks(self) -> Clocks:
        if self.ttft_ms is None:
            return Clocks()
        stats = self.states[0].stats
        return Clocks(
            engine_ttft_ms=self.ttft_ms,
            engine_queue_ms=(stats.scheduled_ts - stats.queued_ts) * 1000,
            engine_prefill_ms=(stats.first_token_ts - stats.scheduled_ts) * 1000,
        )


class Meter:
    """One an engine. A thread writes to the books; where it cannot reach them, it keeps what it has and tries again."""

    def __init__(self, books_url: str, profile: Profile) -> None:
        from ray.util.metrics import Counter

        self._url, self._profile = books_url, profile
        self._accounts: dict[str, Account] = {}
        self._ended: deque[Account] = deque(maxlen=KEPT)
        self._states: dict[str, Any] = {}
        self._longest_step_s = 0.0
        self._entries: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._tokens = Counter(
            "firstclause_tokens_total", "Tokens served, by the engine's count.", ("model", "tenant", "kind")
        )
        self._thread = threading.Thread(target=self._write, name="meter", daemon=True)
        self._thread.start()

    def attach(self, output_processor: Any) -> None:
        """See every sequence that enters the engine. (vLLM has no hook that also tells of aborted ones.)"""
        add_request = output_processor.add_request

        def added(request: Any, *arguments: Any, **options: Any) -> None:
            add_request(request, *arguments, **options)
            name = request.external_req_id.partition("-")[2]  # chatcmpl-ID, or cmpl-ID-INDEX
            account = self._accounts.get(name) or self._accounts.get(name.rpartition("-")[0])
            if account is not None:
                account.states.append(output_processor.request_states[request.request_id])

        output_processor.add_request = added
        self._states = output_processor.request_states
        process_outputs = output_processor.process_outputs

        def processed(outputs: Any, timestamp_s: float | None = None, stats: Any = None) -> Any:
            done = process_outputs(outputs, timestamp_s, stats)
            if stats is not None:
                self._longest_step_s = max(self._longest_step_s, *stats.inter_token_latencies_iter, 0.0)
            return done

        output_processor.process_outputs = processed

    def take_longest_step_ms(self) -> float:
        """The longest that a running request waited for its next token since the last call, by the engine's clock."""
        longest_s, self._longest_step_s = self._longest_step_s, 0.0
        return longest_s * 1000

    def unfinished(self, account: Account) -> list[str]:
        """The engine's ids of this request's sequences that it still works on."""
        return [state.request_id for state in account.states if state.request_id in self._states]

    def open(self, request_id: str, model: str, headers: dict[str, str]) -> Account:
        """A request is about to enter the engine."""
        said = json.loads(headers.get(ACCOUNT_HEADER, "{}"))
        quota = said.get("quota")
        account = Account(
            request_id, said.get("tenant", NOBODY), said.get("class", ""), model,
            Limit(rate_rt_per_s=quota[0], burst_rt=quota[1]) if quota else None, time.monotonic(),
            said.get("long", False),
        )  # fmt: skip
        self._accounts[request_id] = account
        return account

    def live(self) -> list[Account]:
        """The requests that are here now."""
        return list(self._accounts.values())

    def ended(self, since_s: float) -> list[Account]:
        """The newest of those that ended since (a monotonic time)."""
        return [account for account in self._ended if (account.ended_s or 0) >= since_s]

    def report(self, account: Account) -> Report:
        return account.report(self._profile, time.monotonic())

    def close(self, account: Account) -> None:
        """The request ended, was cut or was left: write down what it came to."""
        self._accounts.pop(account.request_id, None)
        account.ended_s = time.monotonic()
        self._ended.append(account)
        if not account.states and account.limit is None:
            return  # refused before it was anything
        report = self.report(account)
        usage, cached = report.usage, report.usage.prompt_tokens_details.cached_tokens
        kinds = {"input": usage.prompt_tokens - cached, "cached": cached, "output": usage.completion_tokens}
        for kind, tokens in kinds.items():
            if tokens:
                self._tokens.inc(tokens, {"model": account.model, "tenant": account.tenant, "kind": kind})
        self._entries.put(
            Entry(
                account.request_id, account.tenant, account.model, account.limit, report.used_rt,
                usage.prompt_tokens, cached, usage.completion_tokens,
            )
        )  # fmt: skip

    def stop(self) -> None:
        """Write what is left, as far as the books can be reached."""
        self._entries.put(None)
        self._thread.join(5)

    def _write(self) -> None:
        books: Books | None = None
        ending = False
        while not ending:
            entries = [self._entries.get()]
            while not self._entries.empty():
                entries.append(self._entries.get())
            ending = None in entries
            lines = [entry for entry in entries if entry is not None]
            while lines:
                try:
                    books = books or Books(self._url)
                    books.settle(lines)
                    break
                except SQLAlchemyError as error:
                    logger.error("the books cannot be written, %d lines wait: %s", len(lines), type(error).__name__)
                    if ending:
                        return
                    time.sleep(RETRY_S)
        if books is not None:
            books.close()
