"""`firstclause simulate` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
FLEETS = sorted((ROOT / "configs" / "fleets").glob("*.yaml"))


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", "simulate", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def scenario(tmp_path: Path, make_kind: Any, make_stream: Any) -> Path:
    arms = [{"name": "ours"}, {"name": "peer", "route": {"rule": "round-robin"}}]
    data = {"title": "small", "duration_s": 50, "fleet": {"k": make_kind()}, "streams": [make_stream()], "arms": arms}
    path = tmp_path / "s.yaml"
    YAML().dump(data, path)
    return path


def test_json_is_one_document_and_the_seed_counts(scenario: Path) -> None:
    done = simulate(str(scenario), "--json", "--seed", "5")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["seed"] == 5
    assert set(result["arms"]) == {"ours", "peer"}
    assert result["arms"]["ours"]["requests"] == result["requests"]


def test_the_table_names_the_arms_and_a_sentence_closes(scenario: Path) -> None:
    done = simulate(str(scenario), "--set", "duration_s=20")
    assert done.returncode == 0, done.stderr
    assert "ours" in done.stdout and "peer" in done.stdout
    assert done.stdout.rstrip().endswith(".")
    assert "times that of the best of the others" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "streams.0.arrivals.rate_per_s=-1"], "streams.0.arrivals.rate_per_s = -1"),
        (["--set", "bogus=1"], "bogus = 1: unknown key"),
        (["--set", "duration_s=.nan"], "duration_s"),
        (["--set", "warmup_s=50"], "warmup_s = 50 leaves nothing"),
        (["--set", "duration_s"], "expected KEY=VALUE"),
        (["--set", "streams=[]"], "streams"),
        (["--set", "arms=[{name: a}, {name: a}]"], "two arms have one name"),
        (["--set", "arms=[{name: a, soak: {concurrency: 3}}]"], "soak without a batch"),
        (
            ["--set", "arms=[{name: a, gateway: {quotas: {x: {rate_rt_per_s: 1, burst_rt: 1}}}}]"],
            "x is no tenant of any stream",
        ),
        (["--set", "arms=[{name: a, without: [t]}]"], "nothing to do"),
        (["--set", "fleet.k.profile=gone.json"], "gone.json"),
        (["--set", "fleet.k.profile.prefill_points=[[100, 1], [50, 2]]"], "prefill_points have to rise"),
        (["--set", "fleet.k.profile.prefill_points=[[100]]"], "fleet.k"),
        (["--set", "fleet.k.token_budget=32"], "token_budget = 32 leaves no room"),
        (["--seed", "-1"], "-1"),
    ],
)
def test_bad_input_is_named_and_nothing_is_printed(scenario: Path, arguments: list[str], said: str) -> None:
    done = simulate(str(scenario), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_and_one_that_is_no_mapping(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- 1\n")
    for name in ("gone.yaml", "list.yaml"):
        done = simulate(str(tmp_path / name))
        assert (done.returncode, done.stdout) == (2, "")
        assert name in done.stderr


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.stem)
def test_every_scenario_that_ships_is_valid(path: Path) -> None:
    from planning.simulator.scenario import read_scenario

    assert read_scenario(path).arms
