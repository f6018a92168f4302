"""The product on two nodes: `firstclause deploy`, then a chat and a call through the node that runs neither.

With the real models. The worker has them all; the head only passes on.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from configs.deployment import DEFAULT_CONFIG
from configs.schema import read_yaml
from loadtests.call import dial
from loadtests.wav import Clip
from serve_apps.access import PARAMETER, Links
from tests.support.cluster import Cluster, cluster

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(900)]

LINK_KEY = "a-key-that-signs-links-in-tests"
WORKER = {"node-kind": "cpu"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from configs.models import cache_dir

    cache = tmp_path_factory.mktemp("cache")
    (cache / "models").symlink_to(cache_dir() / "models")
    with cluster() as made:
        made.environment |= {"FIRSTCLAUSE_LINK_SECRET": LINK_KEY, "FIRSTCLAUSE_CACHE": str(cache)}
        made.add("head", cpus=0)
        made.add("worker", 8, WORKER)
        yield made


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """configs/local.yaml, open to the network and placed."""
    data: dict[str, Any] = read_yaml(DEFAULT_CONFIG)
    data["http"] = {"host": "0.0.0.0", "port": 8000}
    data["llm"] |= {"nodes": WORKER, "surge_percent": 0}
    data["voice"] |= {"nodes": WORKER}
    data["voice"]["persona"]["greeting"] = ""
    path = tmp_path_factory.mktemp("config") / "fleet.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(data, file)
    return path


def firstclause(fleet: Cluster, *words: str) -> tuple[int, dict[str, Any], str]:
    done = fleet.run(sys.executable, "-c", "from cli.main import main; main()", *words, timeout_s=600)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_deploy_chat_and_call_through_the_other_node(fleet: Cluster, config: Path, say: Callable[[str], Clip]) -> None:
    code, refused, said = firstclause(fleet, "deploy", "--config", str(config), "--json")
    assert code == 1 and "firstclause tenants add" in refused["problems"][0], "nobody could call: not deployed"
    assert fleet.serve()["applications"] == {}

    code, tenant, said = firstclause(fleet, "tenants", "add", "tester", "--config", str(config), "--json")
    assert code == 0, said
    code, outcome, said = firstclause(fleet, "deploy", "--config", str(config), "--json")
    assert code == 0 and outcome["outcome"] == "serving", said
    assert "checking versions" in said and "deploying" in said, "progress"
    replicas = [
        replica
        for application in fleet.serve()["applications"].values()
        for deployment in application["deployments"].values()
        for replica in deployment["replicas"]
    ]
    assert {replica["node_ip"] for replica in replicas} == {fleet.nodes["worker"].address}

    base = f"http://{fleet.head.address}:8000"
    answer = fleet.caller.inside(lambda: chat(base, tenant["key"]))
    assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"], answer.text
    assert fleet.caller.inside(lambda: chat(base, "none")).status_code == 401
    assert fleet.caller.inside(lambda: httpx.get(f"{base}/", trust_env=False)).status_code == 401

    link = f"{base}/?{PARAMETER}={Links((LINK_KEY,)).sign(time.time() + 600)}"
    question = say("What is the capital of France?")
    heard, reply = fleet.caller.inside(lambda: asyncio.run(one_turn(link, question)))
    assert "france" in heard.lower() and reply


def chat(base: str, key: str) -> httpx.Response:
    body = {"model": "smollm2-135m-instruct-w8a8", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    return httpx.post(
        f"{base}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60,
        trust_env=False,
    )  # fmt: skip


async def one_turn(link: str, question: Clip) -> tuple[str, str]:
    """What the application heard of a question, and its first words in answer."""
    call = await dial(link, timeout_s=30)
    try:
        await call.say(question)
        heard = await call.wait_for(lambda event: event.type == "user-transcription" and event.data["final"], 30)
        reply = await call.wait_for(lambda event: event.type == "bot-tts-text", 30)
        assert heard is not None and reply is not None
        return heard.data["text"], reply.data["text"]
    finally:
        await call.hang_up()
