"""OpenAI's responses through the official client: the object, its events in their order, conversations as input, and
what is refused by name because nothing is stored."""

import asyncio
import os

from harness import ServerTestCase, chat_request, comes_in_parts, main, packages, pb

os.environ["NO_PROXY"] = "*"
with packages():
    import openai

QUESTION = "How many legs has a dog?"
EVENTS = ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
          "response.output_text.delta", "response.output_text.done", "response.content_part.done",
          "response.output_item.done"]
LOGPROBS = "message.output_text.logprobs"
# What a request adds, and the field that is blamed.
REFUSED = (
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"tools": [{"type": "code_interpreter"}]}, "tools[0].type"),
    ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "custom", "name": "y"}]}]},
     "tools[0].tools[0].type"),
    ({"tools": {}}, "tools"),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
    ({"max_tool_calls": 1}, "max_tool_calls"),
    ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
    ({"reasoning": {"effort": 1}}, "reasoning.effort"),
    ({"reasoning": "low"}, "reasoning"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
    ({"text": {"format": {"type": "json"}}}, "text.format.type"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"include": ["everything"]}, "include"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"top_logprobs": 21, "include": [LOGPROBS]}, "top_logprobs"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": "x"}, "max_output_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"n": 2}, "n"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"metadata": {str(i): "x" for i in range(17)}}, "metadata"),
    ({"metadata": {"a": "x" * 513}}, "metadata"),
    ({"user": "x" * 513}, "user"),
    ({"store": 1}, "store"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": 7}, "input"),
    ({"input": ["x"]}, "input[0]"),
    ({"input": [{"content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
     "input[0].content[0]"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "call_id": "1"}]}, "input[0].output"),
    ({"input": [{"type": "function_call", "call_id": "1", "arguments": "{}"}]}, "input[0].name"),
    ({"input": [{"type": "function_call", "call_id": "1", "name": "f"}]}, "input[0].arguments"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"instructions": ["x"]}, "instructions"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"moderation": {"model": "x"}}, "moderation"),
)


