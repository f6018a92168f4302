"""`firstclause doctor --address`: its checks on what a dashboard says. A real one is asked in tests/deploy."""

from typing import Any

from cli.doctor_fleet import exposure, node_checks, serve_checks, version
from tests.support.cli import run_firstclause


def test_an_address_where_nothing_is() -> None:
    answer = run_firstclause("doctor", "--address", "http://127.0.0.1:9")
    assert answer.returncode == 1
    assert "nothing answers at http://127.0.0.1:9" in answer.stdout and "ssh -L" in answer.stdout


def test_another_ray_and_a_cluster_that_lets_anybody_in() -> None:
    [other] = version("2.9.0")
    assert (other.state, other.found.split(",")[0]) == ("missing", "2.9.0")
    assert [check.state for status in (401, 403, 200) for check in exposure(status)] == ["ok", "ok", "missing"]


def test_a_dead_node_and_a_full_one() -> None:
    def node(ip: str, state: str, percent: float) -> dict[str, Any]:
        return {"ip": ip, "raylet": {"state": state}, "mem": [16e9, 1e9, percent, 15e9]}

    checks = list(node_checks([node("a", "ALIVE", 40), node("b", "ALIVE", 95), node("c", "DEAD", 0)]))
    assert [(check.name, check.state) for check in checks] == [
        ("node a", "ok"),
        ("node b", "advice"),
        ("node c", "advice"),
    ]
    assert "95 %" in checks[1].found


def test_applications_that_run_and_one_that_does_not() -> None:
    def application(status: str, deployment: str, message: str = "") -> dict[str, Any]:
        replicas = [{"state": "RUNNING"}, {"state": "STARTING"}]
        return {
            "status": status,
            "deployments": {"D": {"status": deployment, "message": message, "replicas": replicas}},
        }

    details = {
        "applications": {
            "llm": application("RUNNING", "HEALTHY"),
            "voice": application("DEPLOY_FAILED", "UNHEALTHY", "no"),
        },
        "proxies": {"n": {"node_ip": "10.0.0.1", "status": "UNHEALTHY"}},
    }
    llm, voice, proxy = serve_checks(details)
    assert (llm.state, llm.found) == ("ok", "1 replicas")
    assert voice.state == "missing" and "D: UNHEALTHY no" in voice.found and "runbook" in voice.todo
    assert (proxy.name, proxy.state) == ("proxy 10.0.0.1", "advice")
    [none] = serve_checks({"applications": {}})
    assert none.todo == "firstclause deploy"
