"""The voice application's routes and calls over models that are faked, as a process: for tests of the page alone.

python -m tests.support.fake_voice_server --port 8030 --calls 1
"""

import argparse

import uvicorn

from configs.budgets import load_budget
from configs.voice import Persona, VoiceConfig
from serve_apps.voice_routes import routes
from tests.support.fake_services import fake_services
from voice.switchboard import Switchboard
from voice.webrtc import offer_loopback


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--calls", type=int, default=1)
    arguments = parser.parse_args()
    offer_loopback()
    config = VoiceConfig(persona=Persona(system_prompt="-"), calls_per_replica=arguments.calls)
    app = routes(Switchboard(config, fake_services(), load_budget().allocation_ms()))
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="warning")


if __name__ == "__main__":
    main()
