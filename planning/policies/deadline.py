"""Whether a request can still be served in time: refused when it comes, not when it has waited in vain.

What is ahead of it is known in resource tokens (planning.quotas), of which a replica does prefill_tokens_per_s a
second; the queue is a fluid that all replicas work off. Only what goes before counts: a voice call does not see batch.
"""

from configs.errors import InputError


def queue_wait_s(ahead_rt: float, replicas: float, prefill_tokens_per_s: float) -> float:
    """How long `ahead_rt` resource tokens take `replicas`; without a replica, for ever. Raises InputError."""
    if not ahead_rt >= 0:
        raise InputError("deadline", "ahead_rt", ahead_rt, "is no amount of work")
    if not prefill_tokens_per_s > 0:
        raise InputError("deadline", "prefill_tokens_per_s", prefill_tokens_per_s, "is no rate")
    if not replicas > 0:
        return float("inf")
    return ahead_rt / (replicas * prefill_tokens_per_s)


def retry_after_s(wait_s: float, deadline_s: float) -> float | None:
    """None: it is served in time. Else refuse it (503), and say when the queue, if nothing joins it, is short enough.

    Without a replica that cannot be known: infinity.
    """
    if wait_s <= deadline_s:
        return None
    return wait_s - deadline_s
