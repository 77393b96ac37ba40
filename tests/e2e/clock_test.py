"""Somebody sets the machine's clock while the server works: nothing ends early, nothing late. The server runs with a
clock of its own (step_clock.cc), which the test sets."""

import http.client
import mmap
import os
import pathlib
import re
import signal
import struct
import tempfile
import time
import unittest

from harness import BUILD, Answer, Server, grpc, health_pb, ids_request, main

PRELOAD = BUILD / "bin/step_clock.so"
HOUR = 3600


class SteppedServer(Server):
    """A server whose time of day the test steps."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name, "clock")
        path.write_bytes(struct.pack("=q", 0))
        with path.open("r+b") as file:
            self.clock = mmap.mmap(file.fileno(), 8)
        options = f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"
        super().__init__(*flags, env={**os.environ, "LD_PRELOAD": str(PRELOAD), "QUIRE_TEST_CLOCK": str(path),
                                      "ASAN_OPTIONS": options})

    def step(self, seconds):
        self.clock[:8] = struct.pack("=q", int(seconds * 1e9))

    def begin_drain(self):
        watch = self.health.Watch(health_pb.HealthCheckRequest())
        next(watch)
        self.signal(signal.SIGTERM)
        assert next(watch).status == health_pb.HealthCheckResponse.NOT_SERVING
        watch.cancel()

    def __exit__(self, *unused):
        super().__exit__(*unused)
        self.clock.close()
        self.folder.cleanup()


def long_request(max_tokens):
    return ids_request(range(1, 60), max_tokens=max_tokens)


class ClockTest(unittest.TestCase):
    def test_the_clock_is_the_servers(self):
        """Or nothing here tests anything: the log has the time that was set."""
        with SteppedServer() as server:
            server.step(-24 * 365 * HOUR)
            server.signal(signal.SIGHUP)
            while not (line := re.search(r"(\d{4})-.*SIGHUP", server.output())):
                time.sleep(0.01)
            self.assertEqual(int(line[1]), time.localtime(time.time() - 24 * 365 * HOUR).tm_year)
            self.assertEqual(server.stop(), 0)

    def test_a_drain_loses_nothing(self):
        with SteppedServer("--shutdown-timeout", "100") as server:
            stream = server.inference.Generate(long_request(600))
            next(stream)
            server.begin_drain()
            server.step(HOUR)
            self.assertEqual(len(Answer(stream).ids), 600)
            self.assertEqual(server.process.wait(timeout=60), 0, server.output())

    def test_a_drain_ends_when_it_should(self):
        with SteppedServer("--shutdown-timeout", "1") as server:
            stream = server.inference.Generate(long_request(3900))
            next(stream)  # and reads no more, so the stream cannot end by itself
            server.begin_drain()
            server.step(-HOUR)
            self.assertEqual(server.process.wait(timeout=60), 0, server.output())

    def test_deadlines_stay_where_they_are(self):
        """Of calls, of requests that come slowly, of connections that are kept."""
        with SteppedServer() as server:
            kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            kept.request("GET", "/health")
            kept.getresponse().read()
            slow = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            slow.putrequest("POST", "/tokenize")
            slow.putheader("content-type", "application/json")
            slow.putheader("content-length", "16")
            slow.endheaders(b'{"prompt"')
            stream = server.inference.Generate(long_request(600), timeout=200)
            next(stream)
            server.step(HOUR)
            time.sleep(0.2)  # for what would end now
            slow.send(b':"abc"}')
            self.assertEqual(slow.getresponse().status, 200)
            slow.close()
            kept.request("GET", "/health")
            self.assertEqual(kept.getresponse().status, 200)
            kept.close()
            self.assertEqual(len(Answer(stream).ids), 600)
            server.step(-HOUR)
            self.assertEqual(len(Answer(server.inference.Generate(long_request(300), timeout=200)).ids), 300)
            # A deadline that is over is over: the server lets go of the request, whatever the clock shows.
            stream = server.inference.Generate(long_request(3900), timeout=0.5)
            next(stream)
            server.step(-2 * HOUR)
            with self.assertRaises(grpc.RpcError) as ended:
                Answer(stream)
            self.assertEqual(ended.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
            self.assertEqual(server.wait_until_idle().kv_blocks_in_use, 0)
            self.assertEqual(server.stop(), 0)

    def test_what_stalls_is_ended_in_time(self):
        with SteppedServer("--stream-stall-timeout", "1") as server:
            stalled = server.inference.Generate(long_request(3900))
            next(stalled)  # and reads no more
            server.step(-HOUR)
            give_up = time.monotonic() + 60
            while "has read nothing" not in server.output():
                if server.status().active_streams == 0:
                    break
                self.assertLess(time.monotonic(), give_up, server.output())
                time.sleep(0.05)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()
