"""What was said in a call, as the LLM is to see it: of the agent's words only those that were heard."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypedDict


class Message(TypedDict):
    """One message of an OpenAI chat request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass
class History:
    """A call's messages behind its system prompt. `count_tokens` counts a text's tokens for the model in use."""

    system_prompt: str
    context_tokens: int
    reply_tokens: int
    count_tokens: Callable[[str], int]
    turns: list[Message] = field(default_factory=list)

    MESSAGE_OVERHEAD_TOKENS = 8
    """Room for a chat template's marks around one message."""

    def say(self, role: Literal["user", "assistant"], text: str) -> None:
        """Append what one side said. Two messages of one side in a row become one."""
        if not text.strip():
            return
        if self.turns and self.turns[-1]["role"] == role:
            self.turns[-1] = {"role": role, "content": f"{self.turns[-1]['content']} {text.strip()}"}
        else:
            self.turns.append({"role": role, "content": text.strip()})

    def unsay_user(self) -> str:
        """Take back the caller's last message, because the caller goes on with it."""
        if self.turns and self.turns[-1]["role"] == "user":
            return self.turns.pop()["content"]
        return ""

    def messages(self, user_text: str) -> list[Message]:
        """The request's messages for the caller's next words, the oldest turns dropped to fit the context.

        Half of what fits is dropped at once, so that the prefix then stays the same (and cached) for many turns.
        """
        question = _with_user(self.turns, user_text)
        budget = self.context_tokens - self.reply_tokens
        if self._tokens(question) > budget:
            while len(question) > 1 and self._tokens(question) > budget // 2:
                del self.turns[: _first_exchange(self.turns)]
                question = _with_user(self.turns, user_text) if self.turns else question[-1:]
        if self._tokens(question) > budget:
            question = [{"role": "user", "content": self._tail(question[-1]["content"], budget)}]
        return [{"role": "system", "content": self.system_prompt}, *question]

    def _tokens(self, turns: list[Message]) -> int:
        texts = [self.system_prompt, *(turn["content"] for turn in turns)]
        return sum(self.count_tokens(text) + self.MESSAGE_OVERHEAD_TOKENS for text in texts)

    def _tail(self, text: str, budget: int) -> str:
        """The end of an over-long message: what was said last is what is asked."""
        words = text.split()
        while len(words) > 1 and self._tokens([{"role": "user", "content": " ".join(words)}]) > budget:
            words = words[len(words) // 8 + 1 :]
        return " ".join(words)


def _with_user(turns: list[Message], user_text: str) -> list[Message]:
    if turns and turns[-1]["role"] == "user":
        return [*turns[:-1], {"role": "user", "content": f"{turns[-1]['content']} {user_text}"}]
    return [*turns, {"role": "user", "content": user_text}]


def _first_exchange(turns: list[Message]) -> int:
    """How many messages the oldest exchange has: up to the next message of the caller."""
    for index, turn in enumerate(turns[1:], start=1):
        if turn["role"] == "user":
            return index
    return max(1, len(turns))
