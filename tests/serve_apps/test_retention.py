"""What is older than the configuration keeps is forgotten, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from batch.store import Store, migrate
from configs.deployment import Deployment, load_deployment
from configs.schema import parse
from planning.policies.quota import Limit
from serve_apps.gateway.books import Books, Entry
from serve_apps.retention import DAY_S, RESERVED, purge

LIMIT = Limit(rate_rt_per_s=10, burst_rt=1000)


def deployment(folder: Path, **retention: Any) -> Deployment:
    data = load_deployment().model_dump(mode="json")
    data["batch"]["database"] = data["gateway"]["store"] = f"sqlite:///{folder / 'all.db'}"
    return parse(Deployment, data | {"retention": retention}, "test")


def test_old_files_and_usage_go_and_a_running_request_stays(tmp_path: Path) -> None:
    config = deployment(tmp_path, batch_files_days=2, usage_days=2)
    url = config.batch.database_url()
    migrate(url)
    store, books = Store(url, clock=lambda: 100_000.0), Books(url)
    file = store.add_file("acme", "rows.jsonl", "batch", 7)
    books.reserve("done", "acme", LIMIT, 5)
    books.settle([Entry("done", "acme", "m", LIMIT, used_rt=4)])
    books.reserve("running", "acme", LIMIT, 5)
    with books._engine.connect() as connection:
        now_s = books._now_s(connection)
    assert purge(config, 100_000 + DAY_S)["batch files"] == 0, "not old enough"
    assert purge(config, 100_000 + 3 * DAY_S)["batch files"] == 1
    assert store.unused_contents() == [file.id], "its bytes are the worker's to delete"
    assert purge(config, now_s + DAY_S)["usage"] == 0
    assert purge(config, now_s + 3 * DAY_S)["usage"] == 1
    with books._engine.connect() as connection:
        assert books._row(connection, "running")["state"] == RESERVED
    store._engine.dispose()
    books.close()


@pytest.mark.parametrize("days", [None, 10_000])
def test_nothing_is_forgotten_that_is_kept_for_ever_and_no_database_is_made(tmp_path: Path, days: float | None) -> None:
    config = deployment(tmp_path, batch_files_days=days, usage_days=days)
    assert purge(config, 2e9) == {"batch files": 0, "usage": 0}
