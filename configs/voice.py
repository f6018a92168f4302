"""The voice application's configuration: who the agent is, when it takes its turn, what it hears and speaks with."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.fleet import Tier
from configs.schema import Frozen

Probability = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0, le=60_000)]


class TurnTaking(Frozen):
    """When a turn opens and ends, and what an interruption is. Frames are 32 ms, so waits are multiples of that."""

    voice_probability: Probability = 0.5
    voice_hysteresis: Probability = 0.15
    open_voice_ms: Milliseconds = 96
    """Voice that opens a turn: less is a click."""
    resume_voice_ms: Milliseconds = 64
    """Voice that withdraws a guess."""
    hush_silence_ms: Milliseconds = 48
    """Silence after which the words so far are recognised, so that they are known when the guess is made."""
    guess_silence_ms: Milliseconds = 80
    """Silence after which the answer is begun, on a guess."""
    confirm_silence_ms: Milliseconds = 192
    """Silence that ends a turn that Smart Turn finds complete."""
    doubt_silence_ms: Milliseconds = 704
    """Silence that ends a turn that Smart Turn doubts."""
    unfinished_silence_ms: Milliseconds = 992
    """Silence that ends a turn whose words break off, as in 'tell me about the'."""
    complete_probability: Probability = 0.5
    reopen_pause_ms: Milliseconds = 1500
    """A caller who goes on so soon after their own last sound continues the same turn, however fast the answer was."""
    reopen_heard_ms: Milliseconds = 1000
    """So does one who goes on later, but before this much of the answer was heard."""
    max_segment_s: Annotated[float, Field(ge=5, le=28)] = 26
    """Whisper's window is 30 s: a longer utterance is transcribed in segments."""
    backchannels: tuple[str, ...] = (
        "mhm", "mhmm", "mm", "mmm", "mm-hmm", "hm", "hmm", "uh-huh", "uh huh", "uh", "um", "ah", "oh", "ok", "okay",
        "yeah", "right", "i see",
    )  # fmt: skip
    """Said while the agent speaks, these do not interrupt it."""

    @model_validator(mode="after")
    def _ordered(self) -> "TurnTaking":
        names = (
            "hush_silence_ms",
            "guess_silence_ms",
            "confirm_silence_ms",
            "doubt_silence_ms",
            "unfinished_silence_ms",
        )
        waits = [getattr(self, name) for name in names]
        if waits != sorted(waits):
            raise ValueError(f"{' <= '.join(names)} must hold")
        return self


class Persona(Frozen):
    """Who answers. Only English is spoken and understood so far."""

    system_prompt: Annotated[str, Field(min_length=1)]
    greeting: str = ""
    """Spoken when a call starts; empty for none."""
    apology: Annotated[str, Field(min_length=1)] = (
        "Sorry, I can't reach my language model right now. Please try again in a moment."
    )
    language: Literal["en"] = "en"
    max_reply_tokens: Annotated[int, Field(ge=4, le=2048)] = 80
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0


class Hearing(Frozen):
    """Speech recognition."""

    model: str = "whisper-base"
    compute_type: Literal["int8", "int8_float16", "float16", "float32"] = "int8"
    device: Literal["cpu", "cuda"] = "cpu"
    gpu_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """The part of a GPU that a replica on `cuda` takes: four replicas share one."""
    threads: Annotated[int, Field(ge=1, le=64)] = 2
    interim_every_ms: Annotated[float, Field(ge=200, le=10_000)] = 800
    """How often the words so far are shown while the caller speaks."""


class Speaking(Frozen):
    """Speech synthesis."""

    model: str = "piper-joe"
    threads: Annotated[int, Field(ge=1, le=64)] = 2
    length_scale: Annotated[float, Field(ge=0.5, le=2)] = 1.0
    """1 is the voice's own pace, more is slower."""


class Language(Frozen):
    """Where the pipeline's LLM is: an OpenAI-compatible server. None means the LLM application of this deployment."""

    base_url: str | None = None
    model: str | None = None
    first_token_timeout_s: Annotated[float, Field(gt=0, le=600)] = 6
    """After this long without a word the caller hears the apology."""


class Tool(Frozen):
    """A Python function that the LLM may have called."""

    function: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """MODULE:NAME, as in voice.clock:time_of_day. Its name, docstring and annotations are what the LLM is told."""
    while_guessing: bool = False
    """It only looks something up: it may be called for an answer that is never heard. Else it waits until the caller's
    turn is over."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5


class IceServer(Frozen):
    """A STUN or TURN server, for the page and for the replicas."""

    urls: Annotated[tuple[Annotated[str, Field(pattern=r"^(stun|turns?):.+")], ...], Field(min_length=1)]
    secret_env: str | None = None
    """The environment variable with the secret that a TURN server shares (coturn's static-auth-secret): callers get
    credentials of an hour, made with it. None: a server that asks for none."""


class VoiceConfig(Tier):
    """One voice application."""

    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    calls_per_replica: Annotated[int, Field(ge=1, le=1000)] = 2
    """One more caller is told that the line is busy."""
    max_call_s: Annotated[float, Field(gt=0, le=86_400)] = 3600
    max_message_bytes: Annotated[int, Field(ge=4096, le=16_777_216)] = 262_144
    """A larger WebSocket message is refused, and the call goes on."""
    ice_servers: tuple[IceServer, ...] = ()
    """For callers behind a NAT; none are needed on one network."""
    persona: Persona
    turn_taking: TurnTaking = TurnTaking()
    hearing: Hearing = Hearing()
    speaking: Speaking = Speaking()
    language: Language = Language()
    tools: tuple[Tool, ...] = ()
    """The model has to know how to call tools, which the stand-in does not."""
