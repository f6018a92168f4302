"""A tenant's token bucket in resource tokens: reserved on admission, settled on what was measured, or returned.

Each step takes the bucket and the request's reservation as they stand and gives back both as they should: whoever
keeps them (a table, a mapping) writes both in one transaction, and so is idempotent by request id over any number of
gateways. Resource tokens are planning.quotas.charge's.
"""

from dataclasses import dataclass, replace
from typing import Literal

from configs.schema import Frozen
from planning.quantities import Fraction, Positive


class Limit(Frozen):
    """`rate_rt_per_s` refills the bucket up to `burst_rt`. max_kv_share: of one replica's KV memory, all requests."""

    rate_rt_per_s: Positive
    burst_rt: Positive
    max_kv_share: Fraction = 1.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """`level_rt` as of `at_s`; below zero when measured usage exceeded its reservation: a debt that refills first."""

    level_rt: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """`charged_rt` has been taken from the bucket for this request so far."""

    charged_rt: float
    state: Literal["reserved", "settled"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`retry_after_s` is None where waiting would not help: the request is over the whole bucket."""

    admitted: bool
    retry_after_s: float | None = None


def full(limit: Limit, now_s: float) -> Bucket:
    """A new tenant's bucket."""
    return Bucket(limit.burst_rt, now_s)


def refill(limit: Limit, bucket: Bucket, now_s: float) -> Bucket:
    """The bucket at `now_s`. A clock that stepped back refills nothing, and nothing twice when it is back."""
    if now_s <= bucket.at_s:
        return bucket
    return Bucket(min(limit.burst_rt, bucket.level_rt + limit.rate_rt_per_s * (now_s - bucket.at_s)), now_s)


def reserve(
    limit: Limit, bucket: Bucket, reservation: Reservation | None, estimate_rt: float, now_s: float
) -> tuple[Bucket, Reservation | None, Verdict]:
    """Admit a request and take its estimate, or say when to come again.

    `reservation` is what is kept under the request's id; where there is one the request is a retry of itself, and is
    admitted again without another charge. Fails closed: a request over the whole bucket is never admitted.
    """
    if reservation is not None:
        return bucket, reservation, Verdict(True)
    bucket = refill(limit, bucket, now_s)
    if estimate_rt > limit.burst_rt:
        return bucket, None, Verdict(False)
    if estimate_rt > bucket.level_rt:
        return bucket, None, Verdict(False, (estimate_rt - bucket.level_rt) / limit.rate_rt_per_s)
    charged = Reservation(estimate_rt, "reserved")
    return replace(bucket, level_rt=bucket.level_rt - estimate_rt), charged, Verdict(True)


def settle(
    limit: Limit, bucket: Bucket, reservation: Reservation | None, used_rt: float, now_s: float
) -> tuple[Bucket, Reservation]:
    """Charge what was used in place of the estimate: on the usage report, a cut, or a disconnect (0 if none ran).

    Settling again only ever raises the charge to a larger figure: a reply that is cut before its usage chunk is
    settled on the tokens that were counted, the late report corrects it, and a repeated one changes nothing. Usage
    without a reservation (it was lost) is charged in full.
    """
    charged_rt = 0.0 if reservation is None else reservation.charged_rt
    if reservation is not None and reservation.state == "settled":
        used_rt = max(used_rt, charged_rt)
    bucket = refill(limit, bucket, now_s)
    level_rt = min(limit.burst_rt, bucket.level_rt + charged_rt - used_rt)
    return replace(bucket, level_rt=level_rt), Reservation(used_rt, "settled")


def fits_kv_share(limit: Limit, held_kv_tokens: float, request_kv_tokens: float, replica_kv_tokens: float) -> bool:
    """Whether a tenant that holds `held_kv_tokens` of a replica's KV memory may hold the request's as well.

    A tenant with nothing there may always run one request, however long: the share bounds crowding, not the context.
    """
    return held_kv_tokens == 0 or held_kv_tokens + request_kv_tokens <= limit.max_kv_share * replica_kv_tokens
