"""`firstclause profile`: this deployment's rates, measured, as the profile that plans and simulations are fed with."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configs.deployment import DEFAULT_CONFIG, LlmConfig, load_deployment
from configs.errors import MISSING, InputError
from configs.models import prepared
from configs.tenants import PRIORITIES

if TYPE_CHECKING:
    from telemetry.profiler.ceiling import Ceiling
    from telemetry.profiler.document import Subject
    from telemetry.profiler.engine import EngineSpec, Loaded
    from telemetry.profiler.hardware import Hardware
    from telemetry.profiler.rounds import Limits, Measured, Progress
    from telemetry.profiler.target import Target

NOTHING_UP = 3
INCONCLUSIVE = 2


@dataclass(frozen=True)
class Asked:
    """What is to be profiled: the deployment's engine, and where it answers (url None: an engine of our own)."""

    llm: LlmConfig
    spec: "EngineSpec"
    weights: tuple[Path, ...]
    hardware: "Hardware"
    gpus: int
    usd_per_gpu_hour: float
    url: str | None
    slo_ms: float
    repeats: int
    seed: int
    load_time_s: float | None

    @property
    def limits(self) -> "Limits":
        from serve_apps.gateway.slots import seats_of
        from telemetry.profiler.rounds import Limits

        keys = ("max_model_len", "max_num_batched_tokens", "max_num_seqs")
        context, budget, sequences = (int(self.spec.arguments[key]) for key in keys)
        admitted = sequences if self.url is None else int(seats_of(PRIORITIES["interactive"], sequences))
        return Limits(context, budget, sequences, admitted)


