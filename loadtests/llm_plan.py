"""The conversations of an LLM load, all drawn before the run: who, with which words, how long the answers may be."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from configs.errors import MISSING, InputError
from loadtests.load import LlmLoad

WORDS = tuple(
    """
    time year people way day man thing woman life child world school state family student group country problem hand
    part place case week company system program question work night point home water room mother area money story
    fact month lot right study book eye job word business issue side kind head house service friend father power
    hour game line end member law car city name president team minute idea body back parent face others level office
    door health person art war history party result change morning reason research girl guy moment air teacher force
    """.split()  # noqa: SIM905  a hundred quoted words are no easier to read
)
"""Common English nouns, about a token each in any tokenizer."""

Message = dict[str, str]


def conversations(load: LlmLoad, due_s: npt.NDArray[np.float64], model: str) -> list[dict[str, Any]]:
    """One plan a due time: {index, due_s, tenant, model, opening: [message], turns: [{messages, max_tokens, think_s}]}.

    Raises InputError for a dataset that has a bad row.
    """
    rng = np.random.default_rng([load.seed, 1])
    rows = read_dataset(load.prompts.dataset) if load.prompts.dataset else []
    prefixes, popularity = _prefixes(load, rng)
    models, model_weights = list(load.adapters) or [model], np.array(list(load.adapters.values()) or [1.0])
    tenants = [tenant.name for tenant in load.tenants] or [""]
    tenant_weights = np.array([tenant.weight for tenant in load.tenants] or [1.0])
    plans = []
    for index, due in enumerate(due_s):
        opening = []
        if prefixes:
            opening = [{"role": "system", "content": prefixes[int(rng.choice(len(prefixes), p=popularity))]}]
        turns = []
        for turn in range(load.turns):
            messages = rows[(index * load.turns + turn) % len(rows)] if rows else _generated(load, rng)
            turns.append(
                {
                    "messages": messages,
                    "max_tokens": load.output_tokens.draw_count(rng),
                    "think_s": load.think_s.draw(rng) if turn else 0.0,
                }
            )
        plans.append(
            {
                "index": index,
                "due_s": float(due),
                "tenant": tenants[int(rng.choice(len(tenants), p=tenant_weights / tenant_weights.sum()))],
                "model": models[int(rng.choice(len(models), p=model_weights / model_weights.sum()))],
                "opening": opening,
                "turns": turns,
            }
        )
    return plans


def read_dataset(path: Path) -> list[list[Message]]:
    """Each line's messages. Raises InputError naming the first line that is none."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("load", "prompts.dataset", str(path), f"cannot be read ({error})") from error
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InputError("load", "prompts.dataset", str(path), "holds no rows")
    return rows


def _row(path: Path, number: int, line: str) -> list[Message]:
    def bad(problem: str) -> InputError:
        return InputError(str(path), f"line {number}", line, problem)

    try:
        row = json.loads(line)
    except ValueError as error:
        raise bad(f"not JSON ({error})") from error
    if not isinstance(row, dict):
        raise bad("expected an object")
    if isinstance(row.get("prompt"), str) and row["prompt"].strip():
        return [{"role": "user", "content": row["prompt"]}]
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad("expected a text `prompt` or a list `messages`")
    for message in messages:
        if not isinstance(message, dict) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise bad("each message needs a text `role` and a text `content`")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _generated(load: LlmLoad, rng: np.random.Generator) -> list[Message]:
    if load.prompts.tokens is None:
        raise InputError("load", "prompts", MISSING, "expected tokens (generated prompts) or a dataset")
    return [{"role": "user", "content": words(load.prompts.tokens.draw_count(rng), rng)}]


def _prefixes(load: LlmLoad, rng: np.random.Generator) -> tuple[Sequence[str], npt.NDArray[np.float64]]:
    shared = load.prompts.shared_prefix
    if shared is None:
        return [], np.zeros(0)
    weights = 1 / np.arange(1, shared.groups + 1) ** shared.zipf
    return [words(shared.tokens.draw_count(rng), rng) for _ in range(shared.groups)], weights / weights.sum()


def words(count: int, rng: np.random.Generator) -> str:
    """`count` words, no two texts alike."""
    return " ".join(WORDS[i] for i in rng.integers(0, len(WORDS), count))
