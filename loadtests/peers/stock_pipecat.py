"""pipecat's stock pipeline as a peer: its own services and turn strategy, our models, our LLM tier, our system prompt.

python -m loadtests.peers.stock_pipecat --port 8030 --llm http://127.0.0.1:8000/v1 [--tuned]

A process of its own, because pipecat's Piper service runs the GPL-licensed piper-tts inside it. `--tuned` is the same
parts by their own settings: beam 1, Smart Turn's stop_secs 1. It speaks the product's WebSocket protocol (pipecat
protobuf frames and RTVI), so that the same caller measures both; it sends no budget lines.
"""

import argparse
import functools
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, WebSocket
from pipecat.audio.turn.smart_turn.base_smart_turn import SmartTurnParams
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.serializers.protobuf import ProtobufFrameSerializer
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.piper.tts import PiperTTSService
from pipecat.services.whisper.stt import WhisperSTTService
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from pipecat.turns.user_stop import TurnAnalyzerUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from configs.deployment import DEFAULT_CONFIG, Deployment, load_deployment
from configs.models import prepared

VOICE = "en_US-joe-medium"
TUNED_STOP_S = 1.0


def application(deployment: Deployment, llm_url: str, tuned: bool, asr: Path, tts: Path) -> FastAPI:
    """The peer. Each call loads services of its own, as pipecat's examples do; models are read from disk once."""
    persona, hearing = deployment.voice.persona, deployment.voice.hearing
    api = FastAPI()

    @api.websocket("/voice/ws")
    async def call(websocket: WebSocket) -> None:
        await websocket.accept()
        params = FastAPIWebsocketParams(
            audio_in_enabled=True, audio_out_enabled=True, serializer=ProtobufFrameSerializer()
        )
        transport = FastAPIWebsocketTransport(websocket, params)
        stt = WhisperSTTService(
            device=hearing.device, compute_type=hearing.compute_type,
            settings=WhisperSTTService.Settings(model=str(asr)),
        )  # fmt: skip
        if tuned:
            beam_one(stt)
        llm = OpenAILLMService(
            api_key="none",
            base_url=llm_url,
            settings=OpenAILLMService.Settings(
                model=deployment.llm.model, temperature=persona.temperature, max_tokens=persona.max_reply_tokens
            ),
        )
        tts_service = PiperTTSService(download_dir=tts, settings=PiperTTSService.Settings(voice=VOICE))
        context = LLMContext([{"role": "system", "content": persona.system_prompt}])
        aggregators = LLMContextAggregatorPair(context, user_params=user_params(tuned))
        stages = [transport.input(), stt, aggregators.user(), llm, tts_service, transport.output()]
        stages.append(aggregators.assistant())
        worker = PipelineWorker(
            Pipeline(stages),
            params=PipelineParams(audio_in_sample_rate=16_000, audio_out_sample_rate=24_000),
        )

        @transport.event_handler("on_client_disconnected")  # type: ignore[untyped-decorator]
        async def hang_up(*_: object) -> None:
            await worker.cancel()

        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        await runner.run()

    @api.get("/healthz")
    async def healthz() -> str:
        return "ok"

    return api


def user_params(tuned: bool) -> LLMUserAggregatorParams:
    """The default turn strategy; tuned, Smart Turn gives up after a second instead of three."""
    if not tuned:
        return LLMUserAggregatorParams(vad_analyzer=SileroVADAnalyzer())
    smart_turn = LocalSmartTurnAnalyzerV3(params=SmartTurnParams(stop_secs=TUNED_STOP_S))
    stop: Any = [TurnAnalyzerUserTurnStopStrategy(turn_analyzer=smart_turn)]
    return LLMUserAggregatorParams(vad_analyzer=SileroVADAnalyzer(), user_turn_strategies=UserTurnStrategies(stop=stop))


def beam_one(stt: WhisperSTTService) -> None:
    """faster-whisper's own setting; pipecat's service offers none and takes the default of five."""
    assert stt._model is not None
    stt._model.transcribe = functools.partial(stt._model.transcribe, beam_size=1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--llm", required=True, help="base URL of the LLM tier")
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="the product's deployment")
    arguments = parser.parse_args()
    deployment = load_deployment(arguments.config)
    asr, tts = prepared(deployment.voice.hearing.model), prepared("piper-joe-whole")
    api = application(deployment, arguments.llm, arguments.tuned, asr, tts)
    uvicorn.run(api, host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
