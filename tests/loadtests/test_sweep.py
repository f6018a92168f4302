"""The search for the knee, against servers whose knee is known."""

from loadtests.backlog import only_grows
from loadtests.sweep import Knee, Trial, find_knee


def search(knee_per_s: float, start: float = 1.0, highest: float = 1000.0, tolerance: float = 0.1) -> Knee:
    return find_knee(lambda rate: Trial(rate, rate <= knee_per_s, {}), start, highest, tolerance)


def test_the_knee_is_between_the_two_ends() -> None:
    for knee in (0.3, 1.0, 7.7, 60.0):
        found = search(knee)
        assert found.holds_per_s is not None and found.fails_per_s is not None
        assert found.holds_per_s <= knee < found.fails_per_s <= found.holds_per_s * 1.1
        assert found.stopped == ""


def test_nothing_holds() -> None:
    found = search(0.001)
    assert (found.holds_per_s, found.stopped) == (None, "not even the lowest rate holds")


def test_everything_holds() -> None:
    found = search(5000, highest=100)
    assert (found.holds_per_s, found.fails_per_s) == (100, None)
    assert "highest rate" in found.stopped


def test_an_inconclusive_trial_ends_the_search() -> None:
    found = find_knee(lambda rate: Trial(rate, None if rate > 3 else True, {}), 1, 100)
    assert (found.holds_per_s, found.stopped) == (2, "a trial was inconclusive")


def test_trials_are_bounded() -> None:
    assert len(search(7.7, tolerance=1e-9).trials) == 14


def test_backlog() -> None:
    assert only_grows(list(range(0, 60, 2)))
    assert not only_grows([30] * 60)
    assert not only_grows([10, 40] * 30)
    assert not only_grows(list(range(10)))
    assert not only_grows([0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6])
    assert not only_grows(list(range(60, 0, -2)))
