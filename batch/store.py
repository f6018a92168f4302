"""The batch store: files' and batches' records, in SQLite or PostgreSQL. Tenants see only their own.

The API's side and the worker's side meet only here. A worker holds a batch by a lease; each of its writes says whose
they are, so that a worker that was given up for dead changes nothing any more.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Select, and_, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import batch
from batch import lifecycle
from batch.errors import Conflict, Invalid, LeaseLost, NotFound
from batch.lifecycle import LIVE, Status, WrongStatus
from batch.tables import Batch, StoredFile
from configs.database import open_database

MAX_FRUITLESS = 10
"""A batch that so many workers took up, none finishing a row, kills its workers."""
BUSY_TIMEOUT_S = 30
Row = TypeVar("Row", StoredFile, Batch)


def migrate(url: str) -> None:
    """Bring the database at `url` (SQLAlchemy's) to the newest tables; made if it is not there."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(batch.__path__[0]) / "migrations"))
    engine = open_database(url, BUSY_TIMEOUT_S, poolclass=NullPool)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    engine.dispose()


class Store:
    """`clock` gives seconds since 1970. Its methods block: call them from a thread."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._engine, self._clock = open_database(url, BUSY_TIMEOUT_S, poolclass=NullPool), clock

    # The API's side

    def add_file(self, tenant: str, filename: str, purpose: str, size_bytes: int, id: str | None = None) -> StoredFile:
        """Record a file whose contents are there. The same `id` again replaces its record."""
        file = StoredFile(
            id=id or new_file_id(), tenant=tenant, filename=filename, purpose=purpose, bytes=size_bytes,
            created_at=self._now(), deleted_at=None,
        )  # fmt: skip
        with self._session() as session, session.begin():
            return session.merge(file)

    def file(self, tenant: str, id: str) -> StoredFile:
        """Raises NotFound."""
        with self._session() as session:
            return _file(session, tenant, id)

    def files(
        self, tenant: str, limit: int, after: str | None, purpose: str | None, newest_first: bool
    ) -> list[StoredFile]:
        """A page of a tenant's files. Raises NotFound for an `after` that is not there."""
        query = select(StoredFile).where(StoredFile.tenant == tenant, StoredFile.deleted_at.is_(None))
        if purpose is not None:
            query = query.where(StoredFile.purpose == purpose)
        with self._session() as session:
            last = _file(session, tenant, after) if after else None
            return _page(session, query, StoredFile, last, limit, newest_first)

    def delete_file(self, tenant: str, id: str) -> None:
        """Forget a file; its contents stay as long as a live batch reads them. Raises NotFound."""
        with self._session() as session, session.begin():
            _file(session, tenant, id).deleted_at = self._now()

    def create_batch(
        self, tenant: str, endpoint: str, input_file_id: str, completion_window: str,
        metadata: dict[str, str] | None = None, idempotency_key: str | None = None,
    ) -> Batch:  # fmt: skip
        """A new batch, or the one that the same key and request made. Raises NotFound, Invalid or Conflict."""
        try:
            window_s = lifecycle.window_s(completion_window)
        except ValueError as error:
            raise Invalid(str(error), "invalid_completion_window", "completion_window") from error
        request = [endpoint, input_file_id, completion_window, metadata]
        request_hash = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        now = self._now()
        made = Batch(
            id=f"batch_{uuid.uuid4().hex}", tenant=tenant, endpoint=endpoint, input_file_id=input_file_id,
            completion_window=completion_window, status="validating", request_metadata=metadata,
            idempotency_key=idempotency_key, request_hash=request_hash, created_at=now, expires_at=now + window_s,
        )  # fmt: skip
        try:
            with self._session() as session, session.begin():
                if idempotency_key and (before := _by_key(session, tenant, idempotency_key)):
                    return _same(before, request_hash)
                if (purpose := _file(session, tenant, input_file_id).purpose) != "batch":
                    raise Invalid(f"purpose = {purpose!r}: not a file for batches", "invalid_purpose", "input_file_id")
                session.add(made)
        except IntegrityError:
            with self._session() as session:  # another request with this key was faster
                before = _by_key(session, tenant, idempotency_key or "")
                if before is None:
                    raise
                return _same(before, request_hash)
        return made

    def batch(self, tenant: str, id: str) -> Batch:
        """Raises NotFound."""
        with self._session() as session:
            return _batch(session, tenant, id)

    def batches(self, tenant: str, limit: int, after: str | None) -> list[Batch]:
        """A page of a tenant's batches, newest first. Raises NotFound for an `after` that is not there."""
        with self._session() as session:
            last = _batch(session, tenant, after) if after else None
            return _page(session, select(Batch).where(Batch.tenant == tenant), Batch, last, limit, True)

    def cancel(self, tenant: str, id: str) -> Batch:
        """Ask for a batch's end. Raises NotFound, or Conflict where it ended otherwise."""
        while True:
            with self._session() as session, session.begin():
                batch = _batch(session, tenant, id)
                before = batch.status
                try:
                    after = lifecycle.cancelled(before)
                except WrongStatus as error:
                    raise Conflict(str(error), "invalid_status") from error
                if after == before:
                    return batch
                values = {"status": after, "cancelling_at": self._now()}
                changed = session.execute(
                    update(Batch).where(Batch.id == id, Batch.status == before).values(values)
                ).rowcount  # type: ignore[attr-defined]
            if changed:
                return self.batch(tenant, id)

    # The worker's side

    def waiting(self) -> int:
        """Batches with work to be done that no worker holds."""
        with self._session() as session:
            return len(session.scalars(self._free(select(Batch.id))).all())

    def claim(self, worker: str, lease_s: float, only_ending: bool = False) -> Batch | None:
        """Take the free batch with the nearest deadline, or None; `only_ending`: of those cancelled or past it."""
        query = self._free(select(Batch))
        if only_ending:
            query = query.where(or_(Batch.status == "cancelling", Batch.expires_at <= self._now()))
        with self._session() as session, session.begin():
            found = session.scalars(query.order_by(Batch.expires_at, Batch.id).limit(1)).first()
            if found is None:
                return None
            until = self._clock() + lease_s
            taken = session.execute(
                self._free(update(Batch).where(Batch.id == found.id)).values(
                    worker=worker, lease_until=until, fruitless=Batch.fruitless + 1
                )
            ).rowcount  # type: ignore[attr-defined]
        return self._held(found.id, worker) if taken else None

    def renew(
        self, id: str, worker: str, lease_s: float, completed: int = 0, failed: int = 0,
        report: dict[str, Any] | None = None,
    ) -> Batch:  # fmt: skip
        """Hold a batch for longer, and say how far it is: counts never go down. Raises LeaseLost."""
        with self._session() as session, session.begin():
            batch = _locked(session, id, worker)
            batch.lease_until = self._clock() + lease_s
            if completed + failed > batch.completed + batch.failed:
                batch.fruitless = 0
            batch.completed, batch.failed = max(batch.completed, completed), max(batch.failed, failed)
            batch.report = report or batch.report
        return batch

    def advance(self, id: str, worker: str, status: Status, **values: Any) -> Batch:
        """Move a held batch on, with other columns' `values`. Raises LeaseLost, WrongStatus."""
        with self._session() as session, session.begin():
            batch = _locked(session, id, worker)
            lifecycle.check(batch.status, status)
            for name, value in {"status": status, f"{status}_at": self._now(), **values}.items():
                setattr(batch, name, value)
            if status not in LIVE:
                batch.worker = batch.lease_until = None
        return batch

    def release(self, id: str, worker: str, retry_in_s: float = 0) -> None:
        """Let a batch go, to be taken up after a while: no death of its worker. Nothing happens if it is another's."""
        with self._session() as session, session.begin():
            session.execute(
                update(Batch)
                .where(Batch.id == id, Batch.worker == worker)
                .values(worker=None, lease_until=self._clock() + retry_in_s, fruitless=Batch.fruitless - 1)
            )

    def unused_contents(self) -> list[str]:
        """Deleted files whose contents no live batch reads any more; each is named once."""
        with self._session() as session, session.begin():
            gone = session.scalars(select(StoredFile).where(StoredFile.deleted_at.is_not(None))).all()
            unused = [file for file in gone if not _read_by_live_batch(session, file.id)]
            for file in unused:
                session.delete(file)
            return [file.id for file in unused]

    def _free(self, statement: Any) -> Any:
        ended = or_(Batch.lease_until.is_(None), Batch.lease_until < self._clock())
        return statement.where(Batch.status.in_(LIVE), ended)

    def _held(self, id: str, worker: str) -> Batch | None:
        with self._session() as session:
            return session.scalars(select(Batch).where(Batch.id == id, Batch.worker == worker)).first()

    def _session(self) -> Session:
        return Session(self._engine, expire_on_commit=False)

    def _now(self) -> int:
        return int(self._clock())


def new_file_id() -> str:
    return f"file-{uuid.uuid4().hex}"


def _file(session: Session, tenant: str, id: str) -> StoredFile:
    file = session.get(StoredFile, id)
    if file is None or file.tenant != tenant or file.deleted_at is not None:
        raise NotFound("file", id)
    return file


def _batch(session: Session, tenant: str, id: str) -> Batch:
    batch = session.get(Batch, id)
    if batch is None or batch.tenant != tenant:
        raise NotFound("batch", id)
    return batch


def _locked(session: Session, id: str, worker: str) -> Batch:
    batch = session.get(Batch, id, with_for_update=True)
    if batch is None or batch.worker != worker:
        raise LeaseLost(id)
    return batch


def _by_key(session: Session, tenant: str, key: str) -> Batch | None:
    return session.scalars(select(Batch).where(Batch.tenant == tenant, Batch.idempotency_key == key)).first()


def _same(before: Batch, request_hash: str) -> Batch:
    if before.request_hash != request_hash:
        raise Conflict("this Idempotency-Key was used for another request", "idempotency_key_reused")
    return before


def _read_by_live_batch(session: Session, id: str) -> bool:
    reads = select(Batch.id).where(Batch.input_file_id == id, Batch.status.in_(LIVE)).limit(1)
    return session.scalars(reads).first() is not None


def _page(
    session: Session, query: Select[Any], table: type[Row], last: Row | None, limit: int, newest_first: bool
) -> list[Row]:
    at, id = table.created_at, table.id
    if last is not None:
        beyond = (at < last.created_at) if newest_first else (at > last.created_at)
        tie = (id < last.id) if newest_first else (id > last.id)
        query = query.where(or_(beyond, and_(at == last.created_at, tie)))
    order = (at.desc(), id.desc()) if newest_first else (at, id)
    return list(session.scalars(query.order_by(*order).limit(limit)).all())
