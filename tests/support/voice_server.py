"""The voice application without Ray, as a process: the same routes and models, any OpenAI-compatible LLM.

python -m tests.support.voice_server --port 8020 --llm http://127.0.0.1:8000/v1
"""

import argparse
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from configs.budgets import load_budget
from configs.deployment import Deployment, load_deployment
from configs.models import prepared
from configs.voice import Tool
from serve_apps.voice_routes import routes
from voice.llm import OpenAiChat
from voice.services import load_services
from voice.switchboard import Switchboard
from voice.tools import Tools
from voice.webrtc import offer_loopback

TOOLS = (
    Tool(function="tests.support.tools:weather", while_guessing=True),
    Tool(function="voice.clock:time_of_day"),
)


def deployment(port: int, llm_url: str, calls: int, greeting: str | None) -> Deployment:
    """The default deployment with what a test turns."""
    default = load_deployment()
    language = default.voice.language.model_copy(update={"base_url": llm_url})
    persona = default.voice.persona
    if greeting is not None:
        persona = persona.model_copy(update={"greeting": greeting})
    voice = default.voice.model_copy(
        update={"language": language, "persona": persona, "calls_per_replica": calls, "tools": TOOLS}
    )
    http = default.http.model_copy(update={"port": port})
    return default.model_copy(update={"http": http, "voice": voice})


def application(config: Deployment) -> FastAPI:
    """The voice application; its models are loaded at its start-up."""

    @asynccontextmanager
    async def lifespan(shell: FastAPI) -> AsyncIterator[None]:
        tools = Tools(config.voice.tools)
        chat = OpenAiChat(config.voice.language.base_url or "", config.llm.model, config.voice, tools.schemas())
        counts: Counter[str] = Counter()
        models = {use: prepared(use) for use in ("llm", "asr", "tts")}
        services = await load_services(
            config, models, chat, tools, lambda name, number: counts.update({name: int(number)})
        )
        board = Switchboard(config.voice, services, load_budget().allocation_ms())
        shell.get("/counts")(lambda: counts)
        shell.mount("/", routes(board))
        yield
        await board.close()
        await services.voice.stop()

    offer_loopback()
    return FastAPI(lifespan=lifespan)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--llm", required=True, help="base URL of an OpenAI-compatible server")
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--greeting")
    arguments = parser.parse_args()
    config = deployment(arguments.port, arguments.llm, arguments.calls, arguments.greeting)
    uvicorn.run(application(config), host=config.http.host, port=config.http.port, log_level="warning")


if __name__ == "__main__":
    main()
