"""The official openai client against the server's own HTTP/1.1: answers, streams, many at once, clients that leave, and
requests that are refused by name."""

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import unittest

os.environ["NO_PROXY"] = "*"

from harness import Server, ServerTestCase, chat_request, main  # noqa: E402

try:
    import openai
except ImportError as error:
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")
    sys.exit(77)

QUESTION = "How many legs has a dog?"
MESSAGES = [{"role": "user", "content": QUESTION}]
# What a chat adds, the status, and the field that is blamed.
REFUSED = (
    ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    ({"guided_json": {}}, 400, "guided_json"),
    ({"n": 0}, 400, "n"),
    ({"temperature": -1}, 400, "temperature"),
    ({"stop": 7}, 400, "stop"),
    ({"logit_bias": {"x": 1}}, 400, "logit_bias"),
    ({"top_logprobs": 2}, 400, "top_logprobs"),
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
        self.assertGreater(sum(piece != "" for piece in pieces), 3)
        self.assertEqual(chunks[-1].usage, expected.usage)

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


if __name__ == "__main__":
    main()
