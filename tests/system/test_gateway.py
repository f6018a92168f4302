"""The gateway over HTTP, before the real engine."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from configs import keys
from configs.deployment import load_deployment
from configs.gateway import GatewayConfig
from configs.tenants import Quota, TenantConfig, TenantsFiles
from serve_apps.gateway.books import Books, Total
from telemetry.clocks import NAMES
from tests.support.cli import run_firstclause

pytestmark = pytest.mark.system

CHAT = "/v1/chat/completions"
MODEL = load_deployment().llm.model
PATIENCE_S = 60


def asked(text: str = "What is the capital of France?", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 4} | fields


@pytest.fixture
def api(deployment: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=deployment, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


@pytest.fixture
def books(deployment: str) -> Iterator[Books]:
    """The deployment's own."""
    books = Books(GatewayConfig().store_url())
    yield books
    books.close()


@asynccontextmanager
async def calling(deployment: str) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=deployment, timeout=300, trust_env=False, limits=limits) as client:
        yield client


def tenant(name: str, **fields: Any) -> dict[str, str]:
    """A new tenant's Authorization header."""
    return {"authorization": f"Bearer {keys.add(TenantsFiles().file, name, TenantConfig(**fields))}"}


def until(books: Books, name: str, requests: int) -> Total:
    """The tenant's total once so many requests are written down."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        totals = books.totals(name)
        if totals and totals[0].requests >= requests:
            return totals[0]
        assert time.monotonic() < deadline, f"waited in vain for {requests} requests of {name}: {totals}"
        time.sleep(0.02)


def events(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def said(text: str) -> str:
    """What a streamed reply says."""
    return "".join(choice["delta"].get("content") or "" for event in events(text) for choice in event["choices"])


@pytest.mark.parametrize(
    ("path", "content", "status", "code"),
    [
        (CHAT, "{", 400, "invalid_json"),
        (CHAT, "[]", 400, None),
        (CHAT, '"text"', 400, None),
        (CHAT, "{}", 400, None),
        (CHAT, json.dumps(asked(model="nobody")), 404, "model_not_found"),
        (CHAT, json.dumps(asked(model=f"{MODEL}:../../etc")), 404, "model_not_found"),
        ("/v1/completions", json.dumps({"model": "nobody", "prompt": "x"}), 404, "model_not_found"),
        (CHAT, json.dumps(asked("word " * 4000)), 400, "context_length_exceeded"),
        (CHAT, json.dumps(asked("word " * 4000, stream=True)), 400, "context_length_exceeded"),
        (CHAT, json.dumps(asked(max_tokens=0)), 400, None),
        (CHAT, json.dumps(asked(max_tokens=-1, stream=True)), 400, None),
        (CHAT, json.dumps(asked(max_tokens=10**20)), 400, None),
        (CHAT, json.dumps(asked(n=10**6)), 400, None),
        (CHAT, json.dumps(asked(messages=[])), 400, None),
        (CHAT, json.dumps(asked("x" * 2_200_000)), 413, "request_too_large"),
        ("/v1/nothing", "{}", 404, None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_openais_shape(
    api: httpx.Client, path: str, content: str, status: int, code: str | None
) -> None:
    answer = api.post(path, content=content, headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    assert len(answer.content) < 1000  # a prompt is not sent back


def test_a_compressed_or_endless_body_is_refused(api: httpx.Client) -> None:
    assert api.post(CHAT, json=asked(), headers={"content-encoding": "gzip"}).status_code == 415

    def endless() -> Iterator[bytes]:
        for _ in range(300):
            yield b" " * 10_000

    assert api.post(CHAT, content=endless()).status_code == 413


def test_many_bad_requests_do_not_close_the_door(api: httpx.Client) -> None:
    for _ in range(20):
        assert api.post(CHAT, json=asked(model="nobody")).status_code == 404
    assert api.post(CHAT, json=asked()).status_code == 200


def test_clocks_are_told_to_who_asks(api: httpx.Client) -> None:
    whole = api.post(CHAT, json=asked(), headers={"x-clocks": "1"}).json()
    *_, last = events(api.post(CHAT, json=asked(stream=True), headers={"x-clocks": "1"}).text)
    for clocks in (whole["clocks"], last["clocks"]):
        assert tuple(clocks) == NAMES and all(value >= 0 for value in clocks.values())
        assert clocks["engine_queue_ms"] + clocks["engine_prefill_ms"] <= clocks["engine_ttft_ms"]
        assert clocks["engine_ttft_ms"] <= clocks["server_ttft_ms"]
    assert "clocks" not in api.post(CHAT, json=asked()).json()


def test_two_requests_with_one_id_do_not_mix(api: httpx.Client, deployment: str) -> None:
    texts = [f"Repeat the word {word}" for word in ("apple", "stone", "river", "cloud")]
    alone = [api.post(CHAT, json=asked(text, temperature=0)).json()["choices"][0]["message"] for text in texts]

    async def together() -> list[Any]:
        async with calling(deployment) as client:
            header = {"x-request-id": "the-same"}
            posts = [client.post(CHAT, json=asked(text, temperature=0), headers=header) for text in texts]
            return [answer.json()["choices"][0]["message"] for answer in await asyncio.gather(*posts)]

    assert asyncio.run(together()) == alone


def test_a_key_decides_who_one_is(api: httpx.Client, books: Books) -> None:
    header = tenant("keyed")
    assert api.post(CHAT, json=asked(), headers=header).status_code == 200
    assert until(books, "keyed", 1).output_tokens == 4
    wrong = api.post(CHAT, json=asked(), headers={"authorization": "Bearer fc-wrong"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
    keys.revoke(TenantsFiles().file, "keyed")
    assert api.post(CHAT, json=asked(), headers=header).status_code == 401


def test_a_key_revoked_in_mid_stream_ends_it(api: httpx.Client, books: Books) -> None:
    header = tenant("revoked")
    body = asked("Tell a long story.", max_tokens=1500, ignore_eos=True, stream=True)
    with api.stream("POST", CHAT, json=body, headers=header) as answer:
        lines = answer.iter_lines()
        next(lines)
        keys.revoke(TenantsFiles().file, "revoked")
        text = "\n".join(lines)
    assert events(text)[-1]["error"]["code"] == "invalid_api_key" and "[DONE]" not in text
    assert until(books, "revoked", 1).output_tokens < 1000


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_the_engine_and_pays_what_it_had(
    deployment: str, books: Books, stream: bool
) -> None:
    name = f"leaver-{stream}".lower()
    header = tenant(name, quota=Quota(rate_rt_per_s=1e-6, burst_rt=1e6))

    async def leave() -> None:
        async with calling(deployment) as client:
            body = asked("Tell a long story.", max_tokens=1500, ignore_eos=True, stream=stream)
            if not stream:
                with pytest.raises(httpx.ReadTimeout):
                    await client.post(CHAT, json=body, headers=header, timeout=3)
                return
            async with client.stream("POST", CHAT, json=body, headers=header) as answer:
                async for _ in answer.aiter_lines():
                    return

    asyncio.run(leave())
    total = until(books, name, 1)
    assert total.output_tokens < 1000
    assert books.level_rt(name) == pytest.approx(1e6 - total.charged_rt) and total.charged_rt > 0


def test_a_quota_is_said_with_what_was_exceeded(api: httpx.Client) -> None:
    header = tenant("thrifty", quota=Quota(rate_rt_per_s=1, burst_rt=60))
    statuses = []
    for _ in range(20):
        answer = api.post(CHAT, json=asked(max_tokens=1), headers=header)
        statuses.append(answer.status_code)
        if answer.status_code == 429:
            break
    assert statuses[0] == 200 and statuses[-1] == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["error"]["code"] == "rate_limit_exceeded" and "thrifty" in answer.json()["error"]["message"]
    assert api.post(CHAT, json=asked()).status_code == 200


def test_one_tenants_prefix_is_not_anothers(api: httpx.Client) -> None:
    ours, theirs = tenant("ours"), tenant("theirs")
    body = asked("The quick brown fox jumps over the lazy dog. " * 60, max_tokens=1)

    def cached(header: dict[str, str], **fields: Any) -> int:
        usage = api.post(CHAT, json=body | fields, headers=header).json()["usage"]
        assert usage["prompt_tokens"] > 512
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    assert cached(ours) == 0
    assert cached(ours) > 0
    assert cached(theirs) == 0
    # What a client says of salt, priority and request ids is not heard.
    assert cached(theirs, cache_salt="another", priority=-100, request_id="x", vllm_xargs={"a": "b"}) > 0


def test_odd_requests(api: httpx.Client) -> None:
    several = api.post(CHAT, json=asked(n=3, temperature=1.0)).json()
    assert len(several["choices"]) == 3 and several["usage"]["completion_tokens"] == 12
    ids = api.post("/v1/completions", json={"model": MODEL, "prompt": [504, 3575, 282], "max_tokens": 2}).json()
    assert (ids["usage"]["prompt_tokens"], ids["usage"]["completion_tokens"]) == (3, 2)
    stopped = api.post(CHAT, json=asked(stop=["ital of", "Paris"], max_tokens=20, stream=True, temperature=0)).text
    assert "Paris" not in said(stopped) and stopped.rstrip().endswith("[DONE]")
    asks = asked("Repeat: 🦊 → é ü 漢字", max_tokens=24, temperature=0)
    whole = api.post(CHAT, json=asks).json()["choices"][0]["message"]["content"]
    assert said(api.post(CHAT, json=asks | {"stream": True}).text) == whole


def test_crowds_and_an_abort_storm_are_all_accounted_for(api: httpx.Client, deployment: str, books: Books) -> None:
    header = tenant("crowd")

    async def whole(client: httpx.AsyncClient, **fields: Any) -> str:
        return (await client.post(CHAT, json=asked(**fields), headers=header)).text

    async def cut(client: httpx.AsyncClient, lines: int) -> None:
        body = asked(max_tokens=200, ignore_eos=True, stream=True)
        async with client.stream("POST", CHAT, json=body, headers=header) as answer:
            async for _ in answer.aiter_lines():
                lines -= 1
                if lines < 0:
                    return

    async def crowd() -> None:
        async with calling(deployment) as client:
            same = await asyncio.gather(*(whole(client, max_tokens=1) for _ in range(200)))
            assert all("choices" in text for text in same)
            streams = await asyncio.gather(*(whole(client, max_tokens=3, stream=True) for _ in range(150)))
            assert all(text.rstrip().endswith("data: [DONE]") for text in streams)
            await asyncio.gather(*(cut(client, number % 9) for number in range(60)))

    asyncio.run(crowd())
    until(books, "crowd", 410)
    assert api.post(CHAT, json=asked()).status_code == 200
    assert len(books.totals("crowd")) == 1


@pytest.mark.long  # the books outlive the deployments that other tests stop and start, the engine's counters do not
def test_the_bill_agrees_with_the_engines_counters(api: httpx.Client, books: Books) -> None:
    """To the token, over all that this deployment has served: whole replies, cut ones, several at once."""
    names = {
        "prompt_tokens": "ray_vllm_prompt_tokens",
        "cached_tokens": "ray_vllm_prompt_tokens_cached",
        "output_tokens": "ray_vllm_generation_tokens",
    }

    def counters() -> dict[str, int]:
        families = {family.name: family for family in text_string_to_metric_families(api.get("/metrics").text)}
        return {
            ours: int(sum(s.value for s in families[theirs].samples if s.name.endswith("_total")))
            for ours, theirs in names.items()
        }

    api.post(CHAT, json=asked()).raise_for_status()
    deadline = time.monotonic() + PATIENCE_S
    while True:  # Ray's agents hear of the counters every few seconds
        totals = books.totals()
        billed = {name: sum(getattr(total, name) for total in totals) for name in names}
        if billed == counters():
            break
        assert time.monotonic() < deadline, f"billed {billed}, counted {counters()}"
        time.sleep(0.5)
    printed = json.loads(run_firstclause("usage", "--json").stdout)
    assert sum(line["output_tokens"] for line in printed["lines"]) == billed["output_tokens"]
    assert printed["usd"] == pytest.approx(sum(line["usd"] for line in printed["lines"])) and printed["usd"] > 0


def test_tenants_are_added_rotated_revoked_and_listed(api: httpx.Client) -> None:
    added = run_firstclause("tenants", "add", "made", "--rate", "100000", "--json")
    header = {"authorization": f"Bearer {json.loads(added.stdout)['key']}"}
    assert api.get("/v1/models", headers=header).status_code == 200
    rotated = run_firstclause("tenants", "rotate", "made").stdout.strip()
    assert api.get("/v1/models", headers=header).status_code == 401
    assert api.get("/v1/models", headers={"authorization": f"Bearer {rotated}"}).status_code == 200
    assert run_firstclause("tenants", "revoke", "made").returncode == 0
    listed = run_firstclause("tenants", "list", "--json")
    assert rotated not in listed.stdout and "sha256" not in listed.stdout
    assert json.loads(listed.stdout)["tenants"]["made"]["quota"]["burst_rt"] == 6_000_000
    assert run_firstclause("tenants", "rotate", "nobody").returncode == 2


def test_metrics_are_those_of_engines_serve_and_gateway(api: httpx.Client) -> None:
    api.post(CHAT, json=asked()).raise_for_status()
    wanted = {"ray_vllm_num_requests_running", "ray_firstclause_engine_ttft_ms", "ray_firstclause_requests"}
    deadline = time.monotonic() + PATIENCE_S
    while missing := wanted - {family.name for family in text_string_to_metric_families(api.get("/metrics").text)}:
        assert time.monotonic() < deadline, f"no {missing}"
        time.sleep(0.5)
    assert api.get("/healthz").status_code == api.get("/readyz").status_code == 200
