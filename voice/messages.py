"""RTVI messages to the client: what the page and `firstclause talk` show and measure.

user-started-speaking, user-stopped-speaking
user-transcription      {text, final}
bot-llm-started         a call to the LLM, whether or not its answer will be heard
bot-started-speaking, bot-stopped-speaking
bot-tts-text            {text}: a clause as it begins to sound
server-message          {kind: "turn", turn, transcript, lines_ms, allocation_ms}: a reply begins to sound
                        {kind: "reply", turn, text, interrupted}: it was heard, whole or so far
                        {kind: "notice", reason, text}: something the caller should read; reason "no_answer": what is
                        said is the apology for a reply that the LLM did not give
"""

from typing import Any

from pipecat.frames.frames import OutputTransportMessageUrgentFrame

LABEL = "rtvi-ai"


def rtvi(kind: str, /, **data: Any) -> OutputTransportMessageUrgentFrame:
    """A message of RTVI's own kinds."""
    return OutputTransportMessageUrgentFrame(message={"label": LABEL, "type": kind, "data": data})


def server_message(kind: str, /, **data: Any) -> OutputTransportMessageUrgentFrame:
    """One of ours, in RTVI's envelope for them."""
    return rtvi("server-message", kind=kind, **data)
