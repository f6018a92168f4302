"""Turns cut off in a pause, and how long a true end waits: the hearing processor on virtual time.

A clip is a sentence with one pause of 0.3-1.2 s in it; in four of five the words before it could be a whole sentence,
which is harder than most pauses for thought. A turn that is over inside the pause is **ended**. It is **talked into**
if the agent's sound begins before the caller goes on, an answer being ready `ANSWER_MS` after its guess. It is **cut
off** if, besides, `CUT_OFF_MS` of the answer were heard: though the caller who goes on re-opens the turn, that much is
no slip. The wait is from the sentence's last loud sound. Verdicts and words come at once here: a slow one lengthens a
wait, never shortens.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from configs.deployment import load_deployment
from configs.models import prepared
from configs.voice import TurnTaking, VoiceConfig
from telemetry.sound import WINDOW_MS, loud_windows
from tests.verify.hearing.sentences import SENTENCES, halves, words
from tests.verify.hearing.speakers import RATE, SPEAKERS, Audio, Speaker, recordings, say, silence
from tests.verify.hearing.streamed import LEAD_S, stream
from voice.asr import Recognizer
from voice.vad import FRAME_MS, turn_completeness

ANSWER_MS = 300.0
"""From the guess to the first sound: the aim. A slower answer talks into fewer pauses."""
CUT_OFF_MS = 1000.0
PAUSE_S = (0.3, 1.2)
FLOOR_SHARE, FLOOR_BOUND = 0.05, 0.08
ROOM_DBFS = -65
LEAST_RECORDING_S = 2.0
SHARES = {"jfk.flac": (0.27, 0.47, 0.72), "beckett.wav": ()}
"""Where in a recording a pause is put, others have one a third and two thirds in; the last has its own long ones."""


@dataclass(frozen=True)
class Case:
    """A clip, and where in it: the end of the first part, the start of the second, its end; ms from the start."""

    name: str
    audio: Audio
    pause_ms: float
    goes_on_ms: float
    end_ms: float


@dataclass(frozen=True)
class Outcome:
    """What became of one clip. `wait_ms` is None where the turn was not over within the silence behind it."""

    case: Case
    ended: bool
    talked_into: bool
    cut_off: bool
    wait_ms: float | None


def cases(every: int = 1) -> list[Case]:
    """All of them, or every so many, in a fixed order that mixes the speakers."""
    rng = random.Random(5)
    recorded = recordings()
    chosen: list[tuple[Speaker | None, str, float, float]] = [
        (speaker, sentence, len(halves(sentence)[0]) / len(words(sentence)), rng.uniform(*PAUSE_S))
        for speaker in SPEAKERS
        for sentence in SENTENCES
    ]
    for name, (audio, _) in recorded.items():
        shares = SHARES.get(name, (0.33, 0.67)) if len(audio) > LEAST_RECORDING_S * RATE else ()
        chosen += [(None, name, share, rng.uniform(*PAUSE_S)) for share in shares]
    rng.shuffle(chosen)
    chosen = chosen[::every]
    spoken: dict[tuple[Speaker | None, str], Audio] = {(None, name): audio for name, (audio, _) in recorded.items()}
    for speaker in SPEAKERS:
        said = [sentence for by, sentence, _, _ in chosen if by == speaker]
        audios = say([words(sentence) for sentence in said], speaker)
        spoken |= {(speaker, sentence): audio for sentence, audio in zip(said, audios, strict=True)}
    return [
        paused(f"{by.name if by else 'recording'}: {what}", spoken[by, what], share, pause_s)
        for by, what, share, pause_s in chosen
    ]


def paused(name: str, audio: Audio, share: float, pause_s: float) -> Case:
    """The clip with a pause at its quietest place near that share of it, and a quiet room throughout."""
    audio = _loud_part(audio)
    cut = _quietest(audio, share)
    first, rest = _loud_part(audio[:cut]), _loud_part(audio[cut:])
    whole = np.concatenate([first, silence(pause_s), rest])
    room = np.random.default_rng(1).normal(0, 32767 * 10 ** (ROOM_DBFS / 20), len(whole))
    pause_ms, rest_ms = 1000 * len(first) / RATE, 1000 * len(rest) / RATE
    goes_on_ms = pause_ms + pause_s * 1000
    return Case(name, (whole + room).clip(-32767, 32767).astype(np.int16), pause_ms, goes_on_ms, goes_on_ms + rest_ms)


def outcome(case: Case, guesses: Sequence[tuple[float, float]], turn: TurnTaking) -> Outcome:
    """`guesses`: when each turn that was confirmed was guessed and confirmed, in ms from the clip's start."""
    heard_going_on_ms = case.goes_on_ms + turn.resume_voice_ms + FRAME_MS
    inside = [(guess, over) for guess, over in guesses if over < heard_going_on_ms]
    talked_into = cut_off = False
    if inside:
        guess_ms, over_ms = inside[-1]
        audible_ms = max(over_ms, guess_ms + ANSWER_MS)
        talked_into = audible_ms < case.goes_on_ms
        # Heard on until the caller's voice has opened a turn again.
        heard_ms = case.goes_on_ms + turn.open_voice_ms + FRAME_MS - audible_ms
        cut_off = talked_into and heard_ms >= CUT_OFF_MS
    after = [over for _, over in guesses if over >= heard_going_on_ms]
    return Outcome(case, bool(inside), talked_into, cut_off, after[-1] - case.end_ms if after else None)


