"""Turn taking on scripted frames: no audio, no clock."""

from configs.voice import TurnTaking
from voice.turns import Confirmed, Guessed, Hushed, Opened, Turns, Withdrawn, required_silence_ms

FRAME_MS = 32
TURN = TurnTaking(
    open_voice_ms=96,
    resume_voice_ms=64,
    hush_silence_ms=48,
    guess_silence_ms=96,
    confirm_silence_ms=192,
    doubt_silence_ms=704,
    unfinished_silence_ms=992,
)


class Caller:
    """Feeds frames and collects what happens, with the frame index at which it did; hushes apart."""

    def __init__(self) -> None:
        self.turns = Turns(TURN)
        self.index = 0
        self.events: list[tuple[int, object]] = []
        self.hushes: list[int] = []

    def hear(
        self, frames: int, probability: float, complete: float | None = None, unfinished: bool | None = False
    ) -> None:
        for _ in range(frames):
            start_ms = self.index * FRAME_MS
            for event in self.turns.frame(probability, start_ms, start_ms + FRAME_MS):
                if isinstance(event, Hushed):
                    self.hushes.append(self.index)
                    continue
                self.events.append((self.index, event))
                if isinstance(event, Guessed) and complete is not None:
                    self.turns.judged(event.guess, complete)
                if isinstance(event, Guessed) and unfinished is not None:
                    self.turns.worded(event.guess, unfinished)
            self.index += 1

    def speak(self, frames: int) -> None:
        self.hear(frames, 0.9)

    def pause(self, frames: int, complete: float | None = None, unfinished: bool | None = False) -> None:
        self.hear(frames, 0.01, complete, unfinished)

    def kinds(self) -> list[type]:
        return [type(event) for _, event in self.events]


def test_a_complete_utterance_is_guessed_at_96_ms_and_confirmed_at_192() -> None:
    caller = Caller()
    caller.pause(5)
    caller.speak(20)
    caller.pause(40, complete=0.9)
    assert caller.events == [
        (7, Opened(start_ms=5 * FRAME_MS)),
        (27, Guessed(1, voice_end_ms=25 * FRAME_MS)),
        (30, Confirmed(1, silence_ms=192)),
    ]


def test_a_doubted_utterance_waits_for_the_longer_silence() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(40, complete=0.1)
    assert caller.events[-1] == (41, Confirmed(1, silence_ms=704))


def test_without_a_verdict_the_wait_is_that_of_doubt() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(40)
    assert caller.events[-1] == (41, Confirmed(1, silence_ms=704))


def test_a_late_verdict_confirms_at_the_next_frame() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(10)
    caller.turns.judged(1, 0.9)
    caller.pause(1)
    assert caller.kinds() == [Opened, Guessed, Confirmed]


def test_a_caller_who_goes_on_withdraws_the_guess_and_makes_a_new_one() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(5, complete=0.9)
    caller.speak(10)
    caller.pause(10, complete=0.9)
    assert caller.kinds() == [Opened, Guessed, Withdrawn, Guessed, Confirmed]
    assert [event.guess for _, event in caller.events if isinstance(event, Confirmed)] == [2]


def test_a_hush_comes_before_every_guess_and_once_a_silence() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(2)
    caller.speak(3)
    caller.pause(6)
    caller.speak(3)
    caller.pause(40, complete=0.9)
    assert caller.hushes == [21, 26, 35]
    assert [index for index, event in caller.events if isinstance(event, Guessed)] == [27, 36]


def test_a_verdict_on_a_withdrawn_guess_is_void() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(4)
    caller.speak(10)
    caller.turns.judged(1, 0.99)
    caller.pause(20)
    assert Confirmed not in caller.kinds()


def test_a_click_neither_opens_a_turn_nor_withdraws_a_guess() -> None:
    caller = Caller()
    caller.speak(2)
    caller.pause(10)
    assert caller.events == []
    caller.speak(20)
    caller.pause(4, complete=0.9)
    caller.speak(1)
    caller.pause(10)
    assert caller.kinds() == [Opened, Guessed, Confirmed]


def test_a_voice_that_has_begun_is_held_by_hysteresis() -> None:
    caller = Caller()
    caller.speak(10)
    caller.hear(10, 0.4)
    assert caller.kinds() == [Opened]
    caller.hear(10, 0.3)
    assert caller.kinds() == [Opened, Guessed]


def test_silence_counts_from_the_last_loud_sound_where_voice_activity_lags() -> None:
    turns = Turns(TURN)
    for index in range(20):
        turns.frame(0.9, index * FRAME_MS, (index + 1) * FRAME_MS, loud_end_ms=18 * FRAME_MS)
    assert turns.frame(0.1, 640, 672, loud_end_ms=18 * FRAME_MS) == [Guessed(1, voice_end_ms=576)]
    turns.judged(1, 0.9)
    turns.worded(1, False)
    for start_ms in (672, 704, 736):
        [*events] = turns.frame(0.1, start_ms, start_ms + FRAME_MS, loud_end_ms=18 * FRAME_MS)
    assert events == [Confirmed(1, silence_ms=192)]


def test_required_silence() -> None:
    assert required_silence_ms(None, False, TURN) == 704
    assert required_silence_ms(0.49, False, TURN) == 704
    assert required_silence_ms(0.5, None, TURN) == 704
    assert required_silence_ms(0.5, False, TURN) == 192
    assert required_silence_ms(0.99, True, TURN) == 992


def test_words_that_break_off_outweigh_a_complete_voice() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(40, complete=0.99, unfinished=True)
    assert caller.events[-1] == (50, Confirmed(1, silence_ms=992))


def test_a_turn_is_not_over_before_its_words_are_known() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(10, complete=0.99, unfinished=None)
    assert caller.kinds() == [Opened, Guessed]
    caller.turns.worded(1, False)
    caller.pause(1, unfinished=None)
    assert caller.kinds() == [Opened, Guessed, Confirmed]


def test_a_hush_is_told_by_loudness_while_voice_activity_lags() -> None:
    turns = Turns(TURN)
    events = [
        event
        for index in range(20)
        for event in turns.frame(0.9, index * FRAME_MS, (index + 1) * FRAME_MS, min(index + 1, 18) * FRAME_MS)
    ]
    assert events == [Opened(0), Hushed()]


def test_a_soft_voice_behind_a_loud_one_is_no_silence() -> None:
    turns = Turns(TURN)
    for index in range(40):
        turns.frame(0.9, index * FRAME_MS, (index + 1) * FRAME_MS, min(index + 1, 18) * FRAME_MS)
    [hush, *rest] = [event for index in (40, 41) for event in turns.frame(0.1, index * 32, index * 32 + 32, 18 * 32)]
    assert hush == Hushed() and rest == []


def test_a_withdrawn_guess_says_how_long_the_pause_was() -> None:
    caller = Caller()
    caller.speak(20)
    caller.pause(10)
    caller.speak(2)
    assert caller.events[-1] == (31, Withdrawn(1, silence_ms=320))
