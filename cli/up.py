"""`firstclause up`, `down` and `status`: the local deployment."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from configs.deployment import DEFAULT_CONFIG, load_deployment
from configs.models import prepared
from serve_apps import local, running
from serve_apps.running import Running

START_TIMEOUT_S = 600
STOP_TIMEOUT_S = 60

console = Console(stderr=True, highlight=False)


@click.command()
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default="configs/local.yaml")
@click.option("--foreground", is_flag=True, help="Stay until Ctrl-C, then stop everything that was started.")
@click.option("--self-check", is_flag=True, help="Ask one question aloud when it serves, and print its budget.")
@click.pass_context
def up(ctx: click.Context, config: Path, foreground: bool, self_check: bool) -> None:
    """Start Ray and the applications on this machine."""
    deployment = load_deployment(config)
    for name in (deployment.llm.model, deployment.voice.hearing.model, deployment.voice.speaking.model):
        prepared(name)
    _clear_the_way()
    try:
        local.check_port(deployment.http.host, deployment.http.port)
    except local.PortTaken as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(1)
    if foreground:
        from serve_apps.supervisor import supervise

        def serving(url: str) -> None:
            _say_serving(url, self_check)
            console.print("Ctrl-C stops it.")

        supervise(deployment, config, console.print, serving)
        return
    record = _start(config)
    if record is None:
        ctx.exit(1)
    _say_serving(record.url, self_check)


@click.command()
@click.pass_context
def down(ctx: click.Context) -> None:
    """Stop the local deployment, and nothing else."""
    record = running.read()
    if record is None:
        click.echo("nothing is up", err=True)
        ctx.exit(3)
    process = record.supervisor.find()
    if process is None:
        running.sweep(record)
        click.echo("the deployment had died; what it left is ended", err=True)
        return
    process.terminate()
    with console.status("stopping"):
        gone = running.wait_until_gone(process, STOP_TIMEOUT_S)
    if not gone:
        process.kill()
        running.wait_until_gone(process, 5)
        running.sweep(record)
    click.echo("stopped", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """What is up, and where. Exit code 0 when it serves, 3 when nothing is up, 1 when it is not ready."""
    record = running.read()
    alive = record is not None and record.supervisor.find() is not None
    document: dict[str, Any] = {"url": None, "phase": None, "applications": []}
    if record is not None and alive:
        document = {"url": record.url, "phase": record.phase, "applications": []}
        if record.serving:
            document["applications"] = _applications()
    if as_json:
        click.echo(json.dumps(document))
    elif record is None or not alive:
        click.echo("nothing is up; run: firstclause up")
    else:
        click.echo(f"{record.phase} at {record.url} ({record.config})")
        for application in document["applications"]:
            models = f" ({', '.join(application['models'])})" if application["models"] else ""
            click.echo(f"  {application['name']}: {application['status']}, {application['replicas']} replicas{models}")
    if record is None or not alive:
        ctx.exit(3)
    healthy = record.serving and all(app["status"] == "RUNNING" for app in document["applications"])
    ctx.exit(0 if healthy else 1)


def _applications() -> list[dict[str, Any]]:
    """What the deployment says of itself."""
    import httpx

    from serve_apps.access import pass_for_a_minute

    record = running.read()
    assert record is not None
    deployment = load_deployment(Path(record.config))
    tls = deployment.http.tls
    try:
        answer = httpx.get(
            f"{record.url}/status", timeout=10, trust_env=False, verify=tls.trust() if tls else True,
            headers=pass_for_a_minute(deployment),
        )  # fmt: skip
        answer.raise_for_status()
        applications: list[dict[str, Any]] = answer.json()["applications"]
    except (httpx.HTTPError, ValueError, KeyError):
        return [{"name": "voice", "status": "UNREACHABLE", "replicas": 0, "models": []}]
    return applications


def _clear_the_way() -> None:
    """Refuse a second deployment; end what a killed one left."""
    record = running.read()
    if record is None:
        return
    if record.supervisor.find() is not None:
        raise click.ClickException(f"already up ({record.phase} at {record.url}); run: firstclause down")
    running.sweep(record)


def _start(config: Path) -> Running | None:
    """Start the supervisor in the background and wait until it serves, or has died."""
    log = running.log_path()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "serve_apps.supervisor", str(config.resolve())],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            cwd=Path(__file__).parents[1],
        )  # fmt: skip
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        with console.status("starting") as shown:
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    break
                record = running.read()
                if record is not None and record.serving:
                    return record
                shown.update(record.phase if record is not None else "starting")
                time.sleep(0.3)
    except KeyboardInterrupt:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)
        raise
    process.terminate()
    lines = log.read_text(errors="replace").splitlines()
    click.echo("\n".join(lines[-15:]), err=True)
    click.echo(f"error: the deployment did not come up; the whole log: {log}", err=True)
    return None


def _say_serving(url: str, self_check: bool) -> None:
    if self_check:
        from cli.talk import self_check_turn

        self_check_turn(url)
    console.print(f"Talk to it: [bold]{url}/[/bold]")
