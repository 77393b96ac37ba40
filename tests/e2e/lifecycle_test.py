"""Cancels, disconnects, deadlines, overload and shutdown, seen by a client."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import (CLIENT, SERVER, Answer, Server, ServerTestCase, chat_request, grpc, health_pb,
                     ids_request, main, pb)

NUM_DISCONNECTS = int(os.environ.get("QUIRE_DISCONNECTS", "200"))


def long_request(max_tokens=2000):
    return ids_request(range(1, 60), max_tokens=max_tokens)


def check_health(environment, *flags):
    """Its exit code and what it says."""
    check = subprocess.run([SERVER, "--check-health", *flags], env=environment, capture_output=True, text=True, timeout=60,
                           check=False)
    return check.returncode, check.stderr


class CancelTest(ServerTestCase):
    def test_disconnects_leave_nothing_behind(self):
        draw = random.Random(3)
        expected = self.generate(chat_request("What is 12 + 30?")).text

        def disconnect(seed):
            mine = random.Random(seed)
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
            with grpc.insecure_channel(self.server.target, options=options) as channel:
                stub = type(self.server.inference)(channel)
                length = mine.choice((5, 100, 1500))
                stream = stub.Generate(ids_request([mine.randrange(1, 900) for _ in range(length)],
                                                   max_tokens=mine.choice((3, 50, 1000))))
                try:
                    for _ in range(mine.choice((0, 0, 1, 2, 10))):
                        next(stream)
                    time.sleep(mine.random() * 0.05)
                except (StopIteration, grpc.RpcError):
                    pass
                # The channel closes with the stream open: a disconnect.

        waves = [[threading.Thread(target=disconnect, args=(draw.random(),)) for _ in range(20)]
                 for _ in range(NUM_DISCONNECTS // 20)]
        for wave in waves:
            for thread in wave:
                thread.start()
            for thread in wave:
                thread.join()
        status = self.server.wait_until_idle()
        self.assertEqual(status.kv_blocks_in_use, 0)
        self.assertEqual(status.running_sequences, 0)
        self.assertEqual(status.waiting_requests, 0)
        self.assertEqual(status.active_streams, 0)
        self.assertEqual(self.generate(chat_request("What is 12 + 30?")).text, expected)

    def test_client_cancel_frees_the_blocks(self):
        stream = self.server.inference.Generate(long_request())
        next(stream), next(stream)
        self.assertGreater(self.server.status().kv_blocks_in_use, 0)
        stream.cancel()
        self.assertEqual(self.server.wait_until_idle().kv_blocks_in_use, 0)

    def test_deadline_ends_the_request(self):
        self.assert_status(grpc.StatusCode.DEADLINE_EXCEEDED, "",
                           lambda: self.generate(long_request(), timeout=0.15))
        self.assertEqual(self.server.wait_until_idle().kv_blocks_in_use, 0)

    def test_abort_by_request_id(self):
        request = long_request()
        request.request_id = "doomed"
        stream = self.server.inference.Generate(request)
        next(stream)
        self.assertTrue(self.server.admin.Abort(pb.AbortRequest(request_id="doomed")).found)
        answer = Answer(stream)
        self.assertEqual(answer.finished.finish_reason, pb.FINISH_REASON_ABORT)
        self.assertFalse(self.server.admin.Abort(pb.AbortRequest(request_id="doomed")).found)

    def test_a_reader_that_stops_reading_delays_nobody(self):
        stalled = self.server.inference.Generate(long_request(max_tokens=1900))
        next(stalled)  # reads no more
        answer = self.generate(chat_request("What is 12 + 30?"), timeout=30)
        self.assertIn("42", answer.text)
        stalled.cancel()
        self.assertEqual(self.server.wait_until_idle().kv_blocks_in_use, 0)


class OverloadTest(ServerTestCase):
    FLAGS = ("--max-num-seqs", "1", "--max-num-queued-reqs", "2")

    def test_full_queue_is_refused_at_once_with_pushback(self):
        streams = [self.server.inference.Generate(long_request()) for _ in range(8)]
        codes = []
        for stream in streams:
            try:
                next(stream)
                codes.append("served")
                stream.cancel()
            except grpc.RpcError as error:
                codes.append(error.code())
                if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                    metadata = dict(error.trailing_metadata())
                    self.assertGreater(int(metadata["grpc-retry-pushback-ms"]), 0)
        self.assertIn(grpc.StatusCode.RESOURCE_EXHAUSTED, codes)
        self.assertIn("served", codes)
        self.assertEqual(self.server.wait_until_idle().kv_blocks_in_use, 0)


    def test_full_queue_refuses_before_it_reads(self):
        # A client that sends what nobody could read hears so only where there is room for what it might have meant.
        read = self.server.channel.unary_unary("/quire.v1.Inference/GenerateOnce")
        garbage = b"\xff\xff"
        self.assert_status(grpc.StatusCode.INVALID_ARGUMENT, "GenerateRequest", lambda: read(garbage))
        streams = [self.server.inference.Generate(long_request(max_tokens=4000))]
        next(streams[0])
        streams.append(self.server.inference.Generate(long_request()))  # as many as one client may have waiting
        while self.server.status().waiting_requests == 0:
            time.sleep(0.01)
        self.assert_status(grpc.StatusCode.RESOURCE_EXHAUSTED, "retry later", lambda: read(garbage))
        for stream in streams:
            stream.cancel()
        self.server.wait_until_idle()
        self.assert_status(grpc.StatusCode.INVALID_ARGUMENT, "GenerateRequest", lambda: read(garbage))


class ShutdownTest(unittest.TestCase):
    def begin_drain(self, server):
        """Sends SIGTERM, and returns when the server has taken notice."""
        watch = server.health.Watch(health_pb.HealthCheckRequest())
        self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.SERVING)
        server.signal(signal.SIGTERM)
        self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.NOT_SERVING)
        watch.cancel()

    def test_sigterm_finishes_streams_and_refuses_new_ones(self):
        with Server() as server:
            stream = server.inference.Generate(long_request(max_tokens=600))
            next(stream)
            self.begin_drain(server)
            with self.assertRaises(grpc.RpcError) as refused:
                Answer(server.inference.Generate(chat_request("What is 1 + 1?")))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
            answer = Answer(stream)
            self.assertEqual(len(answer.ids), 600)
            self.assertEqual(server.process.wait(timeout=30), 0, server.output())

    def test_callers_at_any_moment_of_the_end_hear_ok_or_unavailable(self):
        for _ in range(3):
            with Server() as server:
                codes, answered = set(), threading.Event()

                def call_until_the_end(server=server, codes=codes, answered=answered):
                    while server.process.poll() is None:
                        try:
                            Answer(server.inference.Generate(ids_request([1, 2], max_tokens=2)))
                            answered.set()
                        except grpc.RpcError as error:
                            codes.add(error.code())

                callers = [threading.Thread(target=call_until_the_end) for _ in range(8)]
                for caller in callers:
                    caller.start()
                self.assertTrue(answered.wait(30))
                server.signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(timeout=30), 0, server.output())
                for caller in callers:
                    caller.join()
                self.assertLessEqual(codes, {grpc.StatusCode.UNAVAILABLE})

    def test_work_that_waits_does_not_delay_the_end(self):
        # Each of these once took a worker many seconds; now, what waits is dropped.
        request = chat_request("What is 1 + 1?")
        request.messages.template_kwargs_json = "{" + ",".join(f'"{i:030}":1' for i in range(30_000)) + "}"
        with Server("--shutdown-timeout", "5") as server:
            calls = [server.inference.GenerateOnce.future(request) for _ in range(40)]
            calls[0].result(timeout=30)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=60), 0, server.output())
            codes = {call.code() for call in calls}
            self.assertLessEqual(codes, {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE,
                                         grpc.StatusCode.RESOURCE_EXHAUSTED})

    def test_a_request_that_waits_to_be_read_can_be_ended(self):
        large, mine = pb.TokenizeRequest(), pb.GenerateRequest(request_id="mine")
        large.text.text = "\n" * 2_000_000  # some 0.2 s of a worker
        mine.text.text = "word " * 2_000
        mine.stop.max_tokens = 1
        with Server() as server:
            for _ in range(20):  # until it is ended while it waits, and not while it runs
                before = [server.inference.Tokenize.future(large) for _ in range(3)]
                call = server.inference.GenerateOnce.future(mine)
                found = False
                while not found and not call.done():
                    found = server.admin.Abort(pb.AbortRequest(request_id="mine")).found
                code = call.code()
                for one in before:
                    one.cancel()
                if code == grpc.StatusCode.CANCELLED:
                    break
            self.assertEqual(code, grpc.StatusCode.CANCELLED)
            self.assertTrue(server.inference.GenerateOnce(mine).choices)  # its id is free

    def test_abandoned_work_ends(self):
        request = pb.TokenizeRequest()
        request.text.text = "\n" * 4_000_000
        with Server() as server:
            calls = [server.inference.Tokenize.future(request) for _ in range(12)]
            for call in calls:
                call.cancel()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=60), 0, server.output())

    def test_shutdown_timeout_ends_what_is_left(self):
        with Server("--shutdown-timeout", "1") as server:
            stream = server.inference.Generate(long_request(max_tokens=4000 - 70))
            next(stream)  # and reads no more, so the stream cannot end by itself
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=20), 0, server.output())

    def test_second_signal_ends_at_once(self):
        with Server() as server:
            request = long_request(max_tokens=3900)
            request.sampling.n = 64  # work for longer than a second, on a GPU too
            request.sampling.temperature = 1
            streams = [server.inference.Generate(request) for _ in range(8)]
            next(streams[0])
            self.begin_drain(server)
            time.sleep(0.1)  # sooner, it might be the same one: signals that wait are not counted
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=10), 1)
            self.assertIn("second signal", server.output())

    def test_ctrl_c_that_a_script_passes_on_is_one_signal(self):
        """It reaches the server from the terminal and again from the script around it, here this test."""
        controller, terminal = os.openpty()
        self.addCleanup(os.close, controller)
        # A session of its own, whose terminal this is: what is typed there is the server's.
        program = (sys.executable, "-c", "import fcntl, os, sys, termios; os.setsid(); "
                   f"fcntl.ioctl({terminal}, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])", SERVER)
        os.set_inheritable(terminal, True)
        with Server(program=program, pass_fds=(terminal,)) as server:
            os.close(terminal)
            stream = server.inference.Generate(long_request(max_tokens=300))
            next(stream)
            watch = server.health.Watch(health_pb.HealthCheckRequest())
            self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.SERVING)
            os.write(controller, b"\x03")
            self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.NOT_SERVING)
            watch.cancel()
            server.signal(signal.SIGTERM)
            self.assertEqual(sum(len(r.delta.token_ids) for r in stream), 300)
            self.assertEqual(server.process.wait(timeout=30), 0, server.output())

    def test_a_hangup_ends_nothing(self):
        with Server() as server:
            stream = server.inference.Generate(long_request(max_tokens=600))
            next(stream)
            server.signal(signal.SIGHUP)
            while "SIGHUP: there is nothing to read again" not in server.output():
                self.assertIsNone(server.process.poll(), server.output())
                time.sleep(0.01)
            self.assertEqual(sum(len(r.delta.token_ids) for r in stream), 600)
            # Nor does it hide what comes right after it.
            server.signal(signal.SIGHUP)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=30), 0, server.output())

    def test_a_log_that_nobody_reads_stops_nothing(self):
        """Standard error is a pipe that is full from some moment on."""
        folder = tempfile.mkdtemp(prefix="quire_full_pipe_")
        self.addCleanup(shutil.rmtree, folder)
        keys = pathlib.Path(folder, "keys")
        line = lambda key: json.dumps({"key": key, "name": "user"}) + "\n"
        keys.write_text(line("the-first-key-of-the-user"))
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with Server("--api-key-file", str(keys), stdout=writer) as server:
            os.set_blocking(writer, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writer, b"." * 4096)
            os.set_blocking(writer, True)
            os.close(writer)

            def works(key):
                try:
                    server.inference.GetModel(pb.GetModelRequest(), timeout=20,
                                              metadata=(("authorization", f"Bearer {key}"),))
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), grpc.StatusCode.UNAUTHENTICATED)
                    return False
                return True
            self.assertTrue(works("the-first-key-of-the-user"))
            for i in range(3):  # each a line of the log, as every call is
                keys.write_text(line(f"another-key-of-the-user-{i}"))
                server.signal(signal.SIGHUP)
                give_up = time.monotonic() + 60
                while not works(f"another-key-of-the-user-{i}"):
                    self.assertLess(time.monotonic(), give_up)
            for _ in range(200):  # on new connections, of both loops
                with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
                    connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200"))
            server.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=60), 0)

    def test_the_last_words_come_out_where_somebody_reads(self):
        """Also of a reader that comes late, and of a server that ends at once."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"." * 4096)
        os.set_blocking(writer, True)
        process = subprocess.Popen([SERVER, "--port", "no number"], stderr=writer)
        os.close(writer)
        time.sleep(0.2)
        with os.fdopen(reader, "rb") as said:
            self.assertIn(b"--port", said.read())
        self.assertEqual(process.wait(timeout=60), 64)

    def test_health_follows_the_server(self):
        with Server() as server:
            check = lambda: server.health.Check(health_pb.HealthCheckRequest()).status
            self.assertEqual(check(), health_pb.HealthCheckResponse.SERVING)
            watch = server.health.Watch(health_pb.HealthCheckRequest(service="quire.v1.Inference"))
            self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.SERVING)
            stream = server.inference.Generate(long_request(max_tokens=500))
            next(stream)
            server.signal(signal.SIGTERM)
            self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.NOT_SERVING)
            watch.cancel()
            Answer(stream)
            self.assertEqual(server.process.wait(timeout=30), 0, server.output())
            code = subprocess.run([CLIENT, "health", "--target", server.target],
                                  capture_output=True, check=False).returncode
            self.assertEqual(code, 69)

    def test_who_runs_beside_the_server_finds_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "address")
            path.write_text("127.0.0.1:1\n")  # of an earlier server
            environment = {**os.environ, "QUIRE_ADDRESS_FILE": str(path)}
            environment.pop("QUIRE_TARGET", None)
            with Server("--address-file", str(path)) as server:
                self.assertEqual(path.read_text(), f"{server.target}\n")
                self.assertEqual(list(pathlib.Path(folder).iterdir()), [path])
                self.assertEqual(subprocess.run([CLIENT, "health"], env=environment, check=False).returncode, 0)
                self.assertEqual(check_health(environment), (0, ""))

    def test_a_health_check_needs_no_client(self):
        environment = {name: value for name, value in os.environ.items() if name != "QUIRE_ADDRESS_FILE"}
        with Server() as server:
            flag = f"--port={server.port}"
            self.assertEqual(check_health(environment, flag), (0, ""))
            watch = server.health.Watch(health_pb.HealthCheckRequest())
            next(watch)
            stream = server.inference.Generate(long_request(max_tokens=4000))
            next(stream)
            server.signal(signal.SIGTERM)
            self.assertEqual(next(watch).status, health_pb.HealthCheckResponse.NOT_SERVING)
            watch.cancel()
            code, said = check_health(environment, flag)
            self.assertEqual(code, 69)
            self.assertIn(f"no server serves at 127.0.0.1:{server.port}: it answers with HTTP status 503", said)
            stream.cancel()
            self.assertEqual(server.process.wait(timeout=30), 0, server.output())
            code, said = check_health(environment, flag)
            self.assertEqual((code, said.count("\n")), (69, 1))
            self.assertIn("nothing listens there", said)
        with socket.create_server(("127.0.0.1", 0)) as other, tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "address")
            path.write_text(f"127.0.0.1:{other.getsockname()[1]}\n")
            code, said = check_health({**environment, "QUIRE_ADDRESS_FILE": str(path)})  # who says nothing
            self.assertEqual(code, 69)
            self.assertIn("no answer within 4 s", said)

    def test_serves_where_it_cannot_leave_its_address(self):
        with tempfile.TemporaryDirectory() as folder, Server("--address-file", f"{folder}/none/address") as server:
            self.assertIn("none/address: No such file or directory", server.output())
            self.assertIn("7", Answer(server.inference.Generate(chat_request("What is 3 + 4?"))).text)

    def test_garbage_on_the_port_harms_nobody(self):
        with Server() as server:
            for data in (b"\x00" * 1000, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 50):
                with socket.create_connection(("127.0.0.1", server.port), timeout=5) as garbage:
                    garbage.sendall(data)
            self.assertIn("4", Answer(server.inference.Generate(
                chat_request("What is 2 + 2?"))).text)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()
