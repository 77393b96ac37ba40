"""OpenAI's interface as HTTP: bodies, methods and paths that are wrong, connections that are kept, pipelining, chunked
bodies, HTTP/2 in the clear, pages of other origins, and streams that have nothing to say."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time
import unittest

from harness import ROOT, SERVER, Server, ServerTestCase, free_port, main, packages

os.environ["NO_PROXY"] = "*"
with packages():
    import openai

JSON = {"content-type": "application/json"}
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "What is 2 + 3?"}], "temperature": 0}
COMPLETION = {"model": "demo", "prompt": "Once", "max_tokens": 2, "temperature": 0}
POSTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize", "/detokenize")
# A method, a path, headers and body; then the status, OpenAI's code, and what the sentence says.
REFUSED = (
    *(("POST", path, JSON, body, 400, None, part) for path in POSTS for body, part in (
        ("", "the body: not valid JSON"), ("{", "JSON"), ('{"a": 1', "JSON"), ("[]", "not a JSON object"),
        ("42", "not a JSON object"), ('"text"', "not a JSON object"), ("null", "not a JSON object"),
        ('{"model": "demo"} x', "JSON"), ("[" * 100000, "nested"))),
    *(("POST", path, {"content-type": kind}, "{}", 415, None, "application/json") for path in POSTS for kind in (
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")),
    ("POST", "/v1/completions", JSON | {"content-encoding": "gzip"}, "{}", 415, None, "not compressed"),
    ("POST", "/v1/completions", JSON, json.dumps(COMPLETION | {"model": "other"}), 404, "model_not_found", "other"),
    ("POST", "/v1/chat/completions", JSON, json.dumps(CHAT | {"model": "other"}), 404, "model_not_found", "other"),
    ("GET", "/v1/models/other", {}, None, 404, "model_not_found", "other"),
    ("GET", "/v1/nothing", {}, None, 404, "unknown_url", "/v1/nothing"),
    ("POST", "/chat/completions", JSON, "{}", 404, "unknown_url", "did you mean /v1/chat/completions?"),
    ("POST", "/v1/v1/completions", JSON, "{}", 404, "unknown_url", "did you mean /v1/completions?"),
    ("POST", "/v2/chat/completions", JSON, "{}", 404, "unknown_url", "/v2"),
    ("GET", "/v1/chat/completions", {}, None, 405, "method_not_supported", "POST"),
    ("PUT", "/v1/models", JSON, "{}", 405, "method_not_supported", "GET"),
    ("DELETE", "/v1/completions", {}, None, 405, "method_not_supported", "POST"),
    ("POST", "/v1/embeddings", JSON, "{}", 400, None, "no embeddings"),
    ("POST", "/v1/completions", JSON, " " * (5 << 20), 413, None, "bytes"),
    ("POST", "/v1/completions", JSON, json.dumps(COMPLETION | {"prompt": [1] * 9000}), 400, "context_length_exceeded",
     "maximum context length is 4096 tokens"),
    # As many ids as a context of 128k has, and an evaluation's batch: something else is wrong with both.
    ("POST", "/v1/completions", JSON, json.dumps(COMPLETION | {"prompt": [1] * 131072}), 400, "context_length_exceeded",
     "maximum context length is 4096 tokens"),
    ("POST", "/v1/completions", JSON, json.dumps(COMPLETION | {"prompt": [[1] * 2000] * 40, "temperature": -1}), 400, None,
     "temperature"),
    ("POST", "/v1/completions", JSON, json.dumps(COMPLETION | {"stop": ["x"] * 65}), 400, None, "at most 64"),
    ("POST", "/v1/completions", JSON, json.dumps(COMPLETION | {"prompt": "word " * 9000}), 400,
     "context_length_exceeded", "maximum context length is 4096 tokens"),
)


def read_answers(connection, count):
    """Status, headers and body of `count` answers, of which each says its length."""
    answers, stream = [], connection.makefile("rb")
    while len(answers) < count:
        status = int(stream.readline().split()[1])
        headers = dict(line.decode().strip().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
        if status == 100:
            answers.append((status, headers, b""))
            continue
        answers.append((status, headers, stream.read(int(headers["content-length"]))))
    return answers


class HttpTest(ServerTestCase):
    FLAGS = ("--served-model-name", "demo")

    def call(self, method, path, headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def connect(self):
        return contextlib.closing(socket.create_connection(("127.0.0.1", self.server.port), timeout=120))

    def test_refused_requests(self):
        for method, path, headers, body, status, code, part in REFUSED:
            with self.subTest(method=method, path=path, headers=headers, body=(body or "")[:40]):
                try:
                    answer = self.call(method, path, headers, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.assertEqual(status, 413)  # said before the body had been sent
                    continue
                self.assertEqual(answer[0], status, answer[2])
                error = json.loads(answer[2])["error"]
                self.assertEqual(set(error), {"message", "type", "param", "code"})
                self.assertEqual(error["code"], code)
                self.assertIn(part, error["message"])
                if status == 405:
                    self.assertIn(error["message"].split()[-1].rstrip("."), answer[1]["allow"])

    def test_as_many_stop_strings_as_an_evaluation_has(self):
        status, _, body = self.call("POST", "/v1/completions", JSON,
                                    json.dumps(COMPLETION | {"stop": [f"stop {i}" for i in range(64)]}))
        self.assertEqual(status, 200, body)

    def test_token_ids_are_as_many_as_the_body_holds(self):
        status, _, body = self.call("POST", "/detokenize", JSON, json.dumps({"tokens": [70] * 131072}))
        self.assertEqual(status, 200, body)

    def test_a_connection_is_kept(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        with contextlib.closing(connection):
            sockets = set()
            for body, status in ((CHAT, 200), ({}, 400), (CHAT | {"stream": True}, 200), (CHAT, 200)):
                connection.request("POST", "/v1/chat/completions", json.dumps(body), JSON)
                sockets.add(connection.sock)
                answer = connection.getresponse()
                self.assertEqual(answer.status, status)
                self.assertTrue(answer.read())
            self.assertEqual(len(sockets), 1)

    def test_pipelined_requests_are_answered_in_their_order(self):
        body = json.dumps(COMPLETION)
        post = (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}")
        get = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
        with self.connect() as connection:
            connection.sendall((post + get + post + get).encode())
            objects = [json.loads(body)["object"] for _, _, body in read_answers(connection, 4)]
        self.assertEqual(objects, ["text_completion", "list"] * 2)

    def test_chunked_bodies_and_continue(self):
        body = json.dumps(COMPLETION)
        head = ("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Expect: 100-continue\r\n")
        with self.connect() as connection:
            connection.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
            self.assertEqual(read_answers(connection, 1)[0][0], 100)
            pieces = [body[i:i + 7] for i in range(0, len(body), 7)] + [""]
            connection.sendall("".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces).encode())
            status, _, answer = read_answers(connection, 1)[0]
            self.assertEqual((status, json.loads(answer)["usage"]["completion_tokens"]), (200, 2))
        with self.connect() as connection:  # who is refused is not told to go on
            connection.sendall((head.replace("/completions", "/nothing") + f"Content-Length: {len(body)}\r\n\r\n").encode())
            self.assertEqual(read_answers(connection, 1)[0][0], 404)

    def test_probes(self):
        for path in ("/health", "/ping", "/live", "/ready"):
            self.assertEqual(self.call("GET", path)[0::2], (200, b'{"status": "ok"}'))
        version = subprocess.run([SERVER, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn(json.loads(self.call("GET", "/version")[2])["version"], version)

    def test_head_and_options(self):
        status, headers, body = self.call("HEAD", "/v1/models")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["content-length"]), 10)
        status, headers, body = self.call("OPTIONS", "/v1/completions")
        self.assertEqual((status, headers["allow"], body), (204, "POST, OPTIONS", b""))

    def test_http2_in_the_clear(self):
        http2 = openai.DefaultHttpxClient(http1=False, http2=True)
        with openai.OpenAI(base_url=f"http://{self.server.target}/v1", api_key="none", timeout=120, max_retries=0,
                           http_client=http2) as client:
            raw = client.chat.completions.with_raw_response.create(**CHAT)
            self.assertEqual(raw.http_response.http_version, "HTTP/2")
            expected = raw.parse().choices[0].message.content
            chunks = list(client.chat.completions.create(**CHAT, stream=True))
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), expected)
            events = list(client.responses.create(model="demo", input="What is 2 + 3?", temperature=0, stream=True))
            self.assertEqual(events[-1].response.output_text, expected)
            with self.assertRaises(openai.NotFoundError):
                client.models.retrieve("other")

    def test_every_answer_of_a_model_has_an_id(self):
        for path, body in (("/v1/completions", COMPLETION), ("/v1/chat/completions", CHAT),
                           ("/v1/chat/completions", CHAT | {"stream": True}), ("/v1/responses", {"input": "x"})):
            _, headers, answer = self.call("POST", path, JSON, json.dumps(body))
            self.assertIn(f'"{headers["x-request-id"]}"'.encode(), answer)
            _, headers, _ = self.call("POST", path, JSON, json.dumps(body | {"request_id": "mine"}))
            self.assertEqual(headers["x-request-id"], "mine")
            # An id that is no header is none.
            status, headers, _ = self.call("POST", path, JSON, json.dumps(body | {"request_id": "a\r\nb: c"}))
            self.assertEqual((status, headers.get("x-request-id"), headers.get("b")), (200, None, None))


    def test_a_sound_id_of_the_client_is_taken_over(self):
        for path, body in (("/v1/completions", COMPLETION), ("/v1/chat/completions", CHAT),
                           ("/v1/chat/completions", CHAT | {"stream": True}), ("/v1/responses", {"input": "x"})):
            _, headers, answer = self.call("POST", path, JSON | {"X-Request-Id": "req/1:a=b"}, json.dumps(body))
            self.assertEqual(headers["x-request-id"], "req/1:a=b")
            self.assertIn(b'"req/1:a=b"', answer)
            # An id in the request itself comes before the header's.
            _, headers, _ = self.call("POST", path, JSON | {"X-Request-Id": "theirs"},
                                      json.dumps(body | {"request_id": "mine"}))
            self.assertEqual(headers["x-request-id"], "mine")
            for unsound in ("a b", 'a"b', "a\\b", "\xe9", "x" * 121, ""):
                status, headers, _ = self.call("POST", path, JSON | {"X-Request-Id": unsound}, json.dumps(body))
                self.assertEqual(status, 200)
                self.assertRegex(headers["x-request-id"], "^(cmpl|chatcmpl|resp)[-_][0-9a-f]{32}$")
        status, headers, _ = self.call("POST", "/v1/chat/completions", JSON | {"x-request-id": "refused-1"}, "{}")
        self.assertEqual((status, headers["x-request-id"]), (400, "refused-1"))
        give_up = time.monotonic() + 60
        while not re.search(r"access request_id=refused-1 .*status=INVALID_ARGUMENT", self.server.output()):
            self.assertLess(time.monotonic(), give_up, self.server.output())
            time.sleep(0.01)

    def test_an_id_that_comes_twice_is_no_conflict(self):
        """A proxy gives the calls of one request the same id; so does a client that tries again."""
        answers = []

        def ask():
            answers.append(self.call("POST", "/v1/completions", JSON | {"x-request-id": "twice"},
                                     json.dumps(COMPLETION | {"max_tokens": 200, "ignore_eos": True})))
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, _, _ in answers], [200] * 6)
        self.assertEqual({headers["x-request-id"] for _, headers, _ in answers}, {"twice"})

    def test_a_body_does_not_end_at_a_nul(self):
        for path, body in (("/v1/completions", COMPLETION), ("/v1/chat/completions", CHAT),
                           ("/v1/responses", {"input": "x"}), ("/tokenize", {"prompt": "x"})):
            for rest in (b"\0", b"\0{}", b"\n\0\n"):
                status, _, answer = self.call("POST", path, JSON, json.dumps(body).encode() + rest)
                self.assertEqual(status, 400, answer)
                self.assertIn("NUL", json.loads(answer)["error"]["message"])

    def test_the_tokenizers_info_is_not_for_everybody(self):
        self.assertEqual(self.call("GET", "/tokenizer_info")[0], 404)


class TokenizerInfoTest(ServerTestCase):
    FLAGS = ("--enable-tokenizer-info-endpoint",)

    def test_tells_what_the_files_say(self):
        """As vLLM's: the file's members, added tokens as their text, and the chat template."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        with contextlib.closing(connection):
            connection.request("GET", "/tokenizer_info")
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            info = json.loads(answer.read())
        config = json.loads((ROOT / "configs/demo/tokenizer_config.json").read_text())
        template = ROOT / "configs/demo/chat_template.jinja"
        if template.exists():
            config["chat_template"] = template.read_text()
        self.assertEqual(info["chat_template"], config["chat_template"])
        self.assertEqual(info["tokenizer_class"], config["tokenizer_class"])
        for key, value in config.items():
            if isinstance(value, (str, int, bool)) and key not in ("vocab_file", "merges_file"):
                self.assertEqual(info[key], value, key)
        for token_id, token in config.get("added_tokens_decoder", {}).items():
            self.assertEqual(info["added_tokens_decoder"][token_id], token["content"])


