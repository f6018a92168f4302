"""What the callers send: streams of requests, each of one tenant, drawn before the run and so alike in every arm."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from pydantic import model_validator

from configs.errors import MISSING, InputError
from configs.schema import Frozen, parse
from planning.quantities import Count, Fraction, NonNegative, Positive, Whole
from planning.simulator.draws import Arrivals, Floats, Integers, Length
from planning.simulator.request import PrefixChain, Request


class Shared(Frozen):
    """Prefixes that many requests begin with: system prompts, documents, few-shot examples.

    The first of `count` takes `hot_share` of the requests (0: its even share); the others share the rest by Zipf's
    law with exponent `zipf_s`. Every `shift_s` all are replaced by new ones.
    """

    tokens: Count
    count: Count = 1
    zipf_s: NonNegative = 0.0
    hot_share: Fraction = 0.0
    shift_s: Positive | None = None


class Conversations(Frozen):
    """A request continues one of `active` conversations, whose earlier turns are its prompt's beginning.

    After `turns` turns a conversation is replaced by a new one.
    """

    active: Count
    turns: Count


class TraceRow(Frozen):
    """One line of a trace file, JSON."""

    at_s: NonNegative
    prompt_tokens: Count
    output_tokens: Count
    prefix: str = ""  # requests with the same name begin with the same `prefix_tokens` tokens
    prefix_tokens: Whole = 0


class Stream(Frozen):
    """One tenant's requests. A smaller `priority` goes first, as in vLLM; `weight` is the tenant's in fair order.

    The prompt is the shared prefix, the conversation so far and `suffix_tokens` of its own. `trace` is the path of a
    file of JSON lines (TraceRow) that takes the place of arrivals, prompts and replies.
    """

    tenant: str
    priority: int = 0
    weight: Positive = 1.0
    arrivals: Arrivals | None = None
    suffix_tokens: Length | None = None
    output_tokens: Length | None = None
    shared: Shared | None = None
    conversations: Conversations | None = None
    adapters: Whole = 0
    adapter_zipf_s: NonNegative = 1.0
    trace: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "Stream":
        drawn = {"arrivals": self.arrivals, "suffix_tokens": self.suffix_tokens, "output_tokens": self.output_tokens}
        if self.trace is None and None in drawn.values():
            raise ValueError(f"{next(k for k, v in drawn.items() if v is None)} is missing, and there is no trace")
        if self.trace is not None and (self.shared or self.conversations or any(v is not None for v in drawn.values())):
            raise ValueError(
                "a trace takes the place of arrivals, lengths, shared and conversations: give one or the other"
            )
        return self


class Batch(Frozen):
    """Rows that wait from the start and may run whenever nobody else needs the fleet."""

    rows: Count
    suffix_tokens: Length
    output_tokens: Length
    shared: Shared | None = None
    deadline_s: Positive | None = None


def zipf_shares(count: int, exponent: float) -> Floats:
    """Shares of `count` items by Zipf's law, the most popular first; exponent 0 is even."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


