"""Files and batches."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SECONDS = sa.BigInteger
_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


def upgrade() -> None:
    op.create_table(
        "files",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("filename", sa.String(512), nullable=False),
        sa.Column("purpose", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("deleted_at", _SECONDS),
    )
    op.create_index("files_of_tenant", "files", ["tenant", "created_at", "id"])
    op.create_table(
        "batches",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("endpoint", sa.String(64), nullable=False),
        sa.Column("model", sa.String(512)),
        sa.Column("input_file_id", sa.String(64), nullable=False),
        sa.Column("output_file_id", sa.String(64)),
        sa.Column("error_file_id", sa.String(64)),
        sa.Column("completion_window", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("errors", sa.JSON),
        sa.Column("request_metadata", sa.JSON),
        sa.Column("idempotency_key", sa.String(512)),
        sa.Column("request_hash", sa.String(64), nullable=False),
        sa.Column("created_at", _SECONDS, nullable=False),
        sa.Column("expires_at", _SECONDS, nullable=False),
        *(sa.Column(f"{name}_at", _SECONDS) for name in _TIMES),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("completed", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("usage", sa.JSON),
        sa.Column("report", sa.JSON),
        sa.Column("worker", sa.String(64)),
        sa.Column("lease_until", sa.Float),
        sa.Column("fruitless", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("tenant", "idempotency_key"),
    )
    op.create_index("batches_of_tenant", "batches", ["tenant", "created_at", "id"])
    op.create_index("batches_to_do", "batches", ["status", "expires_at"])


def downgrade() -> None:
    op.drop_table("batches")
    op.drop_table("files")
