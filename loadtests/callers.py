"""Many calls in one process, each in real time on one asyncio loop: an outcome a line out for a plan a line in.

    python -m loadtests.callers --url http://127.0.0.1:8000 --out calls/

The generator starts it. A call is only spoken and recorded here; what the recording says is found after the run
(voice_analysis.py), so that nothing but calls takes this process's time. Ends, hanging up, when its input ends.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadtests.call import BusyError, Call, CallError, Event, dial
from loadtests.conversation import is_reply, ping
from loadtests.priority import take_precedence
from loadtests.wav import Clip, read_clip
from telemetry.sound import loud_windows

QUIET_S = 0.3
MOST_QUIET_S = 1.5
"""So long without a sound, an answer has ended, whatever the messages say."""
GREETING_S = 2.0
"""So long an application may take to begin its greeting; one without a greeting is spoken to then."""
LINGER_S = 1.5
"""After the last answer, to hear a second one."""
POLL_S = 0.02


@dataclass
class CallSample:
    """What became of one call. Times are seconds of the run."""

    index: int
    due_s: float
    dialled_s: float = 0.0
    ended_s: float = 0.0
    outcome: str = "ok"
    """ok, busy, refused (no call), dropped (it broke off), interrupted (the run was stopped)."""
    detail: str = ""
    ping_ms: float | None = None
    sent_frames: int = 0
    late_frames: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)
    """{clip, at_s, barge_in} of each clip spoken, `at_s` in seconds of the call."""


class Ears:
    """Whether the agent is heard, followed as its sound arrives."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._seen = 0
        self.last_loud_s = 0.0
        self.onset_s: float | None = None
        """The first sound since `reset`."""

    def reset(self) -> None:
        self.listen()
        self.onset_s = None

    def listen(self) -> None:
        pieces = self._call.recording.agent_pieces()
        for piece in pieces[self._seen :]:
            if loud_windows(piece.samples, piece.rate).any():
                at_s = piece.start / self._call.recording.rate
                self.last_loud_s = piece.end / self._call.recording.rate
                self.onset_s = at_s if self.onset_s is None else self.onset_s
        self._seen = len(pieces)

    def quiet_s(self) -> float:
        """Since the last sound that was heard (negative: it still sounds)."""
        self.listen()
        return self._call.now_s() - self.last_loud_s


class Callers:
    """All calls of this process."""

    def __init__(self, url: str, out: Path, reply_timeout_s: float) -> None:
        self._url, self._out, self._reply_timeout_s = url, out, reply_timeout_s
        self._clips: dict[str, Clip] = {}

    def clip(self, path: str) -> Clip:
        if path not in self._clips:
            self._clips[path] = read_clip(Path(path))
        return self._clips[path]

    async def place(self, plan: dict[str, Any]) -> CallSample:
        """One call, from dialling to hanging up."""
        begun = plan["begun"]
        sample = CallSample(plan["index"], plan["due_s"], dialled_s=time.monotonic() - begun)
        call = None
        try:
            call = await dial(self._url)
            sample.ping_ms = await ping(call)
            await self._talk(call, plan, sample)
            await asyncio.sleep(LINGER_S)
            await call.hang_up()
        except BusyError as error:
            sample.outcome, sample.detail = "busy", str(error)
        except (CallError, OSError) as error:
            sample.outcome, sample.detail = "refused" if call is None else "dropped", str(error)
        except asyncio.CancelledError:
            sample.outcome, sample.detail = "interrupted", "the run was stopped"
        finally:
            sample.ended_s = time.monotonic() - begun
        if call is not None:
            sample.sent_frames, sample.late_frames = call.sent_frames, call.late_frames
            with contextlib.suppress(asyncio.CancelledError):
                await call.hang_up()
            await asyncio.to_thread(self._save, call, sample)
        return sample

    async def _talk(self, call: Call, plan: dict[str, Any], sample: CallSample) -> None:
        ears = Ears(call)
        await self._until_answered(call, ears, 0, GREETING_S, None)
        for turn in plan["turns"]:
            barge = turn["barge_in_after_s"] if sample.said and ears.onset_s is not None else None
            if barge is None or ears.onset_s is None:
                await asyncio.sleep(turn["think_s"])
            else:
                await asyncio.sleep(max(0.0, ears.onset_s + barge - call.now_s()))
            first = len(call.events)
            said = await call.say(self.clip(turn["clip"]))
            sample.said.append({"clip": turn["clip"], "at_s": said.at_s, "barge_in": barge is not None})
            ears.reset()
            following = plan["turns"][len(sample.said)] if len(sample.said) < len(plan["turns"]) else None
            next_barge = following["barge_in_after_s"] if following else None
            await self._until_answered(call, ears, first, self._reply_timeout_s, next_barge)

    async def _until_answered(
        self, call: Call, ears: Ears, first_event: int, timeout_s: float, barge_in_after_s: float | None
    ) -> None:
        """Until the agent has begun and ended an answer, or has let `timeout_s` pass without a sound. Where the caller
        means to barge in, only until it has begun."""
        begun_s = call.now_s()
        while True:
            quiet_s = ears.quiet_s()
            if call.closed:
                raise CallError("the application hung up")
            if ears.onset_s is None:
                if call.now_s() - begun_s >= timeout_s:
                    return
            elif (
                barge_in_after_s is not None
                or quiet_s >= MOST_QUIET_S
                or (quiet_s >= QUIET_S and _ended(call.events[first_event:], ears.onset_s))
            ):
                return
            await asyncio.sleep(POLL_S)

    def _save(self, call: Call, sample: CallSample) -> None:
        name = self._out / f"{sample.index:05d}"
        call.recording.save_pieces(name.with_suffix(".npz"))
        events = [asdict(event) for event in call.events]
        name.with_suffix(".json").write_text(json.dumps({"call": asdict(sample), "events": events}), encoding="utf-8")


def _ended(events: list[Event], onset_s: float) -> bool:
    return any(event.at_s >= onset_s and (event.type == "bot-stopped-speaking" or is_reply(event)) for event in events)


async def main(url: str, out: Path, reply_timeout_s: float) -> None:
    callers = Callers(url, out, reply_timeout_s)
    reader = asyncio.StreamReader(limit=2**22)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()

    async def one(plan: dict[str, Any]) -> None:
        sample = await callers.place(plan)
        print(json.dumps(asdict(sample)), flush=True)

    take_precedence()
    gc.freeze()
    print("ready", flush=True)
    while line := await reader.readline():
        task = asyncio.create_task(one(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--reply-timeout-s", type=float, default=15)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.url, arguments.out, arguments.reply_timeout_s))
