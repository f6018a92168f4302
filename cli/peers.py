"""`firstclause loadtest voice --peer`: the product's figures beside another pipeline's."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from configs.errors import InputError

UNUSED = {"gate": "--gate", "overrides": "--set", "web": "--web"}


def compare_with_peer(peer: str, turns: int, callers: str, config: Path, options: dict[str, Any]) -> None:
    """Make the calls, listen to them, and print what was found. Raises InputError, click.ClickException."""
    from cli.private_deployment import private_deployment
    from cli.talk import speak
    from configs.models import cache_dir, prepared
    from loadtests.ears import load_ears
    from loadtests.load import require_loopback
    from loadtests.machine import machine
    from loadtests.peers.compare import compare, summaries
    from loadtests.peers.load import read_peer_load
    from loadtests.peers.process import ProcessError
    from loadtests.run import NothingThere, default_folder, reachable

    counts = _callers(callers)
    for name, option in UNUSED.items():
        if options[name]:
            raise click.UsageError(f"{option} does not go with --peer")
    load = read_peer_load(options["load"])
    prepared("piper-joe-whole")
    folder = options["out"] or default_folder("peers", cache_dir() / "loadtests")

    def say(line: str) -> None:
        click.echo(line, err=True)

    with ExitStack() as running:
        if options["url"]:
            url = options["url"]
            require_loopback(url, options["allow_remote"])
            try:
                reachable(url)
            except NothingThere as error:
                raise click.ClickException(str(error)) from error
        else:
            say("starting a deployment for the comparison")
            url, config = running.enter_context(private_deployment(config, max(counts)))
        try:
            compare(peer, url, config, load, turns, counts, folder, speak, say)
        except ProcessError as error:
            raise click.ClickException(str(error)) from error
    document: dict[str, Any] = {
        "peer": peer,
        "callers": summaries(folder, load, load_ears(), say),
        "machine": machine(),
        "folder": str(folder),
    }
    (folder / "comparison.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    if options["as_json"]:
        click.echo(json.dumps(document))
    else:
        from loadtests.peers.table import markdown

        click.echo(markdown(document["callers"]))
        click.echo(f"recordings: {folder}")


def _callers(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1 or max(counts) > 1000 or len(set(counts)) < len(counts):
        raise InputError("loadtest", "--callers", text, "expected different whole numbers from 1 on, as in 1,2,4")
    return counts
