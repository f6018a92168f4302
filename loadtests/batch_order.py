"""`loadtest batch --case order`: the job, which orders rows by prefix, beside ray.data.llm's Serve stage in file order.

Both on one tier, one after the other, with as many requests in flight. A row's own `user` keeps equal rows from being
asked once, so that the first ratio is order's alone; then the job again without it, for what that saves.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configs.deployment import load_deployment
from configs.models import prepared
from configs.schema import load
from loadtests.batch_bench import Bench, Row, bench, fixed, read_rows, write_requests
from planning.profile import Profile

RATIO_MIN = 1.5
PREFIXES_MIN, ROWS_MIN = 40, 480
STAGE = "loadtests.peers.stock_serve_stage"
Request = Mapping[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Pass:
    """All rows once. `asked`: requests that reached the engine."""

    wall_s: float
    asked: int
    prompt_tokens: int
    cached_tokens: int

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"cached_share": self.cached_share}


def perform(requests: Sequence[Request], config: Path, say: Say) -> dict[str, Any]:
    """The three passes. Raises ProcessError, RuntimeError where a row is not answered."""
    deployment = load_deployment(config)
    in_flight = deployment.rows_in_flight
    say("starting a deployment for the measurement")
    with tempfile.TemporaryDirectory() as name, bench(config) as tier:
        folder = Path(name)
        apart = [own(request, str(number)) for number, request in enumerate(requests)]
        say(f"ordered by prefix: {len(apart)} rows, {in_flight} in flight")
        ordered = _job(tier, folder / "ordered", apart, in_flight)
        say(f"the Serve stage in file order: {len(apart)} rows, {in_flight} in flight")
        stock = _stage(tier, folder, apart, in_flight)
        # The stage's rows have gone over the whole KV memory: this pass finds nothing of the first's.
        say("ordered, and equal rows asked once")
        once = _job(tier, folder / "once", requests, in_flight)
    profile = load(Profile, deployment.gateway.profile)
    kv_tokens = (deployment.llm.kv_cache_bytes or profile.kv_capacity_bytes) / profile.kv_bytes_per_token
    prefix_tokens = _tokens({prefix_of(request) for request in requests}, deployment.llm.model)
    found = figures(requests, ordered, once, stock)
    return found | {"in_flight": in_flight, "prefix_tokens": prefix_tokens, "kv_tokens": kv_tokens}


def figures(requests: Sequence[Request], ordered: Pass, once: Pass, stock: Pass) -> dict[str, Any]:
    """`ratio` is the stage's wall time over the job's, from order alone."""
    return {
        "rows": len(requests),
        "prefixes": len({prefix_of(request) for request in requests}),
        "doubled_share": 1 - len({json.dumps(request["body"], sort_keys=True) for request in requests}) / len(requests),
        "passes": {
            name: one.document() for name, one in (("ordered", ordered), ("stock", stock), ("deduplicated", once))
        },
        "ratio": stock.wall_s / ordered.wall_s,
        "ratio_deduplicated": stock.wall_s / once.wall_s,
    }


def short(found: Mapping[str, Any]) -> list[str]:
    """The floors that are not met; of a run of fewer rows none is judged."""
    if found["rows"] < ROWS_MIN:
        return []
    lines = []
    if found["prefixes"] < PREFIXES_MIN or found["prefix_tokens"] <= found["kv_tokens"]:
        lines.append(
            f"order: {found['prefixes']} prefixes of {found['prefix_tokens']:,} tokens in all, not {PREFIXES_MIN} that "
            f"exceed the {found['kv_tokens']:,.0f} of KV memory"
        )
    if found["ratio"] < RATIO_MIN:
        lines.append(f"order: {found['ratio']:.2f} times as fast as the Serve stage in file order, not {RATIO_MIN:g}")
    return lines


def prefix_of(request: Request) -> str:
    """What it has in common with others: the system prompt."""
    return str(request["body"]["messages"][0]["content"])


def own(request: Request, user: str) -> dict[str, Any]:
    """The same request, equal to no other's: `user` means nothing to the engine."""
    return {**request, "body": {**request["body"], "user": user}}


def pass_of(rows: Iterable[Row], wall_s: float) -> Pass:
    good = [row for row in rows if row.good]
    return Pass(wall_s, len(good), sum(row.prompt_tokens for row in good), sum(row.cached_tokens for row in good))


def _tokens(texts: Iterable[str], model: str) -> int:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(prepared(model))
    return sum(len(tokenizer.encode(text)) for text in texts)


def _job(tier: Bench, folder: Path, requests: Sequence[Request], in_flight: int) -> Pass:
    folder.mkdir()
    write_requests(folder / "requests.jsonl", requests)
    tier.begin(folder, folder / "requests.jsonl", fixed(in_flight))
    ended = tier.wait()
    tier.end()
    if ended["completed"] != len(requests):
        raise RuntimeError(f"the job is {ended['status']}: {ended['completed']} of {len(requests)} rows were answered")
    return pass_of(read_rows(folder), ended["wall_s"])


def _stage(tier: Bench, folder: Path, requests: Sequence[Request], in_flight: int) -> Pass:
    write_requests(folder / "requests.jsonl", requests)
    out = folder / "stage.json"
    tier.drive(STAGE, str(folder / "requests.jsonl"), tier.app, tier.server, str(in_flight), str(out))
    ended = json.loads(out.read_text())
    if ended["rows"] != len(requests):
        raise RuntimeError(f"the Serve stage answered {ended['rows']} of {len(requests)} rows")
    return Pass(ended["wall_s"], ended["rows"], ended["prompt_tokens"], ended["cached_tokens"])
