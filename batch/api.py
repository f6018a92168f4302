"""The batch API's HTTP, OpenAI's: files and batches. No Ray in here.

Two applications, each to be served at its own prefix (the ASGI root_path).
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from batch.errors import BatchError, error_object, is_disk_full
from batch.files import Contents
from batch.store import Store, new_file_id
from batch.upload import take_in
from configs.batch import BatchConfig
from configs.tenants import Unauthorized

Identify = Callable[[str | None], str]
"""An Authorization header -> the tenant's name. Raises Unauthorized."""
Limit = Annotated[int, Query(ge=1, le=100)]
MetadataKey = Annotated[str, Field(max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]


class NewBatch(BaseModel):
    """What creates a batch."""

    model_config = ConfigDict(extra="forbid")

    input_file_id: Annotated[str, Field(max_length=64)]
    endpoint: Literal["/v1/chat/completions", "/v1/completions"]
    completion_window: Annotated[str, Field(max_length=16)] = "24h"
    metadata: Metadata | None = None


def files_api(store: Store, contents: Contents, config: BatchConfig, identify: Identify) -> FastAPI:
    """What is served under /v1/files."""
    api = _application()
    Tenant = Annotated[str, Depends(_tenant(identify))]

    @api.post("")
    async def upload(request: Request, tenant: Tenant) -> dict[str, Any]:
        id = new_file_id()
        taken = await take_in(request, id, contents, config.max_file_bytes)
        file = await to_thread.run_sync(store.add_file, tenant, taken.filename, taken.purpose, taken.size_bytes, id)
        return file.document()

    @api.get("")
    def listed(
        tenant: Tenant,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
        after: str | None = None,
        purpose: str | None = None,
        order: Literal["asc", "desc"] = "desc",
    ) -> dict[str, Any]:
        found = store.files(tenant, limit + 1, after, purpose, order == "desc")
        return _page([file.document() for file in found], limit)

    @api.get("/{id}")
    def one(id: str, tenant: Tenant) -> dict[str, Any]:
        return store.file(tenant, id).document()

    @api.get("/{id}/content")
    def content(id: str, tenant: Tenant) -> StreamingResponse:
        file = store.file(tenant, id)
        return StreamingResponse(
            contents.chunks(file.id),
            media_type="application/octet-stream",
            headers={"Content-Length": str(file.bytes)},
        )

    @api.delete("/{id}")
    def delete(id: str, tenant: Tenant) -> dict[str, Any]:
        store.delete_file(tenant, id)
        for unused in store.unused_contents():
            contents.remove(unused)
        return {"id": id, "object": "file", "deleted": True}

    return api


def batches_api(store: Store, identify: Identify, wake: Callable[[], None]) -> FastAPI:
    """What is served under /v1/batches. `wake` is called when there is something to be done."""
    api = _application()
    Tenant = Annotated[str, Depends(_tenant(identify))]

    @api.post("")
    def create(
        new: NewBatch, tenant: Tenant, idempotency_key: Annotated[str | None, Header(max_length=255)] = None
    ) -> dict[str, Any]:
        made = store.create_batch(
            tenant, new.endpoint, new.input_file_id, new.completion_window, new.metadata, idempotency_key
        )
        wake()
        return made.document()

    @api.get("")
    def listed(tenant: Tenant, limit: Limit = 20, after: str | None = None) -> dict[str, Any]:
        return _page([one.document() for one in store.batches(tenant, limit + 1, after)], limit)

    @api.get("/{id}")
    def one(id: str, tenant: Tenant) -> dict[str, Any]:
        return store.batch(tenant, id).document()

    @api.post("/{id}/cancel")
    def cancel(id: str, tenant: Tenant) -> dict[str, Any]:
        cancelled = store.cancel(tenant, id)
        wake()
        return cancelled.document()

    return api


def _application() -> FastAPI:
    """One whose errors have OpenAI's shape."""
    api = FastAPI(title="firstclause batch", docs_url=None, redoc_url=None, openapi_url=None)

    @api.exception_handler(BatchError)
    def refused(_: Request, error: BatchError) -> Response:
        return JSONResponse(error.document(), error.status)

    @api.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse(BatchError(f"{where}: {first['msg']}", "invalid_value", where).document(), 400)

    @api.exception_handler(Unauthorized)
    def unauthorized(_: Request, error: Unauthorized) -> Response:
        document = error_object(str(error), "authentication_error", code="invalid_api_key")
        return JSONResponse(document, 401, {"WWW-Authenticate": "Bearer"})

    @api.exception_handler(OSError)
    def broken(_: Request, error: OSError) -> Response:
        if not is_disk_full(error):
            raise error
        return JSONResponse(error_object("the disk is full", "server_error", code="no_space"), 507)

    return api


def _tenant(identify: Identify) -> Callable[[str | None], str]:
    def tenant(authorization: Annotated[str | None, Header()] = None) -> str:
        return identify(authorization)

    return tenant


def _page(documents: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """OpenAI's list; one document over the limit says that there are more."""
    page = documents[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(documents) > limit,
    }
