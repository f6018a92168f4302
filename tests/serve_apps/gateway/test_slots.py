"""Whose request goes to the engines next."""

from configs.tenants import PRIORITIES
from planning.policies.quota import Limit
from serve_apps.gateway.slots import Slots, Waiter

VOICE, INTERACTIVE, BATCH = PRIORITIES["voice"], PRIORITIES["interactive"], PRIORITIES["batch"]
FREE = Limit(rate_rt_per_s=1e18, burst_rt=1e18)


def waiter(tenant: str, priority: int = INTERACTIVE, rt: float = 100, kv: float = 100, share: float = 1.0) -> Waiter:
    limit = FREE.model_copy(update={"max_kv_share": share})
    return Waiter(tenant, priority, 1.0, limit, rt, kv)


def test_a_class_fills_the_fleet_up_to_its_share_and_voice_never_waits() -> None:
    slots = Slots(16, 1e9)
    assert sum(len(slots.enter(waiter("jobs", BATCH))) for _ in range(20)) == 8
    assert sum(len(slots.enter(waiter("people"))) for _ in range(20)) == 6
    assert sum(len(slots.enter(waiter("calls", VOICE))) for _ in range(20)) == 20
    assert (slots.taken, slots.waiting) == (34, 26)


def test_who_waits_is_seated_by_class_then_by_what_its_tenant_was_served() -> None:
    slots = Slots(8, 1e9)
    running = [waiter("early", rt=1) for _ in range(7)]
    for one in running:
        slots.enter(one)
    greedy = [waiter("greedy", rt=1000) for _ in range(3)]
    modest = [waiter("modest", rt=10) for _ in range(3)]
    job = waiter("job", BATCH)
    for one in [job, *greedy, *modest]:
        assert slots.enter(one) == []
    order = []
    for one in running[:6]:
        order += slots.leave(one)
    assert [one.tenant for one in order] == ["greedy", "modest", "modest", "modest", "greedy", "greedy"]
    assert not job.seated


def test_measured_charges_replace_estimates_in_the_order() -> None:
    slots = Slots(1, 1e9)
    first, second = waiter("a", rt=1000), waiter("b", rt=10)
    slots.enter(first)
    waiting = [waiter("a", rt=10), second]
    for one in waiting:
        slots.enter(one)
    # It was reckoned at 1,000 and used 1: what it was not served is given back.
    assert slots.leave(first, 1.0) == [waiting[0]]
    assert slots.served("a") == 11


def test_one_that_gives_up_leaves_nothing_behind() -> None:
    slots = Slots(1, 1e9)
    running, waiting, after = waiter("a"), waiter("a"), waiter("b")
    slots.enter(running)
    slots.enter(waiting)
    slots.enter(after)
    assert slots.leave(waiting) == []
    assert slots.leave(running) == [after]
    assert slots.leave(running) == []
    assert slots.leave(after) == []
    assert (slots.taken, slots.waiting) == (0, 0)
    assert slots.enter(waiter("a", kv=1e9))


def test_a_tenant_at_its_share_of_memory_is_parked_and_holds_up_nobody() -> None:
    slots = Slots(16, 1000)
    first = waiter("long", kv=400, share=0.5)
    assert slots.enter(first) == [first]
    parked = [waiter("long", kv=400, share=0.5), waiter("long", kv=50, share=0.5)]
    for one in parked:
        assert slots.enter(one) == []  # the short one does not overtake the long one of its own tenant
    other = waiter("other", kv=900)
    assert slots.enter(other) == [other]
    assert slots.leave(first) == parked


def test_one_request_may_always_run_however_long() -> None:
    slots = Slots(16, 1000)
    huge = waiter("long", kv=5000, share=0.1)
    assert slots.enter(huge) == [huge]


def test_new_replicas_seat_those_who_wait() -> None:
    slots = Slots(1, 100)
    slots.enter(waiter("a"))
    second = waiter("a")
    slots.enter(second)
    assert slots.resize(16, 1600, 1) == [second]


def test_a_long_prompt_that_waits_for_its_lane_holds_up_nobody_else() -> None:
    slots = Slots(16, 1e9)
    long = [waiter("flood", rt=1000) for _ in range(3)]
    for one in long:
        one.long = True
    assert [len(slots.enter(one)) for one in long] == [1, 0, 0]
    calm = waiter("calm")
    calm.long = True
    assert slots.enter(calm) == [calm]
    assert slots.prefilled(long[0]) == [long[1]]
    assert slots.prefilled(long[0]) == []
    assert slots.leave(long[1]) == [long[2]]
    assert slots.resize(16, 1e9, 2) == []
