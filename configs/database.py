"""SQLAlchemy's engine for a database URL of the configuration: SQLite by default, PostgreSQL by that one line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Engine


def open_database(url: str, busy_timeout_s: float, **options: Any) -> "Engine":
    """`busy_timeout_s`: how long a writer of SQLite waits for another. `options` are create_engine's, for SQLite alone.

    A folder that SQLite's file needs is made, for its owner alone.
    """
    from sqlalchemy import create_engine, event, make_url

    where = make_url(url)
    if where.get_backend_name() != "sqlite":
        return create_engine(where, pool_pre_ping=True)
    if where.database:
        Path(where.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = create_engine(where, connect_args={"timeout": busy_timeout_s}, **options)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver begins no transactions of its own
        connection.execute("PRAGMA journal_mode=WAL")  # readers do not wait for a writer
        # A power failure may lose the last transactions, never the database's consistency.
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # A transaction that reads and then writes would else fail where another wrote in between.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
