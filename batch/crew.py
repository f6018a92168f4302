"""The worker as an actor of the cluster, started when there is work: it costs nothing before, and ends when idle.

It is detached: the death of whoever woke it does not end it. Its own death is seen by the next look at the store.
"""

import logging
import threading
from typing import Any

import ray
from ray.exceptions import RayError
from sqlalchemy.exc import SQLAlchemyError

from batch.engine import Tier
from batch.inference import give_way
from batch.share import ShareMaker
from batch.store import Store
from batch.worker import Worker
from configs.batch import BatchConfig

log = logging.getLogger("firstclause.batch")
NAME, NAMESPACE = "batch-worker", "firstclause"
LOOK_EVERY_S = 2.0


class BatchWorker:
    """The actor: `work` until there is none, then the process ends."""

    def __init__(self, config: BatchConfig, tier: Tier, share: ShareMaker) -> None:
        give_way()
        logging.basicConfig()
        log.setLevel(logging.INFO)
        self._worker = Worker(config, tier, share.start())
        self._lock = threading.Lock()

    def work(self) -> None:
        """Called again while it works, it does nothing."""
        if not self._lock.acquire(blocking=False):
            return
        self._worker.work()
        ray.actor.exit_actor()  # type: ignore[no-untyped-call]


class Crew:
    """Looks at the store now and then, or when told to, and sees that a worker is there for what waits."""

    def __init__(self, config: BatchConfig, tier: Tier, share: ShareMaker) -> None:
        self._arguments = (config, tier, share)
        self._store = Store(config.database_url())
        self._told, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to be done."""
        self._told.set()

    def close(self) -> None:
        """Look no more; the worker goes on."""
        self._over.set()
        self._told.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.is_set():
            try:
                if self._store.waiting():
                    self._send()
            except (SQLAlchemyError, RayError, ValueError):
                log.exception("no worker could be woken; the next look is soon")
            self._told.wait(LOOK_EVERY_S)
            self._told.clear()

    def _send(self) -> None:
        actor: Any = ray.remote(BatchWorker).options(
            name=NAME, namespace=NAMESPACE, get_if_exists=True, lifetime="detached", num_cpus=0, max_concurrency=4,
        )  # fmt: skip
        actor.remote(*self._arguments).work.remote()