@click.command()
@click.option("--model", help="A model of configs/models.yaml, and its name in the API. Default: the deployment's.")
@click.option("--url", help="Where the deployment answers. Default: what `firstclause up` started.")
@click.option("--config", type=click.Path(path_type=Path), help="The deployment's file. Default: the one that is up.")
@click.option("--engine", is_flag=True, help="Measure an engine of its own, in this process, without Ray or HTTP.")
@click.option("--inter-token-slo-ms", "slo_ms", type=click.FloatRange(0, min_open=True), default=100, show_default=True)
@click.option("--usd-per-gpu-hour", type=click.FloatRange(0), help="Needed where the hardware table has no price.")
@click.option("--load-time-s", type=click.FloatRange(0), help="Known already: no engine is started to measure it.")
@click.option("--repeats", type=click.IntRange(2, 100), default=5, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the prompts and their order.")
@click.option("--out", type=click.Path(path_type=Path), metavar="PROFILE.json", help="Write the profile there.")
@click.option("--json", "as_json", is_flag=True, help="Print the profile as one JSON document on stdout.")
@click.pass_context
def profile(ctx: click.Context, /, out: Path | None, as_json: bool, **options: Any) -> None:
    """Measure this deployment's rates: prefill, decode, KV memory, load time, beside what the hardware allows.

    Takes about four minutes on two cores; nothing else may use the deployment or the machine meanwhile. Exit code 2,
    and no file, where repeats lie so far apart that somebody did; 3 where nothing is up.
    """
    from telemetry.profiler.rounds import OverTheSlo
    from telemetry.profiler.target import TargetFailed

    if out and not out.parent.is_dir():
        raise InputError("profile", "--out", str(out), "no such folder")
    asked = _prepare(ctx, **options)
    try:
        document = _profile(asked, lambda line: click.echo(line, err=as_json))
    except TargetFailed as error:
        raise click.ClickException(str(error)) from error
    except OverTheSlo as error:
        raise InputError("profile", "--inter-token-slo-ms", asked.slo_ms, str(error)) from error
    if as_json:
        click.echo(json.dumps(document))
    if void := document["measured"]["void"]:
        for line in void:
            click.echo(f"void: {line}", err=True)
        click.echo("error: measure again when nothing else uses the deployment or the machine", err=True)
        ctx.exit(INCONCLUSIVE)
    if out:
        _write(out, json.dumps(document, indent=1) + "\n")


def _prepare(
    ctx: click.Context, model: str | None, url: str | None, config: Path | None, engine: bool, slo_ms: float,
    usd_per_gpu_hour: float | None, load_time_s: float | None, repeats: int, seed: int,
) -> Asked:  # fmt: skip
    """Everything checked before anything runs. Raises InputError; exits with 3 where nothing is up."""
    from serve_apps import running
    from serve_apps.llm import engine_arguments, engine_environment
    from telemetry.profiler.checkpoint import weight_files
    from telemetry.profiler.engine import EngineSpec
    from telemetry.profiler.hardware import detect

    if engine and url:
        raise click.UsageError("--engine measures no URL: give one or the other")
    record = running.read()
    if not engine and not url:
        if record is None or not record.serving or record.supervisor.find() is None:
            click.echo("nothing is up; run: firstclause up, or give --url or --engine", err=True)
            ctx.exit(NOTHING_UP)
        url = record.url
    known = Path(record.config) if record is not None and record.url == url else DEFAULT_CONFIG
    llm = load_deployment(config or known).llm
    llm = llm if model is None else llm.model_copy(update={"model": model})
    if llm.replicas > 1 and not engine:
        raise InputError("profile", "llm.replicas", llm.replicas, "one replica's rates are measured: bring up one")
    folder = prepared(llm.model)
    try:
        hardware = detect(llm.device)
    except OSError as error:
        raise InputError("profile", "llm.device", llm.device, str(error)) from error
    price = usd_per_gpu_hour if usd_per_gpu_hour is not None else hardware.price_usd_per_hour
    if price is None:
        raise InputError("profile", "--usd-per-gpu-hour", MISSING, f"needed: no price is known for {hardware.name}")
    arguments = engine_arguments(llm)
    return Asked(
        llm=llm,
        spec=EngineSpec(str(folder), arguments, engine_environment(llm)),
        weights=tuple(weight_files(folder)),
        hardware=hardware,
        gpus=int(arguments.get("tensor_parallel_size", 1)) * int(arguments.get("pipeline_parallel_size", 1)),
        usd_per_gpu_hour=price,
        url=url,
        slo_ms=slo_ms,
        repeats=repeats,
        seed=seed,
        load_time_s=load_time_s,
    )


def _profile(asked: Asked, say: Callable[[str], None]) -> dict[str, Any]:
    """The ceiling, then the measurement; the document is checked to be a profile. Raises TargetFailed, OverTheSlo,
    InputError."""
    from configs.schema import parse
    from planning.profile import Profile
    from telemetry.profiler.bandwidth import bandwidths
    from telemetry.profiler.ceiling import Ceiling
    from telemetry.profiler.checkpoint import read_checkpoint
    from telemetry.profiler.document import document
    from telemetry.profiler.report import ceiling_lines, measured_lines

    hardware, arguments = asked.hardware, asked.spec.arguments
    kv_dtype = str(arguments.get("kv_cache_dtype", "auto"))
    checkpoint = read_checkpoint(Path(asked.spec.model), str(arguments["dtype"]), kv_dtype)
    with _bar() as progress:
        progress("memory and disk", 0.0)
        transfers = bandwidths(max(asked.weights, key=lambda path: path.stat().st_size), asked.llm.device)
    on_cpu = asked.llm.device == "cpu"
    memory = transfers.memory_copy_bytes_per_s if on_cpu else hardware.memory_bytes_per_s
    peak = hardware.flops_per_s.get(checkpoint.compute)
    ceiling = Ceiling(checkpoint, memory and memory * asked.gpus, peak and peak * asked.gpus)
    say(f"{asked.llm.model} on {hardware.name}, {asked.usd_per_gpu_hour:g} USD a GPU-hour")
    for line in ceiling_lines(ceiling, asked.limits.max_sequences, transfers, published=not on_cpu):
        say(line)
    with _bar() as progress:
        subject, measured = _measure(asked, ceiling, progress)
    made = document(subject, measured, ceiling, transfers)
    parse(Profile, made, "profile")
    for line in measured_lines(made):
        say(line)
    return made


def _measure(asked: Asked, ceiling: "Ceiling", progress: "Progress") -> "tuple[Subject, Measured]":
    """Starts are outside of the event loop, where Ctrl-C ends them too."""
    from telemetry.profiler.engine import engine_target
    from telemetry.profiler.load import start_once

    if asked.url is None:
        progress("starting the engine", 0.0)
        with engine_target(asked.spec, asked.weights) as target:

            async def over_engine() -> "tuple[Subject, Measured]":
                loaded = await target.loaded()
                return await _rounds(asked, target, loaded, "this engine's cold start", None, ceiling, progress)

            return asyncio.run(over_engine())
    asyncio.run(_check_served(asked.url, asked.llm.model))
    loaded = None
    if asked.load_time_s is None:
        progress("load time: a cold start of an engine of its own", 0.0)
        loaded = start_once(asked.spec, asked.weights)
    return asyncio.run(_over_http(asked, asked.url, loaded, ceiling, progress))


async def _check_served(url: str, model: str) -> None:
    from telemetry.profiler.over_http import http_target

    async with http_target(url, model) as target:
        if model not in (listed := await target.models()):
            raise InputError("profile", "--model", model, f"{url} serves {', '.join(listed) or 'no model'}")


async def _over_http(
    asked: Asked, url: str, loaded: "Loaded | None", ceiling: "Ceiling", progress: "Progress"
) -> "tuple[Subject, Measured]":
    from telemetry.profiler.over_http import http_target

    async with http_target(url, asked.llm.model) as target:
        told = await target.kv_capacity_tokens()
        return await _rounds(asked, target, loaded, "a cold start of the same engine", told, ceiling, progress)


async def _rounds(
    asked: Asked, target: "Target", loaded: "Loaded | None", load_time_from: str, kv_told: int | None,
    ceiling: "Ceiling", progress: "Progress",
) -> "tuple[Subject, Measured]":  # fmt: skip
    from telemetry.profiler.document import Subject
    from telemetry.profiler.rounds import measure
    from telemetry.profiler.target import Prober

    kv_tokens, kv_from = _kv_capacity(asked, kv_told, loaded, ceiling.checkpoint.kv_bytes_per_token)
    prober = Prober(target, ceiling.checkpoint.vocabulary, asked.seed)
    measured = await measure(prober, asked.limits, asked.slo_ms / 1000, asked.repeats, kv_tokens, asked.seed, progress)
    if asked.load_time_s is not None:
        load_time_s, load_time_from = asked.load_time_s, "--load-time-s"
    else:
        assert loaded is not None
        load_time_s = loaded.load_time_s
    subject = Subject(
        model=asked.llm.model,
        hardware=asked.hardware,
        gpus_per_replica=asked.gpus,
        usd_per_gpu_hour=asked.usd_per_gpu_hour,
        over="the engine alone" if asked.url is None else f"HTTP at {asked.url}",
        slo_ms=asked.slo_ms,
        limits=asked.limits,
        block_tokens=int(asked.spec.arguments["block_size"]),
        load_time_s=load_time_s,
        load_time_from=load_time_from,
        load_parts=loaded.parts if loaded is not None else {},
        kv_capacity_tokens=kv_tokens,
        kv_capacity_from=kv_from,
    )
    return subject, measured


def _kv_capacity(asked: Asked, told: int | None, loaded: "Loaded | None", kv_bytes: int) -> tuple[int, str]:
    """Tokens, and who says so: the engine where it can be asked, else its configuration."""
    if told is not None:
        return told, "the engine's metrics"
    if loaded is not None:
        return loaded.kv_capacity_tokens, "the engine"
    if asked.llm.kv_cache_bytes is not None:
        return asked.llm.kv_cache_bytes // kv_bytes, "llm.kv_cache_bytes"
    problem = "the engine decides, and cannot be asked here: leave --load-time-s out"
    raise InputError("profile", "llm.kv_cache_bytes", None, problem)


@contextlib.contextmanager
def _bar() -> Iterator["Progress"]:
    """A bar on what is stderr now: an engine in this process prints elsewhere later."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with (
        os.fdopen(os.dup(2), "w") as stderr,
        Bar(
            *columns, console=Console(file=stderr), transient=True, redirect_stdout=False, redirect_stderr=False
        ) as shown,
    ):
        task = shown.add_task("starting", total=1.0)
        yield lambda name, done: shown.update(task, description=name, completed=done)


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise InputError("profile", "--out", str(path), error.strerror or str(error)) from error
