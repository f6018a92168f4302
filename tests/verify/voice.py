"""The voice part's long check: the product beside pipecat's stock pipeline, and every scenario over the wire.

The comparison is `firstclause loadtest voice --peer`'s own code; the scenarios are tests/voice's, those included that
`make test` leaves out. What is heard, and when, is listening.py's.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from configs.deployment import DEFAULT_CONFIG
from loadtests.peers.compare import PEER, PRODUCT, TUNED, compare, summaries
from loadtests.peers.load import read_peer_load
from loadtests.peers.table import markdown
from tests.verify import suite
from tests.verify.section import Part

TURNS = 30
CALLERS = (1, 2, 4)
OF_STOCK, OF_TUNED = 0.2, 0.4
"""The floor of one caller's p50 on two cores: so much of the peer's."""
WER_FLOOR = 0.2


def verify(say: Callable[[str], None]) -> Part:
    """Three quarters of an hour. Floors: a fifth of the stock pipeline's p50 and 0.4 of the tuned one's at one caller,
    the replies heard in full, every scenario passed."""
    from cli.private_deployment import private_deployment
    from cli.talk import speak
    from loadtests.ears import load_ears

    load = read_peer_load()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "peers"
        with private_deployment(DEFAULT_CONFIG, max(CALLERS)) as (url, config):
            compare("stock-pipecat", url, config, load, TURNS, CALLERS, folder, speak, say)
        found = summaries(folder, load, load_ears(), say)
    outcomes = suite.run(say, "voice/scenarios", "voice/test_calls.py", "voice/test_twilio.py")
    ratios = {arm: _p50(found["1"][PRODUCT]) / _p50(found["1"][arm]) for arm in (PEER, TUNED)}
    return Part(
        "From the caller's last sound to the first audible sound of the reply; the pipelines interleaved; same models, "
        f"LLM tier, system prompt, caller and questions, {TURNS} turns each. An unanswered turn counts as "
        f"{load.reply_timeout_s:g} s. At one caller the product's p50 is {ratios[PEER]:.2f} of stock pipecat's and "
        f"{ratios[TUNED]:.2f} of the tuned one's.\n\n{markdown(found)}\n"
        f"Scenarios over the wire: {suite.passed(outcomes)}.",
        [*_short(found, ratios), *suite.short(outcomes)],
    )


def _short(found: dict[str, Any], ratios: dict[str, float]) -> list[str]:
    short = []
    for arm, floor in ((PEER, OF_STOCK), (TUNED, OF_TUNED)):
        if ratios[arm] > floor:
            short.append(f"p50 at one caller is {ratios[arm]:.2f} of the {arm}'s, not {floor}")
    for count, pipelines in found.items():
        product = pipelines[PRODUCT]
        if product["unanswered"] or product["discarded"]:
            short.append(f"{count} callers: {product['unanswered']} unanswered, discarded {product['discarded']}")
        if product["wer_reply"] is None or product["wer_reply"] > WER_FLOOR:
            short.append(f"{count} callers: the reply's WER is {product['wer_reply']}, not {WER_FLOOR}")
    return short


def _p50(figures: dict[str, Any]) -> float:
    return float(figures["response_ms"]["p50"])
