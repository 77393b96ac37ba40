"""/status, /status/requests and the page at /, as HTTP: what they say, who may ask, and what keeps other pages of a
browser from asking."""

import http.client
import json
import pathlib
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import unittest

from harness import ROOT, Server, ServerTestCase, chat_request, main

sys.path.append(str(ROOT / "tests/attack"))
import wire  # noqa: E402

INFERENCE, ADMIN = "the-key-of-the-user", "the-key-of-the-boss"
KEYS = [{"key": INFERENCE, "name": "user"}, {"key": ADMIN, "name": "boss", "roles": ["admin"]}]


def ask(server, path, method="GET", body=None, **headers):
    """(status, headers, text) of one request; a header's name may have '_' for '-'."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body,
                           {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def status_of(server, **headers):
    return json.loads(ask(server, "/status", **headers)[2])


def requests_of(server, **headers):
    return json.loads(ask(server, "/status/requests", **headers)[2])["requests"]


def wait_for_end(server, count, **headers):
    """Waits until `count` requests have ended as far as the status knows: a client may hear of its end before. Returns
    the status."""
    give_up = time.monotonic() + 20
    while True:
        status = status_of(server, **headers)
        if status["counters"]["ended_requests"] >= count or time.monotonic() > give_up:
            return status
        time.sleep(0.01)


def chat(server, content, **fields):
    headers = {"content_type": "application/json", **fields.pop("headers", {})}
    body = {"messages": [{"role": "user", "content": content}], "temperature": 0, **fields}
    return ask(server, "/v1/chat/completions", "POST", json.dumps(body), **headers)


def ask_http2(server, path, authority):
    """The text of the answer to a GET over HTTP/2, whose host is a pseudo-header."""
    fields = ((":method", "GET"), (":scheme", "http"), (":path", path), (":authority", authority))
    head = b"".join(wire.literal(*field) for field in fields)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client, client.makefile("rb") as answer:
        client.sendall(wire.OPENING + wire.frame(wire.HEADERS, wire.END_HEADERS | wire.END_STREAM, 1, head))
        text = b""
        while True:
            size, kind, flags, stream = struct.unpack(">IBBI", b"\0" + answer.read(9))
            payload = answer.read(size)
            if kind == wire.DATA:
                text += payload
            if stream == 1 and flags & wire.END_STREAM:
                return text.decode()


class StatusTest(ServerTestCase):
    def setUp(self):
        self.server.wait_until_idle()  # a step that ran when its request was cancelled is counted when it ends
        self.num_ended = status_of(self.server)["counters"]["ended_requests"]

    def last_requests(self, count):
        """Those of this test, of which there are `count`."""
        wait_for_end(self.server, self.num_ended + count)
        requests = requests_of(self.server)
        self.assertEqual(requests[0]["number"], self.num_ended + count)
        return requests[:count]

    def test_counts_what_was_asked(self):
        before = status_of(self.server)
        self.assertEqual(before["state"], "serving")
        code, _, text = chat(self.server, "What is 2 + 3?")
        self.assertEqual(code, 200)
        usage = json.loads(text)["usage"]
        after = wait_for_end(self.server, before["counters"]["ended_requests"] + 1)
        for name, by in {"prompt_tokens": usage["prompt_tokens"], "generated_tokens": usage["completion_tokens"],
                         "finished": 1, "ended_requests": 1}.items():
            self.assertEqual(after["counters"][name], before["counters"][name] + by, name)
        for name, by in {"time_to_first_token_seconds": 1, "inter_token_seconds": usage["completion_tokens"] - 1}.items():
            self.assertEqual(sum(after[name]["counts"]), sum(before[name]["counts"]) + by, name)
        self.assertEqual(after["start_seconds"], before["start_seconds"])

    def test_lists_requests_of_every_interface(self):
        chat(self.server, "What is 1 + 1?", request_id="of-openai", model="demo")
        request = chat_request("What is 1 + 2?")
        request.request_id = "of-grpc"
        self.server.inference.GenerateOnce(request)
        last, one_before = self.last_requests(2)
        self.assertEqual((last["id"], last["surface"]), ("of-grpc", "quire.v1"))
        self.assertEqual((one_before["surface"], one_before["model"]), ("openai", "demo"))
        self.assertIn("of-openai", one_before["id"])
        for one in (last, one_before):
            self.assertEqual((one["status"], one["finish_reason"], one["principal"]), ("OK", "stop", "peer:127.0.0.1"))
            self.assertEqual(one["generated_tokens"], 2)
            self.assertLessEqual(one["queue_ms"], one["first_token_ms"])
            self.assertLessEqual(one["first_token_ms"], one["total_ms"])
        self.assertNotIn("What is", json.dumps(requests_of(self.server)))

    def test_lists_what_was_refused(self):
        self.assertEqual(chat(self.server, "x", max_tokens=-1)[0], 400)
        [last] = self.last_requests(1)
        self.assertEqual((last["status"], last["surface"]), ("INVALID_ARGUMENT", "openai"))
        self.assertNotIn("prompt_tokens", last)

    def test_a_chat_whose_client_went_away_has_its_id(self):
        body = json.dumps({"messages": [{"role": "user", "content": "Count"}], "max_tokens": 4000, "ignore_eos": True,
                           "stream": True})
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
                           b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                           % (len(body), body.encode()))
            client.recv(1)
        [last] = self.last_requests(1)
        self.assertEqual((last["status"], last["id"][:9]), ("CANCELLED", "chatcmpl-"))
        self.assertGreater(last["prompt_tokens"], 0)

    def test_a_request_whose_client_went_away_has_its_id(self):
        stream = self.server.inference.Generate(chat_request("Count", max_tokens=4000, ignore_eos=True))
        next(stream)
        stream.cancel()
        [last] = self.last_requests(1)
        self.assertEqual(last["status"], "CANCELLED")
        self.assertNotEqual(last["id"], "")
        self.assertGreater(last["prompt_tokens"], 0)


class DrainTest(unittest.TestCase):
    def test_says_that_it_drains(self):
        with Server() as server:
            streams = [server.inference.Generate(chat_request("Count", max_tokens=4000, ignore_eos=True))
                       for _ in range(16)]  # so much that it is not done before the state is asked for
            next(streams[-1])
            server.signal(signal.SIGTERM)
            give_up = time.monotonic() + 20
            while (state := status_of(server)["state"]) == "serving" and time.monotonic() < give_up:
                pass
            self.assertEqual(state, "draining")
            for stream in streams:
                stream.cancel()
            self.assertEqual(server.stop(), 0)


class PageTest(ServerTestCase):
    def test_the_page_lets_nothing_else_run(self):
        code, headers, text = ask(self.server, "/")
        self.assertEqual((code, headers["content-type"]), (200, "text/html; charset=utf-8"))
        policy = headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.assertEqual(headers["referrer-policy"], "no-referrer")
        self.assertNotIn("{{", text)

    def test_is_sent_once(self):
        _, headers, _ = ask(self.server, "/")
        code, again, text = ask(self.server, "/", if_none_match=headers["etag"])
        self.assertEqual((code, text, again["etag"]), (304, "", headers["etag"]))
        self.assertEqual(ask(self.server, "/", if_none_match='"another"')[0], 200)

    def test_takes_get_and_head_alone(self):
        code, headers, text = ask(self.server, "/", "HEAD")
        self.assertEqual((code, text), (200, ""))
        self.assertGreater(int(headers["content-length"]), 10000)
        self.assertEqual(ask(self.server, "/", "POST", "{}", content_type="application/json")[0], 405)

    def test_other_pages_learn_nothing_without_a_key(self):
        """Pages of other origins, and those whose name was made to mean this machine."""
        for path in ("/status", "/status/requests", "/metrics"):
            self.assertEqual(ask(self.server, path, origin="http://evil.example")[0], 403, path)
            for host in ("evil.example", f"evil.example:{self.server.port}", "127.0.0.1.evil.example",
                         "localhost.evil.example", "evil.example.", f"evil.example.:{self.server.port}", "evil.example..",
                         "localhost..", "127.0.0.1.evil.example."):
                code, _, text = ask(self.server, path, host=host)
                self.assertEqual(code, 403, (path, host))
                self.assertIn("localhost", text)
            for host in (f"127.0.0.1:{self.server.port}", "localhost", "LOCALHOST:1", "a.localhost", "[::1]:8000",
                         "localhost.", f"localhost.:{self.server.port}", "127.0.0.1."):
                self.assertEqual(ask(self.server, path, host=host)[0], 200, (path, host))

    def test_other_pages_learn_nothing_over_http2(self):
        self.assertIn("evil.example", ask_http2(self.server, "/status", "evil.example"))
        self.assertIn("start_seconds", ask_http2(self.server, "/status", f"127.0.0.1:{self.server.port}"))


class AccessTest(unittest.TestCase):
    def server(self, *flags):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="quire_status_"))
        self.addCleanup(shutil.rmtree, folder)
        keys = folder / "keys"
        keys.write_text("".join(json.dumps(entry) + "\n" for entry in KEYS))
        server = Server("--api-key-file", str(keys), *flags)
        self.addCleanup(server.__exit__)
        return server

    def codes(self, server, path):
        shown = ({}, {"authorization": f"Bearer {INFERENCE}"}, {"authorization": f"Bearer {ADMIN}"})
        return tuple(ask(server, path, **headers)[0] for headers in shown)

    def test_keys(self):
        """With nothing, with inference, with admin."""
        server = self.server()
        self.assertEqual(self.codes(server, "/"), (200, 200, 200))
        self.assertEqual(self.codes(server, "/status"), (401, 403, 200))
        self.assertEqual(self.codes(server, "/status/requests"), (401, 403, 200))
        # A key says who asks, whatever the name of the server.
        self.assertEqual(ask(server, "/status", host="quire.example", authorization=f"Bearer {ADMIN}")[0], 200)

    def test_requests_have_the_names_of_their_principals(self):
        server = self.server()
        chat(server, "What is 2 + 3?", headers={"authorization": f"Bearer {INFERENCE}"})
        chat(server, "What is 2 + 3?", headers={"authorization": "Bearer nobody-has-this-key"})
        wait_for_end(server, 1, authorization=f"Bearer {ADMIN}")
        [only] = requests_of(server, authorization=f"Bearer {ADMIN}")
        self.assertEqual(only["principal"], "user")

    def test_status_is_for_whom_metrics_are(self):
        server = self.server("--metrics-access", "inference")
        self.assertEqual(self.codes(server, "/status"), (401, 200, 403))
        self.assertEqual(self.codes(server, "/status/requests"), (401, 403, 200))
        server = self.server("--metrics-access", "anyone", "--health-access", "key")
        self.assertEqual(self.codes(server, "/status"), (401, 200, 200))
        self.assertEqual(self.codes(server, "/"), (401, 200, 200))


if __name__ == "__main__":
    main()
