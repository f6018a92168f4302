from voice.history import History


def words(text: str) -> int:
    return len(text.split())


def history(context_tokens: int = 200, reply_tokens: int = 20) -> History:
    return History("be brief", context_tokens, reply_tokens, words)


def test_messages_keep_the_order_and_end_with_the_question() -> None:
    talk = history()
    talk.say("user", "hello")
    talk.say("assistant", "hi there")
    assert [(m["role"], m["content"]) for m in talk.messages("how are you")] == [
        ("system", "be brief"),
        ("user", "hello"),
        ("assistant", "hi there"),
        ("user", "how are you"),
    ]


def test_an_unanswered_message_and_the_next_are_one() -> None:
    talk = history()
    talk.say("user", "wait")
    assert talk.messages("tell me")[-1]["content"] == "wait tell me"
    assert talk.turns == [{"role": "user", "content": "wait"}]


def test_what_was_taken_back_is_gone() -> None:
    talk = history()
    talk.say("user", "what is")
    assert talk.unsay_user() == "what is"
    assert talk.unsay_user() == ""
    assert talk.turns == []


def test_nothing_said_is_no_message() -> None:
    talk = history()
    talk.say("assistant", "  ")
    assert talk.turns == []


def test_the_oldest_exchanges_go_first_and_half_the_room_is_freed() -> None:
    talk = history(context_tokens=200)
    for number in range(20):
        talk.say("user", f"question {number}")
        talk.say("assistant", f"answer {number}")
    messages = talk.messages("last")
    assert messages[0]["role"] == "system"
    assert messages[1]["role"] == "user"
    assert messages[-2]["content"] == "answer 19"
    tokens = sum(words(m["content"]) + History.MESSAGE_OVERHEAD_TOKENS for m in messages)
    assert tokens <= 90
    kept = len(talk.turns)
    assert len(talk.messages("last")) == kept + 2, "what fits is not trimmed again"


def test_a_question_longer_than_the_context_keeps_its_end() -> None:
    talk = history(context_tokens=100)
    [_, question] = talk.messages(" ".join(str(n) for n in range(500)))
    assert question["content"].endswith(" 499")
    assert words(question["content"]) + 2 * History.MESSAGE_OVERHEAD_TOKENS + 2 <= 80
