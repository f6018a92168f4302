"""Copy a deployment's database into another, as from SQLite to PostgreSQL. Nothing may write to either meanwhile.

    python -m serve_apps.move_database sqlite:////var/lib/firstclause/batch.db postgresql+psycopg://firstclause@db/fc

The tables of the target are made by who owns them (the batch store's migrations, the gateway's books). A target with
rows of its own is refused, and nothing is copied.
"""

import sys

from sqlalchemy import Connection, MetaData, create_engine, func, select

from batch.store import migrate
from serve_apps.gateway.books import METADATA

BATCH_ROWS = 1000
VERSIONS = "alembic_version"


class NotEmpty(RuntimeError):
    """The target has rows of its own. Nothing was copied."""


def move(source: str, target: str) -> dict[str, int]:
    """Copy every table of `source` (SQLAlchemy's URLs); returns table -> rows copied. Raises NotEmpty."""
    reader, writer = create_engine(source), create_engine(target)
    try:
        held = MetaData()
        held.reflect(reader)
        if "batches" in held.tables:
            migrate(target)
        METADATA.create_all(writer, tables=[table for name, table in METADATA.tables.items() if name in held.tables])
        wanted = MetaData()
        wanted.reflect(writer)
        names = [table.name for table in wanted.sorted_tables if table.name in held.tables and table.name != VERSIONS]
        with reader.connect() as read, writer.begin() as write:
            full = [name for name in names if write.scalar(select(func.count()).select_from(wanted.tables[name]))]
            if full:
                raise NotEmpty(f"the target has rows already in: {', '.join(full)}")
            return {name: _copy(read, write, held, wanted, name) for name in names}
    finally:
        reader.dispose()
        writer.dispose()


def _copy(read: Connection, write: Connection, held: MetaData, wanted: MetaData, name: str) -> int:
    rows = read.execution_options(yield_per=BATCH_ROWS).execute(select(held.tables[name])).mappings()
    copied = 0
    for part in rows.partitions(BATCH_ROWS):
        write.execute(wanted.tables[name].insert(), [dict(row) for row in part])
        copied += len(part)
    return copied


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m serve_apps.move_database SOURCE_URL TARGET_URL")
    try:
        for name, rows in move(sys.argv[1], sys.argv[2]).items():
            print(f"{name}: {rows} rows")
    except NotEmpty as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
