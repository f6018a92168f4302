"""The page's arithmetic, run in the browser it is written for, against hand-worked values and the server's own rule."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from telemetry.sound import loud_windows
from tests.support.browser import page_of

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(fake_url: str) -> Iterator[Any]:
    with page_of(fake_url) as page:
        yield page


def call(page: Any, function: str, *arguments: object) -> Any:
    """A function of turns.js."""
    return page.evaluate(
        "async ([name, given]) => (await import('/turns.js'))[name](...given)", [function, list(arguments)]
    )


@pytest.mark.parametrize(
    ("caller", "agent", "told_at", "after", "response_ms"),
    [
        # The caller's last loud window is 109, so the turn ends at 1,100 ms; the reply sounds from 1,500 ms on.
        ([100, 105, 109], [150, 151, 152], 148, -1, 400),
        # The message may come after the sound, and after a pause between its words.
        ([100, 109], [150, 151, 165, 166], 170, -1, 400),
        # What the caller says over the reply belongs to the next turn.
        ([100, 109, 160, 161], [150, 151], 148, -1, 400),
        # The reply before began at 60 and was cut short: it is not this one's sound.
        ([40, 50, 100, 109], [60, 61, 62, 150, 151], 148, 60, 400),
        # Nor is a greeting that nobody's words came before.
        ([100, 109], [*range(90, 122), 150, 151], 148, -1, 400),
        # The caller's sound ends in the very window before the reply's.
        ([149], [150], 148, -1, 0),
    ],
)
def test_response_is_from_the_last_loud_window_to_the_first(
    page: Any, caller: list[int], agent: list[int], told_at: int, after: int, response_ms: float
) -> None:
    measured = call(page, "response", caller, agent, told_at, after)
    assert measured == {"audible": 150, "responseMs": response_ms}


@pytest.mark.parametrize(
    ("caller", "agent"),
    [
        ([100], []),
        # The last reply's sound, before the caller spoke.
        ([100], [20, 21]),
        # A caller whom this microphone did not hear.
        ([], [150]),
    ],
)
def test_no_sound_of_one_of_them_is_no_response(page: Any, caller: list[int], agent: list[int]) -> None:
    assert call(page, "response", caller, agent, 148, -1) is None


SERVER = {"endpoint": 190.4, "asr": 12.3, "llm_first_token": 40.2, "clause": 20.3, "tts": 51.4}  # 314.6


def test_network_is_what_the_servers_lines_leave(page: Any) -> None:
    lines = call(page, "allLines", SERVER, 400)
    assert lines["network"] == pytest.approx(85.4)
    assert list(lines) == ["network", "endpoint", "asr", "llm_first_token", "clause", "tts"]


def test_whole_milliseconds_still_add_up(page: Any) -> None:
    shown = call(page, "whole", call(page, "allLines", SERVER, 400), 400)
    # 190 + 12 + 40 + 20 + 51 = 313
    assert shown == {"network": 87, "endpoint": 190, "asr": 12, "llm_first_token": 40, "clause": 20, "tts": 51}


@pytest.mark.parametrize(
    ("network_ms", "round_trip_ms", "void", "word"),
    [
        (-12, 3, True, "longer than what was heard"),
        (-12, None, True, "longer than what was heard"),
        (20, 50, True, "less than the round trip of 50 ms"),
        (160, 50, False, "more than the round trip of 50 ms"),
    ],
)
def test_a_network_line_that_cannot_be_is_flagged(
    page: Any, network_ms: float, round_trip_ms: float | None, void: bool, word: str
) -> None:
    doubt = call(page, "doubt", network_ms, round_trip_ms)
    assert doubt["void"] is void
    assert word in doubt["sentence"]


@pytest.mark.parametrize(("network_ms", "round_trip_ms"), [(50, 50), (150, 50), (90, 3), (90, None), (0, None)])
def test_a_network_line_that_can_be_is_not(page: Any, network_ms: float, round_trip_ms: float | None) -> None:
    assert call(page, "doubt", network_ms, round_trip_ms) is None


@pytest.mark.parametrize("q", [0, 0.5, 0.95, 1])
def test_quantiles_are_numpys(page: Any, q: float) -> None:
    values = [820, 310, 450, 1290, 500, 505]
    assert call(page, "quantile", values, q) == pytest.approx(np.quantile(values, q))
    assert call(page, "quantile", [], q) is None


@pytest.mark.parametrize("rate", [44_100, 48_000])
def test_the_worklets_loud_windows_are_the_servers(page: Any, rate: int) -> None:
    """Both sides at once, levels from -65 to -25 dBFS, changing every window. Left: the caller; right: the agent."""
    generator = np.random.default_rng(5)
    window = rate // 100
    sounds = []
    for _ in range(2):
        levels_dbfs = generator.uniform(-65, -25, 200)
        noise = generator.normal(0, 32767, (200, window)) * 10 ** (levels_dbfs[:, None] / 20)
        sounds.append(noise.clip(-32767, 32767).astype(np.int16).ravel())
    measured = page.evaluate(MEASURE, [[(sound / 32768).tolist() for sound in sounds], rate])
    for sound, loud in zip(sounds, measured, strict=True):
        assert loud == np.flatnonzero(loud_windows(sound, rate)).tolist()
        assert 40 < len(loud) < 160


MEASURE = """async ([sounds, rate]) => {
  const context = new OfflineAudioContext(1, sounds[0].length, rate);
  await context.audioWorklet.addModule("/meter.js");
  const meter = new AudioWorkletNode(context, "meter", { numberOfInputs: 2, numberOfOutputs: 1 });
  meter.connect(context.destination);
  const loud = [[], []];
  let last = -1;
  meter.port.onmessage = ({ data }) => {
    last = data.window;
    for (const side of [0, 1]) loud[side].push(...data.loud[side]);
  };
  for (const side of [0, 1]) {
    const buffer = context.createBuffer(1, sounds[side].length, rate);
    buffer.copyToChannel(new Float32Array(sounds[side]), 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(meter, 0, side);
    source.start();
  }
  await context.startRendering();
  while (last < 199) await new Promise((resolve) => setTimeout(resolve, 20));
  return loud;
}"""
