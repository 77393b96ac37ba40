"""quire-bench against OpenAI servers that are not ours: one that speaks as llama-cpp-python's does, which counts no
tokens, takes no token ids and only UUIDs as ids of requests, does not know ignore_eos and gives up an answer for the next request; and one that has
nothing but the interface's one path."""

import contextlib
import http.server
import json
import threading
import uuid

from bench_test import BenchTestCase, bench, complaints
from harness import ROOT, main

WORDS = ("the", " of", " and", " to")


class Foreign(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lists_models = True
    ends = ("length",)  # of answers, in turn; None: given up
    num_asked = 0

    def log_message(self, *_):
        pass

    def send(self, status, body, content_type="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/v1/models" or not self.lists_models:
            self.send(404, b'{"detail":"Not Found"}')
            return
        model = {"id": "foreign", "object": "model", "owned_by": "me", "permissions": []}
        self.send(200, json.dumps({"object": "list", "data": [model]}).encode())

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_chat = self.path == "/v1/chat/completions"
        try:
            uuid.UUID(self.headers["x-request-id"])
        except ValueError:
            self.send(400, b"")
            return
        if not is_chat and not isinstance(asked["prompt"], str):
            self.send(500, json.dumps({"detail": [{"loc": ["body", "prompt", "str"],
                                                   "msg": "Input should be a valid string"}]}).encode())
            return
        end = self.ends[Foreign.num_asked % len(self.ends)]
        Foreign.num_asked += 1
        count = asked["max_tokens"] if end == "length" else 2
        events = [": ping - 2026-01-01"]
        for text, reason in [*((WORDS[i % len(WORDS)], None) for i in range(count)), *([("", end)] if end else [])]:
            choice = {"delta": {"content": text}} if is_chat else {"text": text}
            events.append("data: " + json.dumps({"choices": [{"index": 0, "logprobs": None, "finish_reason": reason,
                                                              **choice}]}))
        self.send(200, "".join(event + "\r\n\r\n" for event in [*events, "data: [DONE]"]).encode(), "text/event-stream")


@contextlib.contextmanager
def foreign(**settings):
    """The address of such a server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Foreign,), settings))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ForeignTest(BenchTestCase):
    def setUp(self):
        super().setUp()
        Foreign.num_asked = 0

    def serve(self, url, *arguments, backend="openai", **kwargs):
        return self.result("serve", "--backend", backend, "--base-url", url, "--num-prompts", 4, "--input-len", 20,
                           "--output-len", 6, "--max-concurrency", 1, "--save-detailed", *arguments, **kwargs)

    def test_what_it_does_not_count_a_tokenizer_does(self):
        with foreign() as url:
            result, run = self.serve(url, "--text-prompts")
            self.assertEqual((result["completed"], result["failed"], result["uncounted"]), (4, 0, 4))
            self.assertEqual(result["total_output_tokens"], 4 * 6)  # pieces
            self.assertEqual(result["served"], {"model": "foreign"})
            warning, = complaints(run)
            self.assertIn("does not say how many tokens 4 requests have", warning)
            result, run = self.serve(url, "--text-prompts", "--tokenizer", ROOT / "configs/demo")
            self.assertEqual((result["total_input_tokens"], result["uncounted"]), (4 * 20, 0))
            self.assertEqual(complaints(run), [])

    def test_an_answer_that_is_given_up_is_not_a_fast_one(self):
        with foreign(ends=("length", None)) as url:
            result, run = self.serve(url, "--text-prompts", code=1)
            self.assertEqual((result["completed"], result["failed"]), (2, 2))
            self.assertIn("without a finish_reason", run.stderr)

    def test_answers_that_end_early_are_told(self):
        with foreign(ends=("length", "stop", "length", "length")) as url:
            result, run = self.serve(url, "--text-prompts", "--tokenizer", ROOT / "configs/demo")
            self.assertEqual(result["stopped"], 1)
            warning, = complaints(run)
            self.assertIn("1 of 4 answers ended before they were as long", warning)
            html = self.folder / "report.html"
            bench("report", self.json_file, "--html", html)
            self.assertIn("1 of 4 answers ended before they were as long", html.read_text())
            html.unlink()
            _, run = self.serve(url, "--text-prompts", "--tokenizer", ROOT / "configs/demo", "--no-ignore-eos")
            self.assertEqual(complaints(run), [])

    def test_a_sweep_tells_what_it_does_not_know_once(self):
        with foreign(ends=("stop",)) as url:
            run = bench("sweep", "--backend", "openai", "--base-url", url, "--text-prompts", "--by", "concurrency",
                        "--values", "1,2,3", "--num-prompts", 6, "--input-len", 20, "--output-len", 6)
            self.assertEqual(run.stdout.count(" at a time "), 3, run.stdout)
            self.assertEqual(run.stderr.count("6 of 6 answers ended before they were as long"), 1, run.stderr)
            self.assertEqual(run.stderr.count("does not say how many tokens"), 1, run.stderr)

    def test_token_ids_that_it_does_not_take(self):
        with foreign() as url:
            _, run = self.serve(url, code=1)
            self.assertIn("HTTP 500", run.stderr)
            self.assertIn("--text-prompts", run.stderr)

    def test_chats_are_as_long_as_is_asked_for(self):
        with foreign() as url:
            result, _ = self.serve(url, backend="openai-chat")
            self.assertEqual(result["output_lens"], [6] * 4)

    def test_a_server_that_does_not_list_its_models(self):
        with foreign(lists_models=False) as url:
            self.assert_refused("name the model by --model", "serve", "--backend", "openai", "--base-url", url, code=1)
            result, _ = self.serve(url, "--text-prompts", "--model", "mine")
            self.assertEqual((result["completed"], result["model_id"]), (4, "mine"))


if __name__ == "__main__":
    main()
