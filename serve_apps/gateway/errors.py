"""What a client is told that its request was refused, in OpenAI's shape.

ApiError              status, type, code, param; whether a retry helps is in Retry-After
    BadRequest        400, a retry does not help
        ContextLengthExceeded
    InvalidKey        401
    UnknownModel      404
    BodyTooLarge      413
    EncodingUnknown   415
    QuotaExceeded     429, after Retry-After
    Unavailable       503, after Retry-After: no ready replica, or too long a queue
    InternalError     500, a retry may help
"""

import json
import math
from typing import Any

from pydantic import BaseModel

CONTEXT_SIGNS = ("maximum context length", "maximum model length", "exceeds model's maximum")
"""How the engine says that a prompt is too long: it has no code of its own for it."""


class ErrorObject(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is an error, for the API's own description."""

    error: ErrorObject


class ApiError(Exception):
    """An answer other than 200."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.code, self.param, self.retry_after_s = status, kind, code, param, retry_after_s

    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        if self.retry_after_s is None:
            return {}
        return {"retry-after": str(max(1, math.ceil(self.retry_after_s)))}

    def event(self) -> bytes:
        """As an event of a stream that has begun. No [DONE] follows."""
        return f"data: {json.dumps(self.body())}\n\n".encode()


class BadRequest(ApiError):
    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(400, message, "invalid_request_error", code, param)


class ContextLengthExceeded(BadRequest):
    def __init__(self, message: str) -> None:
        super().__init__(message, "messages", "context_length_exceeded")


class InvalidKey(ApiError):
    def __init__(self, message: str) -> None:
        super().__init__(401, message, "invalid_request_error", "invalid_api_key")

    def headers(self) -> dict[str, str]:
        return {"www-authenticate": "Bearer"}


class UnknownModel(ApiError):
    def __init__(self, model: str) -> None:
        shown = model if len(model) <= 100 else f"{model[:100]}…"
        super().__init__(
            404, f"The model {shown!r} does not exist.", "invalid_request_error", "model_not_found", "model"
        )


class BodyTooLarge(ApiError):
    def __init__(self, max_bytes: int) -> None:
        message = f"The request body is over {max_bytes:,} bytes."
        super().__init__(413, message, "invalid_request_error", "request_too_large")


class EncodingUnknown(ApiError):
    def __init__(self) -> None:
        message = "The request body is compressed (Content-Encoding); send it as it is."
        super().__init__(415, message, "invalid_request_error", "unsupported_content_encoding")


class QuotaExceeded(ApiError):
    """Which quota, and when to come again; `retry_after_s` None: never, the request is over the whole bucket."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        code = "rate_limit_exceeded" if retry_after_s is not None else "insufficient_quota"
        super().__init__(429, message, "tokens", code, None, 3600 if retry_after_s is None else retry_after_s)


class Unavailable(ApiError):
    def __init__(self, message: str, retry_after_s: float, code: str = "unavailable") -> None:
        super().__init__(503, message, "server_error", code, None, retry_after_s)


class InternalError(ApiError):
    def __init__(self, message: str = "The server had an error while processing the request.") -> None:
        super().__init__(500, message, "server_error", "internal_error")


def from_engine(message: str, status: int, model: str, param: str | None = None) -> ApiError:
    """The engine's error object as ours. What went wrong inside is not told to clients."""
    if status == 404:
        return UnknownModel(model)
    if status == 503:
        return Unavailable(message, 1, "overloaded")
    if 400 <= status < 500:
        if any(sign in message for sign in CONTEXT_SIGNS):
            return ContextLengthExceeded(message)
        return BadRequest(message, param)
    return InternalError()
