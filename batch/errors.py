"""What can go wrong with a request to the batch API.

BatchError            `status`, `code` and `param` as OpenAI's error object has them; none gets better by a retry
    NotFound          404: no such thing, or another tenant's
    Invalid           400
    TooLarge          413
    Conflict          409: the state, or the Idempotency-Key, does not allow it
LeaseLost             another worker has the batch now: whoever gets this stops at once
"""

import errno


def error_object(
    message: str, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> dict[str, dict[str, str | None]]:
    """OpenAI's shape."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def is_disk_full(error: BaseException) -> bool:
    """Whether there is no room left, or no quota of it."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


class BatchError(Exception):
    """A request that cannot be done as it is."""

    status = 400

    def __init__(self, message: str, code: str = "invalid_request", param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.param = code, param

    def document(self) -> dict[str, dict[str, str | None]]:
        """As error_object."""
        return error_object(str(self), param=self.param, code=self.code)


class NotFound(BatchError):
    status = 404

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(f"No such {kind}: {id}", "not_found", "id")


class Invalid(BatchError):
    pass


class TooLarge(BatchError):
    status = 413


class Conflict(BatchError):
    status = 409


class LeaseLost(Exception):
    """The batch was taken over."""
