"""What python_client_test.py runs with the package quire-client alone installed, against servers that it has started:
their addresses are in the variable SERVERS. mypy --strict takes this file as it stands, so it also shows that the
client's types are right."""

from __future__ import annotations

import asyncio
import json
import os
import time
import unittest
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncGenerator, Callable, Dict, List
from unittest import mock

import quire_client
from quire_client import AsyncQuireClient, Delta, Finished, QuireClient, QuireError, Started

SERVERS: Dict[str, str] = json.loads(os.environ["SERVERS"])
CHAT = [{"role": "user", "content": "What is 17 + 25?"}]
LONG = list(range(5, 40))


def until(what: str, holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not holds():
        if time.monotonic() > give_up:
            raise AssertionError(f"after 60 s: {what}")
        time.sleep(0.01)


def is_idle(client: QuireClient) -> bool:
    status = client.status()
    return not (status.active_streams or status.running_sequences or status.kv_blocks_in_use)


class Calls(unittest.TestCase):
    def setUp(self) -> None:
        self.client = QuireClient(SERVERS["plain"])
        self.addCleanup(self.client.close)

    def test_a_stream_of_events(self) -> None:
        events = list(self.client.generate(CHAT, temperature=0, max_tokens=16, logprobs=2, request_id="mine"))
        self.assertIsInstance(events[0], Started)
        text = "".join(event.text for event in events if isinstance(event, Delta))
        self.assertIn("42", text)
        started, finished = events[0], events[-1]
        assert isinstance(started, Started) and isinstance(finished, Finished)
        self.assertEqual((started.request_id, started.prompt_tokens), ("mine", finished.usage.prompt_tokens))
        logprobs = [entry for event in events if isinstance(event, Delta) for entry in event.logprobs]
        self.assertEqual(len(logprobs), finished.usage.completion_tokens)
        self.assertEqual(len(logprobs[0].top), 2)
        self.assertIn(b"42", b"".join(entry.token_bytes for entry in logprobs))

    def test_text_ids_and_messages(self) -> None:
        ids = list(self.client.tokenize("Once upon a").ids)
        self.assertEqual(self.client.detokenize(ids), "Once upon a")
        answers = [self.client.generate_once(prompt, temperature=0, max_tokens=8).choices[0].text
                   for prompt in ("Once upon a", ids, tuple(ids))]
        self.assertTrue(answers[0])
        self.assertEqual(len(set(answers)), 1)
        rendered = self.client.tokenize(CHAT, return_tokens=True)
        self.assertEqual(len(rendered.tokens), len(rendered.ids))
        self.assertIn("17 + 25", rendered.rendered)
        with self.assertRaisesRegex(TypeError, "string or messages"):
            self.client.tokenize(ids)

    def test_options_reach_their_fields(self) -> None:
        answer = self.client.generate_once("Once upon", n=2, temperature=0, stop_strings="time", seed=None,
                                           include_stop_in_output=True, return_token_ids=True, logit_bias={5: -100.0})
        self.assertEqual([choice.finished.matched_stop_string for choice in answer.choices], ["time", "time"])
        self.assertTrue(all(choice.text.endswith("time") and choice.token_ids for choice in answer.choices))
        begun = [{"role": "user", "content": "Say yes"}, {"role": "assistant", "content": "ye"}]
        went_on = self.client.tokenize(begun, add_generation_prompt=False, continue_final_message=True).rendered
        self.assertTrue(went_on.endswith("ye"), went_on)
        with QuireClient(SERVERS["small"]) as client:  # its template prints these
            messages: List[Dict[str, Any]] = [{"role": "user", "content": "Hi", "name": "me"},
                                              {"role": "assistant", "content": None}]
            rendered = client.tokenize(messages, template_kwargs_json={"mood": "good"}).rendered
        self.assertEqual(rendered, "user me Hi, assistant  , good")

    def test_what_the_answer_must_be(self) -> None:
        schema = {"type": "object", "properties": {"legs": {"enum": [2, 4]}}, "required": ["legs"],
                  "additionalProperties": False}
        for given in (schema, json.dumps(schema)):
            answer = self.client.generate_once(CHAT, json_schema=given, temperature=2)
            self.assertIn(json.loads(answer.choices[0].text)["legs"], (2, 4))
        self.assertRegex(self.client.generate_once(CHAT, regex="[ab]{3}").choices[0].text, "^[ab]{3}$")
        self.assertIn(self.client.generate_once(CHAT, choices=["red", "green"]).choices[0].text, ("red", "green"))
        self.assertIsInstance(json.loads(self.client.generate_once(CHAT, json_object=True, temperature=0).choices[0].text), dict)

    def test_unknown_options_are_named_with_near_ones(self) -> None:
        options: Dict[str, Any] = {"max_token": 5}
        with self.assertRaisesRegex(TypeError, "max_token; did you mean max_tokens"):
            self.client.generate("a", **options)
        with self.assertRaisesRegex(TypeError, "a request with text has no option add_generation_prompt"):
            self.client.generate("a", add_generation_prompt=True)
        options = {"temperature": "hot"}
        with self.assertRaisesRegex(TypeError, "temperature='hot'"):
            self.client.generate("a", **options)
        with self.assertRaisesRegex(ValueError, "top_k=4294967296"):
            self.client.generate("a", top_k=2**32)

    def test_the_other_methods(self) -> None:
        self.assertTrue(self.client.health())
        model = self.client.get_model()
        self.assertEqual((model.name, model.version), ("demo", quire_client.__version__))
        self.client.generate_once(LONG, max_tokens=1)
        self.assertGreater(self.client.flush(), 0)
        self.assertFalse(self.client.abort("nobody's"))
        stream = self.client.generate(LONG, max_tokens=4000, ignore_eos=True, request_id="to abort")
        next(stream)
        self.assertTrue(self.client.abort("to abort"))
        finished = list(stream)[-1]
        assert isinstance(finished, Finished)
        self.assertEqual(finished.finish_reason, 3)

    def test_errors_have_types(self) -> None:
        with self.assertRaisesRegex(quire_client.InvalidArgument, "top_k") as invalid:
            list(self.client.generate("a", top_k=-7))
        self.assertEqual((invalid.exception.code, invalid.exception.retry_after), ("INVALID_ARGUMENT", None))
        self.assertIsInstance(invalid.exception, QuireError)
        with self.assertRaises(quire_client.NotFound):
            self.client.generate_once("a", model="another")
        with self.assertRaises(quire_client.DeadlineExceeded):
            self.client.generate_once(LONG, max_tokens=4000, ignore_eos=True, timeout=0.05)
        with QuireClient(SERVERS["plain"], timeout=0.05) as hasty, self.assertRaises(quire_client.DeadlineExceeded):
            list(hasty.generate(LONG, max_tokens=4000, ignore_eos=True))
        stream = self.client.generate(LONG, max_tokens=4000, ignore_eos=True, request_id="same")
        next(stream)
        with self.assertRaises(quire_client.AlreadyExists):
            self.client.generate_once(LONG, request_id="same")
        stream.close()
        with QuireClient("127.0.0.1:1", retries=0) as nobody, self.assertRaises(quire_client.Unavailable):
            nobody.health()

    def test_leaving_the_loop_frees_the_blocks(self) -> None:
        for event in self.client.generate(LONG, max_tokens=4000, ignore_eos=True):
            if isinstance(event, Delta):
                self.assertEqual(self.client.status().active_streams, 1)
                break
        until("the request has ended", lambda: is_idle(self.client))

    def test_targets(self) -> None:
        for target in ("a:b:c", "http://a/path", "host:0", "host:65536", "ftp://host", "user@host"):
            with self.assertRaisesRegex(ValueError, "HOST:PORT"):
                QuireClient(target)
        for target in (f"http://{SERVERS['plain']}/", f"grpc://{SERVERS['plain']}"):
            with QuireClient(target) as client:
                self.assertTrue(client.health())
        with self.assertRaisesRegex(ValueError, "API key"):
            QuireClient(api_key="two words")
        with self.assertRaisesRegex(ValueError, "retries=5"):
            QuireClient(retries=5)


class AsyncCalls(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = AsyncQuireClient(SERVERS["plain"])
        self.addAsyncCleanup(self.client.close)

    async def has_ended(self) -> None:
        with QuireClient(SERVERS["plain"]) as watcher:
            await asyncio.get_running_loop().run_in_executor(None, until, "it has ended", lambda: is_idle(watcher))

    async def first_delta(self, stream: AsyncGenerator[Any, None]) -> None:
        async for event in stream:
            if isinstance(event, Delta):
                break

    def long(self) -> AsyncGenerator[Any, None]:
        return self.client.generate(LONG, max_tokens=4000, ignore_eos=True)

    async def test_many_at_once(self) -> None:
        async def ask(number: int) -> str:
            text = ""
            async for event in self.client.generate(f"What is {number} + 1?", temperature=0, max_tokens=12):
                text += event.text if isinstance(event, Delta) else ""
            return text

        alone = [await ask(number) for number in range(4)]
        together: List[str] = list(await asyncio.gather(*(ask(i % 4) for i in range(64))))
        self.assertEqual(together, alone * 16)

    async def test_every_method(self) -> None:
        async with AsyncQuireClient(SERVERS["plain"]) as client:
            self.assertTrue(await client.health())
            ids = (await client.tokenize("Once upon a")).ids
            self.assertEqual(await client.detokenize(ids), "Once upon a")
            answer = await client.generate_once(ids, max_tokens=2)
            self.assertEqual(answer.choices[0].finished.usage.completion_tokens, 2)
            self.assertEqual((await client.get_model()).name, "demo")
            self.assertGreater((await client.status()).kv_blocks_total, 0)
            self.assertGreaterEqual(await client.flush(), 0)
            self.assertFalse(await client.abort("nobody's"))
            with self.assertRaises(quire_client.InvalidArgument):
                await client.generate_once("a", top_k=-7)

    async def test_leaving_closing_and_cancelling_free_the_blocks(self) -> None:
        await self.first_delta(self.long())  # leaves the loop, and drops the stream
        await self.has_ended()
        stream = self.long()
        await self.first_delta(stream)
        self.assertEqual((await self.client.status()).active_streams, 1)
        await stream.aclose()
        await self.has_ended()

        begun = asyncio.Event()

        async def read() -> None:
            async for _ in self.long():
                begun.set()

        for call in (read(), self.client.generate_once(LONG, max_tokens=4000, ignore_eos=True)):
            task = asyncio.ensure_future(call)
            while not (await self.client.status()).active_streams:
                await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await self.has_ended()
        self.assertTrue(begun.is_set())


class FullQueue(unittest.TestCase):
    """A server that runs one request and lets one wait."""

    @staticmethod
    def refused() -> float:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{SERVERS['small']}/metrics", timeout=60) as page:
            return sum(float(line.split()[-1]) for line in page.read().decode().splitlines()
                       if line.startswith("quire_requests_refused_total{") and 'reason="queue_full"' in line)

    def test_a_refused_request_is_tried_again(self) -> None:
        with QuireClient(SERVERS["small"]) as client, ThreadPoolExecutor() as pool:
            running = client.generate(LONG, max_tokens=4000, ignore_eos=True)
            next(running)
            waiting = pool.submit(lambda: client.generate_once(LONG, max_tokens=1))
            until("one waits", lambda: client.status().waiting_requests == 1)
            with QuireClient(SERVERS["small"], retries=0) as hasty:
                with self.assertRaises(quire_client.ResourceExhausted) as full:
                    hasty.generate_once(LONG, max_tokens=1)
            self.assertGreater(full.exception.retry_after or 0, 0)
            before = self.refused()
            patient = pool.submit(lambda: list(client.generate(LONG, max_tokens=1)))
            until("it was refused once", lambda: self.refused() > before)
            running.close()
            self.assertIsInstance(patient.result(60)[-1], Finished)
            self.assertEqual(len(waiting.result(60).choices), 1)


class Keys(unittest.TestCase):
    def test_keys_and_tls(self) -> None:
        target, ca, key = SERVERS["tls"], SERVERS["ca"], SERVERS["key"]
        with QuireClient(target, ca=ca, api_key=key) as client:
            self.assertIn("42", client.generate_once(CHAT, temperature=0, max_tokens=16).choices[0].text)
            with self.assertRaises(quire_client.PermissionDenied):
                client.status()
        with QuireClient(target, ca=ca, api_key="a-key-that-is-none") as stranger:
            with self.assertRaises(quire_client.Unauthenticated):
                stranger.get_model()
        with QuireClient(target, api_key=key, retries=0) as distrustful, self.assertRaises(quire_client.Unavailable):
            distrustful.get_model()
        with mock.patch.dict(os.environ, QUIRE_TARGET=target, QUIRE_API_KEY=key + "\n", QUIRE_CA_FILE=ca):
            with QuireClient() as client:
                self.assertEqual(client.get_model().name, "demo")
            with self.assertRaisesRegex(FileNotFoundError, "nowhere"):
                QuireClient(ca="/nowhere")
        with QuireClient(target, ca=ca, certificate=SERVERS["certificate"], certificate_key=SERVERS["certificate_key"],
                         api_key="") as client:
            self.assertGreater(client.status().kv_blocks_total, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
