"""The prepared default LLM, read by transformers rather than by the engine: it is the model that it says it is."""

import os

import pytest

from configs.models import NotPrepared, prepared

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers have their own

CACHE = os.environ.get("FIRSTCLAUSE_CACHE")  # read before the store's tests set their own


def test_it_answers_under_its_own_chat_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", CACHE) if CACHE else monkeypatch.delenv("FIRSTCLAUSE_CACHE")
    try:
        folder = prepared("llm")
    except NotPrepared as error:
        pytest.skip(str(error))
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
    # The first word is a near tie between two answers, so it is given; what follows is not.
    ids = tokenizer(prompt + "The capital of France", return_tensors="pt")
    said = model.generate(**ids, max_new_tokens=8, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert tokenizer.decode(said) == " is Paris.<|im_end|>"
