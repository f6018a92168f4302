"""`firstclause talk`: calls the running voice application in real time and says what each turn took."""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from configs.budgets import RESPONSE_MS, Budget, load_budget
from loadtests.call import CallError, dial
from loadtests.conversation import converse
from loadtests.turns import TurnResult
from loadtests.wav import Clip, read_clip

DEFAULT_URL = "http://127.0.0.1:8000"
SELF_CHECK = "What is the capital of France?"
PITCH = 1.15
"""The caller's voice is the agent's, shifted: one model, two speakers."""

console = Console(stderr=True, highlight=False)


@click.command()
@click.argument("questions", nargs=-1, type=click.Path(path_type=Path), metavar="[QUESTION.wav]...")
@click.option("--say", "texts", multiple=True, metavar="TEXT", help="Ask this, spoken by the Piper voice.")
@click.option("--mic", is_flag=True, help="Talk through this machine's microphone and speakers until Ctrl-C.")
@click.option("--url", default=None, help="Where the voice application is [default: the local deployment's].")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the call as heard here (left you, right the agent)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.pass_context
def talk(
    ctx: click.Context, questions: tuple[Path, ...], texts: tuple[str, ...], mic: bool, url: str | None,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Call the voice application: one turn for each QUESTION and TEXT, in that order."""
    if sum((bool(questions), bool(texts), mic)) == 0:
        raise click.UsageError("give a QUESTION.wav, --say TEXT or --mic")
    if out is not None and not out.resolve().parent.is_dir():
        raise click.UsageError(f"--out {out}: its folder does not exist")
    url = url or _running_url()
    if mic:
        from cli.microphone import talk_through_microphone

        ctx.exit(talk_through_microphone(url, out))
    clips = [read_clip(path) for path in questions] + (speak(texts) if texts else [])
    try:
        turns, recording = asyncio.run(_call(url, clips, out))
    except CallError as error:
        click.echo(f"error: {error}", err=True)
        ctx.exit(1)
    if as_json:
        click.echo(json.dumps(document(turns, recording)))
    else:
        for turn in turns:
            show(turn, load_budget())
        console.print(f"the call as heard: {recording}")
    ctx.exit(0 if all(turn.response_ms is not None for turn in turns) else 1)


def document(turns: list[TurnResult], recording: Path) -> dict[str, Any]:
    """What --json prints: the last turn, and all of them."""
    return {**turns[-1].document(), "turns": [turn.document() for turn in turns], "recording": str(recording)}


def show(turn: TurnResult, budget: Budget) -> None:
    """Print a turn and its budget."""
    console.print(f"you:   {turn.transcript or '(nothing understood)'}")
    console.print(f"agent: {turn.reply or '(no reply)'}")
    if turn.response_ms is None:
        console.print("no sound answered: see firstclause status")
        return
    table = Table("line", "ms", "allocation", "", box=None, padding=(0, 1))
    table.columns[1].justify = table.columns[2].justify = "right"
    for line, allocation_ms in budget.allocation_ms().items():
        spent_ms = turn.lines_ms[line]
        bar = "█" * min(60, max(0, round(spent_ms / 20)))
        table.add_row(line, f"{spent_ms:.0f}", f"{allocation_ms:.0f}", f"[{_colour(spent_ms, allocation_ms)}]{bar}[/]")
    table.add_row("total", f"{turn.response_ms:.0f}", f"{RESPONSE_MS:.0f}", "")
    console.print(table)
    for flag in turn.flags:
        console.print(f"[yellow]{flag}[/]")


def self_check_turn(url: str) -> None:
    """Ask one question and print its budget."""
    turns, _ = asyncio.run(_call(url, speak([SELF_CHECK]), None))
    show(turns[0], load_budget())


def speak(texts: Sequence[str], pitch: float = PITCH) -> list[Clip]:
    """Each text in the Piper voice, shifted in pitch and kept at its pace."""
    return asyncio.run(_speak(texts, pitch))


async def _speak(texts: Sequence[str], pitch: float) -> list[Clip]:
    import numpy as np
    import soxr

    from configs.models import prepared
    from configs.voice import Speaking
    from voice.tts.piper import Voice

    # Spoken slower by as much as the resampling then makes it faster and higher.
    voice = Voice(prepared("tts"), Speaking(length_scale=pitch))
    await voice.start()
    try:
        clips = []
        for text in texts:
            sounds = [sound async for sound in voice.say(text, urgent=True)]
            samples = soxr.resample(np.concatenate(sounds), voice.sample_rate * pitch, voice.sample_rate)
            clips.append(Clip(samples.astype(np.int16)[:, None], voice.sample_rate))
        return clips
    finally:
        await voice.stop()


async def _call(url: str, clips: list[Clip], out: Path | None) -> tuple[list[TurnResult], Path]:
    call = await dial(url)
    try:
        turns = [turn async for turn in converse(call, clips)]
    finally:
        await call.hang_up()
        recording = out or Path(tempfile.mkdtemp(prefix="firstclause-")) / "call.wav"
        call.recording.save(recording)
    return turns, recording


def _running_url() -> str:
    from serve_apps import running

    record = running.read()
    return record.url if record is not None else DEFAULT_URL


def _colour(spent_ms: float, allocation_ms: float) -> str:
    return "green" if spent_ms <= allocation_ms else "yellow" if spent_ms <= 2 * allocation_ms else "red"
