"""The calls of a voice load, all drawn before the run: which clips, with which pauses, and where callers barge in."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from configs.errors import MISSING, InputError
from loadtests.load import VoiceLoad
from loadtests.speech import Speak, spoken
from loadtests.wav import read_clip

AUDIO = {".wav", ".flac", ".mp3", ".ogg"}


def calls(load: VoiceLoad, due_s: npt.NDArray[np.float64], speak: Speak | None) -> list[dict[str, Any]]:
    """One plan a due time: {index, due_s, turns: [{clip, think_s, barge_in_after_s}]}. Raises InputError."""
    rng = np.random.default_rng([load.seed, 2])
    clips = clip_paths(load, speak)
    for clip in clips:
        read_clip(clip)
    plans = []
    for index, due in enumerate(due_s):
        order = rng.permutation(len(clips))
        turns = []
        for number in range(load.turns):
            barges = number > 0 and rng.random() < load.barge_in_share
            turns.append(
                {
                    "clip": str(clips[order[number % len(clips)]]),
                    "think_s": load.think_s.draw(rng),
                    "barge_in_after_s": load.barge_in_after_s.draw(rng) if barges else None,
                }
            )
        plans.append({"index": index, "due_s": float(due), "turns": turns})
    return plans


def clip_paths(load: VoiceLoad, speak: Speak | None) -> list[Path]:
    """The files that callers speak; `speak` says the load's questions. Raises InputError where there are none."""
    if load.clips is None:
        if not load.questions or speak is None:
            raise InputError("load", "questions", MISSING, "expected clips (a folder of audio files) or questions")
        return spoken(load.questions, speak)
    if not load.clips.is_dir():
        raise InputError("load", "clips", str(load.clips), "is no folder")
    paths = sorted(path.absolute() for path in load.clips.iterdir() if path.suffix.lower() in AUDIO)
    if not paths:
        raise InputError("load", "clips", str(load.clips), "holds no audio files")
    return paths
