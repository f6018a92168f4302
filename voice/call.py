"""One call: a pipecat pipeline from a transport's input to its output."""

import asyncio

from loguru import logger
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.transports.base_transport import BaseTransport
from pipecat.workers.runner import WorkerRunner

from configs.voice import VoiceConfig
from voice.agent import OUT_RATE, Agent
from voice.asr import SAMPLE_RATE
from voice.hearing import Hearing
from voice.history import History
from voice.services import Services

OUT_CHUNKS_10MS = 2


def transport_params() -> dict[str, object]:
    """The audio side of any transport's parameters."""
    return {
        "audio_in_enabled": True,
        "audio_in_sample_rate": SAMPLE_RATE,
        "audio_out_enabled": True,
        "audio_out_sample_rate": OUT_RATE,
        "audio_out_10ms_chunks": OUT_CHUNKS_10MS,
        "audio_out_end_silence_secs": 0,
    }


async def run_call(
    transport: BaseTransport, config: VoiceConfig, services: Services, allocation_ms: dict[str, float], call_id: str,
    greet_at_once: bool = False,
) -> None:  # fmt: skip
    """Serve one caller until the call ends. Cancelling ends it too; either way nothing of it is left running.

    `greet_at_once`: the client is one that hears from the start on, and sends no word that it is ready.
    """
    history = History(
        config.persona.system_prompt, services.context_tokens, config.persona.max_reply_tokens, services.count_tokens
    )
    hearing = Hearing(config, services.recognizer, services.completeness)
    agent = Agent(
        config, services.chat, services.voice, history, call_id, allocation_ms, services.tools, services.tally,
        hearing.own_sound,
    )  # fmt: skip
    worker = PipelineWorker(
        Pipeline([transport.input(), hearing, agent, transport.output()]),
        params=PipelineParams(audio_in_sample_rate=SAMPLE_RATE, audio_out_sample_rate=OUT_RATE),
        enable_turn_tracking=False,
        idle_timeout_secs=None,
    )

    greeted = False

    @worker.rtvi.event_handler("on_client_ready")  # type: ignore[untyped-decorator]
    async def on_client_ready(*_: object) -> None:
        nonlocal greeted
        if not greeted:
            greeted = True
            await agent.greet()

    if greet_at_once:
        transport.event_handler("on_client_connected")(on_client_ready)

    @transport.event_handler("on_client_disconnected")  # type: ignore[untyped-decorator]
    async def on_client_disconnected(*_: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    try:
        async with asyncio.timeout(config.max_call_s):
            await runner.add_workers(worker)
            await runner.run()
    except TimeoutError:
        logger.info("call {} reached its longest duration", call_id)
        await worker.cancel()
