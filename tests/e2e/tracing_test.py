"""Traces over OTLP: what a collector gets of requests on every surface, whatever their traceparent; a collector that is
away, hangs or refuses costs spans, which are counted, and nothing else."""

import contextlib
import importlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request
from unittest import mock

import grpc
from harness import SERVER, Server, ServerTestCase, chat_request, ids_request, main, packages, pb

import vllm_contract

with packages():
    import otlp_collector
    from otlp_collector import Collector, attributes_of
    from opentelemetry.proto.trace.v1 import trace_pb2
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    vllm_pb, vllm_grpc, _ = vllm_contract.load()
    inference_pb, inference_grpc, _, _ = vllm_contract.load_inference()

OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
SPAN_ID = "00f067aa0ba902b7"
SECRET = "a prompt that no collector may see"
# Nothing of these tests goes through a proxy, or has the names of the environment's services.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | {"no_proxy": "*"}


def traceparent(trace_id, sampled=True):
    return f"00-{trace_id}-{SPAN_ID}-0{int(sampled)}"


def trace_ids():
    number = 0
    while True:
        number += 1
        yield f"{number:032x}"


NEW_ID = trace_ids()


def post(server, path, body, headers):
    request = urllib.request.Request(f"http://{server.target}{path}", json.dumps(body).encode(),
                                     {"content-type": "application/json", **headers})
    with OPEN(request) as answer:
        return json.loads(answer.read())


def metrics(server, accept="text/plain"):
    with OPEN(urllib.request.Request(f"http://{server.target}/metrics", headers={"accept": accept})) as answer:
        return answer.read().decode()


