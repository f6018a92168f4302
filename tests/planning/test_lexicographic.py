import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from planning.lexicographic import AtLeast, minimize

ROWS = st.lists(st.tuples(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.integers(0, 12)), max_size=3)
OBJECTIVES = st.lists(st.lists(st.integers(-3, 5), min_size=3, max_size=3), min_size=1, max_size=3)


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, objectives=OBJECTIVES)
def test_every_point_tried_gives_the_same_values_in_order(rows, objectives):
    def kept(x):
        return all(sum(c * v for c, v in zip(coefficients, x, strict=True)) >= bound for coefficients, bound in rows)

    def values(x):
        return tuple(sum(c * v for c, v in zip(objective, x, strict=True)) for objective in objectives)

    tried = [values(x) for x in itertools.product(range(4), repeat=3) if kept(x)]
    found = minimize(objectives, [AtLeast(*row) for row in rows], [0] * 3, [3] * 3, [True] * 3)
    if not tried:
        assert found is None
    else:
        assert found is not None and kept(found)
        assert values(found) == min(tried)


def test_a_continuous_variable_stays_one():
    found = minimize([[1, 1]], [AtLeast([2, 1], 5), AtLeast([0, 1], 0.5)], [0, 0], [2, 9], [True, False])
    assert found is not None
    assert found[0] == 2 and abs(found[1] - 1) < 1e-6
