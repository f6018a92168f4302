from telemetry.spans import covered_s


def test_the_time_that_spans_cover() -> None:
    assert covered_s([]) == 0
    assert covered_s([(0, 2), (1, 3), (5, 6), (5.5, 5.7)]) == 4


def test_a_span_that_was_cut_to_nothing_covers_nothing() -> None:
    assert covered_s([(0, 2), (5, 4), (4, 4.5)]) == 2.5
