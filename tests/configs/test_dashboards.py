"""Dashboards and alerts ask for what the code exports."""

import json
import re
from pathlib import Path

from configs.schema import read_yaml

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"ray_(firstclause_\w+?)(?:_bucket)?(?=[{\[ )]|$)")


def queries() -> list[str]:
    dashboard = json.loads((ROOT / "configs" / "grafana" / "llm.json").read_text())
    rules = read_yaml(ROOT / "configs" / "alerts" / "llm.yaml")["groups"][0]["rules"]
    return [t["expr"] for p in dashboard["panels"] for t in p["targets"]] + [rule["expr"] for rule in rules]


def test_every_metric_of_ours_that_is_asked_for_is_made_somewhere() -> None:
    code = "".join(path.read_text() for folder in ("serve_apps", "telemetry") for path in (ROOT / folder).rglob("*.py"))
    made = set(re.findall(r'"(firstclause_\w+)"', code))
    clocks = {f"firstclause_{name}" for name in re.findall(r"^    (\w+_ms): float", code, re.MULTILINE)}
    asked = {name for query in queries() for name in OURS.findall(query)}
    assert asked and asked <= made | clocks


def test_every_alert_says_what_to_do() -> None:
    for rule in read_yaml(ROOT / "configs" / "alerts" / "llm.yaml")["groups"][0]["rules"]:
        assert rule["annotations"]["summary"] and rule["annotations"]["description"] and rule["labels"]["severity"]
