"""Taking in an upload as a stream: to disk while it comes, and no byte more than allowed."""

from dataclasses import dataclass
from typing import IO

from anyio import to_thread
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from batch.errors import Invalid, TooLarge
from batch.files import Contents

ENVELOPE_BYTES = 65_536
"""Room for multipart's boundaries and the form's other fields."""


@dataclass(frozen=True)
class Upload:
    """A file that has been taken in."""

    filename: str
    purpose: str
    size_bytes: int


async def take_in(request: Request, id: str, contents: Contents, max_bytes: int) -> Upload:
    """Keep an upload's contents under `id`. Raises Invalid, TooLarge, OSError (a full disk)."""
    if int(request.headers.get("content-length") or 0) > max_bytes + ENVELOPE_BYTES:
        raise _too_large(max_bytes)
    seen_bytes = 0

    async def receive() -> Message:
        nonlocal seen_bytes
        message = await request.receive()
        seen_bytes += len(message.get("body", b""))
        if seen_bytes > max_bytes + ENVELOPE_BYTES:
            raise _too_large(max_bytes)
        return message

    try:
        form = await Request(request.scope, receive).form(max_files=1, max_fields=16)
    except HTTPException as error:
        raise Invalid(str(error.detail), "invalid_multipart") from error
    try:
        file, purpose = form.get("file"), form.get("purpose")
        if not isinstance(file, UploadFile):
            raise Invalid("there is no file in the form", "missing_file", "file")
        if not isinstance(purpose, str) or not purpose.isidentifier() or len(purpose) > 64:
            raise Invalid("purpose is missing: 'batch' for what a batch is to read", "invalid_purpose", "purpose")
        if file.size is None or file.size > max_bytes:
            raise _too_large(max_bytes)
        await to_thread.run_sync(_keep, file.file, id, contents)
        return Upload((file.filename or "file")[-255:], purpose, file.size)
    finally:
        await form.close()


def _keep(source: IO[bytes], id: str, contents: Contents) -> None:
    source.seek(0)
    contents.keep(id, source)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"a file has at most {max_bytes} bytes", "file_too_large", "file")