def metric(server, name):
    """The sum of the samples of this name."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^\n]*}})? (\S+)$", metrics(server), re.MULTILINE))


def wait_for_metric(server, name, at_least, timeout=90):
    give_up = time.monotonic() + timeout
    while (value := metric(server, name)) < at_least:
        assert time.monotonic() < give_up, f"{name} is {value}"
        time.sleep(0.05)
    return value


def wait_for_log(server, text, timeout=60):
    give_up = time.monotonic() + timeout
    while text not in server.output():
        assert time.monotonic() < give_up, f"no {text} in {server.output()}"
        time.sleep(0.05)


class ContractTest(unittest.TestCase):
    def test_every_name_and_number(self):
        names = [f"opentelemetry/proto/{path}.proto" for path in
                 ("common/v1/common", "resource/v1/resource", "trace/v1/trace", "collector/trace/v1/trace_service")]
        num_compared = 0
        for name in names:
            theirs = importlib.import_module(name[:-len(".proto")].replace("/", ".") + "_pb2").DESCRIPTOR
            with tempfile.NamedTemporaryFile() as file:
                vllm_contract.run_protoc(f"-I{vllm_contract.ROOT / 'proto'}", f"--descriptor_set_out={file.name}", name)
                ours = vllm_contract.descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]
            their_file = vllm_contract.descriptor_pb2.FileDescriptorProto()
            theirs.CopyToProto(their_file)
            self.assertEqual(ours.package, their_file.package)
            found, expected = vllm_contract.file_facts(ours), vllm_contract.file_facts(their_file)
            for fact, value in found.items():
                if isinstance(value, tuple) and fact.count(".") and not value:
                    self.assertIn(fact, expected)  # a message
                else:
                    self.assertEqual(value, expected[fact], fact)
                num_compared += 1
        self.assertGreaterEqual(num_compared, 50)


class TracingTestCase(unittest.TestCase):
    RATIO = "0"

    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            cls.collector = stack.enter_context(Collector())
            stack.enter_context(mock.patch.dict(os.environ, {
                **ENVIRONMENT, "OTEL_SERVICE_NAME": "model-server",
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,team=a%2Cb,service.name=no",
                "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=blue%20sky"}, clear=True))
            cls.server = stack.enter_context(Server("--otlp-traces-endpoint", cls.collector.endpoint,
                                                    "--otlp-traces-sample-ratio", cls.RATIO))
            cls.stack = stack.pop_all()

    @classmethod
    def tearDownClass(cls):
        with cls.stack:
            code, output = cls.server.stop(), cls.server.output()
        assert code == 0, output
        assert SECRET.encode() not in b"".join(request.SerializeToString() for request in cls.collector.requests)

    def metadata(self, trace_id, *more):
        return (("traceparent", traceparent(trace_id)), *more)

    def root_of(self, trace_id):
        roots, children = self.collector.trace(trace_id)
        self.assertEqual(len(roots), 1)
        return roots[0], children[roots[0].span_id]

    def assert_sound(self, trace_id, stages=("queue", "prefill", "decode"), begin=0):
        """The root of a trace with a caller; its times, and those of its stages, are in order."""
        root, children = self.root_of(trace_id)
        self.assertEqual(root.parent_span_id.hex(), SPAN_ID)
        self.assertEqual(root.kind, trace_pb2.Span.SPAN_KIND_SERVER)
        self.assertEqual(root.flags, 0x301)
        self.assertEqual([child.name for child in children], list(stages))
        spans = [root, *children]
        self.assertEqual(len({span.span_id for span in spans}), len(spans))
        self.assertEqual({len(span.span_id) for span in spans}, {8})
        times = [root.start_time_unix_nano]
        for child in children:
            self.assertEqual((child.kind, child.flags), (trace_pb2.Span.SPAN_KIND_INTERNAL, 0x101))
            self.assertGreaterEqual(child.start_time_unix_nano, times[-1])
            times += [child.start_time_unix_nano, child.end_time_unix_nano]
        self.assertEqual(times, sorted(times))
        for one, next_one in zip(children, children[1:]):
            self.assertEqual(one.end_time_unix_nano, next_one.start_time_unix_nano)
        self.assertGreater(root.end_time_unix_nano, root.start_time_unix_nano)
        self.assertTrue(begin <= root.start_time_unix_nano and root.end_time_unix_nano <= time.time_ns())
        return root, children


class SurfacesTest(TracingTestCase):
    def test_generate(self):
        trace_id, begin = next(NEW_ID), time.time_ns()
        request = chat_request(SECRET, max_tokens=9)
        request.request_id = "my-request"
        request.stop.ignore_eos = True
        request.sampling.top_p = 0.5
        finished = [response.finished for response in self.server.inference.Generate(
            request, metadata=self.metadata(trace_id, ("tracestate", "vendor=1,other=2"))) if response.HasField("finished")]
        root, children = self.assert_sound(trace_id, begin=begin)
        self.assertEqual(root.name, "llm_request")
        self.assertEqual({span.trace_state for span in [root, *children]}, {"vendor=1,other=2"})
        self.assertEqual(root.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
        usage, timings = finished[0].usage, finished[0].timings
        attributes = attributes_of(root)
        latencies = {name: attributes.pop(name) for name in list(attributes) if ".latency." in name}
        self.assertEqual(attributes, {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "quire", "gen_ai.request.id": "my-request",
            "gen_ai.response.id": "my-request", "gen_ai.request.model": self.server.inference.GetModel(
                pb.GetModelRequest()).name,
            "gen_ai.request.max_tokens": 9, "gen_ai.request.temperature": 0.0, "gen_ai.request.top_p": 0.5,
            "gen_ai.request.n": 1, "gen_ai.response.finish_reasons": ["length"],
            "gen_ai.usage.input_tokens": usage.prompt_tokens, "gen_ai.usage.prompt_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": 9, "gen_ai.usage.completion_tokens": 9,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens, "gen_ai.usage.num_sequences": 1,
            "quire.preemptions": 0})
        for name, milliseconds in (("time_in_queue", timings.queue_ms), ("time_in_model_prefill", timings.prefill_ms),
                                   ("time_in_model_decode", timings.decode_ms)):
            self.assertAlmostEqual(latencies.pop(f"gen_ai.latency.{name}"), milliseconds / 1000, places=6)
        for child, milliseconds in zip(children, (timings.queue_ms, timings.prefill_ms, timings.decode_ms)):
            self.assertAlmostEqual((child.end_time_unix_nano - child.start_time_unix_nano) / 1e6, milliseconds, places=3)
        inference = latencies.pop("gen_ai.latency.time_in_model_inference")
        self.assertAlmostEqual(inference, (timings.prefill_ms + timings.decode_ms) / 1000, places=6)
        first, whole = (latencies.pop(f"gen_ai.latency.{name}") for name in ("time_to_first_token", "e2e"))
        self.assertTrue(0 < first <= whole)
        self.assertEqual(latencies, {})

    def test_what_sends_it(self):
        trace_id = next(NEW_ID)
        self.server.inference.GenerateOnce(ids_request([300], 2), metadata=self.metadata(trace_id))
        self.root_of(trace_id)
        index = next(i for i, request in enumerate(self.collector.requests) if trace_id in str(
            [span.trace_id.hex() for spans in request.resource_spans for scope in spans.scope_spans for span in scope.spans]))
        spans = self.collector.requests[index].resource_spans[0]
        resource = attributes_of(spans.resource)
        self.assertEqual(resource.pop("service.version"), spans.scope_spans[0].scope.version)
        self.assertEqual(resource, {"service.name": "model-server", "deployment.environment.name": "test", "team": "a,b"})
        self.assertEqual(spans.scope_spans[0].scope.name, "quire")
        self.assertEqual(self.collector.metadata[index]["x-tenant"], "blue sky")

    def test_generate_once_with_a_stop_string(self):
        trace_id = next(NEW_ID)
        request = ids_request([300, 301, 302], 30)
        request.stop.stop_strings.append(self.server.inference.GenerateOnce(request).choices[0].text[6:9])
        answer = self.server.inference.GenerateOnce(request, metadata=self.metadata(trace_id))
        attributes = attributes_of(self.assert_sound(trace_id)[0])
        self.assertEqual(attributes["gen_ai.response.finish_reasons"], ["stop"])
        self.assertEqual(attributes["gen_ai.usage.output_tokens"], answer.choices[0].finished.usage.completion_tokens)

    def test_continuations(self):
        trace_id = next(NEW_ID)
        request = ids_request([300, 301], 4)
        request.sampling.n = 3
        request.sampling.temperature = 1
        list(self.server.inference.Generate(request, metadata=self.metadata(trace_id)))
        root, children = self.root_of(trace_id)
        self.assertEqual([(child.name, attributes_of(child)["quire.continuation"]) for child in children],
                         [(name, i) for i in range(3) for name in ("queue", "prefill", "decode")])
        self.assertEqual(attributes_of(root)["gen_ai.usage.output_tokens"], 12)
        self.assertEqual(attributes_of(root)["gen_ai.usage.num_sequences"], 3)

    def test_vllm_engine(self):
        trace_id = next(NEW_ID)
        stub = vllm_grpc.VllmEngineStub(self.server.channel)
        request = vllm_pb.GenerateRequest(
            request_id="engine-1", tokenized=vllm_pb.TokenizedInput(input_ids=[300, 301]), stream=True,
            sampling_params=vllm_pb.SamplingParams(ignore_eos=True, max_tokens=5))
        list(stub.Generate(request, metadata=self.metadata(trace_id)))
        attributes = attributes_of(self.assert_sound(trace_id)[0])
        self.assertEqual((attributes["gen_ai.request.id"], attributes["gen_ai.usage.completion_tokens"]), ("engine-1", 5))

    def test_vllm_inference(self):
        trace_id = next(NEW_ID)
        stub = inference_grpc.InferenceStub(self.server.channel)
        request = inference_pb.GenerateRequest(text=SECRET)
        request.stopping.max_new_tokens = 5
        stub.Generate(request, metadata=self.metadata(trace_id))
        self.assert_sound(trace_id)

    def test_openai(self):
        for path, body in (("/v1/completions", {"prompt": SECRET}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": SECRET}]})):
            trace_id = next(NEW_ID)
            answer = post(self.server, path, {**body, "max_tokens": 4, "ignore_eos": True},
                          {"Traceparent": traceparent(trace_id), "tracestate": "a=b"})
            root, _ = self.assert_sound(trace_id)
            attributes = attributes_of(root)
            self.assertEqual(attributes["gen_ai.usage.output_tokens"], answer["usage"]["completion_tokens"])
            self.assertEqual(attributes["gen_ai.operation.name"], "chat" if "chat" in path else "text_completion")
            self.assertEqual(root.trace_state, "a=b")

    def test_each_prompt_of_a_long_call_is_a_request(self):
        trace_id = next(NEW_ID)
        post(self.server, "/v1/completions", {"prompt": [SECRET * 150, SECRET * 160], "max_tokens": 1},
             {"traceparent": traceparent(trace_id)})
        roots, _ = self.collector.trace(trace_id, roots=2)
        self.assertEqual({root.parent_span_id.hex() for root in roots}, {SPAN_ID})
        self.assertEqual(len({root.span_id for root in roots}), 2)

    def test_the_access_log(self):
        trace_id, other, silent = next(NEW_ID), next(NEW_ID), next(NEW_ID)
        self.server.inference.GenerateOnce(ids_request([300], 2), metadata=self.metadata(trace_id))
        self.server.inference.GetModel(pb.GetModelRequest(), metadata=self.metadata(other))
        post(self.server, "/v1/completions", {"prompt": "a", "max_tokens": 1}, {"traceparent": traceparent(silent, False)})
        for one in (trace_id, other, silent):
            wait_for_log(self.server, f"trace_id={one} ")

    def test_exemplars(self):
        trace_id = next(NEW_ID)
        self.server.inference.GenerateOnce(ids_request([300], 3), metadata=self.metadata(trace_id))
        root, children = self.root_of(trace_id)
        families = text_string_to_metric_families(metrics(self.server, "application/openmetrics-text"))
        found = [(family.name, sample) for family in families for sample in family.samples if sample.exemplar]
        ours = {name: sample.exemplar.value for name, sample in found
                if sample.exemplar.labels == {"trace_id": trace_id, "span_id": root.span_id.hex()}}
        self.assertIn("vllm:e2e_request_latency_seconds", ours)
        prefill = next(child for child in children if child.name == "prefill")
        if "vllm:request_prefill_time_seconds" in ours:  # unless another test's request has the bucket by now
            seconds = (prefill.end_time_unix_nano - prefill.start_time_unix_nano) / 1e9
            self.assertAlmostEqual(ours["vllm:request_prefill_time_seconds"], seconds, places=6)
        for _, sample in found:
            self.assertLessEqual(sample.exemplar.value, float(sample.labels["le"]))
            self.assertLessEqual(float(sample.exemplar.timestamp), time.time())
        self.assertEqual({name.partition(":")[2] for name, _ in found}, {
            "time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
            "request_prefill_time_seconds", "request_decode_time_seconds", "request_inference_time_seconds"})
        self.assertNotIn("trace_id", metrics(self.server))


class EndsTest(TracingTestCase):
    def test_cancelled(self):
        trace_id = next(NEW_ID)
        stream = self.server.inference.Generate(ids_request([300], 4000), metadata=self.metadata(trace_id))
        next(stream)
        next(stream)
        stream.cancel()
        root, _ = self.assert_sound(trace_id)
        self.assertEqual((root.status.code, root.status.message), (trace_pb2.Status.STATUS_CODE_ERROR, "CANCELLED"))
        self.assertEqual(attributes_of(root)["error.type"], "cancelled")
        self.assertEqual(attributes_of(root)["gen_ai.response.finish_reasons"], ["abort"])

    def test_refused(self):
        trace_id = next(NEW_ID)
        request = pb.GenerateRequest()
        request.text.text = SECRET
        request.stop.max_tokens = -1
        with self.assertRaises(grpc.RpcError):
            list(self.server.inference.Generate(request, metadata=self.metadata(trace_id)))
        root, _ = self.assert_sound(trace_id, stages=())
        self.assertEqual((root.status.code, root.status.message),
                         (trace_pb2.Status.STATUS_CODE_ERROR, "INVALID_ARGUMENT"))

    def test_what_the_caller_does_not_want(self):
        trace_id, marker = next(NEW_ID), next(NEW_ID)
        before = len(self.collector.spans())
        self.server.inference.GenerateOnce(ids_request([300], 2), metadata=(("traceparent", traceparent(trace_id, False)),))
        self.server.inference.GenerateOnce(ids_request([300], 2))  # the ratio is 0
        # None of these is one; nor is a header that comes twice.
        hostile = ["", "00", "00-" + "0" * 32 + f"-{SPAN_ID}-01", f"00-{trace_id}-{'0' * 16}-01", f"ff-{trace_id}-{SPAN_ID}-01",
                   f"00-{trace_id}-{SPAN_ID}-01-more", f"00-{trace_id.upper()[:-1]}G-{SPAN_ID}-01", "0" * 4000,
                   f"00-{trace_id[:-1]}A-{SPAN_ID}-01", f"00_{trace_id}_{SPAN_ID}_01", "\"; DROP %s%n"]
        for value in hostile:
            self.server.inference.GenerateOnce(ids_request([300], 2), metadata=(("traceparent", value),))
            post(self.server, "/v1/completions", {"prompt": "a", "max_tokens": 1}, {"traceparent": value})
        twice = ("traceparent", traceparent(trace_id)), ("traceparent", traceparent(next(NEW_ID)))
        self.server.inference.GenerateOnce(ids_request([300], 2), metadata=twice)
        self.server.inference.GenerateOnce(ids_request([300], 2), metadata=self.metadata(marker, ("tracestate", "=")))
        root, children = self.assert_sound(marker)
        self.assertEqual(root.trace_state, "")
        # They are exported in the order of their ends.
        self.assertEqual(self.collector.spans()[before:], [root, *children])


class RootsTest(TracingTestCase):
    RATIO = "1"

    def test_a_request_without_a_caller_begins_a_trace(self):
        self.server.inference.GenerateOnce(ids_request([300], 2))
        self.collector.wait_for(lambda collector: collector.spans())
        root = self.collector.spans()[0]
        self.assertEqual((root.parent_span_id, len(root.trace_id), root.flags), (b"", 16, 0x101))
        wait_for_log(self.server, f"trace_id={root.trace_id.hex()} ")
        answer = post(self.server, "/v1/completions", {"prompt": ["a", "b"], "max_tokens": 1}, {})
        self.assertEqual(len(answer["choices"]), 2)
        self.collector.wait_for(lambda collector: sum(span.name == "llm_request" for span in collector.spans()) == 3)
        ids = {span.trace_id for span in self.collector.spans()}
        self.assertEqual(len(ids), 2)  # the prompts of one call have one trace


class TroubleTest(unittest.TestCase):
    @contextlib.contextmanager
    def served(self, endpoint, **variables):
        with mock.patch.dict(os.environ, {**ENVIRONMENT, **variables}, clear=True), \
                Server("--otlp-traces-endpoint", endpoint, "--shutdown-timeout", "5") as server:
            yield server
            # Nobody else was held up by it, and the end does not wait for it for long.
            self.assertEqual(len(server.inference.GenerateOnce(ids_request([300], 3)).choices[0].token_ids), 3)
            self.assertEqual(server.stop(timeout=20), 0, server.output())

    def test_a_collector_that_is_away(self):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))  # and nobody listens
            with self.served(f"http://127.0.0.1:{reserved.getsockname()[1]}") as server:
                server.inference.GenerateOnce(ids_request([300], 3))
                self.assertEqual(wait_for_metric(server, "quire_trace_spans_dropped_total", 4), 4)
                wait_for_log(server, "spans are lost")
                self.assertEqual(metric(server, "quire_trace_spans_exported_total"), 0)

    def test_one_that_comes_back(self):
        with Collector() as collector:
            collector.refuse(grpc.StatusCode.UNAVAILABLE, times=2)
            with self.served(collector.endpoint) as server:
                server.inference.GenerateOnce(ids_request([300], 3))
                collector.wait_for(lambda collector: len(collector.spans()) == 4)
                self.assertEqual(collector.num_calls, 3)
                self.assertEqual(metric(server, "quire_trace_spans_dropped_total"), 0)
                wait_for_metric(server, "quire_trace_spans_exported_total", 4)

    def test_one_that_hangs(self):
        with Collector() as collector:
            collector.hang()
            with self.served(collector.endpoint) as server:
                server.inference.GenerateOnce(ids_request([300], 3))
                collector.wait_for(lambda collector: collector.num_calls == 1)

    def test_one_that_never_speaks(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, \
                self.served(f"grpc://127.0.0.1:{listener.getsockname()[1]}") as server:
            server.inference.GenerateOnce(ids_request([300], 3))
            listener.accept()[0].close()

    def test_one_that_is_slower_than_the_requests(self):
        with Collector() as collector:
            collector.hang()
            with self.served(collector.endpoint) as server:
                request = ids_request([300], 1)
                request.sampling.n = 128
                request.sampling.temperature = 1
                server.inference.GenerateOnce(request)
                collector.wait_for(lambda collector: collector.num_calls == 1)
                for _ in range(8192 // 385 + 1):
                    server.inference.GenerateOnce(request)
                wait_for_metric(server, "quire_trace_spans_dropped_total", 385)
                self.assertRegex(metrics(server), 'dropped_total{.*reason="queue_full"} 385\n')

    def test_one_that_refuses(self):
        with Collector() as collector:
            collector.refuse(grpc.StatusCode.UNAUTHENTICATED)
            with self.served(collector.endpoint) as server:
                server.inference.GenerateOnce(ids_request([300], 3))
                wait_for_metric(server, "quire_trace_spans_dropped_total", 4)
                self.assertEqual(collector.num_calls, 1)  # there is no use in trying again
                wait_for_log(server, "UNAUTHENTICATED not now")

    def test_one_that_does_not_want_some(self):
        with Collector() as collector:
            answer = otlp_collector.service_pb.ExportTraceServiceResponse()
            answer.partial_success.rejected_spans = 3
            collector.answer = lambda context: answer
            with self.served(collector.endpoint) as server:
                server.inference.GenerateOnce(ids_request([300], 3))
                wait_for_metric(server, "quire_trace_spans_exported_total", 1)
                wait_for_metric(server, "quire_trace_spans_dropped_total", 3)

    def test_what_is_no_collector(self):
        with self.served("http://127.0.0.1:1") as other, self.served(f"http://{other.target}") as server:
            server.inference.GenerateOnce(ids_request([300], 3))  # UNIMPLEMENTED, or without a key UNAUTHENTICATED
            wait_for_metric(server, "quire_trace_spans_dropped_total", 4)

    def test_the_last_spans_are_sent_at_the_end(self):
        with Collector() as collector:
            with self.served(collector.endpoint) as server:
                server.inference.GenerateOnce(ids_request([300], 3))
            self.assertEqual(len(collector.spans()), 8)

    def test_what_still_runs_at_the_end(self):
        with Collector() as collector:
            with mock.patch.dict(os.environ, ENVIRONMENT, clear=True), \
                    Server("--otlp-traces-endpoint", collector.endpoint, "--shutdown-timeout", "0") as server:
                stream = server.inference.Generate(ids_request([300], 4000))
                next(stream)
                next(stream)
                self.assertEqual(server.stop(timeout=20), 0, server.output())
            root = next(span for span in collector.spans() if span.name == "llm_request")
            self.assertEqual(root.status.message, "UNAVAILABLE")
            self.assertEqual(len(collector.spans()), 4)


class TlsTest(unittest.TestCase):
    def test_a_certificate_that_is_trusted(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout",
                            key, "-out", certificate], check=True, capture_output=True)
            with open(key, "rb") as key_file, open(certificate, "rb") as certificate_file:
                credentials = grpc.ssl_server_credentials([(key_file.read(), certificate_file.read())])
            for trusts in (True, False):
                variables = {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": certificate} if trusts else {}
                with Collector(credentials=credentials) as collector, \
                        mock.patch.dict(os.environ, {**ENVIRONMENT, **variables}, clear=True), \
                        Server("--otlp-traces-endpoint", collector.endpoint) as server:
                    server.inference.GenerateOnce(ids_request([300], 3))
                    outcome = "exported" if trusts else "dropped"
                    self.assertEqual(wait_for_metric(server, f"quire_trace_spans_{outcome}_total", 4), 4)
                    self.assertEqual(len(collector.spans()), 4 if trusts else 0)
                    self.assertEqual(server.stop(), 0)


class WithoutTest(ServerTestCase):
    def test_nothing_is_there(self):
        trace_id = next(NEW_ID)
        self.server.inference.GenerateOnce(ids_request([300], 3), metadata=(("traceparent", traceparent(trace_id)),))
        tasks = pathlib.Path(f"/proc/{self.server.process.pid}/task")
        names = {task.joinpath("comm").read_text().strip() for task in tasks.iterdir()}
        self.assertIn("quire-output", names)
        self.assertNotIn("quire-traces", names)
        self.assertNotIn("trace_id", metrics(self.server, "application/openmetrics-text"))

    def test_settings_that_are_none(self):
        for endpoint, variables, sentence in (
                ("collector:4317", {}, "--otlp-traces-endpoint: \"collector:4317\" begins with none of"),
                ("http://", {}, "--otlp-traces-endpoint: \"http://\" is no URL"),
                ("http://a:1/v1/traces", {}, "has more than a host and a port"),
                ("http://a:1", {"OTEL_EXPORTER_OTLP_HEADERS": "authorization"}, "OTEL_EXPORTER_OTLP_HEADERS: write"),
                ("http://a:1", {"OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac: d"}, "values are printable"),
                ("http://a:1", {"OTEL_RESOURCE_ATTRIBUTES": "team=%GG"}, "OTEL_RESOURCE_ATTRIBUTES: write")):
            ended = subprocess.run([SERVER, "--host", "127.0.0.1", "--port", "0", "--otlp-traces-endpoint", endpoint],
                                   env={**ENVIRONMENT, **variables}, capture_output=True, text=True, timeout=60)
            self.assertEqual(ended.returncode, 64, ended.stderr)
            self.assertIn(sentence, ended.stderr)


if __name__ == "__main__":
    main()
