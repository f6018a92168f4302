"""The books: every tenant's bucket, and a line a request. One truth for all gateways and engines, in a database.

What is decided is planning.policies.quota's; each step here is one transaction. The time is the database's own (on
SQLite, this machine's): no two machines' clocks are compared.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite

from configs.database import open_database
from planning.policies.quota import Bucket, Limit, Reservation, Verdict, full, reserve, settle

BUSY_TIMEOUT_S = 10
METADATA = MetaData()
BUCKETS = Table(
    "buckets",
    METADATA,
    Column("tenant", String(64), primary_key=True),
    Column("level_rt", Float, nullable=False),
    Column("at_s", Float, nullable=False),
)
REQUESTS = Table(
    "requests",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("tenant", String(64), nullable=False),
    Column("model", String(200), nullable=False, default=""),
    Column("at_s", Float, nullable=False),
    Column("state", String(8), nullable=False),
    Column("charged_rt", Float, nullable=False),
    Column("prompt_tokens", Integer, nullable=False, default=0),
    Column("cached_tokens", Integer, nullable=False, default=0),
    Column("output_tokens", Integer, nullable=False, default=0),
    Index("requests_by_tenant", "tenant", "at_s"),
)
MEASURED = ("prompt_tokens", "cached_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a request used. `limit` None: its tenant has no bucket."""

    request_id: str
    tenant: str
    model: str
    limit: Limit | None
    used_rt: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Total:
    """What a tenant used of a model. `prompt_tokens` include the cached ones."""

    tenant: str
    model: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    charged_rt: float


class Books:
    """Raises sqlalchemy.exc.SQLAlchemyError where the database cannot be reached."""

    def __init__(self, url: str) -> None:
        self._engine = open_database(url, BUSY_TIMEOUT_S)
        METADATA.create_all(self._engine)
        self._insert = sqlite.insert if self._engine.dialect.name == "sqlite" else postgresql.insert

    def reserve(self, request_id: str, tenant: str, limit: Limit, estimate_rt: float) -> Verdict:
        """Take the estimate from the tenant's bucket, or say when to come again. Once an id, however often asked."""
        with self._engine.begin() as connection:
            now_s = self._now_s(connection)
            bucket = self._bucket(connection, tenant, limit, now_s)
            before = _reservation(self._row(connection, request_id))
            bucket, after, verdict = reserve(limit, bucket, before, estimate_rt, now_s)
            if before is None and after is not None:
                line = {"id": request_id, "tenant": tenant, "at_s": now_s, "state": after.state}
                connection.execute(REQUESTS.insert().values(**line, charged_rt=after.charged_rt))
            self._keep(connection, tenant, bucket)
        return verdict

    def settle(self, entries: Iterable[Entry]) -> None:
        """Charge what was used in place of the estimates, and write it down. A repetition changes nothing."""
        with self._engine.begin() as connection:
            now_s = self._now_s(connection)
            for entry in entries:
                row = self._row(connection, entry.request_id)
                after = Reservation(entry.used_rt, "settled")
                if entry.limit is not None:
                    bucket = self._bucket(connection, entry.tenant, entry.limit, now_s)
                    bucket, after = settle(entry.limit, bucket, _reservation(row), entry.used_rt, now_s)
                    self._keep(connection, entry.tenant, bucket)
                elif row is not None:
                    after = Reservation(max(entry.used_rt, row["charged_rt"]), "settled")
                line = {
                    "tenant": entry.tenant, "model": entry.model or (row["model"] if row else ""),
                    "state": after.state, "charged_rt": after.charged_rt,
                } | {name: max(getattr(entry, name), row[name] if row else 0) for name in MEASURED}  # fmt: skip
                if row is None:
                    connection.execute(REQUESTS.insert().values(id=entry.request_id, at_s=now_s, **line))
                else:
                    connection.execute(REQUESTS.update().where(REQUESTS.c.id == entry.request_id).values(**line))

    def level_rt(self, tenant: str) -> float | None:
        """The tenant's bucket as it was last touched; None if it never was."""
        with self._engine.connect() as connection:
            level = connection.scalar(select(BUCKETS.c.level_rt).where(BUCKETS.c.tenant == tenant))
        return None if level is None else float(level)

    def totals(self, tenant: str | None = None, since_s: float = 0, until_s: float = float("inf")) -> list[Total]:
        """What was used from `since_s` on and before `until_s` (Unix times), by tenant and model."""
        columns = [func.sum(REQUESTS.c[name]) for name in (*MEASURED, "charged_rt")]
        query = select(REQUESTS.c.tenant, REQUESTS.c.model, func.count(), *columns).where(
            REQUESTS.c.at_s >= since_s, REQUESTS.c.state == "settled"
        )
        if until_s != float("inf"):
            query = query.where(REQUESTS.c.at_s < until_s)
        if tenant is not None:
            query = query.where(REQUESTS.c.tenant == tenant)
        query = query.group_by(REQUESTS.c.tenant, REQUESTS.c.model).order_by(REQUESTS.c.tenant, REQUESTS.c.model)
        with self._engine.connect() as connection:
            return [Total(*row) for row in connection.execute(query)]

    def close(self) -> None:
        self._engine.dispose()

    def _now_s(self, connection: Connection) -> float:
        if connection.dialect.name == "sqlite":
            return time.time()
        return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0)

    def _bucket(self, connection: Connection, tenant: str, limit: Limit, now_s: float) -> Bucket:
        """Held until the transaction ends. (SQLite's transactions begin IMMEDIATE, and hold everything.)"""
        query = select(BUCKETS.c.level_rt, BUCKETS.c.at_s).where(BUCKETS.c.tenant == tenant).with_for_update()
        row = connection.execute(query).one_or_none()
        if row is None:
            fresh = full(limit, now_s)
            new = self._insert(BUCKETS).values(tenant=tenant, level_rt=fresh.level_rt, at_s=fresh.at_s)
            connection.execute(new.on_conflict_do_nothing())
            row = connection.execute(query).one()
        return Bucket(*row)

    def _keep(self, connection: Connection, tenant: str, bucket: Bucket) -> None:
        values = {"level_rt": bucket.level_rt, "at_s": bucket.at_s}
        connection.execute(BUCKETS.update().where(BUCKETS.c.tenant == tenant).values(**values))

    def _row(self, connection: Connection, request_id: str) -> Any:
        query = select(REQUESTS).where(REQUESTS.c.id == request_id).with_for_update()
        return connection.execute(query).mappings().one_or_none()


def _reservation(row: Any) -> Reservation | None:
    return None if row is None else Reservation(row["charged_rt"], row["state"])
