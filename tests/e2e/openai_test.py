"""The official openai client against the server's own HTTP/1.1: answers, streams, many at once, clients that leave, and
requests that are refused by name."""

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import tempfile
import unittest

from harness import Server, ServerTestCase, chat_request, comes_in_parts, main, packages

os.environ["NO_PROXY"] = "*"
with packages():
    import openai

QUESTION = "How many legs has a dog?"
MESSAGES = [{"role": "user", "content": QUESTION}]
# What a chat adds, the status, and the field that is blamed.
REFUSED = (
    ({"response_format": {"type": "json"}}, 400, "response_format.type"),
    ({"guided_json": 5}, 400, "guided_json"),
    ({"n": 0}, 400, "n"),
    ({"temperature": -1}, 400, "temperature"),
    ({"stop": 7}, 400, "stop"),
    ({"logit_bias": {"x": 1}}, 400, "logit_bias"),
    ({"top_logprobs": 2}, 400, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs"),
    ({"max_completion_tokens": 0}, 400, "max_completion_tokens"),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
    ({"messages": "x"}, 400, "messages"),
)


class OpenAiTest(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def options(self):
        return {"base_url": f"http://{self.server.target}/v1", "api_key": "none", "timeout": 120, "max_retries": 0}

    def setUp(self):
        self.client = openai.OpenAI(**self.options())
        self.addCleanup(self.client.close)

    def ask(self, **options):
        return self.client.chat.completions.create(model="demo", messages=MESSAGES, temperature=0, **options)

    def test_an_answer_is_that_of_grpc(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["demo"])
        expected = self.generate(chat_request(QUESTION, max_tokens=24))
        answer = self.ask(max_tokens=24)
        self.assertEqual(answer.choices[0].message.content, expected.text)
        self.assertEqual(answer.usage.completion_tokens, expected.finished.usage.completion_tokens)

    def test_a_stream_with_usage(self):
        expected = self.ask(max_completion_tokens=24)
        chunks = list(self.ask(max_completion_tokens=24, stream=True, stream_options={"include_usage": True}))
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        self.assertEqual("".join(pieces), expected.choices[0].message.content)
        self.assertEqual(chunks[-1].usage, expected.usage)
        self.assertTrue(comes_in_parts(lambda: len(list(self.ask(max_completion_tokens=24, stream=True))), 6))

    def test_completions_with_echo_and_logprobs(self):
        answer = self.client.completions.create(model="demo", prompt="Once", max_tokens=4, temperature=0, n=2,
                                                logprobs=2, echo=True)
        self.assertEqual(len(answer.choices), 2)
        for choice in answer.choices:
            self.assertTrue(choice.text.startswith("Once"))
            self.assertEqual("".join(choice.logprobs.tokens), choice.text)

    def test_256_at_once(self):
        expected = self.ask(max_tokens=4).choices[0].message.content

        async def ask_all():
            async with openai.AsyncOpenAI(**self.options()) as client:
                return await asyncio.gather(*(client.chat.completions.create(
                    model="demo", messages=MESSAGES, temperature=0, max_tokens=4) for _ in range(256)))

        answers = asyncio.run(ask_all())
        self.assertEqual({answer.choices[0].message.content for answer in answers}, {expected})

    def test_a_client_that_leaves(self):
        stream = self.client.completions.create(model="demo", prompt="Once", max_tokens=4000, stream=True,
                                                extra_body={"ignore_eos": True})
        for _ in range(3):
            next(stream)
        self.assertEqual(self.server.status().active_streams, 1)
        stream.close()
        status = self.server.wait_until_idle()
        self.assertEqual((status.active_streams, status.kv_blocks_in_use), (0, 0))

    def test_refused_requests_name_the_field(self):
        for extra, status, field in REFUSED:
            with self.subTest(field=field), self.assertRaises(openai.APIStatusError) as caught:
                self.ask(max_tokens=2, extra_body=extra)
            self.assertEqual((caught.exception.status_code, caught.exception.param), (status, field))

    def test_clients_that_give_up_leave_room(self):
        async def give_up():
            async with openai.AsyncOpenAI(**self.options() | {"timeout": 0.5}) as client:
                return await asyncio.gather(*(client.chat.completions.create(
                    model="demo", messages=MESSAGES, max_tokens=4000, extra_body={"min_tokens": 4000})
                    for _ in range(100)), return_exceptions=True)

        self.assertEqual({type(error) for error in asyncio.run(give_up())}, {openai.APITimeoutError})
        self.assertEqual(self.ask(max_tokens=2).usage.completion_tokens, 2)
        status = self.server.wait_until_idle()
        self.assertEqual((status.active_streams, status.kv_blocks_in_use), (0, 0))

    def test_the_raw_answer(self):
        raw = self.client.chat.completions.with_raw_response.create(model="demo", messages=MESSAGES, max_tokens=2)
        self.assertEqual((raw.status_code, raw.headers["content-type"]), (200, "application/json"))
        self.assertEqual(raw.parse().id, raw.headers["x-request-id"])
        with self.client.chat.completions.with_streaming_response.create(
                model="demo", messages=MESSAGES, max_tokens=2, stream=True) as raw:
            self.assertTrue(raw.headers["content-type"].startswith("text/event-stream"))
            self.assertEqual(list(raw.iter_lines())[-2:], ["data: [DONE]", ""])

    def test_several_streamed_continuations_are_those_of_the_whole_answer(self):
        options = {"n": 3, "seed": 5, "max_tokens": 30, "temperature": 3, "model": "demo", "messages": MESSAGES}
        whole = self.client.chat.completions.create(**options)
        texts, ends = [""] * 3, [None] * 3
        for chunk in self.client.chat.completions.create(stream=True, **options):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
                ends[choice.index] = choice.finish_reason
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])
        self.assertEqual(ends, [choice.finish_reason for choice in whole.choices])
        self.assertEqual(len(set(texts)), 3)
        again = self.client.chat.completions.create(**options)
        self.assertEqual([choice.message.content for choice in again.choices], texts)

    def test_a_bias_forces_a_token(self):
        answer = self.client.completions.create(model="demo", prompt="Once", max_tokens=5, logit_bias={"70": 100},
                                                extra_body={"ignore_eos": True, "return_token_ids": True})
        self.assertEqual(answer.choices[0].token_ids, [70] * 5)

    def test_logprobs_of_chats(self):
        choice = self.ask(max_tokens=6, logprobs=True, top_logprobs=2).choices[0]
        content = choice.logprobs.content
        self.assertEqual("".join(one.token for one in content), choice.message.content)
        for one in content:
            self.assertEqual(one.top_logprobs[0].logprob, one.logprob)  # greedy
            self.assertLessEqual(one.top_logprobs[1].logprob, one.logprob)
            self.assertEqual(bytes(one.bytes).decode(), one.token)
        streamed = [one.token for chunk in self.ask(max_tokens=6, logprobs=True, stream=True)
                    if chunk.choices[0].logprobs for one in chunk.choices[0].logprobs.content]
        self.assertEqual(streamed, [one.token for one in content])

    def test_stop_lists(self):
        whole = self.ask(max_tokens=40).choices[0].message.content
        first, second = whole.split()[1:3]
        for stop, end in ((first, first), ([second, first], first), (["never there", second], second)):
            choice = self.ask(max_tokens=40, stop=stop).choices[0]
            self.assertEqual(choice.message.content, whole[:whole.index(end)])
            self.assertEqual((choice.finish_reason, choice.stop_reason), ("stop", end))
        choice = self.ask(max_tokens=40, stop=first, extra_body={"include_stop_str_in_output": True}).choices[0]
        self.assertTrue(choice.message.content.endswith(first))

    def test_the_last_message_goes_on(self):
        whole = self.ask(max_tokens=40)
        begin = whole.choices[0].message.content[:6]
        messages = [*MESSAGES, {"role": "assistant", "content": begin}]
        go_on = {"continue_final_message": True, "add_generation_prompt": False}
        answer = self.client.chat.completions.create(model="demo", messages=messages, temperature=0, max_tokens=40,
                                                     extra_body=go_on)
        self.assertGreater(answer.usage.prompt_tokens, whole.usage.prompt_tokens)
        self.assertFalse(answer.choices[0].message.content.startswith(begin))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="demo", messages=messages, extra_body=go_on | {
                "add_generation_prompt": True})
        self.assertEqual(caught.exception.param, "continue_final_message")

    def test_variables_of_the_template(self):
        self.assertEqual(self.ask(max_tokens=4, extra_body={"chat_template_kwargs": {"enable_thinking": False}}).usage,
                         self.ask(max_tokens=4).usage)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(extra_body={"chat_template_kwargs": [1]})
        self.assertEqual(caught.exception.param, "chat_template_kwargs")

    def test_any_text_comes_back_as_it_was(self):
        for text in ("Grüße, 你好 🐱 \u2028", "\"quotes\" \\ and \t tabs\n", "e\u0301 \u200d \ufeff", "\x7f"):
            answer = self.client.completions.create(model="demo", prompt=text, max_tokens=1, echo=True)
            self.assertTrue(answer.choices[0].text.startswith(text), answer.choices[0].text)

    def test_prompts_that_are_too_long(self):
        for call in (lambda text: self.client.completions.create(model="demo", prompt=text),
                     lambda text: self.client.completions.create(model="demo", prompt=text, stream=True),
                     lambda text: self.client.chat.completions.create(model="demo", messages=[
                         {"role": "user", "content": text}])):
            with self.assertRaises(openai.BadRequestError) as caught:
                call("many words " * 5000)
            self.assertEqual(caught.exception.code, "context_length_exceeded")
            self.assertIn("maximum context length is 4096 tokens", caught.exception.message)

    def test_a_model_that_is_not_served(self):
        for call in (lambda: self.client.models.retrieve("other"),
                     lambda: self.client.completions.create(model="other", prompt="x"),
                     lambda: self.client.chat.completions.create(model="other", messages=MESSAGES)):
            with self.assertRaises(openai.NotFoundError) as caught:
                call()
            self.assertEqual(caught.exception.code, "model_not_found")
        self.assertEqual(self.client.models.retrieve("demo").id, "demo")

    def test_embeddings_are_refused(self):
        with self.assertRaisesRegex(openai.APIStatusError, "no embeddings"):
            self.client.embeddings.create(model="demo", input="x")


