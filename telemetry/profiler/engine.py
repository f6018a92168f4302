"""The target in this process: vLLM's engine alone, with the arguments and environment of the deployment's own.

What the engine prints goes to a log file: standard output is the caller's, standard error its progress bar's.
"""

import contextlib
import dataclasses
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from telemetry.profiler.bandwidth import evict
from telemetry.profiler.load_parts import load_parts
from telemetry.profiler.target import Reply, TargetFailed

FIRST_PROMPT = (1000,) * 8


@dataclass(frozen=True)
class EngineSpec:
    """A model's folder and what serve_apps gives vLLM for it."""

    model: str
    arguments: dict[str, Any]
    environment: dict[str, str]


@dataclass(frozen=True)
class Loaded:
    """load_time_s: from nothing to the first token, imports included; kv_capacity_tokens: the engine's own cache.

    parts: telemetry.profiler.load_parts.
    """

    load_time_s: float
    kv_capacity_tokens: int
    parts: dict[str, float] = field(default_factory=dict)


class EngineTarget:
    """An engine that is up."""

    def __init__(self, engine: Any, begun_s: float, imported_s: float, log: IO[bytes]) -> None:
        self._engine, self._begun_s, self._imported_s, self._log = engine, begun_s, imported_s, log
        self._numbers = itertools.count()

    async def complete(self, prompt: Sequence[int], output_tokens: int) -> Reply:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            temperature=0, max_tokens=output_tokens, ignore_eos=True, detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )  # fmt: skip
        at_s: list[float] = []
        tokens: list[int] = []
        cached = 0
        sent_s = time.perf_counter()
        try:
            stream = self._engine.generate(
                {"prompt_token_ids": list(prompt)}, sampling, f"profile-{next(self._numbers)}"
            )
            async for output in stream:
                count = len(output.outputs[0].token_ids)
                cached = output.num_cached_tokens or 0
                if count:
                    at_s.append(time.perf_counter())
                    tokens.append(count + (tokens[-1] if tokens else 0))
        except Exception as error:
            raise TargetFailed(f"the engine failed: {type(error).__name__}: {error}") from error
        return Reply(sent_s, tuple(at_s), tuple(tokens), len(prompt), cached)

    async def loaded(self) -> Loaded:
        """To be asked first: this asks for the engine's first token. Raises TargetFailed."""
        first = await self.complete(FIRST_PROMPT, 1)
        cache = self._engine.vllm_config.cache_config
        load_time_s = first.at_s[0] - self._begun_s
        parts = load_parts(
            _text(self._log), self._imported_s - self._begun_s, first.at_s[0] - first.sent_s, load_time_s
        )
        return Loaded(load_time_s, int(cache.num_gpu_blocks * cache.block_size), parts)


@contextlib.contextmanager
def engine_target(spec: EngineSpec, weights: Sequence[Path]) -> Iterator[EngineTarget]:
    """Start the engine cold, its weights read from the disk, and stop it and its processes at the end.

    Outside of an event loop, so that Ctrl-C ends a start too. Raises TargetFailed with the end of the engine's log.
    """
    os.environ.update(spec.environment)
    for path in weights:
        evict(path)
    begun_s = time.perf_counter()
    with tempfile.TemporaryFile() as log, _printing_to(log.fileno()):
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            imported_s = time.perf_counter()
            engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=spec.model, **_engines_own(spec.arguments)))
        except Exception as error:
            tail = "\n".join(_text(log).splitlines()[-15:])
            raise TargetFailed(f"the engine did not start: {type(error).__name__}: {error}\n{tail}") from error
        try:
            yield EngineTarget(engine, begun_s, imported_s, log)
        finally:
            engine.shutdown()


def _text(log: IO[bytes]) -> str:
    """All that was printed so far; the engine's processes go on printing at the end."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode(errors="replace")


def _engines_own(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without those of the API in front of the engine, which a deployment gives along."""
    from vllm.entrypoints.launchers.cli_args import FrontendArgs

    frontends = {field.name for field in dataclasses.fields(FrontendArgs)}
    return {key: value for key, value in arguments.items() if key not in frontends}


@contextlib.contextmanager
def _printing_to(descriptor: int) -> Iterator[None]:
    """Standard output and error of this process and of those it starts."""
    own = {}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in (1, 2):
        own[number] = os.dup(number)
        os.dup2(descriptor, number)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in own.items():
            os.dup2(copy, number)
            os.close(copy)
