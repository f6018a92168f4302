"""The databases on a real PostgreSQL: moved there from SQLite, backed up and restored."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from batch.store import Store, migrate
from planning.policies.quota import Limit
from serve_apps.gateway.books import Books, Entry
from serve_apps.move_database import NotEmpty, move
from tests.support.cli import ROOT
from tests.support.postgres import postgres

LIMIT = Limit(rate_rt_per_s=10, burst_rt=1000)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Path, dict[str, str]]]:
    with postgres() as running:
        yield running


@pytest.fixture
def database(server: tuple[str, Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty database."""
    url, _, environment = server
    monkeypatch.setenv("PGPASSWORD", environment["PGPASSWORD"])
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS one WITH (FORCE)"))
        connection.execute(text("CREATE DATABASE one"))
    engine.dispose()
    yield url.removesuffix("postgres") + "one"


def filled(url: str) -> str:
    """Both kinds of rows at a URL; the file's id."""
    migrate(url)
    with stores(url) as (store, books):
        file = store.add_file("acme", "rows.jsonl", "batch", 120)
        books.reserve("r1", "acme", LIMIT, 50)
        books.settle([Entry("r1", "acme", "m", LIMIT, used_rt=40, prompt_tokens=30, output_tokens=5)])
        return file.id


@contextmanager
def stores(url: str) -> Iterator[tuple[Store, Books]]:
    store, books = Store(url), Books(url)
    try:
        yield store, books
    finally:
        store._engine.dispose()
        books.close()


def check(url: str, file_id: str) -> None:
    """What was filled in is there, and the stores go on with it."""
    with stores(url) as (store, books):
        assert store.file("acme", file_id).filename == "rows.jsonl"
        [total] = books.totals()
        assert (total.tenant, total.prompt_tokens, total.output_tokens, total.charged_rt) == ("acme", 30, 5, 40)
        assert store.add_file("acme", "more.jsonl", "batch", 7).id != file_id
        assert books.reserve("r2", "acme", LIMIT, 10).admitted


def test_sqlite_moves_to_postgresql_in_one_line(database: str, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path / 'all.db'}"
    file_id = filled(source)
    done = subprocess.run(
        [sys.executable, "-m", "serve_apps.move_database", source, database], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "files: 1 rows" in done.stdout and "requests: 1 rows" in done.stdout
    check(database, file_id)
    with pytest.raises(NotEmpty, match="files"):
        move(source, database)


def test_a_backup_restores(database: str, server: tuple[str, Path, dict[str, str]], tmp_path: Path) -> None:
    """As docs/runbook.md has it: pg_dump, and pg_restore into an empty database."""
    file_id = filled(database)
    _, programs, environment = server
    plain = database.replace("+psycopg", "")
    for words in (
        ["pg_dump", "--format=custom", f"--file={tmp_path / 'backup'}", plain],
        ["psql", "-q", "-c", "DROP SCHEMA public CASCADE; CREATE SCHEMA public", plain],
        ["pg_restore", f"--dbname={plain}", "--no-owner", str(tmp_path / "backup")],
    ):
        done = subprocess.run(
            [str(programs / words[0]), *words[1:]], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or 'schema "public" already exists' in done.stderr, done.stderr
    check(database, file_id)