def run(chosen: Sequence[Case], config: VoiceConfig, say_so: Callable[[str], None]) -> list[Outcome]:
    """Each clip through the hearing processor: Silero, Smart Turn, Whisper and the turn machine as they are."""
    recognizer, completeness = Recognizer(prepared("asr"), config.hearing), turn_completeness()
    outcomes = []
    for case in chosen:
        heard = asyncio.run(stream(case.audio, config, recognizer, completeness))
        outcomes.append(
            outcome(case, [(g - LEAD_S * 1000, o - LEAD_S * 1000) for g, o in heard.over_ms], config.turn_taking)
        )
        last = outcomes[-1]
        wait = "never" if last.wait_ms is None else f"{last.wait_ms:.0f} ms"
        say_so(f"{last.ended:d}{last.talked_into:d}{last.cut_off:d} {wait} {case.name} {' | '.join(heard.turns)}")
    return outcomes


def bound(count: int, of: int) -> float:
    """One-sided 95 % Clopper-Pearson upper bound of a share."""
    return 1.0 if count == of else float(beta.ppf(0.95, count + 1, of - count))


def table(outcomes: Sequence[Outcome]) -> str:
    """Markdown: the three shares with their bounds, and the wait's distribution."""
    rows = ["| of the pauses | turns | share | 95 % bound |", "|---|---|---|---|"]
    for name, flags in (
        ("ended inside", [o.ended for o in outcomes]),
        ("talked into", [o.talked_into for o in outcomes]),
        ("cut off", [o.cut_off for o in outcomes]),
    ):
        count, of = sum(flags), len(flags)
        rows.append(f"| {name} | {count} of {of} | {count / of:.1%} | {bound(count, of):.1%} |")
    waits = [o.wait_ms for o in outcomes if o.wait_ms is not None]
    rows += ["", "| wait of a true end | p25 | p50 | p75 | p95 | max |", "|---|---|---|---|---|---|"]
    figures = " | ".join(f"{ms:.0f}" for ms in np.percentile(waits, [25, 50, 75, 95, 100]))
    rows.append(f"| ms, {len(waits)} turns | {figures} |")
    return "\n".join(rows)


def short(outcomes: Sequence[Outcome]) -> list[str]:
    """The floors that are not met."""
    count, of = sum(o.cut_off for o in outcomes), len(outcomes)
    missed = []
    if count / of > FLOOR_SHARE or bound(count, of) >= FLOOR_BOUND:
        missed.append(f"{count} of {of} turns cut off in a pause (bound {bound(count, of):.1%})")
    if any(o.wait_ms is None for o in outcomes):
        missed.append(f"{sum(o.wait_ms is None for o in outcomes)} turns were not over within the silence behind them")
    return missed


def _loud_part(audio: Audio) -> Audio:
    loud = np.flatnonzero(loud_windows(audio, RATE))
    window = RATE * WINDOW_MS // 1000
    return audio[loud[0] * window : (loud[-1] + 1) * window]


def _quietest(audio: Audio, share: float, around_s: float = 0.35, window_s: float = 0.05) -> int:
    """The sample in the middle of the quietest 50 ms around a share of the clip."""
    centre, around, window = round(len(audio) * share), round(around_s * RATE), round(window_s * RATE)
    starts = range(max(0, centre - around), min(len(audio), centre + around) - window, window // 10)
    return min(starts, key=lambda start: float(np.mean(audio[start : start + window].astype(float) ** 2))) + window // 2


def main() -> None:
    """python -m tests.verify.hearing.pauses"""
    outcomes = run(cases(), load_deployment().voice, print)
    print(table(outcomes))


if __name__ == "__main__":
    main()
