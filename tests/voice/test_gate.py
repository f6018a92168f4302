"""The gate under any order of events: never two answers to a turn, never a withdrawn one."""

from hypothesis import given
from hypothesis import strategies as st

from voice.gate import Gate, Order, Orders

events = st.lists(st.tuples(st.sampled_from(["guess", "withdraw", "confirm", "interrupt", "ended"]), st.integers(1, 6)))


def feed(gate: Gate, kind: str, number: int) -> Orders:
    if kind == "interrupt":
        return gate.interrupt()
    if kind == "ended":
        gate.ended(number)
        return []
    orders: Orders = getattr(gate, kind)(number)
    return orders


@given(events)
def test_any_order_of_events(script: list[tuple[str, int]]) -> None:
    gate = Gate()
    log: Orders = []
    for kind, number in script:
        log += feed(gate, kind, number)
    log += gate.close()
    made = [n for order, n in log if order is Order.MAKE]
    spoken = [n for order, n in log if order is Order.SPEAK]
    assert made == sorted(set(made)), "each answer is made once, in order"
    assert spoken == sorted(set(spoken)), "each answer is spoken at most once"
    assert set(spoken) <= set(made)
    # Every answer ends: dropped unheard, hushed, or heard to its end.
    for number in made:
        orders = [order for order, n in log if n == number]
        assert orders[0] is Order.MAKE
        assert orders.count(Order.DROP) + orders.count(Order.SPEAK) == 1
        if Order.DROP in orders:
            assert orders == [Order.MAKE, Order.DROP]


@given(events)
def test_at_most_one_answer_sounds_at_a_time(script: list[tuple[str, int]]) -> None:
    gate = Gate()
    sounding: int | None = None
    for kind, number in script:
        for order, n in feed(gate, kind, number):
            if order is Order.HUSH:
                assert sounding == n
                sounding = None
            elif order is Order.SPEAK:
                assert sounding is None
                sounding = n
        if kind == "ended" and sounding == number:
            sounding = None
        assert gate.spoken == sounding


def test_the_usual_turn() -> None:
    gate = Gate()
    assert gate.guess(1) == [(Order.MAKE, 1)]
    assert gate.confirm(1) == [(Order.SPEAK, 1)]
    gate.ended(1)
    assert gate.close() == []


def test_a_superseded_guess_is_dropped_and_can_no_longer_be_confirmed() -> None:
    gate = Gate()
    gate.guess(1)
    assert gate.guess(2) == [(Order.DROP, 1), (Order.MAKE, 2)]
    assert gate.confirm(1) == []
    assert gate.confirm(2) == [(Order.SPEAK, 2)]


def test_a_confirmed_answer_ends_the_one_that_still_sounds() -> None:
    gate = Gate()
    gate.guess(1)
    gate.confirm(1)
    gate.guess(2)
    assert gate.confirm(2) == [(Order.HUSH, 1), (Order.SPEAK, 2)]
