"""A PostgreSQL of one's own: Debian's, run as its user, on a loopback port, with a password."""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadtests.ports import free_port


def programs() -> Path | None:
    """Where initdb and pg_ctl are: the newest that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


@contextmanager
def postgres() -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Its SQLAlchemy URL, its programs' folder, and the environment with its password."""
    folder = programs()
    if folder is None:
        pytest.skip("no PostgreSQL: install Debian's package postgresql")
    as_user = []
    data = Path(tempfile.mkdtemp(prefix="fcpg"))
    if os.geteuid() == 0:  # initdb refuses root
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(data, "postgres")
    port, password = free_port(), secrets.token_hex(16)
    secret = data / "password"
    secret.write_text(password)
    secret.chmod(0o644)
    environment = {**os.environ, "PGPASSWORD": password}

    def run(*words: str) -> None:
        done = subprocess.run([*as_user, *words], cwd="/", env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run(
            str(folder / "initdb"), "-D", f"{data}/db", "-U", "firstclause", "-A", "scram-sha-256", f"--pwfile={secret}"
        )
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {data}"
        run(str(folder / "pg_ctl"), "-D", f"{data}/db", "-w", "-l", f"{data}/log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://firstclause@127.0.0.1:{port}/postgres", folder, environment
        finally:
            run(str(folder / "pg_ctl"), "-D", f"{data}/db", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(data, ignore_errors=True)
