"""vllm.Inference and vllm.Control, vLLM's own contract: requests, answers, errors, and what a sidecar asks first."""

import grpc
from harness import ServerTestCase, health_pb, ids_request, main, pb as quire_pb

import vllm_contract

pb, pb_grpc, control, control_grpc = vllm_contract.load_inference()
CODE = grpc.StatusCode
PROMPT = [281, 265, 532, 283, 271, 286, 817]


def request(ids=PROMPT, max_new_tokens=8, **fields):
    """A greedy one that goes on after end tokens."""
    message = pb.GenerateRequest(token_ids=pb.TokenIds(ids=ids), temperature=0)
    message.stopping.max_new_tokens = max_new_tokens
    message.stopping.ignore_eos = True
    message.MergeFrom(pb.GenerateRequest(**fields))
    return message


class InferenceTestCase(ServerTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stub = pb_grpc.InferenceStub(cls.server.channel)
        cls.control = control_grpc.ControlStub(cls.server.channel)

    def expected(self, max_tokens=8):
        return self.generate(ids_request(PROMPT, max_tokens))


class GenerateTest(InferenceTestCase):
    def test_at_once(self):
        expected = self.expected()
        answer = self.stub.Generate(request())
        self.assertEqual((answer.prompt_info.num_prompt_tokens, answer.outputs.num_tokens), (len(PROMPT), 8))
        self.assertEqual(answer.outputs.text, expected.text)
        self.assertEqual(list(answer.outputs.token_ids), [])
        info = answer.outputs.finish_info
        self.assertEqual((info.finish_reason, info.num_output_tokens), (pb.FinishInfo.LENGTH, 8))

    def test_streamed(self):
        expected = self.expected()
        responses = list(self.stub.GenerateStream(request(response=pb.ResponseOptions(
            output_token_ids=True, prompt_token_ids=True))))
        self.assertEqual([r.HasField("prompt_info") for r in responses], [True] + [False] * (len(responses) - 1))
        self.assertEqual(list(responses[0].prompt_info.token_ids), PROMPT)
        self.assertEqual("".join(r.outputs.text for r in responses), expected.text)
        self.assertEqual([token for r in responses for token in r.outputs.token_ids], expected.ids)
        self.assertEqual(sum(r.outputs.num_tokens for r in responses), 8)
        self.assertEqual([r.outputs.HasField("finish_info") for r in responses],
                         [False] * (len(responses) - 1) + [True])

    def test_what_is_unset(self):
        # The bundled model recommends temperature 0; nothing said is 20 tokens.
        message = pb.GenerateRequest(token_ids=pb.TokenIds(ids=PROMPT), stopping=pb.StoppingCriteria(ignore_eos=True))
        answer = self.stub.Generate(message)
        self.assertEqual(answer.outputs.num_tokens, 20)
        self.assertEqual(answer.outputs.text, self.expected(20).text)

    def test_ids_alone(self):
        answer = self.stub.Generate(request(response=pb.ResponseOptions(output_text=False, output_token_ids=True)))
        self.assertEqual((answer.outputs.text, list(answer.outputs.token_ids)), ("", self.expected().ids))

    def test_several_sequences(self):
        message = request(sampling=pb.RandomSampling(num_sequences=3))
        texts, ends = {}, []
        for response in self.stub.GenerateStream(message):
            output = response.outputs
            texts[output.index] = texts.get(output.index, "") + output.text
            if output.HasField("finish_info"):
                ends.append(output.index)
        self.assertEqual(texts, {index: self.expected().text for index in range(3)})
        self.assertEqual(sorted(ends), [0, 1, 2])
        self.assert_status(CODE.INVALID_ARGUMENT, "sampling.num_sequences", lambda: self.stub.Generate(message))

    def test_logprobs(self):
        options = pb.ResponseOptions(output_logprobs=True, prompt_logprobs=True, output_token_ids=True,
                                     output_candidates=pb.CandidateTokens(top_n=3),
                                     prompt_candidates=pb.CandidateTokens(top_n=2))
        answer = self.stub.Generate(request(response=options))
        outputs, prompt = answer.outputs, answer.prompt_info
        self.assertEqual(list(outputs.ranks), [1] * 8)  # greedy
        for logprob, candidates in zip(outputs.logprobs, outputs.candidate_tokens, strict=True):
            self.assertEqual([info.rank for info in candidates.tokens], [2, 3])  # without the one that is there
            self.assertLessEqual(candidates.tokens[0].logprob, logprob)
        self.assertEqual((len(prompt.logprobs), len(prompt.candidate_tokens)), (len(PROMPT), len(PROMPT)))
        self.assertGreater(min(prompt.ranks[1:]), 0)
        for rank, candidates in list(zip(prompt.ranks, prompt.candidate_tokens))[1:]:
            self.assertEqual([info.rank for info in candidates.tokens], [place for place in (1, 2) if place != rank])
        plain = self.stub.Generate(request(response=pb.ResponseOptions(output_logprobs=True)))
        self.assertEqual(list(plain.outputs.logprobs), list(outputs.logprobs))
        self.assertEqual(len(plain.outputs.candidate_tokens), 0)

    def test_stops(self):
        ids = self.expected().ids
        message = request()
        message.stopping.stop_token_ids.append(ids[3])
        info = self.stub.Generate(message).outputs.finish_info
        self.assertEqual((info.finish_reason, info.WhichOneof("stop_reason"), info.stop_token_id),
                         (pb.FinishInfo.STOP, "stop_token_id", ids[3]))
        text = self.expected().text
        message = request()
        message.stopping.stop_strings.append(text[4:6])
        outputs = self.stub.Generate(message).outputs
        self.assertEqual((outputs.finish_info.stop_string, outputs.text), (text[4:6], text[:text.index(text[4:6])]))
        chat = quire_pb.TokenizeRequest()
        chat.messages.messages.add(role="user", content="What is 3 + 4?")
        message = pb.GenerateRequest(
            token_ids=pb.TokenIds(ids=self.server.inference.Tokenize(chat).ids), temperature=0,
            stopping=pb.StoppingCriteria(max_new_tokens=200))
        info = self.stub.Generate(message).outputs.finish_info
        self.assertEqual((info.finish_reason, info.WhichOneof("stop_reason")), (pb.FinishInfo.STOP, "eos_token_id"))

    def test_prefix_cache_and_truncation(self):
        def hits(ids, **fields):
            before = self.server.status().prefix_hit_tokens
            self.stub.Generate(request(ids, **fields))
            return self.server.status().prefix_hit_tokens - before

        ids = [302] * 100
        self.assertEqual(hits(ids), 0)
        self.assertGreater(hits(ids), 64)
        self.assertEqual(hits(ids, kv=pb.KVCacheParameters(bypass_prefix_cache=True)), 0)
        self.assertEqual(hits(ids, kv=pb.KVCacheParameters(cache_salt="other")), 0)
        self.assertGreater(hits(ids, kv=pb.KVCacheParameters(cache_salt="other")), 64)
        answer = self.stub.Generate(request(truncate_prompt_tokens=3, response=pb.ResponseOptions(prompt_token_ids=True)))
        self.assertEqual((answer.prompt_info.num_prompt_tokens, list(answer.prompt_info.token_ids)), (3, PROMPT[-3:]))
        answer = self.stub.Generate(pb.GenerateRequest(text="many words " * 20, truncate_prompt_tokens=3))
        self.assertEqual(answer.prompt_info.num_prompt_tokens, 3)

    def test_structured_output(self):
        for parameters, pattern in (
                (pb.DecodingParameters(json='{"type": "array", "items": {"const": 7}, "minItems": 2, "maxItems": 2}'),
                 r"^\[\s*7,\s*7\s*\]$"),
                (pb.DecodingParameters(regex="[ab]{4}"), "^[ab]{4}$"),
                (pb.DecodingParameters(choice=pb.DecodingParameters.StringChoices(choices=["red", "blue"])), "^(red|blue)$")):
            message = request(decoding=parameters, max_new_tokens=200)
            outputs = self.stub.Generate(message).outputs
            self.assertRegex(outputs.text, pattern)
            self.assertEqual(outputs.finish_info.finish_reason, pb.FinishInfo.STOP)
        message = request(decoding=pb.DecodingParameters(json_object=True), max_new_tokens=200)
        self.assertTrue(self.stub.Generate(message).outputs.text.startswith("{"))

    def test_what_is_refused(self):
        cases = [
            (CODE.NOT_FOUND, "model: \"nobody\"", request(model="nobody")),
            (CODE.INVALID_ARGUMENT, "decoding.regex: at byte", request(decoding=pb.DecodingParameters(regex="("))),
            (CODE.INVALID_ARGUMENT, "decoding.json: is not JSON", request(decoding=pb.DecodingParameters(json="{x"))),
            (CODE.UNIMPLEMENTED, "decoding.structural_tag", request(decoding=pb.DecodingParameters(structural_tag="x"))),
            (CODE.UNIMPLEMENTED, "decoding.allowed_token_ids",
             request(decoding=pb.DecodingParameters(allowed_token_ids=[3]))),
            (CODE.UNIMPLEMENTED, "media: media are not supported", request(media=[pb.MediaItem(url="x")])),
            (CODE.UNIMPLEMENTED, "lora_name", request(lora_name="x")),
            (CODE.UNIMPLEMENTED, "response.output_candidates", request(response=pb.ResponseOptions(
                output_candidates=pb.CandidateTokens(all=True)))),
            (CODE.UNIMPLEMENTED, "response.prompt_token_ids", pb.GenerateRequest(
                text="x", response=pb.ResponseOptions(prompt_token_ids=True))),
            (CODE.INVALID_ARGUMENT, "prompt: is missing", pb.GenerateRequest()),
            (CODE.INVALID_ARGUMENT, "temperature: -1", request(temperature=-1)),
            (CODE.INVALID_ARGUMENT, "decoding.presence_penalty: 3",
             request(decoding=pb.DecodingParameters(presence_penalty=3))),
            (CODE.INVALID_ARGUMENT, "response.output_candidates: 2147483647", request(response=pb.ResponseOptions(
                output_candidates=pb.CandidateTokens(top_n=2**32 - 1)))),
            (CODE.INVALID_ARGUMENT, "stopping.min_new_tokens: 9",
             request(stopping=pb.StoppingCriteria(min_new_tokens=9))),
            (CODE.INVALID_ARGUMENT, "kv.cache_salt", request(kv=pb.KVCacheParameters(cache_salt="x" * 200))),
        ]
        for code, fragment, message in cases:
            with self.subTest(fragment):
                self.assert_status(code, fragment, lambda message=message: self.stub.Generate(message))
                self.assert_status(code, fragment, lambda message=message: list(self.stub.GenerateStream(message)))


class ControlTest(InferenceTestCase):
    FLAGS = ("--served-model-name", "one", "other", "--max-num-seqs", "7", "--max-num-batched-tokens", "256")

    def test_what_a_sidecar_asks_first(self):
        for service in ("vllm.Inference", "vllm.Control"):
            answer = self.server.health.Check(health_pb.HealthCheckRequest(service=service))
            self.assertEqual(answer.status, health_pb.HealthCheckResponse.SERVING)
        model = self.control.GetModelInfo(control.GetModelInfoRequest())
        self.assertEqual((model.served_model_name, list(model.served_model_aliases)), ("one", ["other"]))
        self.assertTrue(model.supports_text_input and model.supports_token_ids_input)
        self.assertFalse(model.supports_lora or model.supports_multimodal)
        server = self.control.GetServerInfo(control.GetServerInfoRequest())
        self.assertEqual((server.max_model_len, server.kv_block_size, server.max_running_requests,
                          server.max_batched_tokens), (4096, 16, 7, 256))
        self.assertEqual(server.total_kv_blocks, self.server.status().kv_blocks_total)
        self.assertEqual((server.parallelism.world_size, len(server.instance_id)), (1, 32))
        self.assertEqual(len(self.control.GetKvEventSources(control.GetKvEventSourcesRequest()).sources), 0)

    def test_abort(self):
        self.control.Abort(control.AbortRequest(request_ids=["nobody's"]))
        stream = self.stub.GenerateStream(request(max_new_tokens=4000, request_id="long"))
        while not next(stream).HasField("outputs"):
            pass
        self.control.Abort(control.AbortRequest(request_ids=["long"]))
        self.assertEqual([r.outputs.finish_info.finish_reason for r in stream if r.outputs.HasField("finish_info")],
                         [pb.FinishInfo.ABORTED])
        self.assertEqual(self.server.wait_until_idle().kv_blocks_in_use, 0)


if __name__ == "__main__":
    main()
