"""The job as a Ray Data pipeline: read a span, group and order a window, infer, drop. All of it streams.

Ray Data's own checkpoint is not used: it saves a block at a time and counts failed rows as done; the journal
(batch.journal) has each row once it is finished, and a span or row that is in it is not asked for again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata

from batch import window
from batch.files import Contents
from batch.gate import Gate
from batch.inference import Inference, InferenceSpec, give_way
from batch.journal import Finished
from batch.source import Source, Span

LINES_A_CALL = 128
"""Lines that an inference actor gets at a time; it holds up to eight such calls."""


@dataclass(frozen=True)
class Input:
    """Where the rows are, and how they are windowed."""

    files_url: str
    file_id: str
    endpoint: str
    window_rows: int
    window_bytes: int
    ordered: bool = True
    deduplicated: bool = True

    def source(self) -> Source:
        opened = partial(Contents(self.files_url).open, self.file_id)
        return Source(opened, self.endpoint, self.window_rows, self.window_bytes)


class Spans(Datasource):
    """One read task a span; rows that are finished already are left out."""

    def __init__(self, input: Input, spans: list[Span], finished: Any) -> None:
        """`finished`: a reference to the array of finished rows, as of now."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._input, self._spans, self._finished = input, spans, finished

    def get_name(self) -> str:
        return "BatchRows"

    def estimate_inmemory_data_size(self) -> int:
        return self._input.window_bytes * len(self._spans)

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        size = self._input.window_bytes
        return [
            ReadTask(
                _reader(self._input, span, self._finished),
                BlockMetadata(num_rows=None, size_bytes=size, input_files=None, exec_stats=None),
                schema=window.SCHEMA,
            )
            for span in self._spans
        ]


def _reader(input: Input, span: Span, finished: Any) -> Callable[[], Iterator[pa.Table]]:
    def read() -> Iterator[pa.Table]:
        give_way()
        done = ray.get(finished)
        for requests in input.source().windows(span):
            left = [request for request in requests if not done[request.row]]
            if left:
                yield window.table(window.groups(left, input.ordered, input.deduplicated))

    return read


def run(
    input: Input, spans: list[Span], finished: Finished, inference: InferenceSpec, gate: Any, actors: int = 1
) -> Iterator[int]:
    """Run the pipeline; yields the rows finished, call by call. Closing the iterator ends it. Raises Ray's."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = False
    rows = ray.data.read_datasource(
        Spans(input, spans, ray.put(finished.rows)),
        num_cpus=0.1,
        override_num_blocks=len(spans),
        concurrency=1,  # a window ahead is enough
    ).map_batches(
        Inference,
        fn_constructor_args=(inference, gate),
        batch_size=LINES_A_CALL,
        compute=ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2, max_concurrent_calls_per_actor=2),
        num_cpus=0.1,
    )
    for call in rows.iter_batches(batch_size=None, prefetch_batches=0):
        yield int(call["finished"].sum())


def make_gate() -> Any:
    """The actor that holds the gate: it dies with its maker, and the inference actors stop with it."""
    return ray.remote(Gate).options(num_cpus=0).remote()
