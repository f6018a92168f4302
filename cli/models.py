"""`firstclause models`: list, prepare and prune what models.yaml names."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from configs.models import Models, catalogue, read_marker, target
from serve_apps.models import store
from serve_apps.models.errors import PreparationError
from serve_apps.models.files import Report, size_bytes

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


@click.group()
def models() -> None:
    """The models that configs/models.yaml names: where they are, and making them ready."""


@models.command("list")
@as_json
def list_models(as_json: bool) -> None:
    """Every model, what uses it, and whether it is ready."""
    rows = _rows(catalogue())
    if as_json:
        click.echo(json.dumps({"models": rows}))
        return
    for row in rows:
        used = f" (used as {', '.join(row['used_as'])})" if row["used_as"] else ""
        state = f"ready, {row['bytes'] / 1e6:,.0f} MB, {row['path']}" if row["prepared"] else "not prepared"
        click.echo(f"{row['name']}{used}: {state}\n    {row['about']}; {row['licence']}; {row['origin']}")


@models.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--again", is_flag=True, help="Make a model again that is ready already (its path's files changed, say).")
@as_json
@click.pass_context
def prepare(ctx: click.Context, names: tuple[str, ...], again: bool, as_json: bool) -> None:
    """Fetch, check and convert models: those NAMEd (a name, or a role such as llm), else those in use."""
    known = catalogue()
    chosen = dict.fromkeys(known.name(name) for name in names or known.use)
    try:
        with _bars() as bars:
            for name in chosen:
                with _bar(bars, name) as report:
                    place = store.prepare(name, known.models[name], report, again)
                    report("ready", size_bytes(place), size_bytes(place))
    except PreparationError as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(1)
    if as_json:
        click.echo(json.dumps({"models": [row for row in _rows(known) if row["name"] in chosen]}))


@models.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@as_json
def prune(dry_run: bool, as_json: bool) -> None:
    """Remove prepared models that models.yaml does not name any more, and what interrupted preparations left."""
    known = catalogue()
    removed: list[tuple[Path, int]]
    if dry_run:
        removed = [(path, size_bytes(path)) for path in store.unused(known)]
    else:
        with _bars() as bars, _bar(bars, "prune") as report:
            removed = store.prune(known, report)
    if as_json:
        click.echo(json.dumps({"removed": [{"path": str(path), "bytes": size} for path, size in removed]}))
        return
    for path, size in removed:
        click.echo(f"{'would remove' if dry_run else 'removed'} {path} ({size / 1e6:,.0f} MB)")
    if not removed:
        click.echo("nothing to remove")


def _rows(known: Models) -> list[dict[str, Any]]:
    rows = []
    for name, model in known.models.items():
        marker = read_marker(target(name, model))
        rows.append(
            {
                "name": name,
                "used_as": [role for role, used in known.use.items() if used == name],
                "about": model.about,
                "licence": model.licence,
                "origin": model.origin,
                "source": model.source.kind,
                "prepared": marker is not None,
                "path": str(target(name, model)) if marker else None,
                "bytes": marker.total_bytes if marker else None,
            }
        )
    return rows


def _bars() -> Progress:
    columns = [SpinnerColumn(), TextColumn("{task.fields[name]}"), TextColumn("{task.description}")]
    return Progress(*columns, BarColumn(), DownloadColumn(), TimeElapsedColumn(), console=Console(stderr=True))


@contextmanager
def _bar(bars: Progress, name: str) -> Iterator[Report]:
    task = bars.add_task("", name=name, total=None)

    def report(step: str, done: int, total: int | None) -> None:
        bars.update(task, description=step, completed=done, total=total)

    yield report
    bars.stop_task(task)
