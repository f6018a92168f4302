"""What the router reads from a request: keys where requests share a beginning, and nothing raised by any."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve_apps.router_prompt import Prompt, Prompts

BLOCK, CONTEXT = 16, 512


def read(prompts: Prompts, body: Any, adapter: str = "", keys: bool = True) -> Prompt:
    return asyncio.run(prompts.read([body, {"x-request-id": "1"}], adapter, keys))


@pytest.fixture
def blank() -> Prompts:
    """Without a tokenizer."""
    return Prompts("m", None, BLOCK, CONTEXT)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Prompts:
    """With a tokenizer of a letter a token, made here, and a chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {chr(code): code - 32 for code in range(32, 127)} | {"?": 31}
    inner = Tokenizer(models.WordLevel(letters, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="?")
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}:{{ m['content'] }};{% endfor %}"
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    prompts = Prompts("m", str(folder), BLOCK, CONTEXT)
    prompts._load()
    assert prompts._tokenizer is not None
    return prompts


def messages(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user" if n % 2 else "system", "content": text} for n, text in enumerate(texts)]


def test_token_arrays_have_keys_and_their_length(blank: Prompts) -> None:
    one, two = (read(blank, {"prompt": [*range(64), *range(n, n + 40)], "max_tokens": 9}) for n in (100, 200))
    assert (one.tokens, one.output_limit, one.priority) == (105, 9, 0)
    assert one.chain[:4] == two.chain[:4] and one.chain[5] != two.chain[5]
    assert [end for _, end in one.chain] == [16, 32, 48, 64, 80, 96]


@pytest.mark.parametrize("changed", [{"cache_salt": "yours"}, {"adapter": "lora"}])
def test_salt_and_adapter_are_in_the_key(blank: Prompts, changed: dict[str, str]) -> None:
    body = {"prompt": list(range(64)), "cache_salt": "mine"}
    other = read(blank, body | changed, adapter=changed.get("adapter", ""))
    assert not {key for key, _ in read(blank, body).chain} & {key for key, _ in other.chain}


def test_several_prompts_of_a_request_count_together(blank: Prompts) -> None:
    assert read(blank, {"prompt": [[1] * 50, [2] * 50]}).tokens == 101
    assert read(blank, {"prompt": ["a" * 200, "b" * 200]}).tokens == 101


def test_before_the_tokenizer_is_there_length_is_estimated_and_there_is_no_key(blank: Prompts) -> None:
    prompt = read(blank, {"messages": messages("a" * 400, "b" * 400)})
    assert prompt.chain == () and 200 <= prompt.tokens <= 210


def test_without_a_choice_nothing_is_keyed(chatty: Prompts) -> None:
    assert read(chatty, {"messages": messages("a" * 400)}, keys=False).chain == ()


def test_a_conversation_shares_what_came_before(chatty: Prompts) -> None:
    turns = ["You answer in one word. " * 4, "And now?", "Yes."]
    first, second = (read(chatty, {"messages": messages(*turns[:n])}) for n in (2, 3))
    assert len(first.chain) >= 6 and second.chain[: len(first.chain)] == first.chain
    assert first.tokens == len("system:" + turns[0] + ";user:" + turns[1] + ";") + 1


def test_a_long_prompt_is_read_on_a_thread_and_comes_out_the_same(
    chatty: Prompts, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"messages": messages("ab" * 200)}
    here = read(chatty, body)
    monkeypatch.setattr("serve_apps.router_prompt.INLINE_CHARACTERS", 10)
    assert read(chatty, body) == here and here.chain


def test_content_in_parts_reads_as_text(chatty: Prompts) -> None:
    parts = [{"type": "text", "text": "hello " * 10}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert read(chatty, {"messages": [{"role": "user", "content": parts}]}).chain


def test_what_is_far_beyond_the_context_is_not_tokenised(chatty: Prompts) -> None:
    prompt = read(chatty, {"messages": messages("a" * 100_000)})
    assert prompt.chain == () and prompt.tokens == CONTEXT + 1


def test_a_missing_tokenizer_is_said_and_routing_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prompts = Prompts("m", str(tmp_path / "nowhere"), BLOCK, CONTEXT)
    prompts._load()
    assert "no tokenizer for m" in caplog.text
    assert read(prompts, {"messages": messages("a" * 40)}).tokens > 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["messages", "prompt", "input", "tools", "priority", "max_tokens", "cache_salt", "chat_template_kwargs"]
        ),
        JSON,
    )
)
def test_no_request_raises(chatty: Prompts, body: dict[str, Any]) -> None:
    prompt = read(chatty, body)
    assert prompt.tokens >= 1
    assert prompt.output_limit is None or prompt.output_limit >= 0
    assert all(isinstance(key, int) and end > 0 for key, end in prompt.chain)
