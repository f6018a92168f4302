"""Word error rates: the hearing processor, streamed, beside faster-whisper's full window with beam 5, by source."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jiwer
import numpy as np
from faster_whisper import WhisperModel
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

from configs.deployment import load_deployment
from configs.models import prepared
from configs.voice import VoiceConfig
from tests.verify.hearing import speakers
from tests.verify.hearing.sentences import SENTENCES, words
from tests.verify.hearing.speakers import SPEAKERS, Audio, say, silence
from tests.verify.hearing.streamed import stream
from voice.asr import Recognizer
from voice.vad import turn_completeness

SNR_DB = 10
MONOLOGUE_SENTENCES = 12
FLOOR_POINTS = 1.0

_normal = EnglishTextNormalizer({})


@dataclass(frozen=True)
class Case:
    """A clip, where it is from, and what is said in it."""

    source: str
    audio: Audio
    said: str


@dataclass(frozen=True)
class Result:
    """One case heard by both."""

    case: Case
    ours: str
    theirs: str


def cases(every: int = 1) -> Iterator[Case]:
    """All of them, or every so many of the sentences."""
    chosen = [words(sentence) for sentence in SENTENCES][::every]
    for number, speaker in enumerate(SPEAKERS[:3]):
        said = chosen[number::3]
        yield from (Case(speaker.name, audio, text) for audio, text in zip(say(said, speaker), said, strict=True))
    half = chosen[::2]
    yield from (Case("espeak-ng", audio, text) for audio, text in zip(speakers.espeak(half), half, strict=True))
    noise = speakers.room_noise(60)
    for number, (audio, text) in enumerate(zip(say(half, SPEAKERS[0]), half, strict=True)):
        under = np.roll(noise, -number * 7_919)
        yield Case(f"Piper, {SNR_DB} dB SNR", speakers.with_noise(audio, under, SNR_DB), text)
    yield from (Case("recordings", audio, text) for audio, text in speakers.recordings().values())
    for start in range(0, len(chosen) - MONOLOGUE_SENTENCES + 1, MONOLOGUE_SENTENCES):
        said = chosen[start : start + MONOLOGUE_SENTENCES]
        parts = [
            part for audio in say(said, SPEAKERS[start // MONOLOGUE_SENTENCES % 3]) for part in (audio, silence(0.1))
        ]
        yield Case("40 s monologues", np.concatenate(parts), " ".join(said))


def hear(chosen: Sequence[Case], config: VoiceConfig, say_so: Callable[[str], None]) -> list[Result]:
    """Each case by both, one after the other."""
    recognizer, completeness = Recognizer(prepared("asr"), config.hearing), turn_completeness()
    whole = WhisperModel(
        str(prepared("asr")), device="cpu", compute_type=config.hearing.compute_type,
        cpu_threads=config.hearing.threads, local_files_only=True,
    )  # fmt: skip
    results = []
    for case in chosen:
        heard = asyncio.run(stream(case.audio, config, recognizer, completeness))
        segments, _ = whole.transcribe(case.audio.astype(np.float32) / 32768, language="en", beam_size=5)
        theirs = " ".join(segment.text.strip() for segment in segments)
        results.append(Result(case, " ".join(heard.turns), theirs))
        say_so(f"{case.source}: {case.said}\n  ours   {results[-1].ours}\n  theirs {theirs}")
    return results


def error_rates(results: Sequence[Result]) -> tuple[float, float]:
    """Word error rates in percent, ours and theirs: all words of all clips together."""
    said = [_normal(result.case.said) for result in results]
    ours, theirs = (
        [_normal(text) for text in texts] for texts in zip(*((r.ours, r.theirs) for r in results), strict=True)
    )
    return 100 * jiwer.wer(said, ours), 100 * jiwer.wer(said, theirs)


def table(results: Sequence[Result]) -> str:
    """Markdown, a source a row."""
    rows = ["| source | clips | words | streamed, WER % | full window, beam 5, WER % |", "|---|---|---|---|---|"]
    for source in [*dict.fromkeys(result.case.source for result in results), "all"]:
        of = [result for result in results if source in ("all", result.case.source)]
        ours, theirs = error_rates(of)
        count = sum(len(result.case.said.split()) for result in of)
        rows.append(f"| {source} | {len(of)} | {count} | {ours:.1f} | {theirs:.1f} |")
    return "\n".join(rows)


def short(results: Sequence[Result]) -> list[str]:
    """The floor, if it is not met."""
    ours, theirs = error_rates(results)
    if ours <= theirs + FLOOR_POINTS:
        return []
    return [f"streamed word error rate {ours:.1f} %, the full window's {theirs:.1f} %"]


def main() -> None:
    """python -m tests.verify.hearing.recognition"""
    results = hear(list(cases()), load_deployment().voice, print)
    print(table(results))


if __name__ == "__main__":
    main()
