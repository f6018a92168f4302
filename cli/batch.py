"""`firstclause batch`: jobs on the batch API, as any OpenAI client could make them."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configs.errors import InputError

if TYPE_CHECKING:
    import httpx

POLL_S = 1.0
ENDED = ("completed", "failed", "expired", "cancelled")
CHUNK_BYTES = 1 << 20

_url = click.option("--url", envvar="FIRSTCLAUSE_URL", help="Base URL of the deployment; default: the local one.")
_key = click.option("--key", envvar="FIRSTCLAUSE_KEY", help="The tenant's key, where the deployment asks for one.")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


@click.group()
def batch() -> None:
    """Batch jobs: many requests in a file, done while the fleet is idle.

    Exit codes: 0 done, 1 the batch did not complete, 2 bad input, 3 no such batch, 130 Ctrl-C (the batch goes on).
    """


@batch.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--endpoint", default="/v1/chat/completions", show_default=True)
@click.option("--window", default="24h", show_default=True, help="When it has to be done: 90m, 24h, 2d.")
@click.option("--wait", is_flag=True, help="Stay until it has ended.")
@click.option("--idempotency-key", help="The same key again makes no second batch.")
@click.option("--dry-run", is_flag=True, help="Only price it, in GPU-hours; asks no server.")
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="The replica's rates to price by; with --wait, what was measured stands beside.",
)
@click.option(
    "--output-share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Of max_tokens, that answers are reckoned at.",
)
@_url
@_key
@_json
def submit(
    file: Path, endpoint: str, window: str, wait: bool, idempotency_key: str | None, dry_run: bool,
    profile: Path | None, output_share: float, url: str | None, key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Upload FILE (JSONL or Parquet, a request a row) and make a batch of it."""
    from cli.batch_plan import plan_of

    plan = plan_of(file, endpoint, profile, output_share) if dry_run or profile else None
    if dry_run:
        assert plan is not None
        click.echo(json.dumps(plan.document(None)) if as_json else plan.table(None))
        return
    with _client(url, key) as client:
        uploaded = _upload(client, file, quiet=as_json)
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        asked = {"input_file_id": uploaded["id"], "endpoint": endpoint, "completion_window": window}
        made = _asked(client.post("/v1/batches", json=asked, headers=headers))
        if wait:
            made = _followed(client, made["id"], quiet=as_json)
    if plan is not None:
        made["plan"] = plan.document(made)
    _show(made, as_json)
    if plan is not None and not as_json:
        click.echo(plan.table(made))
    sys.exit(0 if not wait or made["status"] == "completed" else 1)


