"""The batch store's tables. A change here needs a migration in batch/migrations/versions."""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from batch.lifecycle import Status

Seconds = int  # since 1970
_ID = String(64)
_NAME = String(512)


class Base(DeclarativeBase):
    type_annotation_map: ClassVar = {dict[str, Any]: JSON, list[dict[str, Any]]: JSON, int: BigInteger}


class StoredFile(Base):
    """A file that a tenant uploaded, or that a batch made. `deleted_at`: its bytes go when no batch reads them."""

    __tablename__ = "files"
    __table_args__ = (Index("files_of_tenant", "tenant", "created_at", "id"),)

    id: Mapped[str] = mapped_column(_ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(_ID)
    filename: Mapped[str] = mapped_column(_NAME)
    purpose: Mapped[str] = mapped_column(_ID)
    bytes: Mapped[int]
    created_at: Mapped[Seconds]
    deleted_at: Mapped[Seconds | None]

    def document(self) -> dict[str, Any]:
        """OpenAI's file object."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.bytes,
            "created_at": self.created_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
        }


class Batch(Base):
    """A batch. `worker` holds it until `lease_until`; `fruitless` counts takeovers since a row was last finished."""

    __tablename__ = "batches"
    __table_args__ = (
        UniqueConstraint("tenant", "idempotency_key"),
        Index("batches_of_tenant", "tenant", "created_at", "id"),
        Index("batches_to_do", "status", "expires_at"),
    )

    id: Mapped[str] = mapped_column(_ID, primary_key=True)
    tenant: Mapped[str] = mapped_column(_ID)
    endpoint: Mapped[str] = mapped_column(_ID)
    model: Mapped[str | None] = mapped_column(_NAME)
    input_file_id: Mapped[str] = mapped_column(_ID)
    output_file_id: Mapped[str | None] = mapped_column(_ID)
    error_file_id: Mapped[str | None] = mapped_column(_ID)
    completion_window: Mapped[str] = mapped_column(_ID)
    status: Mapped[Status] = mapped_column(String(16))
    errors: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON)
    request_metadata: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    idempotency_key: Mapped[str | None] = mapped_column(_NAME)
    request_hash: Mapped[str] = mapped_column(_ID)

    created_at: Mapped[Seconds]
    expires_at: Mapped[Seconds]
    in_progress_at: Mapped[Seconds | None]
    finalizing_at: Mapped[Seconds | None]
    completed_at: Mapped[Seconds | None]
    failed_at: Mapped[Seconds | None]
    expired_at: Mapped[Seconds | None]
    cancelling_at: Mapped[Seconds | None]
    cancelled_at: Mapped[Seconds | None]

    total: Mapped[int] = mapped_column(default=0)
    completed: Mapped[int] = mapped_column(default=0)
    failed: Mapped[int] = mapped_column(default=0)
    usage: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    report: Mapped[dict[str, Any] | None] = mapped_column(JSON)

    worker: Mapped[str | None] = mapped_column(_ID)
    lease_until: Mapped[float | None]
    fruitless: Mapped[int] = mapped_column(default=0)

    def document(self) -> dict[str, Any]:
        """OpenAI's batch object; `harvest` is ours."""
        times = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "model": self.model,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": self.completion_window,
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            **{f"{name}_at": getattr(self, f"{name}_at") for name in times},
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "usage": self.usage,
            "metadata": self.request_metadata,
            "harvest": self.report,
        }
