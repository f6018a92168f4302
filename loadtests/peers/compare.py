"""The product beside a peer, as it comes and tuned: same callers, same questions, same LLM tier, in interleaved blocks.

Every pipeline answers a block of calls, then the next pipeline the same block, and so on; which one begins changes from
block to block. What was said is worked out from the recordings when all calls are over.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import soundfile

from configs.errors import InputError
from loadtests.metrics import late_frame_share, voice_metrics
from loadtests.peers.load import PeerLoad, PlannedCall, blocks
from loadtests.peers.process import CallersProcess, peer
from loadtests.speech import Speak, spoken
from loadtests.voice_analysis import Hear, turn_samples
from loadtests.voice_summary import summary
from loadtests.wav import read_clip

PEERS = {"stock-pipecat": "stock_pipecat"}
"""A peer's name on the command line: its module beside this one, which takes --port, --llm, --config and --tuned."""
PRODUCT, PEER, TUNED = "product", "peer", "tuned_peer"
Say = Callable[[str], None]


@dataclass
class Arm:
    """One pipeline at one number of callers: its recordings' folder, and what became of its calls."""

    folder: Path
    callers: CallersProcess
    calls: list[dict[str, Any]] = field(default_factory=list)


def compare(
    peer_name: str, product_url: str, config: Path, load: PeerLoad, turns: int, callers: Sequence[int], folder: Path,
    speak: Speak, say: Say,
) -> None:  # fmt: skip
    """Make all calls, `turns` turns of each pipeline at each number of callers; `folder` gets the recordings.

    The peers are asked for with the deployment's `config` and with the product's LLM tier. Raises ProcessError,
    InputError.
    """
    clips = question_clips(load, folder, speak)
    llm_url = f"{product_url.rstrip('/')}/v1"
    module = PEERS[peer_name]
    with ExitStack() as peers:
        urls = {
            PRODUCT: product_url,
            PEER: peers.enter_context(peer(module, llm_url, config)),
            TUNED: peers.enter_context(peer(module, llm_url, config, "--tuned")),
        }
        for count in callers:
            _level(urls, load, blocks(load, turns, count), clips, folder / str(count), say)


def question_clips(load: PeerLoad, folder: Path, speak: Speak) -> list[Path]:
    """A WAV file a question, its pause inside. Raises InputError for one that is too short or too long."""
    parts = [part for question in load.questions for part in question.parts]
    of_part = dict(zip(parts, spoken(parts, speak), strict=True))
    made = folder / "questions"
    try:
        made.mkdir(parents=True)
    except OSError as error:
        raise InputError("loadtest", "--out", str(folder), error.strerror or str(error)) from error
    paths = []
    for number, question in enumerate(load.questions):
        clip = question.clip([read_clip(of_part[part]) for part in question.parts])
        paths.append(made / f"{number:03d}.wav")
        soundfile.write(paths[-1], clip.samples, clip.rate)
    return paths


def _level(
    urls: dict[str, str], load: PeerLoad, planned: list[list[PlannedCall]], clips: list[Path], folder: Path, say: Say
) -> None:
    """All blocks at one number of callers, each by every pipeline in turn."""
    with ExitStack() as ending:
        arms: dict[str, Arm] = {}
        for name, url in urls.items():
            calls = folder / name / "calls"
            calls.mkdir(parents=True)
            arms[name] = Arm(folder / name, CallersProcess(url, calls, load.reply_timeout_s))
            ending.callback(arms[name].callers.close)
        names = list(arms)
        for number, block in enumerate(planned):
            for place in range(len(names)):
                arm = arms[names[(number + place) % len(names)]]
                ended = arm.callers.place(block, clips)
                arm.calls += [{**of, "planned": len(call.turns)} for of, call in zip(ended, block, strict=True)]
            say(f"{folder.name} callers: block {number + 1} of {len(planned)}")
        for arm in arms.values():
            (arm.folder / "calls.json").write_text(json.dumps(arm.calls), encoding="utf-8")


def summaries(folder: Path, load: PeerLoad, hear: Hear | None, say: Say) -> dict[str, Any]:
    """{callers: {pipeline: its figures}} of the recordings that `compare` left in `folder`."""
    found: dict[str, Any] = {}
    for level in sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)):
        found[level.name] = {}
        for name in (PRODUCT, PEER, TUNED):
            say(f"listening to {name} at {level.name} callers")
            found[level.name][name] = _figures(level / name, load, hear)
    return found


def _figures(folder: Path, load: PeerLoad, hear: Hear | None) -> dict[str, Any]:
    calls = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    turns = list(turn_samples(folder / "calls", hear))
    for turn in turns:
        if turn.response_ms is not None and turn.response_ms > load.reply_timeout_s * 1000:
            turn.outcome, turn.response_ms = "unanswered", None
    (folder / "turns.jsonl").write_text("".join(json.dumps(asdict(turn)) + "\n" for turn in turns), encoding="utf-8")
    figures = summary(voice_metrics(calls, turns, load), turns)
    # Turns that were never spoken count by what became of their call.
    unspoken: Counter[str] = Counter()
    for call in calls:
        unspoken[call["outcome"]] += call["planned"] - len(call["said"])
    figures["discarded"] |= dict(+unspoken)
    return figures | {"late_frame_share": late_frame_share(calls)}
