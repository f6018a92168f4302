"""An engine's cold start in a process of its own: with a stand-in for vLLM, and once with the engine itself."""

import json
import os
import time

import psutil
import pytest

from configs.deployment import load_deployment
from configs.models import NotPrepared, prepared
from serve_apps.llm import engine_arguments, engine_environment
from telemetry.profiler.checkpoint import read_checkpoint, weight_files
from telemetry.profiler.engine import EngineSpec
from telemetry.profiler.load import start_once
from telemetry.profiler.target import TargetFailed

VLLM = {
    "__init__": "class SamplingParams:\n    def __init__(self, **options): self.max_tokens = options['max_tokens']\n",
    "sampling_params": "class RequestOutputKind:\n    DELTA = 1\n",
    "engine/__init__": "",
    "engine/arg_utils": """
class AsyncEngineArgs:
    def __init__(self, model, block_size, behaviour):
        self.block_size, self.behaviour = block_size, behaviour
""",
    "entrypoints/__init__": "",
    "entrypoints/launchers/__init__": "",
    "entrypoints/launchers/cli_args": """
from dataclasses import dataclass
@dataclass
class FrontendArgs:
    enable_prompt_tokens_details: bool = False
""",
    "v1/__init__": "",
    "v1/engine/__init__": "",
    "v1/engine/async_llm": """
import os, subprocess, sys, time
from types import SimpleNamespace as N
class AsyncLLM:
    @classmethod
    def from_engine_args(cls, arguments):
        print("loading weights", os.environ["OF_THE_SPEC"], flush=True)
        print("INFO [default_loader.py:430] Loading weights took 0.01 seconds", flush=True)
        self = cls()
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(os.environ["PIDS"], "w") as file:
            file.write(f"{os.getpid()} {self.child.pid}")
        if arguments.behaviour == "raise":
            raise ValueError("no such dtype")
        if arguments.behaviour == "hang":
            time.sleep(600)
        self.vllm_config = N(cache_config=N(num_gpu_blocks=10, block_size=arguments.block_size))
        return self
    async def generate(self, prompt, sampling, request_id):
        yield N(outputs=[N(token_ids=[1])], num_cached_tokens=0)
    def shutdown(self):
        self.child.kill()
        self.child.wait()
""",
}


@pytest.fixture
def stand_in(tmp_path):
    """stand_in(behaviour): the spec of an engine that loads, raises or hangs; PIDS names its two processes."""
    for name, text in VLLM.items():
        path = tmp_path / "vllm" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def spec(behaviour):
        arguments = {"block_size": 32, "behaviour": behaviour, "enable_prompt_tokens_details": True}
        environment = {"PYTHONPATH": str(tmp_path), "PIDS": str(tmp_path / "pids"), "OF_THE_SPEC": "yes"}
        return EngineSpec("model", arguments, environment)

    return spec


def left_over(tmp_path):
    """Those that live; nobody may have waited for the dead."""
    living = [process.pid for process in psutil.process_iter(["status"]) if process.info["status"] != "zombie"]
    return [pid for pid in map(int, (tmp_path / "pids").read_text().split()) if pid in living]


def weights(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(100))
    return [path]


def test_a_start_is_timed_asked_for_its_memory_and_over(stand_in, tmp_path):
    begun = time.perf_counter()
    loaded = start_once(stand_in("load"), weights(tmp_path))
    assert 0 < loaded.load_time_s <= time.perf_counter() - begun
    assert loaded.kv_capacity_tokens == 320
    # The log's 0.01 s for the weights may be longer than the stand-in took from one mark to the next.
    assert sum(loaded.parts.values()) == pytest.approx(loaded.load_time_s, abs=0.02)
    assert loaded.parts["weights_s"] == 0.01, "as the engine's log says"
    assert left_over(tmp_path) == []


def test_an_engine_that_fails_says_why_and_leaves_nothing(stand_in, tmp_path):
    with pytest.raises(TargetFailed) as failed:
        start_once(stand_in("raise"), weights(tmp_path))
    assert "no such dtype" in str(failed.value) and "loading weights yes" in str(failed.value)
    assert left_over(tmp_path) == []


def test_an_engine_that_hangs_is_ended_with_its_processes(stand_in, tmp_path):
    with pytest.raises(TargetFailed, match="within 3 s"):
        start_once(stand_in("hang"), weights(tmp_path), timeout_s=3)
    assert (tmp_path / "pids").exists()
    assert left_over(tmp_path) == []


@pytest.mark.system
def test_the_real_engine_holds_what_its_sizes_say():
    llm = load_deployment().llm
    try:
        folder = prepared(llm.model)
    except NotPrepared as error:
        pytest.skip(str(error))
    spec = EngineSpec(str(folder), engine_arguments(llm), engine_environment(llm))
    assert json.loads(json.dumps(spec.arguments)) == spec.arguments
    before = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    loaded = start_once(spec, weight_files(folder))
    assert {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)} <= before
    assert {"imports_s", "weights_s", "warmup_s", "first_token_s", "processes_s"} <= set(loaded.parts)
    assert sum(loaded.parts.values()) == pytest.approx(loaded.load_time_s)
    # Whole blocks of what 1 GiB holds: the KV's size is the engine's own.
    blocks = llm.kv_cache_bytes // (read_checkpoint(folder, llm.dtype).kv_bytes_per_token * llm.block_size)
    assert loaded.kv_capacity_tokens == blocks * llm.block_size
