"""An OpenTelemetry collector for tests: grpcio's server with the messages of the package opentelemetry-proto. What it
has taken can be waited for; what it does with a call can be changed while it runs."""

import collections
import threading
from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service_pb

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def value_of(any_value):
    kind = any_value.WhichOneof("value")
    value = getattr(any_value, kind)
    return [value_of(one) for one in value.values] if kind == "array_value" else value


def attributes_of(message):
    pairs = [(attribute.key, value_of(attribute.value)) for attribute in message.attributes]
    assert len(dict(pairs)) == len(pairs), f"an attribute twice: {pairs}"
    return dict(pairs)


class Collector(grpc.GenericRpcHandler):
    """A context manager. `answer` is called with the context of each call and returns the response, or ends the call."""

    def __init__(self, port=0, credentials=None):
        self.requests, self.metadata = [], []
        self.num_calls = 0
        self.answer = lambda context: service_pb.ExportTraceServiceResponse()
        self.changed = threading.Condition()
        self.released = threading.Event()  # calls that hang end
        self.pool = futures.ThreadPoolExecutor(4)
        self.server = grpc.server(self.pool, handlers=[self])
        if credentials:
            self.port = self.server.add_secure_port(f"localhost:{port}", credentials)
        else:
            self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.endpoint = f"https://localhost:{self.port}" if credentials else f"http://127.0.0.1:{self.port}"

    def service(self, details):
        if details.method != METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(
            self._export, service_pb.ExportTraceServiceRequest.FromString,
            service_pb.ExportTraceServiceResponse.SerializeToString)

    def _export(self, request, context):
        with self.changed:
            self.num_calls += 1
            self.changed.notify_all()
        answer = self.answer(context)
        with self.changed:
            self.requests.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            self.changed.notify_all()
        return answer

    def refuse(self, code, times=None):
        """Answers with `code`, or does so for so many calls."""
        left = collections.deque([None] * times) if times else None

        def answer(context):
            if left is None or left:
                if left:
                    left.pop()
                context.abort(code, "not now")
            return service_pb.ExportTraceServiceResponse()

        self.answer = answer

    def hang(self):
        def answer(context):
            self.released.wait()
            context.abort(grpc.StatusCode.CANCELLED, "released")

        self.answer = answer

    def spans(self):
        return [span for request in self.requests for spans in request.resource_spans
                for scope in spans.scope_spans for span in scope.spans]

    def wait_for(self, condition, timeout=60):
        """Waits until `condition` of this collector holds."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), timeout), "the collector waits in vain"

    def trace(self, trace_id, roots=1):
        """(root spans, their children by root's id) of a trace, once it has so many roots."""
        def found(_=None):
            return [span for span in self.spans() if span.trace_id.hex() == trace_id and span.name == "llm_request"]

        self.wait_for(lambda _: len(found()) >= roots)
        spans = [span for span in self.spans() if span.trace_id.hex() == trace_id]
        children = collections.defaultdict(list)
        for span in spans:
            children[span.parent_span_id].append(span)
        return found(), children

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *unused):
        self.released.set()
        self.server.stop(None)
        self.pool.shutdown(wait=False)
