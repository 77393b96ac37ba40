"""vllm.grpc.engine.VllmEngine, called with the stubs that routers use (smg-grpc-proto): the contract itself, requests,
answers, errors, and what a router asks beside them."""

import hashlib
import io
import json
import math
import tempfile
import threading
import time
import unittest
import zipfile

import grpc
from harness import ROOT, Server, ServerTestCase, health_pb, ids_request, main, packages, pb as quire_pb

import vllm_contract

with packages():
    pb, pb_grpc, common = vllm_contract.load()

CODE = grpc.StatusCode
PROMPT = [281, 265, 532, 283, 271, 286, 817]


def request(ids=PROMPT, stream=True, **params):
    params.setdefault("temperature", 0)
    params.setdefault("max_tokens", 8)
    return pb.GenerateRequest(tokenized=pb.TokenizedInput(input_ids=ids), stream=stream,
                              sampling_params=pb.SamplingParams(ignore_eos=True, **params))


class EngineTestCase(ServerTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stub = pb_grpc.VllmEngineStub(cls.server.channel)

    def answers(self, message):
        """By index: (chunks, complete)."""
        outputs = {}
        for response in self.stub.Generate(message):
            part = getattr(response, response.WhichOneof("response"))
            chunks, completes = outputs.setdefault(part.index, ([], []))
            (chunks if response.HasField("chunk") else completes).append(part)
        for _, completes in outputs.values():
            self.assertEqual(len(completes), 1)
        return {index: (chunks, completes[0]) for index, (chunks, completes) in outputs.items()}

    def answer(self, message):
        answers = self.answers(message)
        self.assertEqual(list(answers), [0])
        return answers[0]


class ContractTest(EngineTestCase):
    def test_every_message_and_number(self):
        ours, theirs = vllm_contract.facts(*vllm_contract.OURS), vllm_contract.facts(*vllm_contract.theirs())
        handle = "smg.grpc.common.RemoteTensorHandle."
        ours[handle + "descriptor"] = ours.pop(handle + "descriptor_bytes")  # a name that C++ has taken
        self.assertEqual(ours, theirs)
        self.assertGreater(len(theirs), 300)

    def test_engines_that_this_is_not(self):
        for service in ("sglang.grpc.scheduler.SglangScheduler", "trtllm.TrtllmService", "mlx.grpc.engine.MlxEngine"):
            call = self.server.channel.unary_unary(f"/{service}/HealthCheck")
            self.assert_status(CODE.UNIMPLEMENTED, "no such method", lambda call=call: call(b""))

    def test_health_of_the_service(self):
        answer = self.server.health.Check(health_pb.HealthCheckRequest(service="vllm.grpc.engine.VllmEngine"))
        self.assertEqual(answer.status, health_pb.HealthCheckResponse.SERVING)


class GenerateTest(EngineTestCase):
    def expected_ids(self, max_tokens):
        return self.generate(ids_request(PROMPT, max_tokens)).ids

    def test_streamed(self):
        chunks, complete = self.answer(request(max_tokens=12))
        ids = [token for chunk in chunks for token in chunk.token_ids]
        self.assertEqual(ids, self.expected_ids(12))
        self.assertGreater(len(chunks), 1)
        for chunk in chunks:
            self.assertEqual((chunk.prompt_tokens, chunk.completion_tokens), (len(PROMPT), len(chunk.token_ids)))
            self.assertFalse(chunk.HasField("output_logprobs") or chunk.HasField("input_logprobs"))
        self.assertEqual(list(complete.output_ids), ids)
        self.assertEqual((complete.finish_reason, complete.prompt_tokens, complete.completion_tokens),
                         ("length", len(PROMPT), 12))

    def test_at_once(self):
        chunks, complete = self.answer(request(stream=False, max_tokens=12))
        self.assertEqual(chunks, [])
        self.assertEqual(list(complete.output_ids), self.expected_ids(12))
        self.assertEqual(complete.completion_tokens, 12)

    def test_text_and_prefix_cache(self):
        prompt = "A long beginning that fills some blocks of the cache. " * 8
        message = pb.GenerateRequest(text=prompt, sampling_params=pb.SamplingParams(temperature=0, max_tokens=2))
        first, second = self.answer(message)[1], self.answer(message)[1]
        self.assertEqual(first.output_ids, second.output_ids)
        self.assertGreater(first.prompt_tokens, 32)
        self.assertGreater(second.cached_tokens, first.cached_tokens)

    def test_outputs_have_all_logprobs_each(self):
        for stream in (True, False):
            with self.subTest(stream=stream):
                answers = self.answers(request(stream=stream, n=2, logprobs=2, prompt_logprobs=1, max_tokens=5))
                self.assertEqual(sorted(answers), [0, 1])
                for chunks, complete in answers.values():
                    self.assertEqual([len(chunk.token_ids) > 0 for chunk in chunks], [True] * len(chunks))
                    parts = chunks if stream else [complete]
                    prompt = parts[0].input_logprobs
                    self.assertEqual(list(prompt.token_ids), PROMPT)
                    self.assertEqual([value.HasField("value") for value in prompt.token_logprobs],
                                     [False] + [True] * (len(PROMPT) - 1))
                    self.assertEqual([len(top.values) for top in prompt.top_logprobs], [0] + [1] * (len(PROMPT) - 1))
                    self.assertFalse(any(part.HasField("input_logprobs") for part in parts[1:]))
                    ids = [token for part in parts for token in part.output_logprobs.token_ids]
                    self.assertEqual(ids, list(complete.output_ids))
                    for part in parts:
                        for logprob, top in zip(part.output_logprobs.token_logprobs,
                                                part.output_logprobs.top_logprobs, strict=True):
                            self.assertEqual(len(top.token_ids), 2)
                            self.assertAlmostEqual(max(top.values), logprob, places=5)  # greedy

    def test_logprobs_without_alternatives(self):
        complete = self.answer(request(stream=False, logprobs=0, max_tokens=3))[1]
        self.assertEqual((len(complete.output_logprobs.token_logprobs), len(complete.output_logprobs.top_logprobs)),
                         (3, 0))

    def test_what_is_unset(self):
        # The bundled model recommends temperature 0 and 512 tokens, which are the router's to apply.
        message = pb.GenerateRequest(tokenized=pb.TokenizedInput(input_ids=[300] * 3400),
                                     sampling_params=pb.SamplingParams(ignore_eos=True, seed=1))
        complete = self.answer(message)[1]
        self.assertEqual(complete.completion_tokens, 4096 - 3400)
        message.sampling_params.seed = 2
        self.assertNotEqual(self.answer(message)[1].output_ids, complete.output_ids)

    def test_stops(self):
        ids = self.expected_ids(8)
        complete = self.answer(request(stop_token_ids=[ids[3]]))[1]
        self.assertEqual((complete.finish_reason, complete.matched_token_id), ("stop", ids[3]))
        self.assertEqual(list(complete.output_ids), ids[:ids.index(ids[3]) + 1])
        text = self.generate(ids_request(PROMPT, 8)).text
        stop = text[len(text) // 2:len(text) // 2 + 2]
        complete = self.answer(request(stop=[stop]))[1]
        self.assertEqual((complete.finish_reason, complete.matched_stop_str), ("stop", stop))
        self.assertLess(complete.completion_tokens, 8)

    def test_truncated_prompts(self):
        complete = self.answer(request(truncate_prompt_tokens=3))[1]
        self.assertEqual(complete.prompt_tokens, 3)
        self.assertEqual(list(complete.output_ids), list(self.answer(request(PROMPT[-3:]))[1].output_ids))
        self.assertEqual(self.answer(request([300] * 5000, truncate_prompt_tokens=-1))[1].prompt_tokens, 4096 - 8)

    def test_constraints(self):
        def text(may_be_cut_off=False, **params):
            complete = self.answer(request(max_tokens=200, **params))[1]
            self.assertIn(complete.finish_reason, ("stop", "length") if may_be_cut_off else ("stop",))
            return self.server.inference.Detokenize(quire_pb.DetokenizeRequest(ids=complete.output_ids)).text

        schema = {"type": "object", "properties": {"a": {"const": 7}}, "required": ["a"], "additionalProperties": False}
        self.assertEqual(json.loads(text(json_schema=json.dumps(schema))), {"a": 7})
        # The first is a router's json_object.
        for params in ({"json_schema": '{"type": "object"}'}, {"json_object": True}):
            self.assertTrue(text(may_be_cut_off=True, **params).startswith("{"))
        self.assertRegex(text(regex="[ab]{4}", grammar_from_first_token=True), "^[ab]{4}$")
        self.assertIn(text(choice=pb.ChoiceConstraint(choices=["red", "blue"])), ("red", "blue"))

    def test_what_is_refused(self):
        def changed(**fields):
            message = request()
            message.MergeFrom(pb.GenerateRequest(**fields))
            return message

        cases = [
            (CODE.INVALID_ARGUMENT, "sampling_params.json_schema: is not JSON", request(json_schema="{x")),
            (CODE.INVALID_ARGUMENT, "sampling_params.json_schema: #/items/pattern", request(
                json_schema='{"items": {"pattern": "("}}')),
            (CODE.INVALID_ARGUMENT, "sampling_params.regex: at byte", request(regex="(")),
            (CODE.INVALID_ARGUMENT, "sampling_params.choice: has no choice", request(choice=pb.ChoiceConstraint())),
            (CODE.UNIMPLEMENTED, "sampling_params.structural_tag", request(structural_tag="{}")),
            (CODE.UNIMPLEMENTED, "mm_inputs: media are not supported", changed(mm_inputs=pb.MultimodalInputs())),
            (CODE.UNIMPLEMENTED, "mm_inputs: media are not supported", changed(extra_mm_inputs=[pb.MultimodalInputs()])),
            (CODE.UNIMPLEMENTED, "mm_inputs: media are not supported", changed(media_refs=pb.MediaRefs())),
            (CODE.UNIMPLEMENTED, "kv_transfer_params", changed(kv_transfer_params_json="{}")),
            (CODE.INVALID_ARGUMENT, "data_parallel_rank: 1", changed(data_parallel_rank=1)),
            (CODE.INVALID_ARGUMENT, "input: is missing", pb.GenerateRequest()),
            (CODE.INVALID_ARGUMENT, "input: has no tokens", request([])),
            (CODE.INVALID_ARGUMENT, "input: has 4096 tokens", request([3] * 4096)),
            (CODE.INVALID_ARGUMENT, "tokenized.input_ids: has 5000 entries", request([3] * 5000)),
            (CODE.INVALID_ARGUMENT, "tokenized.input_ids: token id 2048", request([2048])),
            (CODE.INVALID_ARGUMENT, "sampling_params.top_p: 3", request(top_p=3)),
            (CODE.INVALID_ARGUMENT, "sampling_params.temperature: nan", request(temperature=math.nan)),
            (CODE.INVALID_ARGUMENT, "sampling_params.n: 2147483647", request(n=2**32 - 1)),
            (CODE.INVALID_ARGUMENT, "sampling_params.max_tokens: 0", request(max_tokens=0)),
            (CODE.INVALID_ARGUMENT, "sampling_params.logprobs: -1", request(logprobs=-1)),
            (CODE.INVALID_ARGUMENT, "sampling_params.logit_bias: token id -1", request(logit_bias={-1: 1})),
            (CODE.INVALID_ARGUMENT, "sampling_params.stop: an empty", request(stop=[""])),
            (CODE.INVALID_ARGUMENT, "sampling_params.truncate_prompt_tokens: -2", request(truncate_prompt_tokens=-2)),
        ]
        for code, fragment, message in cases:
            with self.subTest(fragment):
                self.assert_status(code, fragment, lambda message=message: list(self.stub.Generate(message)))
        for method, message in ((self.stub.Embed, pb.EmbedRequest()),
                                (self.stub.StartProfile, common.StartProfileRequest()),
                                (self.stub.StopProfile, common.StopProfileRequest())):
            self.assert_status(CODE.UNIMPLEMENTED, " ", lambda method=method, message=message: method(message))


class RunningTest(EngineTestCase):
    def begin(self, request_id, max_tokens=4000):
        message = request(max_tokens=max_tokens)
        message.request_id = request_id
        stream = self.stub.Generate(message)
        self.assertTrue(next(stream).HasField("chunk"))
        return stream

    def test_abort(self):
        self.stub.Abort(pb.AbortRequest(request_ids=["nobody's"]))
        streams = [self.begin("first"), self.begin("second")]
        self.stub.Abort(pb.AbortRequest(request_ids=["nobody's", "first", "second"]))
        for stream in streams:
            self.assertEqual([r.complete.finish_reason for r in stream if r.HasField("complete")], ["abort"])
        self.stub.Abort(pb.AbortRequest(request_ids=["first"]))
        self.begin("third").cancel()
        self.stub.Abort(pb.AbortRequest(request_ids=["third"]))
        self.assertEqual(self.server.wait_until_idle().kv_blocks_in_use, 0)

    def test_loads(self):
        idle = self.stub.GetLoads(pb.GetLoadsRequest(include=["core", "queues"]))
        self.assertEqual((idle.dp_rank_count, len(idle.loads)), (1, 1))
        self.assertEqual((idle.loads[0].num_running_reqs, idle.loads[0].num_used_tokens), (0, 0))
        time.strptime(idle.timestamp[:19], "%Y-%m-%dT%H:%M:%S")
        stream = self.begin("loaded")
        give_up = time.monotonic() + 20
        while True:
            load = self.stub.GetLoads(pb.GetLoadsRequest()).loads[0]
            if (load.num_running_reqs and load.gen_throughput > 0) or time.monotonic() > give_up:
                break
            time.sleep(0.01)
        stream.cancel()
        self.assertEqual((load.num_running_reqs, load.num_total_reqs), (1, 1))
        self.assertGreaterEqual(load.num_used_tokens, len(PROMPT))
        self.assertAlmostEqual(load.token_usage, load.num_used_tokens / load.max_total_num_tokens)
        self.assertAlmostEqual(load.utilization, 1 / load.max_running_requests)
        self.assertGreater(load.gen_throughput, 0)

    def test_flush(self):
        message = request([301] * 64)
        self.answer(message)
        self.assertGreater(self.answer(message)[1].cached_tokens, 0)
        self.assertTrue(self.stub.FlushCache(common.FlushCacheRequest()).success)
        self.assertEqual(self.answer(message)[1].cached_tokens, 0)
        for timeout in (-1, math.nan, math.inf):
            self.assert_status(CODE.INVALID_ARGUMENT, "timeout_s", lambda timeout=timeout: self.stub.FlushCache(
                common.FlushCacheRequest(timeout_s=timeout)))


class DescriptionTest(EngineTestCase):
    FLAGS = ("--served-model-name", "some-name", "--max-num-seqs", "7")

    def test_model(self):
        info = self.stub.GetModelInfo(pb.GetModelInfoRequest())
        config = json.loads((ROOT / "configs/demo/config.json").read_text())
        self.assertEqual((info.served_model_name, info.is_generation, info.supports_vision), ("some-name", True, False))
        self.assertEqual((info.max_context_length, info.max_req_input_len), (4096, 4095))
        self.assertEqual((info.vocab_size, info.model_type, list(info.architectures)),
                         (config["vocab_size"], config["model_type"], config["architectures"]))
        self.assertEqual(json.loads(info.default_sampling_params_json), {"temperature": 0, "max_tokens": 512})

    def test_server(self):
        info = self.stub.GetServerInfo(pb.GetServerInfoRequest())
        self.assertEqual((info.server_type, info.data_parallel_size, info.max_num_seqs), ("quire", 1, 7))
        self.assertEqual(info.constrained_decoding_start, "first_token")
        self.assertEqual((info.block_size, info.active_requests, info.is_paused), (16, 0, False))
        self.assertGreater(info.uptime_seconds, 0)

    def test_tokenizer(self):
        chunks = list(self.stub.GetTokenizer(common.GetTokenizerRequest()))
        archive = b"".join(chunk.data for chunk in chunks)
        self.assertEqual([chunk.sha256 for chunk in chunks[:-1]], [""] * (len(chunks) - 1))
        self.assertEqual(chunks[-1].sha256, hashlib.sha256(archive).hexdigest())
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            names = files.namelist()
            self.assertLessEqual({"tokenizer.json", "tokenizer_config.json", "config.json"}, set(names))
            for name in names:
                self.assertEqual(files.read(name), (ROOT / "configs/demo" / name).read_bytes())
        again = b"".join(chunk.data for chunk in self.stub.GetTokenizer(common.GetTokenizerRequest()))
        self.assertEqual(again, archive)


class EndTest(EngineTestCase):
    def test_a_server_that_ends_is_not_healthy(self):
        self.assertTrue(self.stub.HealthCheck(pb.HealthCheckRequest()).healthy)
        stream = self.stub.Generate(request(max_tokens=3000))
        next(stream)
        ended = threading.Thread(target=self.server.stop)
        ended.start()
        try:
            give_up = time.monotonic() + 20
            while (health := self.stub.HealthCheck(pb.HealthCheckRequest())).healthy and time.monotonic() < give_up:
                time.sleep(0.01)
            self.assertEqual((health.healthy, health.message), (False, "the server is shutting down"))
            self.assert_status(CODE.UNAVAILABLE, "shutting down", lambda: list(self.stub.Generate(request())))
        finally:
            stream.cancel()
            ended.join()


class AccessTest(unittest.TestCase):
    def test_how_busy_the_server_is_is_for_admins(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as keys:
            keys.write('{"key": "the-key-of-a-user", "name": "user"}\n'
                       '{"key": "the-key-of-a-router", "name": "router", "roles": ["inference", "admin"]}\n')
            keys.flush()
            with Server("--api-key-file", keys.name) as server:
                stub = pb_grpc.VllmEngineStub(server.channel)
                user, router = ((("authorization", f"Bearer the-key-of-a-{who}"),) for who in ("user", "router"))
                stream = stub.Generate(request(max_tokens=4000), metadata=user)
                next(stream)
                for metadata, expected in ((user, 0), (router, 1)):
                    info = stub.GetServerInfo(pb.GetServerInfoRequest(), metadata=metadata)
                    self.assertEqual(info.active_requests, expected)
                self.assertEqual(stub.GetLoads(pb.GetLoadsRequest(), metadata=router).loads[0].num_running_reqs, 1)
                for metadata, code in ((user, CODE.PERMISSION_DENIED), ((), CODE.UNAUTHENTICATED)):
                    with self.assertRaises(grpc.RpcError) as caught:
                        stub.GetLoads(pb.GetLoadsRequest(), metadata=metadata)
                    self.assertEqual(caught.exception.code(), code)
                stream.cancel()
                self.assertEqual(server.stop(), 0)


class WithoutTokenizerTest(EngineTestCase):
    FLAGS = ("--skip-tokenizer-init",)

    def test_ids_alone(self):
        self.assertEqual(self.answer(request(max_tokens=3))[1].completion_tokens, 3)
        self.assertEqual(self.stub.GetModelInfo(pb.GetModelInfoRequest()).tokenizer_path, "")
        self.assert_status(CODE.FAILED_PRECONDITION, "tokenizer",
                           lambda: list(self.stub.GetTokenizer(common.GetTokenizerRequest())))


if __name__ == "__main__":
    main()