class OriginTest(unittest.TestCase):
    """Pages of other origins (CORS)."""

    HERE, THERE = "https://chat.example.org", "https://else.example.org"

    def ask(self, server, method, path, origin, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, None, {"Origin": origin} | headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}

    def preflight(self, server, origin):
        return self.ask(server, "OPTIONS", "/v1/chat/completions", origin, **{
            "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"})

    def test_no_page_may_call_by_default(self):
        with Server() as server:
            for origin in (self.HERE, "null", f"http://127.0.0.1:{server.port + 1}"):
                status, headers = self.preflight(server, origin)
                self.assertEqual((status, [key for key in headers if "access-control" in key]), (403, []))
                status, headers = self.ask(server, "GET", "/v1/models", origin)
                self.assertEqual((status, [key for key in headers if "access-control" in key]), (200, []))

    def test_pages_that_are_allowed(self):
        # As vLLM's users write it.
        with Server("--allowed-origins", f'["{self.HERE}"]') as server:
            status, headers = self.preflight(server, self.HERE)
            self.assertEqual((status, headers["access-control-allow-origin"]), (204, self.HERE))
            self.assertIn("POST", headers["access-control-allow-methods"])
            self.assertEqual(headers["access-control-allow-headers"], "authorization,content-type")
            self.assertEqual(headers["vary"], "origin")
            for path in ("/v1/models", "/v1/nothing"):  # errors too, or no page could show them
                _, headers = self.ask(server, "GET", path, self.HERE)
                self.assertEqual(headers["access-control-allow-origin"], self.HERE)
                self.assertIn("x-request-id", headers["access-control-expose-headers"])
            status, headers = self.preflight(server, self.THERE)
            self.assertEqual((status, headers.get("access-control-allow-origin")), (403, None))

    def test_every_page(self):
        with Server("--allowed-origins", "*") as server:
            status, headers = self.preflight(server, self.THERE)
            self.assertEqual((status, headers["access-control-allow-origin"]), (204, "*"))
            self.assertNotIn("access-control-allow-credentials", headers)

    def test_what_is_no_origin(self):
        run = subprocess.run([SERVER, "--port", str(free_port()), "--allowed-origins", "chat.example.org"],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 64)
        self.assertTrue(re.search("--allowed-origins: chat.example.org is no origin", run.stderr), run.stderr)


