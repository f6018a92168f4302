"""The LLMServer of the tier: Ray's own, which meters each request and ends its stream with what it came to."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.serve.llm import LLMConfig

from configs.gateway import UNSTATED_OUTPUT_TOKENS
from configs.tenants import PRIORITIES
from planning.profile import Profile
from serve_apps.autoscaling_stats import WorkTally
from serve_apps.fleet_stats import FleetStats
from serve_apps.gateway.charges import estimate_rt, size_of
from serve_apps.gateway.meter import Account, Meter
from serve_apps.gateway.report import Prefilled
from serve_apps.online_server import OnlineStats
from serve_apps.spoken_server import SpokenLLMServer

POLL_S = 0.02


class MeteredLLMServer(FleetStats, OnlineStats, SpokenLLMServer):
    """chat and completions yield what LLMServer's do and, last, a serve_apps.gateway.report.Report."""

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, llm_config: LLMConfig, *, books_url: str, profile: Profile, **options: Any
    ) -> None:
        self._meter = Meter(books_url, profile)
        context_tokens = llm_config.engine_kwargs["max_model_len"]
        self._work = WorkTally(
            lambda request: estimate_rt(profile, size_of(request, context_tokens, UNSTATED_OUTPUT_TOKENS))
        )
        await super().__init__(llm_config, **options)

    async def start(self) -> None:
        await super().start()
        self._meter.attach(self._client.output_processor)

    @property
    def _client(self) -> Any:
        """vLLM's AsyncLLM, which Ray's engine keeps to itself."""
        return self.engine._engine_client  # type: ignore[union-attr]

    async def chat(self, request: Any, raw_request_info: RawRequestInfo | None = None) -> AsyncGenerator[Any, None]:
        return self._counted(await super().chat(request, raw_request_info), request, raw_request_info)

    async def completions(
        self, request: Any, raw_request_info: RawRequestInfo | None = None
    ) -> AsyncGenerator[Any, None]:
        return self._counted(await super().completions(request, raw_request_info), request, raw_request_info)

    def _counted(
        self, replies: AsyncGenerator[Any, None], request: Any, info: RawRequestInfo | None
    ) -> AsyncGenerator[Any, None]:
        batch = request.priority >= PRIORITIES["batch"]
        return self._work.follow(self._metered(replies, request, info), request, batch)

    async def _metered(
        self, replies: AsyncGenerator[Any, None], request: Any, info: RawRequestInfo | None
    ) -> AsyncGenerator[Any, None]:
        account = self._meter.open(request.request_id, request.model or "", info.headers if info else {})
        try:
            async for reply in announced(replies, account) if account.long and not request.stream else replies:
                yield reply
            yield self._meter.report(account)
        finally:
            try:
                # An abandoned generator tells the engine only when it is collected, some tokens later.
                if unfinished := self._meter.unfinished(account):
                    await self._client.abort(unfinished, internal=True)
            finally:
                self._meter.close(account)
                await replies.aclose()

    async def __del__(self) -> None:
        self._meter.stop()
        await super().__del__()


async def announced(replies: AsyncGenerator[Any, None], account: Account) -> AsyncGenerator[Any, None]:
    """An unstreamed reply, and ahead of it that its prompt was prefilled: the next long prompt waits for that."""
    reply = asyncio.ensure_future(anext(replies))
    try:
        while not (reply.done() or account.prefilled):
            await asyncio.wait([reply], timeout=POLL_S)  # vLLM tells nobody of the first token
        yield Prefilled()
        yield await reply
    finally:
        reply.cancel()
        await asyncio.wait([reply])
