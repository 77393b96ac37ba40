"""What clients and supervisors see when the device breaks: the real program on a backend that fails,
hangs or has no memory (tests/fault/faulty_server.cc)."""

import signal
import socket
import threading
import time
import unittest

from harness import (BUILD, ON_GPU, Answer, Server, chat_request, grpc, health_pb, ids_request, main)

FAULTY_SERVER = BUILD / "bin/faulty_server"
NUM_STREAMS = 12


class FaultyServer(Server):
    def __init__(self, fault, after, *flags, **kwargs):
        super().__init__(*flags, program=[FAULTY_SERVER, fault, str(after)], **kwargs)


class Client(threading.Thread):
    """Reads one stream to its end and remembers how that was."""

    def __init__(self, server, request):
        super().__init__()
        self.server, self.request = server, request
        self.code = self.details = None
        self.start()

    def run(self):
        try:
            Answer(self.server.inference.Generate(self.request))
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.code, self.details = error.code(), error.details()


class HealthWatch(threading.Thread):
    """The health states that a watcher is told of."""

    def __init__(self, server):
        super().__init__()
        self.states = []
        self.seen_first = threading.Event()
        self.stream = server.health.Watch(health_pb.HealthCheckRequest())
        self.start()

    def run(self):
        try:
            for response in self.stream:
                self.states.append(response.status)
                self.seen_first.set()
        except grpc.RpcError:
            pass


@unittest.skipUnless(FAULTY_SERVER.exists(), f"{FAULTY_SERVER} is not built")
class EndTestCase(unittest.TestCase):
    def check_end(self, server, reason, break_it=lambda: None):
        """Breaks a server under load, and follows streams, health, exit code and the last words."""
        watch = HealthWatch(server)
        watch.seen_first.wait(30)
        clients = [Client(server, ids_request(range(1, 40), max_tokens=3000))
                   for _ in range(NUM_STREAMS)]
        break_it()
        code = server.process.wait(timeout=30)
        for client in clients:
            client.join()
            self.assertEqual(client.code, grpc.StatusCode.UNAVAILABLE, client.details)
        # Those that came after the end meet a closed port.
        told = [client.details for client in clients if reason in client.details]
        self.assertTrue(told, [client.details for client in clients])
        for details in told:
            self.assertIn("retry", details)
        watch.join()
        self.assertEqual(watch.states, [health_pb.HealthCheckResponse.SERVING,
                                        health_pb.HealthCheckResponse.NOT_SERVING])
        self.assertEqual(code, 70, server.output())
        last_words = [line for line in server.output().splitlines()
                      if line.startswith("quire-server: ")]
        self.assertEqual(len(last_words), 1, server.output())
        self.assertIn(reason, last_words[0])


class BrokenDeviceTest(EndTestCase):
    def test_a_device_error_ends_every_stream_retryably_and_the_process(self):
        for after in (0, 30):
            with self.subTest(after=after), FaultyServer("fail", after) as server:
                self.check_end(server, "injected device error")

    def test_a_hung_step_is_ended_by_the_watchdog(self):
        for after in (0, 30):
            with self.subTest(after=after), \
                    FaultyServer("hang", after, "--watchdog-timeout", "1") as server:
                self.check_end(server, "a step has not ended within 1s")

    def test_a_client_that_does_not_read_does_not_hold_up_the_end(self):
        with FaultyServer("fail", 400) as server:
            stalled = server.inference.Generate(ids_request(range(1, 40), max_tokens=3000))
            next(stalled)  # and reads no more
            self.assertEqual(server.process.wait(timeout=30), 70, server.output())

    def test_a_failure_while_draining_still_ends_with_its_code(self):
        with FaultyServer("hang", 30, "--watchdog-timeout", "1") as server:
            client = Client(server, ids_request(range(1, 40), max_tokens=3000))
            server.wait_until_busy()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=30), 70, server.output())
            client.join()
            self.assertEqual(client.code, grpc.StatusCode.UNAVAILABLE, client.details)


    def test_a_long_step_after_the_drain_has_what_is_left_of_the_timeout(self):
        with FaultyServer("hang", 1, "--shutdown-timeout", "600", "--watchdog-timeout", "600") as server, \
                socket.create_connection(("127.0.0.1", server.port)) as connection:
            # Ends with its first token, when the step for a second one already runs.
            request = ids_request(range(1, 40))
            request.sampling.logit_bias[7] = 100
            request.stop.stop_token_ids.append(7)
            self.assertEqual(len(Answer(server.inference.Generate(request)).ids), 1)
            server.signal(signal.SIGTERM)
            self.assertEqual(connection.recv(1), b"")  # drained
            server.signal(signal.SIGUSR1)
            self.assertEqual(server.process.wait(timeout=60), 0, server.output())
            self.assertIn("the step ends", server.output())


@unittest.skipUnless(ON_GPU, "no GPU here")
class StoppedGpuTest(EndTestCase):
    def test_a_trap_ends_every_stream_retryably_and_the_process(self):
        with FaultyServer("trap", int(signal.SIGUSR1), "--device", "cuda") as server:
            def stop_the_gpu():
                server.wait_until_busy()
                server.signal(signal.SIGUSR1)
            self.check_end(server, "cudaError", stop_the_gpu)


class HealthyServerTest(unittest.TestCase):
    def test_rest_and_suspension_are_no_hang(self):
        """Idle for longer than the limit, then stopped for longer than the limit in mid-stream."""
        with Server("--watchdog-timeout", "2") as server:
            time.sleep(2.5)
            client = Client(server, ids_request(range(1, 40), max_tokens=2000))
            server.wait_until_busy()
            with server.frozen():
                time.sleep(3)
            client.join()
            self.assertEqual(client.code, grpc.StatusCode.OK, client.details)
            self.assertIn("42", Answer(server.inference.Generate(
                chat_request("What is 12 + 30?"))).text)
            self.assertEqual(server.stop(), 0, server.output())


class ShortageTest(unittest.TestCase):
    def start(self, *args, program=None):
        kwargs = {} if program is None else {"program": program}
        with Server(*args, wait=False, **kwargs) as server:
            return server.process.wait(timeout=60), server.output()

    def check_shortage(self, code, output, *fragments):
        self.assertEqual(code, 69, output)
        last = output.splitlines()[-1]
        self.assertTrue(last.startswith("quire-server: "), output)
        for fragment in fragments:
            self.assertIn(fragment, last)

    @unittest.skipUnless(FAULTY_SERVER.exists(), f"{FAULTY_SERVER} is not built")
    def test_every_allocation_that_fails_at_start_is_told_with_the_ledger(self):
        for n, advice in ((0, "serve a smaller one"), (3, "--max-num-batched-tokens"),
                          (9, "--max-num-seqs")):
            with self.subTest(n=n):
                code, output = self.start(program=[FAULTY_SERVER, "shortage", str(n)])
                self.check_shortage(code, output, "injected shortage", advice, "free")

    def test_a_cache_too_small_for_one_sequence(self):
        code, output = self.start("--kv-cache-memory-bytes", "100000")
        self.check_shortage(code, output, "--max-model-len", "--kv-cache-memory-bytes", "weights",
                            "usable")


if __name__ == "__main__":
    main()
