"""Whether a cluster fits, when a rollout is up or lost, whether a certificate will do: pure decisions."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from configs.fleet import Tls
from serve_apps.certificate import certificate_problem
from serve_apps.deploying.client import LEFT_OUT
from serve_apps.deploying.fit import Node, Piece, allows, problems
from serve_apps.deploying.plan import Needs
from serve_apps.deploying.rollout import Rollout, same
from tests.support.certificate import self_signed

NEEDS = Needs(python="3.11", packages={})
GPU_NODES = {"node-kind": "gpu"}


def node(name: str, labels: dict[str, str] | None = None, python: str = "3.11", **resources: float) -> Node:
    return Node(name, {"CPU": 8, **resources}, labels or {}, python=python)


def test_a_cluster_without_gpus_is_told_so() -> None:
    piece = Piece("llm: LLMServer", 2, ({"CPU": 1, "GPU": 1},), GPU_NODES)
    [said] = problems(NEEDS, [piece], [node("a"), node("b")])
    assert said == (
        "llm: LLMServer: room for 0 of 2 replicas, each of 1 CPU, 1 GPU on nodes with node-kind=gpu; the cluster has "
        "16 CPU, 0 GPU on 2 nodes"
    )
    assert problems(NEEDS, [piece], [node("a", GPU_NODES, GPU=2)]) == []
    assert "room for 1 of 2" in problems(NEEDS, [piece], [node("a", GPU_NODES, GPU=1), node("b", GPU=1)])[0]


def test_fractions_of_a_gpu_are_shared_and_one_replica_is_not_spread() -> None:
    shares = Piece("voice: Voice", 8, ({"CPU": 1, "GPU": 0.25},))
    assert problems(NEEDS, [shares], [node("a", GPU=2)]) == []
    whole = Piece("llm: LLMServer", 1, ({"CPU": 1, "GPU": 2},))
    assert "room for 0 of 1" in problems(NEEDS, [whole], [node("a", GPU=1), node("b", GPU=1)])[0]
    split = Piece("llm: LLMServer", 1, ({"CPU": 1, "GPU": 1}, {"GPU": 1}))
    assert problems(NEEDS, [split], [node("a", GPU=1), node("b", GPU=1)]) == []


def test_large_replicas_are_placed_before_small_ones_take_their_room() -> None:
    small, large = Piece("s", 8, ({"CPU": 1},)), Piece("l", 1, ({"CPU": 8},))
    assert problems(NEEDS, [small, large], [node("a"), node("b")]) == []


def test_what_nodes_lack_is_named_node_by_node() -> None:
    needs = Needs(
        python="3.11", packages={"ray": "2.60.0"}, engine={"vllm": "0.29.0"}, engine_nodes=GPU_NODES,
        models=("whisper-base",), secrets=("KEY",),
    )  # fmt: skip
    good = {"ray": "2.60.0", "vllm": "0.29.0"}
    bad = Node("b", {}, GPU_NODES, "3.12", {"ray": "2.59.0", "vllm": None}, ("whisper-base",), "expired", ("KEY",))
    assert problems(needs, [], [Node("a", {}, GPU_NODES, "3.11", good)]) == []
    assert problems(needs, [], [Node("a", {}, {}, "3.11", {"ray": "2.60.0"})]) == [], "no engine runs on this one"
    assert problems(needs, [], [bad]) == [
        "node b: Python 3.12, and 3.11 is wanted",
        "node b: ray 2.59.0, and 2.60.0 is wanted",
        "node b: vllm is missing, and 0.29.0 is wanted",
        "node b: model whisper-base is not prepared; there: firstclause models prepare whisper-base",
        "node b: expired",
        "node b: the environment variable KEY is not set, and it holds a secret",
    ]


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [("gpu", True), ("cpu", False), ("!cpu", True), ("!gpu", False), ("in(cpu, gpu)", True), ("!in(cpu, gpu)", False)],
)
def test_label_selectors_are_read_as_ray_reads_them(wanted: str, allowed: bool) -> None:
    assert allows({"node-kind": wanted}, GPU_NODES) is allowed
    assert allows({"other": "x"}, GPU_NODES) is False


CONFIG = {"name": "voice", "args": {"a": 1}, "runtime_env": {"working_dir": "gcs://x.zip"}}


def details(status: str, deployed: dict[str, Any] | None = None, proxy: str = "HEALTHY", **more: Any) -> dict[str, Any]:
    application = {
        "status": status, "deployed_app_config": deployed or {**CONFIG, "route_prefix": "/"}, "message": "",
        "deployments": {},
    }  # fmt: skip
    return {"applications": {"voice": application | more}, "proxies": {"n": {"node_ip": "10.0.0.1", "status": proxy}}}


def rollout(now_s: float, shown: dict[str, Any]) -> tuple[str, str]:
    state = Rollout((CONFIG,), begun_s=100, deadline_s=60).state(shown, now_s)
    return state.outcome, state.said


def test_a_rollout_serves_when_the_version_that_was_sent_runs_everywhere() -> None:
    assert rollout(101, details("RUNNING"))[0] == "serving"
    old = {**CONFIG, "args": {"a": 0}}
    assert rollout(101, details("RUNNING", old)) == ("waiting", "voice: not taken up yet"), "the old one runs"
    assert rollout(101, {"applications": {}}) == ("waiting", "voice: not taken up yet")
    assert rollout(101, details("RUNNING", proxy="DRAINING"))[0] == "serving", "its node has no replica any more"
    assert rollout(101, details("RUNNING", proxy="STARTING")) == ("waiting", "the proxy of node 10.0.0.1: STARTING")


def test_half_the_replicas_are_waited_for_until_the_deadline_and_then_named() -> None:
    half = {
        "Voice": {
            "status": "UPDATING",
            "replicas": [{"state": "RUNNING"}, {"state": "STARTING"}],
            "message": "1 replica has taken more than 30 s to be scheduled\nand more",
        }
    }
    words = "voice: Voice 1 running, 1 starting (1 replica has taken more than 30 s to be scheduled)"
    assert rollout(160, details("DEPLOYING", deployments=half)) == ("waiting", words)
    assert rollout(161, details("DEPLOYING", deployments=half)) == ("failed", f"not up after 60 s; {words}")


@pytest.mark.parametrize("status", ["DEPLOY_FAILED", "UNHEALTHY"])
def test_what_serve_gave_up_is_not_waited_for(status: str) -> None:
    dead = {"Voice": {"status": status, "message": "Traceback\n  File x\nRuntimeError: no such model"}}
    outcome, said = rollout(101, details(status, deployments=dead))
    assert outcome == "failed" and said.endswith("RuntimeError: no such model")


def test_defaults_that_serve_fills_in_change_nothing() -> None:
    assert same({"name": "a", "args": {"b": 1}, "deployments": []}, {"name": "a", "args": {"b": 1}})
    assert not same({"name": "a", "args": {"b": 2}}, {"name": "a", "args": {"b": 1}})
    assert not same(None, {"name": "a"})


def test_a_certificate_is_read_before_it_is_used(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    tls = self_signed(tmp_path, "127.0.0.1", days=2)
    assert certificate_problem(tls.certificate, tls.key, now) is None
    expired = certificate_problem(tls.certificate, tls.key, now + timedelta(days=3))
    assert expired is not None and "expired on" in expired
    early = certificate_problem(tls.certificate, tls.key, now - timedelta(days=3))
    assert early is not None and "not valid before" in early
    (tmp_path / "other").mkdir()
    other = self_signed(tmp_path / "other", "127.0.0.1")
    mixed = certificate_problem(tls.certificate, other.key, now)
    assert mixed is not None and "not the key of" in mixed
    missing = certificate_problem(tmp_path / "none.pem", tls.key, now)
    assert missing is not None and "No such file" in missing
    (tmp_path / "x.pem").write_text("x")
    assert certificate_problem(tmp_path / "x.pem", tls.key, now) is not None
    assert certificate_problem(tls.certificate, tmp_path / "x.pem", now) is not None


def test_a_client_trusts_the_deployments_own_certificate_and_no_other(tmp_path: Path) -> None:
    tls = self_signed(tmp_path, "127.0.0.1")
    assert isinstance(tls, Tls)
    assert [one["subject"] for one in tls.trust().get_ca_certs()] or tls.trust().cert_store_stats()["x509"] == 1


def test_the_code_that_is_sent_is_not_left_out() -> None:
    """A pattern that matches the folder itself would leave out everything, and nothing would say so."""
    from ray._private.thirdparty.pathspec import PathSpec  # what Ray reads the patterns with

    spec = PathSpec.from_lines("gitwildmatch", LEFT_OUT)
    assert not spec.match_file(".") and not spec.match_file("serve_apps/deploying/job.py")
    assert not spec.match_file("configs/models.yaml") and not spec.match_file("requirements/cpu.lock")
    for path in (".git/config", ".venv/bin/python", "tests/conftest.py", "voice/__pycache__/x.pyc"):
        assert spec.match_file(path), path