@batch.command()
@click.option("--limit", type=click.IntRange(min=1), default=4000, show_default=True, help="Letters.")
@click.option("--model", help="Default: the deployment's only model.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--profile", type=click.Path(path_type=Path), help="The replica's rates to price by.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("reference-job"), show_default=True, help="New folder."
)
@_url
@_key
@_json
def reference(
    limit: int, model: str | None, seed: int, profile: Path | None, out: Path, url: str | None, key: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """The reference job: classify generated letters under long instructions, then summarise the complaints."""
    from batch.reference import classify_rows, summarise_rows
    from cli.batch_plan import plan_of

    _new_folder(out)
    found: dict[str, Any] = {}
    with _client(url, key) as client:
        model = model or _only_model(client)
        rows = classify_rows(model, limit, seed)
        for name in ("classify", "summarise"):
            path = out / f"{name}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            if not path.stat().st_size:
                click.echo("no letter was called a complaint: nothing to summarise", err=True)
                break
            plan = plan_of(path, "/v1/chat/completions", profile, 1.0)
            asked = {
                "input_file_id": _upload(client, path, as_json)["id"], "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
            }  # fmt: skip
            one = _followed(client, _asked(client.post("/v1/batches", json=asked))["id"], as_json)
            if one["status"] != "completed" or not one["output_file_id"]:
                _show(one, as_json)
                sys.exit(1)
            output = _download(client, one["output_file_id"], out / f"{name}_output.jsonl", as_json)
            found[name] = one | {"plan": plan.document(one)}
            if not as_json:
                click.echo(f"{name}:\n{plan.table(one)}")
            rows = summarise_rows(model, limit, output.read_bytes().splitlines(), seed)
    if as_json:
        click.echo(json.dumps(found))


@batch.command()
@click.argument("batch_id", required=False)
@click.option("--wait", is_flag=True, help="Stay until it has ended.")
@_url
@_key
@_json
def status(batch_id: str | None, wait: bool, url: str | None, key: str | None, as_json: bool) -> None:
    """How far BATCH_ID is, or the newest batches."""
    with _client(url, key) as client:
        if batch_id is None:
            found = _asked(client.get("/v1/batches"))
            if as_json:
                click.echo(json.dumps(found))
                return
            for one in found["data"]:
                click.echo(_line(one))
            sys.exit(0 if found["data"] else 3)
        one = _followed(client, batch_id, as_json) if wait else _asked(client.get(f"/v1/batches/{batch_id}"))
    _show(one, as_json)
    sys.exit(1 if one["status"] in ENDED and one["status"] != "completed" else 0)


@batch.command()
@click.argument("batch_id")
@click.option("--out", type=click.Path(path_type=Path), help="The output file; default: BATCH_ID_output, here.")
@click.option("--errors", type=click.Path(path_type=Path), help="The error file; default: BATCH_ID_error, here.")
@_url
@_key
@_json
def results(
    batch_id: str, out: Path | None, errors: Path | None, url: str | None, key: str | None, as_json: bool
) -> None:
    """Fetch the output and error file of an ended batch."""
    written: dict[str, str] = {}
    with _client(url, key) as client:
        one = _asked(client.get(f"/v1/batches/{batch_id}"))
        if one["status"] not in ENDED:
            raise click.ClickException(f"{batch_id} is {one['status']}: no results yet")
        for kind, place in (("output", out), ("error", errors)):
            if file_id := one[f"{kind}_file_id"]:
                name = _asked(client.get(f"/v1/files/{file_id}"))["filename"]
                written[kind] = str(_download(client, file_id, place or Path(name), quiet=as_json))
    if as_json:
        click.echo(json.dumps({"id": batch_id, "status": one["status"], "files": written}))
    else:
        for kind, path in written.items():
            click.echo(f"{kind}: {path}")
    sys.exit(0 if written else 3)


@batch.command()
@click.argument("batch_id")
@_url
@_key
@_json
def cancel(batch_id: str, url: str | None, key: str | None, as_json: bool) -> None:
    """Stop BATCH_ID; what is done is kept, and the rest named in the error file."""
    with _client(url, key) as client:
        one = _asked(client.post(f"/v1/batches/{batch_id}/cancel"))
    _show(one, as_json)


def _new_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise InputError("batch reference", "--out", str(path), error.strerror or str(error)) from error


def _only_model(client: "httpx.Client") -> str:
    models = [str(model["id"]) for model in _asked(client.get("/v1/models"))["data"]]
    if len(models) != 1:
        raise click.ClickException(f"--model: one of {', '.join(models)}")
    return models[0]


@contextmanager
def _client(url: str | None, key: str | None) -> "Iterator[httpx.Client]":
    import httpx

    from serve_apps import running

    if url is None:
        record = running.read()
        if record is None or not record.serving:
            raise click.ClickException("nothing is up here; run: firstclause up, or say --url")
        url = record.url
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            yield client
    except httpx.HTTPError as error:
        raise click.ClickException(f"{url}: {error or type(error).__name__}") from error


def _asked(answer: "httpx.Response") -> dict[str, Any]:
    """The document. Refusals become errors of the command's: exit 3 where there is no such thing, else 2."""
    if answer.is_success:
        document: dict[str, Any] = answer.json()
        return document
    try:
        message = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {answer.status_code}"
    if answer.status_code == 404:
        click.echo(f"error: {message}", err=True)
        sys.exit(3)
    raise click.ClickException(message)


def _upload(client: "httpx.Client", path: Path, quiet: bool) -> dict[str, Any]:
    try:
        with path.open("rb") as file, _bar(f"uploading {path.name}", path.stat().st_size, quiet) as advance:
            return _asked(
                client.post("/v1/files", data={"purpose": "batch"}, files={"file": (path.name, _Read(file, advance))})  # type: ignore[dict-item]
            )
    except OSError as error:
        raise InputError("batch submit", "FILE", str(path), error.strerror or str(error)) from error


class _Read:
    """A file that says how much of it was read."""

    def __init__(self, file: Any, advance: Any) -> None:
        self._file, self._advance = file, advance

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self._advance(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read(CHUNK_BYTES):
            yield data


def _download(client: "httpx.Client", file_id: str, path: Path, quiet: bool) -> Path:
    try:
        with client.stream("GET", f"/v1/files/{file_id}/content") as answer, path.open("xb") as file:
            if not answer.is_success:
                answer.read()
                _asked(answer)
            size = int(answer.headers.get("content-length", 0))
            with _bar(f"fetching {path.name}", size, quiet) as advance:
                for data in answer.iter_bytes(CHUNK_BYTES):
                    file.write(data)
                    advance(len(data))
    except OSError as error:
        raise InputError("batch results", "--out", str(path), error.strerror or str(error)) from error
    return path


@contextmanager
def _bar(what: str, total: int, quiet: bool) -> Iterator[Any]:
    """A bar of bytes on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task(what, total=total or None)
        yield lambda count: progress.advance(task, count)


def _followed(client: "httpx.Client", batch_id: str, quiet: bool) -> dict[str, Any]:
    """Show a bar of rows until the batch has ended."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task("waiting", total=None)
        while True:
            one = _asked(client.get(f"/v1/batches/{batch_id}"))
            counts = one["request_counts"]
            done = counts["completed"] + counts["failed"]
            progress.update(task, description=_doing(one), completed=done, total=counts["total"] or None)
            if one["status"] in ENDED:
                return one
            time.sleep(POLL_S)


def _doing(one: dict[str, Any]) -> str:
    report = one.get("harvest") or {}
    trouble = f"; {report['trouble']}" if report.get("trouble") else ""
    late = f"; late by {report['late_s']:.0f} s" if report.get("late_s") else ""
    return f"{one['status']}, {report.get('in_flight', 0)} in flight{late}{trouble}"


def _line(one: dict[str, Any]) -> str:
    counts = one["request_counts"]
    return (
        f"{one['id']}  {one['status']:<12} {counts['completed']} done, {counts['failed']} failed of {counts['total']}"
    )


def _show(one: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(one))
        return
    click.echo(_line(one))
    if one["status"] not in ENDED:
        click.echo(f"  {_doing(one)}; due {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(one['expires_at']))}")
    if usage := one.get("usage"):
        cached = usage["input_tokens_details"]["cached_tokens"]
        click.echo(f"  {usage['input_tokens']} prompt tokens ({cached} cached), {usage['output_tokens']} output tokens")
    for error in (one["errors"] or {"data": []})["data"][:20]:
        where = f"line {error['line']}: " if error["line"] else ""
        click.echo(f"  {where}{error['message']} ({error['code']})")
