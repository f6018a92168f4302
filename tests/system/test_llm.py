"""OpenAI's own client against the LLM application."""

import openai
import pytest

from configs.deployment import LlmConfig

pytestmark = pytest.mark.system

MODEL = LlmConfig().model
MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [
    {"role": "system", "content": "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {"role": "user", "content": "What is the capital of France? Please answer in one short sentence."},
]


@pytest.fixture
def client(deployment: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{deployment}/v1", api_key="none", max_retries=0, timeout=120)


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=30, temperature=0)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 30


def test_streamed_chat_says_the_same(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=20, temperature=0)
    stream = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=20, temperature=0, stream=True)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
    assert len([piece for piece in pieces if piece]) > 3, "token by token, not in one piece"
    assert "".join(pieces) == whole.choices[0].message.content


def test_completions(client: openai.OpenAI) -> None:
    prompt = "The capital of France is"
    whole = client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0)
    assert "Paris" in whole.choices[0].text
    stream = client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text


def test_a_repeated_prompt_is_found_in_the_prefix_cache(client: openai.OpenAI) -> None:
    question = [*MESSAGES[:1], {"role": "user", "content": "Why is the sky blue during the day and red at dusk? " * 3}]
    usages = [
        client.chat.completions.create(model=MODEL, messages=question, max_tokens=1).usage  # type: ignore[arg-type]
        for _ in range(2)
    ]
    cached = [usage.prompt_tokens_details.cached_tokens for usage in usages if usage and usage.prompt_tokens_details]
    assert cached[0] == 0
    assert cached[1] is not None and cached[1] >= 32


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
