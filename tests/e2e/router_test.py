"""The SMG router as configs/smg/ starts it, in front of two servers, which it drives by vllm.grpc.engine.VllmEngine, and
the official openai client in front of it: answers, streams, usage, clients that leave, prompts that go where their
beginning is cached, and a worker that dies. configs/smg/two-replicas starts all three, and ends them."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BUILD, ROOT, Server, chat_request, free_port, grpc, main, packages, pb, pb_grpc
from log_file import written

with packages():
    import openai

SMG = pathlib.Path(sys.executable).parent / "smg"
EXAMPLE = ROOT / "configs/smg"
QUESTION = "How many legs has a dog?"


class Router:
    """configs/smg/router before these servers, or another script that starts one; a context manager."""

    def __init__(self, *targets, script=EXAMPLE / "router", **variables):
        self.port = free_port()
        self.log = tempfile.TemporaryFile(mode="w+")
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment.update({"SMG": str(SMG), "ROUTER_PORT": str(self.port), "ROUTER_METRICS_PORT": str(free_port()), **variables})
        self.process = subprocess.Popen([script, *targets], stdout=self.log, stderr=subprocess.STDOUT, env=environment,
                                        start_new_session=True)
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", timeout=60,
                                    max_retries=0)

    def output(self):
        return written(self.log)

    def wait_until_serving(self):
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                break
            try:
                self.ask("hello", max_tokens=1)
                return
            except openai.APIError:
                time.sleep(0.1)
        raise RuntimeError(f"the router does not serve:\n{self.output()}")

    def wait_for_line(self, text):
        give_up = time.monotonic() + 60
        while text not in self.output():
            if time.monotonic() > give_up or self.process.poll() is not None:
                raise RuntimeError(f"never said {text!r}:\n{self.output()}")
            time.sleep(0.05)

    def ask(self, content, **options):
        return self.client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": content}], temperature=0, **options)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class RouterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workers = [Server("--served-model-name", "demo"), Server("--served-model-name", "demo")]
        cls.router = Router(*(worker.target for worker in cls.workers))
        cls.router.wait_until_serving()

    @classmethod
    def tearDownClass(cls):
        cls.router.__exit__()
        codes = [worker.stop() for worker in cls.workers]
        for worker in cls.workers:
            worker.__exit__()
        if codes != [0, 0]:
            raise AssertionError(f"the servers ended with {codes}")

    def expected(self, max_tokens):
        responses = list(self.workers[0].inference.Generate(chat_request(QUESTION, max_tokens=max_tokens)))
        text = "".join(response.delta.text for response in responses if response.HasField("delta"))
        return text, responses[-1].finished.usage

    def test_an_answer(self):
        self.assertEqual([model.id for model in self.router.client.models.list()], ["demo"])
        text, usage = self.expected(24)
        answer = self.router.ask(QUESTION, max_tokens=24)
        self.assertEqual(answer.choices[0].message.content, text)
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens),
                         (usage.prompt_tokens, usage.completion_tokens))

    def test_two_answers(self):
        answer = self.router.ask(QUESTION, max_tokens=9, n=2)
        text = self.expected(9)[0]
        self.assertEqual([choice.message.content for choice in answer.choices], [text, text])
        self.assertEqual(answer.usage.completion_tokens, 18)

    def test_a_stream(self):
        text, usage = self.expected(24)
        chunks = list(self.router.ask(QUESTION, max_tokens=24, stream=True, stream_options={"include_usage": True}))
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        self.assertEqual("".join(pieces), text)
        self.assertGreater(sum(piece != "" for piece in pieces), 3)
        self.assertEqual(chunks[-1].usage.completion_tokens, usage.completion_tokens)

    def test_a_client_that_leaves(self):
        stream = self.router.client.completions.create(
            model="demo", prompt="Once", max_tokens=4000, temperature=0, stream=True, extra_body={"ignore_eos": True})
        for _ in range(3):
            next(stream)
        self.assertEqual(sum(worker.status().active_streams for worker in self.workers), 1)
        stream.close()
        for worker in self.workers:
            status = worker.wait_until_idle()
            self.assertEqual((status.active_streams, status.kv_blocks_in_use), (0, 0))

    def all_where_the_first_was(self, beginning):
        """Whether eight prompts with this beginning go to the server that had the first of them."""
        hits = [worker.status().prefix_hit_tokens for worker in self.workers]
        cached = [self.router.ask(beginning + str(i), max_tokens=1).usage.prompt_tokens_details.cached_tokens
                  for i in range(9)]
        self.assertEqual(cached[0], 0)
        now = [worker.status().prefix_hit_tokens for worker in self.workers]
        return min(cached[1:]) > 64 and sum(after > before for before, after in zip(hits, now)) == 1

    def test_prompts_go_where_they_are_cached(self):
        # The router hears of a server's cache a moment later, on a busy machine after the next prompt has come. By
        # chance eight prompts go to one server once in 256 times.
        shared = "A long beginning that many prompts share, and that fills some blocks of the cache. " * 6
        self.assertTrue(any(self.all_where_the_first_was(f"{i} {shared}") for i in range(3)))

    def test_a_bad_parameter_is_named(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            self.router.ask(QUESTION, max_tokens=4, extra_body={"stop_token_ids": [99999]})
        self.assertIn("99999", str(caught.exception))


class DeathTest(unittest.TestCase):
    def test_a_worker_that_dies(self):
        with Server("--served-model-name", "demo") as first, Server("--served-model-name", "demo") as second, \
                Router(first.target, second.target) as router:
            router.wait_until_serving()
            first.signal(signal.SIGKILL)
            first.process.wait()
            answers, give_up = 0, time.monotonic() + 60
            while answers < 8 and time.monotonic() < give_up:
                try:
                    router.ask(f"{answers} {QUESTION}", max_tokens=2)
                    answers += 1
                except openai.APIError:
                    answers = 0
                    time.sleep(0.2)
            self.assertEqual(answers, 8, router.output())
            self.assertEqual(second.stop(), 0)


def two_replicas(ports, **variables):
    return Router(script=EXAMPLE / "two-replicas",
                  **{"REPLICA_PORTS": f"{ports[0]} {ports[1]}", "BIN": str(BUILD / "bin"), **variables})


class ExampleTest(unittest.TestCase):
    def test_two_replicas(self):
        ports = [free_port(), free_port()]
        with two_replicas(ports) as example:
            example.wait_until_serving()
            self.assertIn("5", example.ask("What is 2 + 3?", max_tokens=8).choices[0].message.content)
            for port in ports:  # both serve
                with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.enable_http_proxy", 0)]) as channel:
                    self.assertEqual(pb_grpc.InferenceStub(channel).GetModel(pb.GetModelRequest(), timeout=60).name, "demo")
            os.killpg(example.process.pid, signal.SIGINT)  # as a terminal's Ctrl-C
            self.assertEqual(example.process.wait(timeout=60), 0, example.output())
            for port in (*ports, example.port):
                with socket.socket() as probe:
                    self.assertNotEqual(probe.connect_ex(("127.0.0.1", port)), 0, f"{port} is still open")
            for port in ports:
                self.assertRegex(example.output(), rf"(?m)^\[{port}\] .* info stopped$")

    def test_one_goes_on_without_the_other(self):
        ports = [free_port(), free_port()]
        with two_replicas(ports) as example:
            example.wait_until_serving()
            listed = subprocess.run(["pgrep", "-P", str(example.process.pid), "-f", f"port {ports[1]}$"],
                                    capture_output=True, text=True, check=True)
            os.kill(int(listed.stdout), signal.SIGKILL)
            example.wait_for_line(f"the server on port {ports[1]} has ended")
            answers = [example.ask(f"What is {i} + 3?", max_tokens=8).choices[0].message.content for i in range(6)]
            self.assertEqual(answers[2], "5")
            self.assertIsNone(example.process.poll(), example.output())

    def test_what_is_missing_is_said_before_anything_starts(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            ports = [free_port(), taken.getsockname()[1]]
            for variables, words in (({}, f"port {ports[1]} is taken"), ({"SMG": "/nowhere/smg"}, "pip install smg=="),
                                     ({"BIN": "/nowhere"}, "no /nowhere/quire-server")):
                with self.subTest(words), two_replicas(ports, **variables) as example:
                    self.assertEqual(example.process.wait(timeout=60), 69, example.output())
                    self.assertIn(words, example.output())
                    self.assertEqual(len(example.output().splitlines()), 1)


if __name__ == "__main__":
    main()