class Workload:
    """All streams' requests in the order of their arrival, drawn from `seed`."""

    def __init__(self, streams: list[Stream], batch: Batch | None, duration_s: float, seed: int, folder: Path) -> None:
        self._keys: dict[object, int] = {}
        self._batch, self._seed = batch, seed
        generators = np.random.default_rng(seed).spawn(len(streams))
        parts: list[tuple[Floats, Integers, Integers]] = []
        prefixes: list[list[PrefixChain]] = []
        grows: list[bool] = []
        adapters: list[Integers] = []
        for number, (stream, rng) in enumerate(zip(streams, generators, strict=True)):
            if stream.trace is not None:
                columns, chains = self._from_trace(number, stream.trace, folder, duration_s)
            else:
                columns, chains = self._draw(number, stream, rng, duration_s)
            parts.append(columns)
            prefixes.append(chains)
            grows.append(stream.conversations is not None)
            count = len(columns[0])
            chosen = np.zeros(count, np.int64)
            if stream.adapters:
                shares = zipf_shares(stream.adapters, stream.adapter_zipf_s)
                chosen = rng.choice(stream.adapters, count, p=shares) + 1
            adapters.append(chosen)
        self._streams, self._grows = streams, grows
        times = np.concatenate([p[0] for p in parts])
        self._order = np.argsort(times, kind="stable")
        self._offsets = np.cumsum([0] + [len(p[0]) for p in parts])
        self._times = times
        self._prompts = np.concatenate([p[1] for p in parts])
        self._outputs = np.concatenate([p[2] for p in parts])
        self._adapters = np.concatenate(adapters)
        self._prefixes = prefixes

    def __len__(self) -> int:
        return len(self._times)

    @property
    def times_s(self) -> Floats:
        """Arrival times of all requests, rising."""
        return np.asarray(self._times[self._order])

    def requests(self, without: Collection[str] = ()) -> Iterator[Request]:
        """A new Request for each, in the order of arrival, but for those of the tenants in `without`."""
        silent = [stream.tenant in without for stream in self._streams]
        stream_of = np.searchsorted(self._offsets, self._order, side="right") - 1
        for number, (index, stream) in enumerate(zip(self._order.tolist(), stream_of.tolist(), strict=True)):
            if silent[stream]:
                continue
            chains = self._prefixes[stream]
            yield Request(
                number,
                stream,
                self._streams[stream].priority,
                float(self._times[index]),
                int(self._prompts[index]),
                int(self._outputs[index]),
                chains[index - self._offsets[stream]] if chains else (),
                self._grows[stream],
                int(self._adapters[index]),
            )

    def batch_rows(self) -> Iterator[Request]:
        """The batch's rows in file order, numbered after the streams' requests; who sends them sets the rest."""
        batch = self._batch
        if batch is None:
            return
        rng = np.random.default_rng([self._seed, 2])
        suffixes = batch.suffix_tokens.draw(rng, batch.rows)
        outputs = batch.output_tokens.draw(rng, batch.rows)
        which = np.zeros(batch.rows, np.int64)
        if batch.shared:
            which = rng.choice(batch.shared.count, batch.rows, p=_popularity(batch.shared))
        for i, (suffix, output, item) in enumerate(
            zip(suffixes.tolist(), outputs.tolist(), which.tolist(), strict=True)
        ):
            chain: PrefixChain = ()
            if batch.shared:
                chain = ((self._key(("batch", item)), batch.shared.tokens),)
            prompt = suffix + (batch.shared.tokens if batch.shared else 0)
            yield Request(len(self) + i, -1, 0, 0.0, prompt, output, chain)

    def _key(self, name: object) -> int:
        return self._keys.setdefault(name, len(self._keys))

    def _draw(
        self, number: int, stream: Stream, rng: np.random.Generator, duration_s: float
    ) -> tuple[tuple[Floats, Integers, Integers], list[PrefixChain]]:
        assert stream.arrivals and stream.suffix_tokens and stream.output_tokens
        times = stream.arrivals.draw(rng, duration_s)
        count = len(times)
        suffixes, outputs = stream.suffix_tokens.draw(rng, count), stream.output_tokens.draw(rng, count)
        roots: list[PrefixChain] = [()] * count
        if stream.shared:
            shared = stream.shared
            which = rng.choice(shared.count, count, p=_popularity(shared))
            epochs = np.zeros(count) if shared.shift_s is None else times // shared.shift_s
            roots = [
                ((self._key((number, "shared", epoch, item)), shared.tokens),)
                for epoch, item in zip(epochs.tolist(), which.tolist(), strict=True)
            ]
        if not stream.conversations:
            starts = np.array([chain[-1][1] if chain else 0 for chain in roots], np.int64)
            return (times, starts + suffixes, outputs), roots if stream.shared else []
        return self._converse(number, stream.conversations, rng, times, suffixes, outputs, roots)

    def _converse(
        self,
        number: int,
        conversations: Conversations,
        rng: np.random.Generator,
        times: Floats,
        suffixes: Integers,
        outputs: Integers,
        roots: list[PrefixChain],
    ) -> tuple[tuple[Floats, Integers, Integers], list[PrefixChain]]:
        slots = rng.integers(conversations.active, size=len(times)).tolist()
        # Conversations are met in the middle: their first turns are spread over the run's beginning.
        turns = rng.integers(conversations.turns, size=conversations.active).tolist()
        lives = [0] * conversations.active
        history = [0] * conversations.active
        root: list[PrefixChain] = [()] * conversations.active
        prompts = np.empty(len(times), np.int64)
        chains: list[PrefixChain] = []
        for i, slot in enumerate(slots):
            if turns[slot] >= conversations.turns or not history[slot]:
                lives[slot] += 1
                turns[slot] = turns[slot] % conversations.turns
                root[slot] = roots[i]
                history[slot] = roots[i][-1][1] if roots[i] else 0
            key = self._key((number, "conversation", slot, lives[slot]))
            chains.append((*root[slot], (key, history[slot])))
            prompts[i] = history[slot] + suffixes[i]
            history[slot] = int(prompts[i] + outputs[i])
            turns[slot] += 1
        return (times, prompts, outputs), chains

    def _from_trace(
        self, number: int, name: str, folder: Path, duration_s: float
    ) -> tuple[tuple[Floats, Integers, Integers], list[PrefixChain]]:
        path = Path(name) if Path(name).is_absolute() else folder / name
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise InputError(str(path), "", MISSING, error.strerror or str(error)) from error
        rows: list[TraceRow] = []
        for line_number, line in enumerate(lines, 1):
            source = f"{path}, line {line_number}"
            try:
                data = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(source, "", line, f"not JSON: {error.msg}") from error
            if not isinstance(data, dict):
                raise InputError(source, "", line, "expected an object")
            row = parse(TraceRow, data, source)
            if row.prefix_tokens >= row.prompt_tokens:
                raise InputError(source, "prefix_tokens", row.prefix_tokens, "leaves nothing of the prompt to compute")
            if row.at_s < duration_s:
                rows.append(row)
        rows.sort(key=lambda row: row.at_s)
        chains: list[PrefixChain] = [
            ((self._key((number, "trace", row.prefix)), row.prefix_tokens),) if row.prefix and row.prefix_tokens else ()
            for row in rows
        ]
        columns = (
            np.array([row.at_s for row in rows]),
            np.array([row.prompt_tokens for row in rows], np.int64),
            np.array([row.output_tokens for row in rows], np.int64),
        )
        return columns, chains


def _popularity(shared: Shared) -> Floats:
    if not shared.hot_share or shared.count == 1:
        return zipf_shares(shared.count, shared.zipf_s)
    rest = zipf_shares(shared.count - 1, shared.zipf_s) * (1 - shared.hot_share)
    return np.concatenate([[shared.hot_share], rest])
