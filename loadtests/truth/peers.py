"""Other load generators on the same cases, each as its users run it: an open rate where it has one.

locust    its stock FastHttpUser, ten users paced by constant_throughput: the whole body's time, no first token
vllm      `vllm bench serve` of our own environment, openai-chat
guidellm  in an environment of its own under the cache folder, installed when first asked for

A tool's TTFT is put beside ours from the due moment: it is what its users would take for it.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Protocol, Self

from configs.errors import MISSING, InputError
from configs.models import cache_dir, prepared

GUIDELLM = "guidellm==0.8.1"
CASE_S = 180

Figures = dict[str, float | None]


@dataclass(frozen=True)
class Task:
    """Requests evenly due against a scripted server."""

    url: str
    rate_per_s: float
    requests: int
    output_tokens: int
    slo_ttft_ms: float


class Peer(Protocol):
    """A tool, ready to measure."""

    def measure(self, task: Task) -> Figures: ...

    def __enter__(self) -> "Peer": ...

    def __exit__(self, *_: object) -> None: ...


class Locust:
    """A process a case: locust patches the whole interpreter."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, task: Task) -> Figures:
        command = [sys.executable, "-m", "loadtests.truth.stock_locust", json.dumps(asdict(task))]
        return _figures(_run(command).stdout.splitlines()[-1])


class Vllm:
    """One process for all cases: its imports take longer than a case."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadtests.truth.vllm_bench", str(prepared("llm"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait()

    def measure(self, task: Task) -> Figures:
        print(json.dumps(asdict(task)), file=_pipe(self._process.stdin), flush=True)
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise InputError("truth", "--peer", "vllm", "vllm's bench ended; is vllm installed here?")
        return _figures(line)


class GuideLlm:
    """Its own environment, a process a case."""

    def __enter__(self) -> Self:
        self._tokenizer = prepared("llm")
        self._bin = _environment(GUIDELLM) / "bin"
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, task: Task) -> Figures:
        with tempfile.TemporaryDirectory(prefix="guidellm-") as folder:
            out = Path(folder) / "out.json"
            _run([
                str(self._bin / "guidellm"), "run", "--disable-console",
                "--backend", f"kind=openai_http,target={task.url},model=scripted",
                "--profile", f"kind=constant,rate={task.rate_per_s:g}",
                "--constraint", f"kind=max_requests,count={task.requests}",
                "--tokenizer", f"kind=hf_auto,model={self._tokenizer}",
                "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={task.output_tokens}",
                "--output", f"kind=json,path={out}",
            ])  # fmt: skip
            metrics = json.loads(out.read_text(encoding="utf-8"))["benchmarks"][0]["metrics"]
        return guidellm_figures(metrics)


PEERS: dict[str, Callable[[], Peer]] = {"locust": Locust, "vllm": Vllm, "guidellm": GuideLlm}


def guidellm_figures(metrics: dict[str, Any]) -> Figures:
    """guidellm's report in our names."""
    first = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
    token = metrics["inter_token_latency_ms"]["successful"]["percentiles"]
    whole = metrics["request_latency"]["successful"]["percentiles"]
    return {
        "due_ttft_ms p50": first["p50"],
        "due_ttft_ms p90": first["p90"],
        "inter_token_ms p50": token["p50"],
        "e2e_ms p50": whole["p50"] * 1000,
        "e2e_ms p90": whole["p90"] * 1000,
        "output_tokens": metrics["output_token_count"]["successful"]["total_sum"],
        "ok": metrics["request_totals"]["successful"],
        "failures": metrics["request_totals"]["errored"],
    }


def _environment(requirement: str) -> Path:
    """A virtual environment with one tool in it. torch comes in the build that we have: others bring GPU libraries."""
    folder = cache_dir() / "peers" / requirement.replace("==", "-")
    if (folder / ".installed").exists():
        return folder
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", f"torch=={version('torch')}", requirement], timeout_s=900)
    (folder / ".installed").touch()
    return folder


def _run(command: list[str], timeout_s: float = CASE_S) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise InputError("truth", Path(command[0]).name, MISSING, said[-1] if said else str(error)) from error


def _figures(line: str) -> Figures:
    figures: Figures = json.loads(line)
    return figures


def _pipe(stream: "IO[str] | None") -> "IO[str]":
    assert stream is not None
    return stream
