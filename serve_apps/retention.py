"""Forget what the configuration does not keep longer: batch files, and the bill's lines."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Executable, create_engine, delete, inspect, update

from batch.tables import StoredFile
from configs.deployment import Deployment
from serve_apps.gateway.books import REQUESTS

DAY_S = 86_400
RESERVED = "reserved"


def purge(deployment: Deployment, now_s: float) -> dict[str, int]:
    """What is kept -> how many were forgotten. `now_s` is Unix time. A file's bytes go with the worker's next round."""
    kept, gone = deployment.retention, {"batch files": 0, "usage": 0}
    if kept.batch_files_days is not None:
        before = int(now_s - kept.batch_files_days * DAY_S)
        old = update(StoredFile).where(StoredFile.created_at < before, StoredFile.deleted_at.is_(None))
        gone["batch files"] = _run(deployment.batch.database_url(), "files", old.values(deleted_at=int(now_s)))
    if kept.usage_days is not None:
        before_s = now_s - kept.usage_days * DAY_S
        past = delete(REQUESTS).where(REQUESTS.c.at_s < before_s, REQUESTS.c.state != RESERVED)
        gone["usage"] = _run(deployment.gateway.store_url(), REQUESTS.name, past)
    return gone


def _run(url: str, table: str, statement: Executable) -> int:
    with _connected(url) as connection:
        if not inspect(connection).has_table(table):
            return 0
        return int(connection.execute(statement).rowcount)


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
