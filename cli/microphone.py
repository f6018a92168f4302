"""`firstclause talk --mic`: this machine's microphone and speakers as the caller."""

import asyncio
from pathlib import Path

import click
import numpy as np

from configs.errors import MISSING, InputError
from loadtests.call import FRAME_MS, RECORDING_RATE, CallError, Event, dial
from loadtests.wav import Clip
from telemetry.sound import Samples

RATE = 16_000
HELP = (
    "needs PortAudio and the sounddevice package: "
    "apt-get install libportaudio2 (or brew install portaudio), then .venv/bin/pip install 'sounddevice>=0.5'"
)


def talk_through_microphone(url: str, out: Path | None) -> int:
    """Talk until Ctrl-C. Raises InputError where there is no PortAudio or no device; returns the exit code."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise InputError("--mic", "", MISSING, HELP) from error
    try:
        sounddevice.check_input_settings(samplerate=RATE, channels=1, dtype="int16")
        sounddevice.check_output_settings(samplerate=RECORDING_RATE, channels=1, dtype="int16")
    except sounddevice.PortAudioError as error:
        raise InputError("--mic", "", MISSING, f"no usable microphone or speaker ({error})") from error
    try:
        return asyncio.run(_talk(sounddevice, url, out))
    except KeyboardInterrupt:
        return 0


async def _talk(sounddevice: object, url: str, out: Path | None) -> int:
    loop = asyncio.get_running_loop()
    try:
        call = await dial(url)
    except CallError as error:
        click.echo(f"error: {error}", err=True)
        return 1
    frames: asyncio.Queue[Samples] = asyncio.Queue()
    speaker = sounddevice.OutputStream(samplerate=RECORDING_RATE, channels=1, dtype="int16")  # type: ignore[attr-defined]
    microphone = sounddevice.InputStream(  # type: ignore[attr-defined]
        samplerate=RATE, channels=1, dtype="int16", blocksize=RATE * FRAME_MS // 1000,
        callback=lambda data, *_: loop.call_soon_threadsafe(frames.put_nowait, np.array(data[:, 0])),
    )  # fmt: skip
    played, shown = 0, 0
    try:
        with speaker, microphone:
            click.echo("talk; Ctrl-C hangs up", err=True)
            while not call.closed:
                await call.say(Clip((await frames.get())[:, None], RATE))
                heard = call.recording.agent()
                if len(heard) > played:
                    await asyncio.to_thread(speaker.write, heard[played:][:, None].copy())
                    played = len(heard)
                for event in call.events[shown:]:
                    _show(event)
                shown = len(call.events)
        return 0
    finally:
        await call.hang_up()
        if out is not None:
            call.recording.save(out)


def _show(event: Event) -> None:
    if event.type == "user-transcription" and event.data["final"]:
        click.echo(f"you:   {event.data['text']}")
    elif event.type == "server-message" and event.data.get("kind") == "reply" and event.data["text"]:
        click.echo(f"agent: {event.data['text']}")
