"""Spans reach a collector over OTLP, under the caller's own, and hand their context on."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from telemetry.tracing import Tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(TraceServiceServicer):
    def __init__(self) -> None:
        self.spans: list[Any] = []

    def Export(self, request: Any, context: Any) -> Any:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return ExportTraceServiceResponse()


def test_a_span_is_under_its_callers_and_above_the_engines() -> None:
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        tracing = Tracing(f"http://127.0.0.1:{port}")
        with tracing.span("gateway", {"traceparent": f"00-{TRACE}-{PARENT}-01"}) as span:
            version, trace, own, _ = span.headers()["traceparent"].split("-")
        tracing.close()
    finally:
        server.stop(0)
    (sent,) = collector.spans
    assert (version, trace) == ("00", TRACE) and sent.trace_id.hex() == TRACE
    assert (sent.parent_span_id.hex(), sent.span_id.hex()) == (PARENT, own)


def test_without_an_endpoint_nothing_is_traced() -> None:
    tracing = Tracing(None)
    with tracing.span("gateway", {"traceparent": f"00-{TRACE}-{PARENT}-01"}) as span:
        assert span.headers() == {}
    tracing.close()