@contextlib.contextmanager
def occupied(port):
    """The only row of the server has one continuation after the other of a stream that is read, until the block ends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    with contextlib.closing(connection):
        body = COMPLETION | {"max_tokens": 4000, "ignore_eos": True, "stream": True, "n": 32}
        connection.request("POST", "/v1/completions", json.dumps(body), JSON)
        answer = connection.getresponse()
        answer.readline()

        def read():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                while answer.read(65536):
                    pass

        reader = threading.Thread(target=read)
        reader.start()
        yield
        connection.sock.shutdown(socket.SHUT_RDWR)
        reader.join()


class SilenceTest(unittest.TestCase):
    def test_a_stream_that_waits_says_that_it_lives(self):
        streams = (("/v1/completions", COMPLETION, b"data: [DONE]"), ("/v1/chat/completions", CHAT, b"data: [DONE]"),
                   ("/v1/responses", {"model": "demo", "input": "What is 2 + 3?"}, b"response.completed"))
        with Server("--served-model-name", "demo", "--max-num-seqs", "1", "--sse-ping-interval", "1") as server, \
                contextlib.ExitStack() as stack:
            answers = []
            with occupied(server.port):
                for path, body, _ in streams:
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
                    stack.enter_context(contextlib.closing(connection))
                    connection.request("POST", path, json.dumps(body | {"stream": True}), JSON)
                    answers.append(connection.getresponse())
                    self.assertEqual(answers[-1].status, 200)
                    self.assertEqual(answers[-1].getheader("content-type"), "text/event-stream; charset=utf-8")
                    self.assertEqual(answers[-1].readline(), b": ping\n")
            for answer, (_, _, end) in zip(answers, streams):
                self.assertIn(end, answer.read())


if __name__ == "__main__":
    main()