class KeysTest(unittest.TestCase):
    """As vLLM's --api-key, with roles and limits."""

    KEYS = ({"key": "web-0123456789abcdef", "name": "web", "max_concurrent_requests": 1},
            {"key": "admin-0123456789abcdef", "name": "operator", "roles": ["admin"]})

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "keys"
        path.write_text("".join(json.dumps(key) + "\n" for key in self.KEYS), encoding="utf-8")
        path.chmod(0o600)
        self.server = self.enterContext(Server("--api-key-file", str(path)))

    def client(self, key, max_retries=0):
        client = openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key=key, timeout=120,
                               max_retries=max_retries)
        self.addCleanup(client.close)
        return client

    @staticmethod
    def complete(client, **options):
        return client.completions.create(model="demo", prompt="Once", **{"max_tokens": 2, **options})

    def test_who_may_ask(self):
        self.assertEqual(self.complete(self.client("web-0123456789abcdef")).usage.completion_tokens, 2)
        with self.assertRaises(openai.AuthenticationError):
            self.complete(self.client("nobody-0123456789abcdef"))
        with self.assertRaises(openai.PermissionDeniedError):
            self.complete(self.client("admin-0123456789abcdef"))

    def test_too_many_are_told_when_to_come_again_and_then_served(self):
        client = self.client("web-0123456789abcdef")
        stream = self.complete(client, max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        next(stream)
        with self.assertRaises(openai.RateLimitError) as caught:
            self.complete(client)
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)
        stream.close()
        # The client waits as long as it is told to, and asks again.
        answer = self.complete(self.client("web-0123456789abcdef", max_retries=5))
        self.assertEqual(answer.usage.completion_tokens, 2)

    def test_whoever_comes_while_the_server_ends_is_sent_elsewhere(self):
        client = self.client("web-0123456789abcdef")
        stream = self.complete(client, max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
        next(stream)
        self.server.signal(signal.SIGTERM)
        with self.assertRaises(openai.InternalServerError) as caught:
            while True:  # until the server has heard of the signal
                with contextlib.suppress(openai.RateLimitError):
                    self.complete(client)
        self.assertEqual(caught.exception.status_code, 503)
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)
        stream.close()
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    main()
