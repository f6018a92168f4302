"""One run: plans drawn, a generator started, its samples gathered. What ends a run early keeps what was measured."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import MISSING, InputError
from loadtests import journal
from loadtests.arrivals import due_times_s
from loadtests.llm_plan import conversations
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.machine import machine
from loadtests.speech import Speak
from loadtests.voice_plan import calls

Progress = Callable[[dict[str, Any]], None]


class NothingThere(RuntimeError):
    """The target did not answer at all before the run."""


@dataclass(frozen=True)
class Run:
    """What a finished run left: raw samples, and what it was. `ended` is '' for a run that went through."""

    folder: Path
    load: LlmLoad | VoiceLoad
    planned: int
    duration_s: float
    """From the start to the last arrival due: what rates are counted over."""
    samples: list[dict[str, Any]]
    ended: str
    machine: dict[str, str]


def perform(
    load: LlmLoad | VoiceLoad,
    folder: Path,
    workers: int = 1,
    web_port: int | None = None,
    stop_when_growing: bool = False,
    progress: Progress = lambda line: None,
    speak: Speak | None = None,
) -> Run:
    """Run the load into an empty folder; `speak` says a voice load's questions.

    Raises InputError, NothingThere. Ctrl-C ends the run, not this function.
    """
    due_s = due_times_s(load.arrivals, load.seed)
    _make(folder)
    settings: dict[str, Any] = {
        "user": load.user, "url": load.url, "workers": workers, "web_port": web_port,
        "give_up_after_s": load.give_up_after_s, "stop_when_growing": stop_when_growing,
    }  # fmt: skip
    if isinstance(load, LlmLoad):
        plans = conversations(load, due_s, load.model or first_model(load.url))
        settings |= _llm_settings(load)
    else:
        reachable(load.url)
        plans = calls(load, due_s, speak)
        settings["reply_timeout_s"] = load.reply_timeout_s
        (folder / "calls").mkdir()
    (folder / "plans.jsonl").write_text("".join(json.dumps(plan) + "\n" for plan in plans), encoding="utf-8")
    _write_private(folder / "run.json", json.dumps(settings))
    ended = _generate(folder, progress)
    (folder / "run.json").unlink()
    samples = sorted(journal.read(folder), key=lambda sample: float(sample["due_s"]))
    return Run(folder, load, len(plans), load.expected_s() or max(float(due_s[-1]), 1e-9), samples, ended, machine())


def first_model(url: str) -> str:
    """The first model that the server lists. Raises NothingThere, InputError."""
    try:
        with urllib.request.urlopen(url.rstrip("/").removesuffix("/v1") + "/v1/models", timeout=10) as response:
            return str(json.load(response)["data"][0]["id"])
    except urllib.error.HTTPError as error:
        raise InputError(
            "load", "model", MISSING, f"the server lists none (/v1/models: {error.code}); name one"
        ) from error
    except OSError as error:
        raise _nothing(url, error) from error
    except (ValueError, LookupError, TypeError) as error:
        raise InputError("load", "model", MISSING, "the server lists none at /v1/models; name one") from error


def reachable(url: str) -> None:
    """Raises NothingThere unless something answers HTTP there, whatever it says."""
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        return
    except OSError as error:
        raise _nothing(url, error) from error


def _nothing(url: str, error: OSError) -> NothingThere:
    return NothingThere(f"nothing answers at {url} ({getattr(error, 'reason', error)}); run: firstclause up")


def _llm_settings(load: LlmLoad) -> dict[str, Any]:
    body = {
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": load.temperature,
        **({"ignore_eos": True} if load.ignore_eos else {}),
        **load.extra_body,
    }
    headers: dict[str, dict[str, str]] = {"": {"X-Clocks": "1"}}
    for tenant in load.tenants:
        headers[tenant.name] = {"X-Clocks": "1"}
        if tenant.key_env:
            if not os.environ.get(tenant.key_env):
                raise InputError("load", "tenants.key_env", tenant.key_env, "is not set in the environment")
            headers[tenant.name]["Authorization"] = f"Bearer {os.environ[tenant.key_env]}"
    return {"body": body, "headers": headers, "timeout_s": load.timeout_s}


def _generate(folder: Path, progress: Progress) -> str:
    """Run the generator to its end; returns why it ended early, or ''."""
    command = [sys.executable, "-m", "loadtests.generator", str(folder / "run.json")]
    environment = {**os.environ, "LOGURU_LEVEL": "WARNING"}
    ended: str | None = None
    # A session of its own: Ctrl-C reaches this process alone, which passes it on once.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as generator:
        assert generator.stdout is not None
        while True:
            try:
                for text in generator.stdout:
                    line = json.loads(text)
                    ended = line.get("ended", ended)
                    if "at_s" in line:
                        progress(line)
                generator.wait()
                break
            except KeyboardInterrupt:
                with contextlib.suppress(ProcessLookupError):
                    generator.send_signal(signal.SIGINT)
    return f"the generator died (exit code {generator.returncode})" if ended is None else ended


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError("loadtest", "--out", str(folder), "is not empty")
    except OSError as error:
        raise InputError("loadtest", "--out", str(folder), error.strerror or str(error)) from error


def _write_private(path: Path, text: str) -> None:
    """For what may hold keys: readable by its owner alone, and gone after the run."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def default_folder(user: str, base: Path) -> Path:
    return base / f"{user}-{time.strftime('%Y%m%d-%H%M%S')}"
