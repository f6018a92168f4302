"""Fair order: by class, then the tenant that was served least for its weight."""

from collections import Counter

import pytest

from planning.policies.fair import FairQueue


def test_a_flood_gets_its_turn_and_no_more() -> None:
    queue: FairQueue[int] = FairQueue()
    for i in range(100):
        queue.push("flood", 0, i)
    for i in range(10):
        queue.push("calm", 0, i)
    order = []
    for _ in range(20):
        tenant, _ = queue.pop()
        queue.charge(tenant, 50)
        order.append(tenant)
    assert Counter(order) == {"flood": 10, "calm": 10}
    assert len(queue) == 90


def test_service_is_even_in_tokens_not_in_requests() -> None:
    queue: FairQueue[int] = FairQueue()
    for i in range(1000):
        queue.push("long", 0, i)
        queue.push("short", 0, i)
    served = Counter[object]()
    for _ in range(500):
        tenant, _ = queue.pop()
        tokens = 900 if tenant == "long" else 100
        queue.charge(tenant, tokens)
        served[tenant] += tokens
    assert abs(served["long"] - served["short"]) <= 900


def test_weights_divide() -> None:
    queue: FairQueue[int] = FairQueue()
    for i in range(1000):
        queue.push("gold", 0, i)
        queue.push("plain", 0, i)
    served = Counter[object]()
    for _ in range(400):
        tenant, _ = queue.pop()
        queue.charge(tenant, 10, weight=3.0 if tenant == "gold" else 1.0)
        served[tenant] += 1
    assert served["gold"] / served["plain"] == pytest.approx(3, rel=0.05)


def test_idleness_earns_no_credit() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("idle", 0, "x")
    queue.pop()
    queue.push("busy", 0, "x")
    for _ in range(100):
        tenant, _ = queue.pop()
        queue.charge(tenant, 1000)
        queue.push("busy", 0, "x")
    for _ in range(50):
        queue.push("idle", 0, "x")
        queue.push("busy", 0, "x")
    first = Counter()
    for _ in range(20):
        tenant, _ = queue.pop()
        queue.charge(tenant, 1000)
        first[tenant] += 1
    assert 9 <= first["idle"] <= 11


def test_nor_does_it_when_the_queue_was_empty_in_between() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("idle", 0, "x")
    queue.pop()
    for _ in range(100):
        queue.push("busy", 0, "x")
        queue.charge(queue.pop()[0], 1000)
    queue.push("idle", 0, "x")
    assert queue.served("idle") >= 98_000


def test_classes_are_strict() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("a", 10, "batch")
    queue.push("a", 0, "voice")
    queue.charge("a", 1e9)
    queue.push("b", 5, "chat")
    assert [queue.pop()[1] for _ in range(3)] == ["voice", "chat", "batch"]
    with pytest.raises(IndexError):
        queue.pop()


def test_an_overestimate_is_given_back() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.charge("a", 1000)
    queue.charge("a", -900)
    assert queue.served("a") == 100
    queue.forget("a")
    assert queue.served("a") == 0
