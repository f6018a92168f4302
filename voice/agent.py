"""The agent processor: guesses in, one spoken answer a turn out.

It carries out what the gate (gate.py) orders, keeps the history to what was heard, and tells the client what happens.
Turn taking is the hearing processor's; what an answer is made of is answer.py's; its pace is playout.py's.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from loguru import logger
from pipecat.frames.frames import CancelFrame, EndFrame, Frame, InterruptionFrame, OutputAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.processors.frameworks.rtvi.frames import RTVISendTextFrame

from configs.voice import VoiceConfig
from telemetry.budget import TurnEvents, server_lines_ms
from telemetry.sound import Samples, loud_windows
from voice.ahead import Ahead
from voice.answer import Answer, speak_into
from voice.frames import ConfirmedFrame, GuessFrame, TurnOpenedFrame, WithdrawnFrame, WordsFrame
from voice.gate import Gate, Order, Orders
from voice.history import History
from voice.interruption import goes_on, interrupts
from voice.llm import ChatModel, LlmError
from voice.messages import rtvi, server_message
from voice.playout import Clause, Playout, Script
from voice.tally import Tally
from voice.tools import ToolChat, Tools
from voice.tts.piper import Voice

OUT_RATE = 24_000


@dataclass
class Turn:
    """What is known of one guess and of the answer made for it."""

    text: str
    guessed_at: float = 0.0
    transcribed_at: float = 0.0
    voice_end_at: float = 0.0
    confirmed_at: float = 0.0
    sound_at: float = 0.0
    shown: int = 0
    """The turn's number for the client; 0 for the greeting and typed turns."""
    answer: Answer | None = None
    making: "asyncio.Task[None] | None" = None
    script: Script | None = None
    confirmed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the answer may be heard; until then it is made on a guess."""


class Agent(FrameProcessor):
    """One caller's agent. Pushes audio and RTVI messages downstream."""

    def __init__(
        self, config: VoiceConfig, chat: ChatModel, voice: Voice, history: History, call_id: str,
        allocation_ms: dict[str, float], tools: Tools, tally: Tally, own_sound: Callable[[Samples], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self._config, self._chat, self._voice, self._history = config, chat, voice, history
        self._call_id, self._allocation_ms, self._tools = call_id, allocation_ms, tools
        self._tally = tally
        self._own_sound = own_sound
        self._gate = Gate()
        self._numbers = itertools.count(1)
        self._turns: dict[int, Turn] = {}
        self._held_guess = 0
        self._caller_speaks = False
        self._opened_at = 0.0
        self._ahead = Ahead()
        self._prefilling: asyncio.Task[None] | None = None
        self._early: dict[int, ConfirmedFrame] = {}
        self._carried = ""
        self._shown = 0
        self._playout = Playout(OUT_RATE, self._send, self._on_clause)
        self._playing: asyncio.Task[None] | None = None

    async def greet(self) -> None:
        """Say the greeting, if there is one."""
        if self._config.persona.greeting:
            script = Script()
            number = self._begin(Turn("", script=script))
            self._turns[number].making = asyncio.create_task(self._greet_aloud(script, self._config.persona.greeting))
            await self._carry_out([*self._gate.guess(number), *self._gate.confirm(number)])

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Take the hearing processor's frames and typed text; pass everything else on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TurnOpenedFrame):
            await self._on_opened(frame)
        elif isinstance(frame, WordsFrame):
            await self._on_words(frame.text)
        elif isinstance(frame, GuessFrame):
            await self._on_guess(frame)
        elif isinstance(frame, WithdrawnFrame):
            await self._on_withdrawn(frame.guess)
        elif isinstance(frame, ConfirmedFrame):
            await self._on_silent(frame)
        elif isinstance(frame, RTVISendTextFrame):
            await self._on_typed(frame.text)
        else:
            if isinstance(frame, (EndFrame, CancelFrame)):
                await self._close()
            await self.push_frame(frame, direction)

    async def cleanup(self) -> None:
        """End every task and engine request of the call."""
        await self._close()
        await super().cleanup()  # type: ignore[no-untyped-call]

    # What the caller does

    async def _on_opened(self, frame: TurnOpenedFrame) -> None:
        self._opened_at = frame.voice_start_at
        self._ahead = Ahead()
        self._caller_goes_on()
        await self.push_frame(rtvi("user-started-speaking"))

    async def _on_words(self, text: str) -> None:
        if not self._caller_speaks:
            return  # of a turn that is over: its last transcript is known
        await self.push_frame(rtvi("user-transcription", text=self._with_carried(text), final=False))
        if self._gate.spoken is not None and interrupts(text, self._config.turn_taking):
            await self._interrupt(self._opened_at)
        if self._gate.spoken is None and (self._prefilling is None or self._prefilling.done()):
            self._prefill(self._with_carried(text))

    def _prefill(self, text: str) -> None:
        if tokens := self._ahead.grown(self._history.count_tokens(text)):
            self._tally("prefills", 1)
            self._tally("tokens_prefilled", tokens)
            request_id = f"{self._call_id}-ahead-{self._gate.newest}-{self._ahead.given_tokens}"
            work = self._chat.prefill(self._history.messages(text), request_id)
            self._prefilling = asyncio.create_task(_tried(work), name=request_id)

    async def _on_guess(self, frame: GuessFrame) -> None:
        confirmed = self._early.pop(frame.guess, None)
        self._early = {guess: early for guess, early in self._early.items() if guess > frame.guess}
        taken_back = bool(self._carried) and self._gate.spoken is None  # an answer, by words that came to nothing
        if (not frame.text and not taken_back) or (
            self._gate.spoken is not None and not interrupts(frame.text, self._config.turn_taking)
        ):
            # A cough, or 'mhmm' over the agent: it goes on where it paused.
            self._playout.resume()
            if confirmed is not None:
                await self.push_frame(rtvi("user-stopped-speaking"))
            return
        if self._gate.spoken is not None:
            await self._interrupt(self._opened_at)
        self._held_guess = frame.guess
        number = self._begin(Turn(self._with_carried(frame.text), frame.guessed_at, frame.transcribed_at))
        await self._carry_out(self._gate.guess(number))
        if confirmed is not None:
            await self._on_confirmed(confirmed)

    async def _on_withdrawn(self, guess: int) -> None:
        self._caller_goes_on()
        if guess == self._held_guess and self._gate.held is not None:
            await self._carry_out(self._gate.withdraw(self._gate.held))

    def _caller_goes_on(self) -> None:
        """Nothing sounds while the caller speaks; whether this interrupts, the words decide."""
        self._caller_speaks = True
        self._playout.pause()

    async def _on_silent(self, frame: ConfirmedFrame) -> None:
        self._caller_speaks = False
        await self._on_confirmed(frame)

    async def _on_confirmed(self, frame: ConfirmedFrame) -> None:
        number = self._gate.held
        if number is None or frame.guess != self._held_guess:
            # The words are not known yet, or there were none.
            self._early[frame.guess] = frame
            return
        turn = self._turns[number]
        turn.voice_end_at, turn.confirmed_at = frame.voice_end_at, frame.confirmed_at
        await self.push_frame(rtvi("user-stopped-speaking"))
        await self._commit(number)

    async def _on_typed(self, text: str) -> None:
        """Typing is a turn like any other; it interrupts."""
        if not text.strip():
            return
        if self._gate.spoken is not None:
            await self._interrupt(time.monotonic())
        number = self._begin(Turn(self._with_carried(text.strip())))
        await self._carry_out(self._gate.guess(number))
        await self._commit(number)

    async def _commit(self, number: int) -> None:
        turn = self._turns[number]
        self._carried = ""
        await self.push_frame(rtvi("user-transcription", text=turn.text, final=True))
        self._history.say("user", turn.text)
        if not self._caller_speaks:
            # Else the caller has gone on before the words of this turn were known: the answer waits for those that
            # follow, which continue the turn or are no words.
            self._playout.resume()
        await self._carry_out(self._gate.confirm(number))

    def _begin(self, turn: Turn) -> int:
        """Number a turn. Those before it that are neither held nor spoken are over."""
        self._turns = {n: t for n, t in self._turns.items() if n in (self._gate.held, self._gate.spoken)}
        number = next(self._numbers)
        self._turns[number] = turn
        return number

    def _with_carried(self, text: str) -> str:
        return f"{self._carried} {text}".strip()

    async def _interrupt(self, at: float) -> None:
        """Stop the answer: the caller began again `at`. What was heard is remembered, unless their turn goes on."""
        number = self._gate.spoken
        assert number is not None
        turn, heard = self._turns[number], self._playout.heard()
        await self._carry_out(self._gate.interrupt())
        reopened = turn.answer is not None and goes_on(
            (at - turn.voice_end_at) * 1000, self._playout.heard_ms, self._config.turn_taking
        )
        self._count(turn, "withdrawn" if reopened else "kept")
        if reopened:
            self._carried = self._history.unsay_user()
        else:
            self._history.say("assistant", heard)
        await self.push_frame(InterruptionFrame())
        if self._playout.heard_ms:
            await self.push_frame(rtvi("bot-stopped-speaking"))
            await self._tell_reply(turn, heard, interrupted=True)

    # What the agent does

    async def _carry_out(self, orders: Orders) -> None:
        for order, number in orders:
            turn = self._turns[number]
            if order is Order.MAKE and turn.script is None:
                chat = ToolChat(self._chat, self._tools, turn.confirmed, self._tally) if self._tools else self._chat
                turn.answer = Answer(
                    number, self._history.messages(turn.text), chat, self._voice, OUT_RATE,
                    self._config.persona.apology, f"{self._call_id}-{number}",
                )  # fmt: skip
                turn.script = turn.answer.script
                turn.making = asyncio.create_task(turn.answer.run(), name=f"answer {self._call_id}-{number}")
                self._tally("answers_made", 1)
                self._tally("llm_calls", 1)
                await self.push_frame(rtvi("bot-llm-started"))
            elif order is Order.SPEAK:
                turn.confirmed.set()
                self._playing = asyncio.create_task(self._speak(number), name=f"speak {self._call_id}-{number}")
            elif order is Order.DROP:
                await _end(turn.making)
                self._count(turn, "withdrawn")
            elif order is Order.HUSH:
                await _end(self._playing)
                await _end(turn.making)

    async def _speak(self, number: int) -> None:
        turn = self._turns[number]
        assert turn.script is not None
        await self._playout.play(turn.script)
        self._gate.ended(number)
        self._count(turn, "kept")
        text = self._playout.all_text()
        self._history.say("assistant", text)
        await self.push_frame(rtvi("bot-stopped-speaking"))
        await self._tell_reply(turn, text, interrupted=False)

    async def _greet_aloud(self, script: Script, text: str) -> None:
        # An aside: models expect the caller's words first, and small ones lose their way behind an agent's.
        await speak_into(script, self._voice, OUT_RATE, text, aside=True, urgent=True)
        script.finish()

    async def _send(self, sound: Samples) -> None:
        self._own_sound(sound)
        await self.push_frame(OutputAudioRawFrame(sound.tobytes(), OUT_RATE, 1))
        number = self._gate.spoken
        if number is not None and not self._turns[number].sound_at and loud_windows(sound, OUT_RATE).any():
            self._turns[number].sound_at = time.monotonic()
            await self._tell_lines(self._turns[number])

    async def _on_clause(self, clause: Clause) -> None:
        if not self._playout.heard_ms:
            await self.push_frame(rtvi("bot-started-speaking"))
        await self.push_frame(rtvi("bot-tts-text", text=clause.text))
        spoken = self._turns[self._gate.spoken].answer if self._gate.spoken is not None else None
        if clause.aside and spoken is not None:
            await self.push_frame(server_message("notice", reason="no_answer", text=clause.text))

    async def _tell_lines(self, turn: Turn) -> None:
        """The turn's budget, once its reply is audible. Typed turns and the greeting have none."""
        answer = turn.answer
        if answer is None or not turn.guessed_at:
            return
        events = TurnEvents(
            turn.voice_end_at, turn.guessed_at, turn.transcribed_at, answer.first_token_at, answer.first_clause_at,
            answer.first_audio_at, turn.confirmed_at, turn.sound_at,
        )  # fmt: skip
        self._shown += 1
        turn.shown = self._shown
        lines = {line: round(ms, 1) for line, ms in server_lines_ms(events).items()}
        await self.push_frame(
            server_message(
                "turn", turn=turn.shown, transcript=turn.text, lines_ms=lines, allocation_ms=self._allocation_ms
            )
        )

    async def _tell_reply(self, turn: Turn, text: str, interrupted: bool) -> None:
        await self.push_frame(server_message("reply", turn=turn.shown, text=text, interrupted=interrupted))

    def _count(self, turn: Turn, fate: Literal["kept", "withdrawn"]) -> None:
        if turn.answer is not None:
            self._tally(f"answers_{fate}", 1)
            self._tally(f"tokens_{fate}", self._history.count_tokens(turn.answer.generated))

    async def _close(self) -> None:
        if self._gate.spoken is not None:
            self._count(self._turns[self._gate.spoken], "kept")
        await _end(self._prefilling)
        await self._carry_out(self._gate.close())
        for turn in self._turns.values():
            await _end(turn.making)


async def _tried(work: Coroutine[Any, Any, None]) -> None:
    """What only saves time may fail: the answer's own request says what is wrong."""
    with contextlib.suppress(LlmError):
        await work


async def _end(task: "asyncio.Task[Any] | None") -> None:
    """Cancel a task and wait until it is gone. Its own error was logged or is logged here; the call goes on."""
    if task is None or task is asyncio.current_task():
        return
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
    except Exception as error:  # noqa: BLE001
        logger.error("a task of the call failed: {}", error)
