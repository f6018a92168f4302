"""The token bucket: nothing escapes, nothing is charged twice, whatever is repeated, late or lost."""

from hypothesis import given
from hypothesis import strategies as st

from planning.policies import quota
from planning.policies.quota import Bucket, Limit, Reservation

LIMIT = Limit(rate_rt_per_s=100, burst_rt=1000)


def test_a_request_takes_its_estimate_and_is_settled_on_its_usage() -> None:
    bucket, reservation, verdict = quota.reserve(LIMIT, quota.full(LIMIT, 0), None, 600, 0)
    assert verdict.admitted and bucket.level_rt == 400
    bucket, reservation = quota.settle(LIMIT, bucket, reservation, 250, 0)
    assert bucket.level_rt == 750
    assert reservation == Reservation(250, "settled")


def test_over_the_bucket_says_when_to_come_again() -> None:
    bucket, reservation, verdict = quota.reserve(LIMIT, Bucket(100, 0), None, 600, 0)
    assert (reservation, verdict.admitted, verdict.retry_after_s) == (None, False, 5.0)
    _, _, verdict = quota.reserve(LIMIT, bucket, None, 600, 5.0)
    assert verdict.admitted
    # Larger than the bucket will ever be: no time to come again.
    assert quota.reserve(LIMIT, quota.full(LIMIT, 0), None, 1001, 0)[2].retry_after_s is None


def test_a_retry_under_the_same_id_is_admitted_and_not_charged_again() -> None:
    bucket, reservation, _ = quota.reserve(LIMIT, quota.full(LIMIT, 0), None, 600, 0)
    again, same, verdict = quota.reserve(LIMIT, bucket, reservation, 600, 1)
    assert verdict.admitted and same == reservation and again == bucket


def test_a_disconnect_before_anything_ran_returns_everything() -> None:
    bucket, reservation, _ = quota.reserve(LIMIT, quota.full(LIMIT, 0), None, 600, 0)
    bucket, _ = quota.settle(LIMIT, bucket, reservation, 0, 0)
    assert bucket.level_rt == 1000


def test_leaving_before_the_usage_chunk_again_and_again_escapes_nothing() -> None:
    bucket = quota.full(LIMIT, 0)
    admitted = 0
    for _ in range(20):
        bucket, reservation, verdict = quota.reserve(LIMIT, bucket, None, 100, 0)
        if not verdict.admitted:
            break
        admitted += 1
        bucket, reservation = quota.settle(LIMIT, bucket, reservation, 90, 0)  # the cut, counted so far
        bucket, reservation = quota.settle(LIMIT, bucket, reservation, 95, 0)  # the late report
        bucket, reservation = quota.settle(LIMIT, bucket, reservation, 95, 0)  # and again
        bucket, reservation = quota.settle(LIMIT, bucket, reservation, 0, 0)  # a late disconnect
    assert admitted == 10  # after ten times 95, 50 are left
    assert bucket.level_rt == 50


def test_usage_without_a_reservation_is_charged_in_full() -> None:
    bucket, _ = quota.settle(LIMIT, Bucket(500, 0), None, 300, 0)
    assert bucket.level_rt == 200


def test_a_debt_is_paid_before_anything_is_admitted() -> None:
    bucket, reservation, _ = quota.reserve(LIMIT, quota.full(LIMIT, 0), None, 100, 0)
    bucket, _ = quota.settle(LIMIT, bucket, reservation, 2000, 0)
    assert bucket.level_rt == -1000
    assert quota.reserve(LIMIT, bucket, None, 1, 0)[2].retry_after_s == 10.01


def test_a_clock_that_steps_back_refills_nothing_and_nothing_twice() -> None:
    bucket = quota.refill(LIMIT, Bucket(0, 10.0), 5.0)
    assert bucket == Bucket(0, 10.0)
    assert quota.refill(LIMIT, bucket, 11.0).level_rt == 100


@given(st.lists(st.tuples(st.floats(1, 400), st.floats(0, 600), st.floats(0, 3)), max_size=60))
def test_what_is_served_never_exceeds_burst_and_rate_by_more_than_one_estimates_error(
    requests: list[tuple[float, float, float]],
) -> None:
    bucket, now_s, used_rt, worst = quota.full(LIMIT, 0), 0.0, 0.0, 0.0
    for estimate, used, gap_s in requests:
        now_s += gap_s
        bucket, reservation, verdict = quota.reserve(LIMIT, bucket, None, estimate, now_s)
        if verdict.admitted:
            used_rt += used
            worst = max(worst, used - estimate)
            bucket, _ = quota.settle(LIMIT, bucket, reservation, used, now_s)
        assert bucket.level_rt <= LIMIT.burst_rt
    assert used_rt <= LIMIT.burst_rt + LIMIT.rate_rt_per_s * now_s + worst + 1e-6


def test_kv_share() -> None:
    limit = Limit(rate_rt_per_s=1, burst_rt=1, max_kv_share=0.25)
    assert quota.fits_kv_share(limit, 10_000, 15_000, 100_000)
    assert not quota.fits_kv_share(limit, 10_000, 15_001, 100_000)
    assert quota.fits_kv_share(limit, 0, 80_000, 100_000)
