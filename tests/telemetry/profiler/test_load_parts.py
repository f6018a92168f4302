"""A start's parts, from a log as vLLM 0.29 writes it."""

import pytest

from telemetry.profiler.load_parts import load_parts

LOG = """
(EngineCore pid=7) INFO 12-01 13:01:41 [default_loader.py:430] Loading weights took 1.93 seconds
(EngineCore pid=7) INFO 12-01 13:01:41 [monitor.py:81] torch.compile took 21.50 s in total
(EngineCore pid=7) INFO 12-01 13:01:41 [gpu_model_runner.py:7002] Graph capturing finished in 4 secs, took 0.31 GiB
(EngineCore pid=7) INFO 12-01 13:01:51 [core.py:368] init engine (profile, create kv cache, warmup model) took 30.07 s
"""


def test_the_parts_add_up_and_compilation_is_counted_once() -> None:
    parts = load_parts(LOG, imports_s=8.0, first_token_s=0.5, load_time_s=60.0)
    assert parts["compile_s"] == 21.5 and parts["graphs_s"] == 4
    assert parts["warmup_s"] == pytest.approx(4.57)
    assert sum(parts.values()) == pytest.approx(60)


def test_what_the_log_does_not_name_is_absent() -> None:
    parts = load_parts("Loading weights took 1.93 seconds", 8.0, 0.5, 20.0)
    assert set(parts) == {"imports_s", "weights_s", "first_token_s", "processes_s"}
    assert sum(parts.values()) == pytest.approx(20)
