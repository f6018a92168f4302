"""OpenTelemetry spans, where an endpoint is configured; otherwise nothing is imported and nothing is done.

The engine's own span is vLLM's (its `otlp_traces_endpoint`), a child of what `headers` says.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Span:
    """Nothing is traced."""

    def headers(self) -> dict[str, str]:
        """The trace context for the next one on the way."""
        return {}


class _Traced(Span):
    def headers(self) -> dict[str, str]:
        from opentelemetry.propagate import inject

        carrier: dict[str, str] = {}
        inject(carrier)
        return carrier


class Tracing:
    """One a process. `endpoint`: OTLP over gRPC, as http://host:4317."""

    def __init__(self, endpoint: str | None, service: str = "firstclause") -> None:
        self._tracer: Any = None
        self._provider: Any = None
        if endpoint is None:
            return
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
        insecure = endpoint.startswith("http://")
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=insecure)))
        self._provider, self._tracer = provider, provider.get_tracer(service)

    def close(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()

    @contextmanager
    def span(self, name: str, headers: Mapping[str, str]) -> Iterator[Span]:
        """A span under the caller's, if its headers (lower case) name one."""
        if self._tracer is None:
            yield Span()
            return
        from opentelemetry.propagate import extract

        with self._tracer.start_as_current_span(name, context=extract(headers)):
            yield _Traced()