class ResponsesTest(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def setUp(self):
        self.client = openai.OpenAI(**self.options())
        self.addCleanup(self.client.close)

    def options(self):
        return {"base_url": f"http://{self.server.target}/v1", "api_key": "none", "timeout": 120, "max_retries": 0}

    def ask(self, **options):
        return self.client.responses.create(**{"model": "demo", "input": QUESTION, "temperature": 0, **options})

    def test_an_answer_is_that_of_grpc(self):
        expected = self.generate(chat_request(QUESTION, max_tokens=200))
        answer = self.ask()
        self.assertEqual(answer.output_text, expected.text)
        self.assertEqual((answer.status, answer.incomplete_details, answer.error), ("completed", None, None))
        self.assertEqual([item.type for item in answer.output], ["message"])
        self.assertEqual((answer.output[0].role, answer.output[0].status), ("assistant", "completed"))
        usage = expected.finished.usage
        self.assertEqual((answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens),
                         (usage.prompt_tokens, usage.completion_tokens,
                          usage.prompt_tokens + usage.completion_tokens))
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 0)
        self.assertTrue(answer.id.startswith("resp_"))
        self.assertEqual(answer._request_id, answer.id)

    def test_the_object_is_complete(self):
        answer = self.ask(instructions="Be short.", metadata={"a": "ü"}, user="me", max_output_tokens=50, top_p=0.5,
                          store=True, prompt_cache_key="k", safety_identifier="s", truncation="disabled",
                          parallel_tool_calls=False, tools=[], tool_choice="none", reasoning={"effort": None},
                          text={"format": {"type": "text"}}, service_tier="auto", background=False)
        # The client takes what it does not know and leaves out what is missing: here every field is checked.
        type(answer).model_validate(answer.model_dump(warnings="error"))
        for field, value in (("instructions", "Be short."), ("metadata", {"a": "ü"}), ("user", "me"),
                             ("max_output_tokens", 50), ("top_p", 0.5), ("temperature", 0), ("store", False),
                             ("prompt_cache_key", "k"), ("safety_identifier", "s"), ("truncation", "disabled"),
                             ("parallel_tool_calls", False), ("tools", []), ("tool_choice", "none"),
                             ("background", False), ("previous_response_id", None), ("top_logprobs", 0),
                             ("object", "response"), ("model", "demo"), ("service_tier", "default")):
            self.assertEqual(answer.model_dump()[field], value, field)
        self.assertGreaterEqual(answer.completed_at, answer.created_at)

    def test_an_answer_that_is_cut_off(self):
        answer = self.ask(max_output_tokens=2)
        self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual((answer.output[0].status, answer.usage.output_tokens), ("incomplete", 2))
        events = list(self.ask(max_output_tokens=2, stream=True))
        self.assertEqual((events[-1].type, events[-1].response.status), ("response.incomplete", "incomplete"))

    def test_events_come_in_order(self):
        expected = self.ask()
        events = list(self.ask(stream=True))
        types = [event.type for event in events]
        self.assertEqual(list(dict.fromkeys(types)), [*EVENTS, "response.completed"])
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        self.assertTrue(comes_in_parts(lambda: len(list(self.ask(stream=True))), len(EVENTS) + 4))
        self.assertEqual("".join(deltas), expected.output_text)
        self.assertEqual(types, [*EVENTS[:4], *EVENTS[4:5] * len(deltas), *EVENTS[5:], "response.completed"])
        created, added, part, done, last = events[0], events[2], events[3], events[-4], events[-1]
        self.assertEqual((created.response.status, created.response.output, created.response.usage),
                         ("in_progress", [], None))
        self.assertEqual((added.item.status, added.item.content, part.part.text), ("in_progress", [], ""))
        self.assertEqual((done.text, events[-3].part.text, events[-2].item.content[0].text, last.response.output_text),
                         (expected.output_text,) * 4)
        ids = {getattr(event, "item_id", None) for event in events} - {None}
        self.assertEqual(ids, {added.item.id, last.response.output[0].id})
        self.assertEqual({event.response.id for event in (created, events[1], last)}, {created.response.id})
        self.assertEqual(last.response.usage.output_tokens, expected.usage.output_tokens)

    def test_the_client_s_own_stream_helper(self):
        with self.client.responses.stream(model="demo", input=QUESTION, temperature=0) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_response().output_text, self.ask().output_text)

    def test_logprobs(self):
        answer = self.ask(max_output_tokens=5, top_logprobs=3, include=[LOGPROBS])
        logprobs = answer.output[0].content[0].logprobs
        self.assertEqual("".join(one.token for one in logprobs), answer.output_text)
        self.assertEqual({len(one.top_logprobs) for one in logprobs}, {3})
        self.assertEqual(bytes(logprobs[0].bytes).decode(), logprobs[0].token)
        events = list(self.ask(max_output_tokens=5, top_logprobs=3, include=[LOGPROBS], stream=True))
        streamed = [one.token for event in events if event.type == "response.output_text.delta"
                    for one in event.logprobs]
        self.assertEqual(streamed, [one.token for one in logprobs])
        self.assertEqual(self.ask(max_output_tokens=5).output[0].content[0].logprobs, [])

    def test_a_conversation_is_that_of_chats(self):
        chat = [{"role": "system", "content": "Add."}, {"role": "user", "content": "What is 1 + 1?"},
                {"role": "assistant", "content": "2"}, {"role": "user", "content": "What is\n2 + 3?"}]
        expected = self.client.chat.completions.create(model="demo", messages=chat, temperature=0)
        items = [{"role": "user", "content": "What is 1 + 1?"},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "content": [
                     {"type": "reasoning_text", "text": "One and one."}]},
                 {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                  "content": [{"type": "output_text", "text": "2", "annotations": []}]},
                 {"role": "user", "content": [{"type": "input_text", "text": "What is"},
                                              {"type": "input_text", "text": "2 + 3?"}]}]
        for options in ({"instructions": "Add.", "input": items},
                        {"input": [{"role": "developer", "content": "Add."}, *items]}):
            answer = self.ask(**options)
            self.assertEqual(answer.output_text, expected.choices[0].message.content)
            self.assertEqual(answer.usage.input_tokens, expected.usage.prompt_tokens)
            count = self.client.responses.input_tokens.count(model="demo", **options)
            self.assertEqual(count.input_tokens, answer.usage.input_tokens)

    def test_an_answer_can_be_sent_back(self):
        first = self.ask(input="What is 2 + 3?")
        again = [{"role": "user", "content": "What is 2 + 3?"}, *[item.model_dump() for item in first.output],
                 {"role": "user", "content": "What is 3 + 4?"}]
        self.assertEqual(self.ask(input=again).status, "completed")

    def test_sampling_fields_of_vllm(self):
        extra = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "seed": 4, "ignore_eos": True,
                 "presence_penalty": 0.1, "frequency_penalty": 0.1, "min_tokens": 2}
        texts = {self.ask(temperature=1, max_output_tokens=20, extra_body=extra).output_text for _ in range(3)}
        self.assertEqual(len(texts), 1)
        biased = self.ask(max_output_tokens=3, extra_body={"logit_bias": {"65": 100}, "ignore_eos": True})
        self.assertEqual(len(set(biased.output_text)), 1)
        cut = self.ask(extra_body={"stop": [" "]})
        self.assertEqual((cut.status, " " in cut.output_text), ("completed", False))

    def test_the_effort_comes_back(self):
        self.assertEqual(self.ask(reasoning={"effort": "low", "summary": "auto"}).reasoning.effort, "low")
        self.assertIsNone(self.ask().reasoning.effort)

    def test_refused_by_name(self):
        for extra, field in REFUSED:
            with self.subTest(extra=extra), self.assertRaises(openai.BadRequestError) as caught:
                self.ask(extra_body=extra)
            self.assertEqual(caught.exception.param, field)

    def test_errors_have_openai_s_names(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.ask(model="other")
        self.assertEqual((caught.exception.code, caught.exception.param), ("model_not_found", "model"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(input="word " * 10000, stream=True)
        self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", "input"))

    def test_nothing_is_stored(self):
        answer = self.ask(store=True)
        for call in (self.client.responses.retrieve, self.client.responses.delete, self.client.responses.cancel,
                     self.client.responses.input_items.list):
            with self.assertRaisesRegex(openai.NotFoundError, f"{answer.id}.* not found: this server stores none"):
                call(answer.id)

    def test_a_client_that_leaves(self):
        stream = self.ask(max_output_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        while next(stream).type != "response.output_text.delta":
            pass
        self.assertEqual(self.server.status().active_streams, 1)
        stream.close()
        status = self.server.wait_until_idle()
        self.assertEqual((status.active_streams, status.kv_blocks_in_use), (0, 0))

    def test_an_operator_ends_a_response(self):
        stream = self.ask(max_output_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        first = next(stream)
        self.server.wait_until_busy()
        self.assertTrue(self.server.admin.Abort(pb.AbortRequest(request_id=first.response.id)).found)
        last = list(stream)[-1]
        self.assertEqual((last.type, last.response.error.code), ("response.failed", "server_error"))

    def test_many_at_once(self):
        expected = self.ask(max_output_tokens=4).output_text

        async def ask_all():
            async with openai.AsyncOpenAI(**self.options()) as client:
                return await asyncio.gather(*(client.responses.create(
                    model="demo", input=QUESTION, temperature=0, max_output_tokens=4) for _ in range(64)))

        self.assertEqual({answer.output_text for answer in asyncio.run(ask_all())}, {expected})


if __name__ == "__main__":
    main()
