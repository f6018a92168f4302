"""The official client's batch flow on the real tier, and the command."""

import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from configs.deployment import LlmConfig
from tests.support.cli import run_firstclause

pytestmark = pytest.mark.system

MODEL = LlmConfig().model
WAIT_S = 300


def line(custom_id: str, question: str, **body: Any) -> str:
    messages = [
        {"role": "system", "content": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
        {"role": "user", "content": question},
    ]
    asked = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 12, **body}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": asked}) + "\n"


ROWS = "".join(
    [
        line("france", "What is the capital of France?"),
        line("again", "What is the capital of France?"),
        line("spider", "How many legs does a spider have?"),
        line("long", "word " * 4000),
        line("lots", "What is the capital of France?", max_tokens="lots"),
        line("stream", "What is the capital of France?", stream=True),
    ]
)


@pytest.fixture
def client(deployment: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{deployment}/v1", api_key="none", max_retries=0, timeout=120)


def test_the_official_clients_batch_flow(client: openai.OpenAI) -> None:
    file = client.files.create(file=("rows.jsonl", ROWS.encode()), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"of": "a test"}
    )
    assert batch.status == "validating"
    deadline = time.monotonic() + WAIT_S
    while batch.status not in ("completed", "failed", "expired", "cancelled") and time.monotonic() < deadline:
        time.sleep(0.5)
        batch = client.batches.retrieve(batch.id)
    assert batch.status == "completed", batch
    assert batch.request_counts is not None and batch.output_file_id and batch.error_file_id
    assert batch.request_counts.model_dump() == {"total": 6, "completed": 3, "failed": 3}
    good = [json.loads(text) for text in client.files.content(batch.output_file_id).text.splitlines()]
    bad = [json.loads(text) for text in client.files.content(batch.error_file_id).text.splitlines()]
    said = {row["custom_id"]: row["response"]["body"]["choices"][0]["message"]["content"] for row in good}
    assert set(said) == {"france", "again", "spider"}
    assert said["france"] == said["again"] and "Paris" in said["france"]
    assert {row["custom_id"]: row["response"]["status_code"] for row in bad} == dict.fromkeys(
        ("long", "lots", "stream"), 400
    )
    assert batch.usage is not None and 0 < batch.usage.output_tokens <= 24


def test_the_command(deployment: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(line("one", "What is the capital of France?"))
    done = run_firstclause("batch", "submit", str(rows), "--wait", "--json", timeout_s=WAIT_S)
    assert done.returncode == 0, done.stderr
    batch = json.loads(done.stdout)
    assert batch["status"] == "completed"
    shown = run_firstclause("batch", "status", batch["id"])
    assert shown.returncode == 0 and "1 done, 0 failed of 1" in shown.stdout
    out = tmp_path / "out.jsonl"
    assert run_firstclause("batch", "results", batch["id"], "--out", str(out)).returncode == 0
    assert json.loads(out.read_text())["custom_id"] == "one"
    again = run_firstclause("batch", "results", batch["id"], "--out", str(rows))
    assert again.returncode == 2, "a file that is there is not written over, its own input neither"
    assert run_firstclause("batch", "cancel", batch["id"]).returncode == 2
    assert run_firstclause("batch", "status", "batch_no").returncode == 3


def test_a_file_with_a_bad_line_fails_before_anything_is_paid_for(deployment: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(line(f"row {number}", "?") for number in range(1000)) + '{"custom_id": "torn", "meth')
    done = run_firstclause("batch", "submit", str(rows), "--wait", timeout_s=WAIT_S)
    assert done.returncode == 1
    assert "line 1001" in done.stdout and "invalid_json_line" in done.stdout
