"""What the end-to-end tests share: the built programs, a Python gRPC client made from the .proto files,
and a server process per test class. A missing Python package or program skips the tests (exit 77)."""

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

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
SERVER = BUILD / "bin/quire-server"
CLIENT = BUILD / "bin/quire"
BENCH = BUILD / "bin/quire-bench"
DEADLINE = 300  # seconds of a call that says nothing of it
# The nightly list's test of this script: all of what each change's takes a part of.
AT_LENGTH = "--at-length" in sys.argv
ON_GPU = pathlib.Path("/dev/nvidia0").exists()
# By default a server takes most of a GPU's memory, and here it may share the GPU with another program.
SMALL_CACHE = ("--kv-cache-memory-bytes", str(2**30)) if ON_GPU else ()


def _skip_all(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


@contextlib.contextmanager
def packages():
    """Skips the test where a package that is imported within is missing."""
    try:
        yield
    except ImportError as error:
        _skip_all(f"{error}; tools/test installs it")


for program in (SERVER, CLIENT):
    if not program.exists():
        _skip_all(f"{program} is not built")
sys.path[:0] = [str(ROOT / "tools/lib"), str(ROOT / "tests/lib")]
from log_file import written  # noqa: E402
from ports import free_port  # noqa: E402
with packages():
    import grpc
    import stubs
    pb, pb_grpc, health_pb, health_grpc = stubs.load()


class _Deadline(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,
                grpc.StreamStreamClientInterceptor):
    """Gives each call that has none a deadline, so that no test hangs in one."""

    def _call(self, go_on, details, request):
        return go_on(details if details.timeout is not None else details._replace(timeout=DEADLINE), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


class Server:
    """A quire-server process on a free port; a context manager. `program` may put another program, with
    its first arguments, in its place; what it says goes to `stdout` instead of output()."""

    def __init__(self, *flags, wait=True, program=(SERVER,), stdout=None, env=None, pass_fds=()):
        if "--kv-cache-memory-bytes" not in flags:
            flags += SMALL_CACHE
        self.port = free_port()
        self.target = f"127.0.0.1:{self.port}"
        self.log = tempfile.TemporaryFile(mode="w+")
        self.was_asked_to_end = False
        self.process = subprocess.Popen(
            [*program, "--host", "127.0.0.1", "--port", str(self.port), *flags],
            stdout=stdout or self.log, stderr=subprocess.STDOUT, env=env, pass_fds=pass_fds)
        self.channel = grpc.intercept_channel(grpc.insecure_channel(self.target, options=[
            ("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]), _Deadline())
        self.inference = pb_grpc.InferenceStub(self.channel)
        self.admin = pb_grpc.AdminStub(self.channel)
        self.health = health_grpc.HealthStub(self.channel)
        if wait:
            self.wait_until_serving()

    def wait_until_serving(self, timeout=60):
        give_up = time.monotonic() + timeout
        while time.monotonic() < give_up:
            if self.process.poll() is not None:
                raise RuntimeError(f"server ended with {self.process.returncode}:\n{self.output()}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                grpc.channel_ready_future(self.channel).result(timeout=10)
                return
            time.sleep(0.02)
        raise RuntimeError(f"server not ready after {timeout} s:\n{self.output()}")

    def output(self):
        return written(self.log)

    def status(self):
        return self.admin.GetStatus(pb.GetStatusRequest())

    def wait_until_idle(self, timeout=20):
        """Waits until no sequence runs or waits; returns the status."""
        give_up = time.monotonic() + timeout
        while True:
            status = self.status()
            busy = (status.running_sequences or status.waiting_requests or status.active_streams
                    or status.kv_blocks_in_use)
            if not busy or time.monotonic() > give_up:
                return status
            time.sleep(0.02)

    def wait_until_busy(self, timeout=20):
        """Waits until a sequence has generated a token, and fails when none does."""
        give_up = time.monotonic() + timeout
        while not self.status().running_sequences:
            if time.monotonic() >= give_up:
                raise AssertionError(f"the server was not busy within {timeout} s")
            time.sleep(0.01)

    def signal(self, number):
        self.was_asked_to_end = self.was_asked_to_end or number == signal.SIGTERM
        self.process.send_signal(number)

    @contextlib.contextmanager
    def frozen(self):
        """The server stands still, all its threads, until the block ends."""
        self.signal(signal.SIGSTOP)
        try:
            tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
            while any(task.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "T"
                      for task in tasks.iterdir()):
                time.sleep(0.001)
            yield
        finally:
            self.signal(signal.SIGCONT)

    def stop(self, timeout=40):
        """Waits for the server to end, and asks it to if nobody has: a second SIGTERM cuts its streams off, and it ends
        with 1. Returns its exit status."""
        if self.process.poll() is None and not self.was_asked_to_end:
            self.signal(signal.SIGTERM)
        code = self.process.wait(timeout=timeout)
        self.channel.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.channel.close()
        self.log.close()


def chat_request(content, **stop):
    """A greedy request for one user message."""
    request = pb.GenerateRequest()
    request.messages.messages.add(role="user", content=content)
    request.sampling.temperature = 0
    request.stop.max_tokens = stop.pop("max_tokens", 64)
    for name, value in stop.items():
        if isinstance(value, list):
            getattr(request.stop, name).extend(value)
        else:
            setattr(request.stop, name, value)
    return request


def ids_request(ids, max_tokens=16, **stop):
    """A greedy request over token ids that goes on after end tokens."""
    request = pb.GenerateRequest()
    request.token_ids.ids.extend(ids)
    request.sampling.temperature = 0
    request.stop.max_tokens = max_tokens
    request.stop.ignore_eos = True
    request.output.return_token_ids = True
    for name, value in stop.items():
        setattr(request.stop, name, value)
    return request


class Answer:
    """A whole Generate stream of one request with n = 1."""

    def __init__(self, stream):
        self.text, self.ids, self.logprobs = "", [], []
        self.started = self.finished = None
        self.events = []
        for response in stream:
            kind = response.WhichOneof("event")
            self.events.append(kind)
            if kind == "started":
                self.started = response.started
            elif kind == "delta":
                self.text += response.delta.text
                self.ids += response.delta.token_ids
                self.logprobs += response.delta.logprobs
            else:
                self.finished = response.finished


def comes_in_parts(count_parts, more_than):
    """Whether an answer comes in parts as it is made: a server that holds it back never shows so many. On a busy machine
    several tokens may go out as one part, so one of some tries is enough."""
    return any(count_parts() > more_than for _ in range(10))


class ServerTestCase(unittest.TestCase):
    """Starts one server for the class, with FLAGS."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        output = cls.server.output()
        cls.server.__exit__()
        if code != 0:
            raise AssertionError(f"server ended with {code}:\n{output}")

    def generate(self, request, **kwargs):
        return Answer(self.server.inference.Generate(request, **kwargs))

    def assert_status(self, code, fragment, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(fragment, caught.exception.details())


def main():
    unittest.main(argv=[argument for argument in sys.argv if argument != "--at-length"], verbosity=2)
