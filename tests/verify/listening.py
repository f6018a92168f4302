"""What the voice application hears of its callers: word error rates by source, and pauses inside sentences."""

from collections.abc import Callable

from configs.deployment import load_deployment
from tests.verify.hearing import pauses, recognition
from tests.verify.section import Part


def verify(say_so: Callable[[str], None]) -> Part:
    """Floors: words nearly as well as the whole window's, few turns cut off. Half an hour on two quiet cores."""
    config = load_deployment().voice
    heard = recognition.hear(list(recognition.cases()), config, say_so)
    outcomes = pauses.run(pauses.cases(), config, say_so)
    waits = config.turn_taking.model_dump(exclude={"backchannels"})
    text = (
        "### What is recognised\n\nEach clip through the hearing processor in the pipeline's chunks, on virtual time, "
        "and through faster-whisper with its 30 s window and beam 5; the same model, numbers normalised. Floor: within "
        f"{recognition.FLOOR_POINTS:g} point over all.\n\n{recognition.table(heard)}\n\n"
        f"### Pauses inside sentences\n\nOf 0.3 to 1.2 s, an answer ready {pauses.ANSWER_MS:g} ms after its guess. "
        "*Ended*: the turn was over inside the pause. *Talked into*: the agent was audible before the caller went on. "
        f"*Cut off*: and {pauses.CUT_OFF_MS:g} ms of it were heard; floor: at most {pauses.FLOOR_SHARE:.0%}, bound "
        f"under {pauses.FLOOR_BOUND:.0%}. Turn taking: {waits}.\n\n{pauses.table(outcomes)}"
    )
    return Part(text, [*recognition.short(heard), *pauses.short(outcomes)])
