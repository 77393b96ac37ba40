"""Who may do what, seen by clients: keys, roles, certificates, TLS, the access log, and strangers."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import (BENCH, ROOT, SERVER, Answer, Server, _skip_all, chat_request, free_port, grpc, health_pb, ids_request, main,
                     packages, pb, pb_grpc)

with packages():
    from google.protobuf import message_factory
    from grpc_reflection.v1alpha import reflection_pb2
if shutil.which("openssl") is None:
    _skip_all("openssl is not installed")

Code = grpc.StatusCode
WEB, OTHER, OPS, ADMIN = "key-of-web-00000001", "key-of-other-000001", "key-of-ops-00000001", "key-of-admin-000001"
FRIEND_A, FRIEND_B, SLOW = "key-of-friend-a-001", "key-of-friend-b-001", "key-of-slow-0000001"
KEYS = [
    {"key": WEB, "name": "web"},
    {"key": OTHER, "name": "other"},
    {"key": OPS, "name": "ops", "roles": ["inference", "admin"]},
    {"key": ADMIN, "name": "admin-alone", "roles": ["admin"]},
    {"key": FRIEND_A, "name": "friend-a", "cache_group": "friends"},
    {"key": FRIEND_B, "name": "friend-b", "cache_group": "friends"},
    {"key": SLOW, "name": "slow", "max_concurrent_requests": 1, "max_priority": 5},
    {"certificate": "operator.example", "name": "operator", "roles": ["inference", "admin"]},
]
# The role that every method of the contract needs, and a sound request. A method that is not here fails the test.
METHODS = {
    "quire.v1.Inference.Generate": ("inference", ids_request([1, 2, 3], max_tokens=1)),
    "quire.v1.Inference.GenerateOnce": ("inference", ids_request([1, 2, 3], max_tokens=1)),
    "quire.v1.Inference.Tokenize": ("inference", pb.TokenizeRequest(text=pb.Text(text="Hello"))),
    "quire.v1.Inference.Detokenize": ("inference", pb.DetokenizeRequest(ids=[1, 2])),
    "quire.v1.Inference.GetModel": ("inference", pb.GetModelRequest()),
    "quire.v1.Admin.GetStatus": ("admin", pb.GetStatusRequest()),
    "quire.v1.Admin.Abort": ("inference", pb.AbortRequest(request_id="there is none")),
    "quire.v1.Admin.FlushPrefixCache": ("admin", pb.FlushPrefixCacheRequest()),
}
OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


def wait_for(what, holds, seconds=30):
    give_up = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up:
            raise AssertionError(f"after {seconds} s: {what}")
        time.sleep(0.05)


class Authority:
    """A CA that signs certificates; all files lie in one folder."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = pathlib.Path(folder), name
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def path(self, name):
        return str(self.folder / name)

    def read(self, name):
        return (self.folder / name).read_bytes()

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1"):
        """NAME.pem and NAME.key."""
        (self.folder / "extensions").write_text(f"subjectAltName={names}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key",
                      "-CAcreateserial", "-days", "2", "-extfile", "extensions", "-out", f"{name}.pem")

    def tls_flags(self):
        return "--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key")

    def credentials(self, client=None):
        if client is None:
            return grpc.ssl_channel_credentials(self.read("ca.pem"))
        return grpc.ssl_channel_credentials(self.read("ca.pem"), self.read(f"{client}.key"), self.read(f"{client}.pem"))


def write_keys(path, entries):
    temporary = pathlib.Path(f"{path}.new")
    temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    os.replace(temporary, path)


def bearer(key):
    return [] if key is None else [("authorization", f"Bearer {key}")]


class SecurityTestCase(unittest.TestCase):
    """A folder with a CA, a server's certificate and a key file; servers that end with the test or the class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="quire_security_"))
        cls.ca = Authority(cls.folder)
        cls.ca.issue("server")
        cls.keys = os.path.join(cls.folder, "keys")
        write_keys(cls.keys, KEYS)

    @classmethod
    def start(cls, *flags, keep=None):
        """A server that listens, whatever it demands of clients; ends with `keep`, or with the class."""
        server = Server(*flags, wait=False)
        (keep.enter_context if keep is not None else cls.enterClassContext)(server)
        wait_for("the server listens or ends",
                 lambda: "ready on" in server.output() or server.process.poll() is not None, 60)
        if server.process.poll() is not None:
            raise AssertionError(f"the server ended with {server.process.poll()}:\n{server.output()}")
        return server

    def channel(self, server, client=None, tls=True):
        """A connection of its own; `client` names the certificate to show."""
        if tls:
            channel = grpc.secure_channel(f"localhost:{server.port}", self.ca.credentials(client), OPTIONS)
        else:
            channel = grpc.insecure_channel(f"127.0.0.1:{server.port}", OPTIONS)
        self.addCleanup(channel.close)
        return channel

    def code(self, call):
        try:
            call()
        except grpc.RpcError as error:
            return error.code()
        return Code.OK

    def assert_serves(self, server, tls=True, key=WEB):
        stub = pb_grpc.InferenceStub(self.channel(server, tls=tls))
        answer = Answer(stub.Generate(chat_request("What is 17 + 25?"), metadata=bearer(key), timeout=60))
        self.assertEqual(answer.text, "42")


def call_method(channel, path, request, response_class, streams=(False, False), metadata=(), timeout=30):
    """Calls any method and reads its whole answer."""
    kind = {(False, False): channel.unary_unary, (False, True): channel.unary_stream,
            (True, True): channel.stream_stream}[streams]
    method = kind(path, type(request).SerializeToString, response_class.FromString)
    answer = method(iter([request]) if streams[0] else request, metadata=metadata, timeout=timeout)
    return list(answer) if streams[1] else [answer]


class AccessTest(SecurityTestCase):
    """Keys, certificates and roles, on one server that takes both."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ca.issue("stranger", "DNS:stranger.example")
        cls.ca.issue("operator", "DNS:operator.example")
        os.mkdir(os.path.join(cls.folder, "foreign"))
        foreign = Authority(os.path.join(cls.folder, "foreign"))
        foreign.issue("operator", "DNS:operator.example")
        cls.foreign = foreign
        cls.server = cls.start("--api-key-file", cls.keys, *cls.ca.tls_flags(), "--tls-client-ca",
                               cls.ca.path("ca.pem"), "--log-format", "json", "--access-log")

    def test_every_method_takes_whom_it_should_and_nobody_else(self):
        methods = {method.full_name: method for service in pb.DESCRIPTOR.services_by_name.values()
                   for method in service.methods}
        self.assertEqual(set(methods), set(METHODS), "a new method belongs into METHODS, with the role that it needs")
        callers = {  # key, certificate: what each role answers
            (None, None): {"inference": Code.UNAUTHENTICATED, "admin": Code.UNAUTHENTICATED},
            ("key-of-nobody-00001", None): {"inference": Code.UNAUTHENTICATED, "admin": Code.UNAUTHENTICATED},
            ("key-of-nobody-00001", "operator"): {"inference": Code.UNAUTHENTICATED, "admin": Code.UNAUTHENTICATED},
            (WEB, None): {"inference": Code.OK, "admin": Code.PERMISSION_DENIED},
            (WEB, "operator"): {"inference": Code.OK, "admin": Code.PERMISSION_DENIED},  # the key counts first
            (ADMIN, None): {"inference": Code.PERMISSION_DENIED, "admin": Code.OK},
            (OPS, None): {"inference": Code.OK, "admin": Code.OK},
            (None, "stranger"): {"inference": Code.OK, "admin": Code.PERMISSION_DENIED},
            (None, "operator"): {"inference": Code.OK, "admin": Code.OK},
        }
        for (key, certificate), expected in callers.items():
            channel = self.channel(self.server, certificate)
            for name, (role, request) in METHODS.items():
                method = methods[name]
                with self.subTest(method=name, key=key, certificate=certificate):
                    self.assertEqual(self.code(lambda: call_method(
                        channel, f"/{method.containing_service.full_name}/{method.name}", request,
                        message_factory.GetMessageClass(method.output_type),
                        (method.client_streaming, method.server_streaming), bearer(key))), expected[role])

    def test_a_certificate_of_another_ca_does_not_get_in(self):
        credentials = grpc.ssl_channel_credentials(self.ca.read("ca.pem"), self.foreign.read("operator.key"),
                                                   self.foreign.read("operator.pem"))
        with grpc.secure_channel(f"localhost:{self.server.port}", credentials, OPTIONS) as channel:
            self.assertEqual(self.code(lambda: pb_grpc.InferenceStub(channel).GetModel(
                pb.GetModelRequest(), metadata=bearer(OPS), timeout=20)), Code.UNAVAILABLE)

    def test_methods_that_there_are_not_are_told_to_known_callers_alone(self):
        channel = self.channel(self.server)
        for path in ("/quire.v1.Inference/Nothing", "/quire.v1.Nothing/Generate", "/quire.v1.Inference/", "/x",
                     "/quire.v1.inference/GetModel", "/quire.v1.Inference/GetModel/"):
            for key, expected in ((None, Code.UNAUTHENTICATED), (WEB, Code.UNIMPLEMENTED)):
                with self.subTest(path=path, key=key):
                    self.assertEqual(self.code(lambda: call_method(
                        channel, path, pb.GetModelRequest(), pb.GetModelResponse, metadata=bearer(key))), expected)

    def test_headers_of_all_shapes(self):
        stub = pb_grpc.InferenceStub(self.channel(self.server))

        def answered(*values):
            return self.code(lambda: stub.GetModel(
                pb.GetModelRequest(), metadata=[("authorization", value) for value in values], timeout=20))

        for value in (f"Bearer {WEB}", f"bearer {WEB}", f"Bearer   {WEB}"):
            self.assertEqual(answered(value), Code.OK, value)
        for value in ("Bearer", "", WEB, f"Basic {WEB}", f"Bearer {WEB} {WEB}", f"Bearer {WEB}x",
                      f"Bearer {WEB[:-1]}", f"Bearer x{WEB}", f"Bearer {WEB.upper()}", "Bearer a key with spaces",
                      "Bearer " + "x" * 4000, f"Bearer{WEB}", f"Bearer \"{WEB}\""):
            self.assertEqual(answered(value), Code.UNAUTHENTICATED, value[:80])
        for value in ("Bearer ", f"Bearer {WEB} "):  # HTTP/2 has no such values (RFC 9113, section 8.2.1)
            self.assertEqual(answered(value), Code.INTERNAL)
        self.assertEqual(answered("Bearer key-of-nobody-00001", f"Bearer {WEB}"), Code.UNAUTHENTICATED)
        # Headers beyond the limit are refused before anybody looks for a key, and the server goes on.
        self.assertNotIn(answered("Bearer " + "x" * 200_000), (Code.OK, Code.UNIMPLEMENTED))
        self.assert_serves(self.server)

    def test_refusals_say_what_to_do_and_show_no_key(self):
        stub = pb_grpc.AdminStub(self.channel(self.server))
        for key, words in ((None, "authorization"), ("key-of-nobody-00001", "none of this server's"),
                           (WEB, "needs the role admin, which \"web\" does not have")):
            with self.assertRaises(grpc.RpcError) as caught:
                stub.GetStatus(pb.GetStatusRequest(), metadata=bearer(key), timeout=20)
            self.assertIn(words, caught.exception.details())
            self.assertNotIn("key-of-", caught.exception.details())

    def test_an_id_belongs_to_its_principal(self):
        channel = self.channel(self.server)
        inference, admin = pb_grpc.InferenceStub(channel), pb_grpc.AdminStub(channel)

        def begin(key):
            request = chat_request("Hello", max_tokens=3000, ignore_eos=True)
            request.request_id = "mine"
            stream = inference.Generate(request, metadata=bearer(key), timeout=120)
            self.addCleanup(stream.cancel)
            next(stream)
            return stream

        def abort(key, principal=""):
            return admin.Abort(pb.AbortRequest(request_id="mine", principal=principal), metadata=bearer(key),
                               timeout=20).found

        def reason(stream):
            *_, last = stream
            return last.finished.finish_reason

        first = begin(WEB)
        self.assertFalse(abort(OTHER))
        self.assertEqual(self.code(lambda: abort(OTHER, "web")), Code.PERMISSION_DENIED)
        self.assertEqual(self.code(lambda: begin(WEB)), Code.ALREADY_EXISTS)
        second = begin(OTHER)  # the same id is another's own
        self.assertEqual(self.code(lambda: abort(OPS)), Code.FAILED_PRECONDITION)  # of two, it must say whose
        self.assertTrue(abort(OPS, "other"))
        self.assertEqual(reason(second), pb.FINISH_REASON_ABORT)
        self.assertTrue(abort(WEB))
        self.assertEqual(reason(first), pb.FINISH_REASON_ABORT)
        third = begin(WEB)
        self.assertTrue(abort(OPS))
        self.assertEqual(reason(third), pb.FINISH_REASON_ABORT)

    def test_equal_prompts_share_blocks_within_a_principal_and_a_group_alone(self):
        stub = pb_grpc.InferenceStub(self.channel(self.server))
        stranger = pb_grpc.InferenceStub(self.channel(self.server, "stranger"))
        prompt = [7 + i % 500 for i in range(200)]

        def cached(key, salt="", stub=stub):
            request = ids_request(prompt, max_tokens=1)
            request.cache_salt = salt
            return Answer(stub.Generate(request, metadata=bearer(key), timeout=60)).finished.usage.cached_tokens

        self.assertEqual(cached(WEB), 0)
        self.assertGreater(cached(WEB), 100)
        self.assertEqual(cached(OTHER), 0)
        self.assertEqual(cached(None, stub=stranger), 0)
        self.assertEqual(cached(FRIEND_A), 0)
        self.assertGreater(cached(FRIEND_B), 100)
        self.assertEqual(cached(WEB, "salt"), 0)
        self.assertEqual(cached(OTHER, "salt"), 0)
        self.assertGreater(cached(WEB, "salt"), 100)
        for salt in ("web", "principal 3 web", "group 7 friends", "friends"):  # nobody salts himself into another's
            self.assertEqual(cached(SLOW, salt), 0, salt)

    def test_limits_of_a_principal_are_its_own(self):
        stub = pb_grpc.InferenceStub(self.channel(self.server))

        def ask(key, priority=0):
            request = ids_request([1, 2, 3], max_tokens=1)
            request.priority = priority
            return self.code(lambda: Answer(stub.Generate(request, metadata=bearer(key), timeout=60)))

        for key, priority, expected in ((WEB, -1, Code.INVALID_ARGUMENT), (WEB, 2**31 - 1, Code.OK),
                                        (SLOW, 6, Code.INVALID_ARGUMENT), (SLOW, 5, Code.OK), (SLOW, 0, Code.OK)):
            self.assertEqual(ask(key, priority), expected, (key, priority))
        stream = stub.Generate(chat_request("Hello", max_tokens=3000, ignore_eos=True), metadata=bearer(SLOW),
                               timeout=120)
        next(stream)
        self.assertEqual(ask(SLOW), Code.RESOURCE_EXHAUSTED)
        self.assertEqual(ask(WEB), Code.OK)
        stream.cancel()
        wait_for("the place is not given back", lambda: ask(SLOW) == Code.OK)

    def access_lines(self, begin=0):
        lines = []
        for line in self.server.output()[begin:].splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if "method" in entry:
                    lines.append(entry)
        return lines

    def test_the_access_log_has_one_line_a_call_and_no_text(self):
        time.sleep(1.1)  # a second without errors: more than some in one are counted, not written
        begin = len(self.server.output())
        stub = pb_grpc.InferenceStub(self.channel(self.server))
        admin = pb_grpc.AdminStub(self.channel(self.server))
        secret = "Xyzzyplugh"
        request = chat_request(secret, max_tokens=4)
        request.request_id = "id\n \"status\":\"OK\""
        self.code(lambda: Answer(stub.Generate(request, metadata=bearer(WEB), timeout=60)))
        request.request_id = "number 7"
        request.cache_salt = secret
        text = Answer(stub.Generate(request, metadata=bearer(WEB), timeout=60)).text
        self.assertEqual(self.code(lambda: stub.Tokenize(pb.TokenizeRequest(text=pb.Text(text=secret)), timeout=20)),
                         Code.UNAUTHENTICATED)
        self.code(lambda: stub.Tokenize(pb.TokenizeRequest(text=pb.Text(text=secret)), metadata=bearer("key-" + secret + "0000"),
                                        timeout=20))
        self.code(lambda: admin.GetStatus(pb.GetStatusRequest(), metadata=bearer(WEB), timeout=20))
        stub.Tokenize(pb.TokenizeRequest(text=pb.Text(text=secret)), metadata=bearer(OTHER), timeout=20)
        expected = [("web", "Generate"), ("web", "Generate"), ("", "Tokenize"), ("", "Tokenize"), ("web", "GetStatus"),
                    ("other", "Tokenize")]
        wait_for(f"six lines: {self.access_lines(begin)}", lambda: len(self.access_lines(begin)) >= len(expected))
        lines = self.access_lines(begin)
        self.assertCountEqual([(line["principal"], line["method"].rpartition("/")[2]) for line in lines], expected)
        codes = {(line["principal"], line["method"].rpartition("/")[2]): line["status"] for line in lines}
        self.assertEqual(codes["", "Tokenize"], "UNAUTHENTICATED")
        self.assertEqual(codes["web", "GetStatus"], "PERMISSION_DENIED")
        self.assertEqual(codes["other", "Tokenize"], "OK")
        whole = [line for line in lines if line.get("request_id") == "number 7"]
        self.assertEqual(len(whole), 1)
        self.assertEqual((whole[0]["generated_tokens"], whole[0]["status"]), (4, "OK"))
        output = self.server.output()
        self.assertNotIn(secret, output)
        self.assertNotIn("key-of-", output)
        if len(text.strip()) > 3:
            self.assertNotIn(text.strip(), output)


class HealthAndReflectionTest(SecurityTestCase):
    def health(self, channel, key=None):
        return self.code(lambda: call_method(channel, "/grpc.health.v1.Health/Check", health_pb.HealthCheckRequest(),
                                             health_pb.HealthCheckResponse, metadata=bearer(key)))

    def reflection(self, channel, version, key=None):
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        return self.code(lambda: call_method(
            channel, f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo", request,
            reflection_pb2.ServerReflectionResponse, (True, True), bearer(key)))

    def test_who_may_ask_is_a_setting(self):
        refused = Code.UNAUTHENTICATED
        wrong = "key-of-nobody-00001"
        for flags, health, reflection in (
                ((), (Code.OK, Code.OK, Code.OK), (refused, refused, Code.OK)),
                (("--health-access", "key", "--reflection-access", "anyone"), (refused, refused, Code.OK),
                 (Code.OK, Code.OK, Code.OK)),
                (("--reflection-access", "off"), (Code.OK, Code.OK, Code.OK), (refused, refused, Code.UNIMPLEMENTED))):
            with contextlib.ExitStack() as keep:
                server = self.start("--api-key-file", self.keys, *flags, keep=keep)
                channel = self.channel(server, tls=False)
                for i, key in enumerate((None, wrong, WEB)):
                    with self.subTest(flags=flags, key=key):
                        self.assertEqual(self.health(channel, key), health[i])
                        for version in ("v1", "v1alpha"):
                            self.assertEqual(self.reflection(channel, version, key), reflection[i])
                # A load balancer's own header does not make a server unhealthy.
                basic = self.code(lambda: call_method(
                    channel, "/grpc.health.v1.Health/Check", health_pb.HealthCheckRequest(),
                    health_pb.HealthCheckResponse, metadata=[("authorization", "Basic eDp5")]))
                self.assertEqual(basic, health[1])

    def test_without_keys_this_machine_may_do_all_whatever_it_sends(self):
        with contextlib.ExitStack() as keep:
            server = self.start(keep=keep)
            admin = pb_grpc.AdminStub(self.channel(server, tls=False))
            for header in (None, "Bearer anything", "Basic eDp5"):
                metadata = [] if header is None else [("authorization", header)]
                self.assertEqual(self.code(lambda: admin.GetStatus(pb.GetStatusRequest(), metadata=metadata,
                                                                   timeout=20)), Code.OK, header)


class ReloadTest(SecurityTestCase):
    def test_keys_are_read_again(self):
        server = self.start("--api-key-file", self.keys)
        stub = pb_grpc.InferenceStub(self.channel(server, tls=False))

        def works(key):
            return self.code(lambda: stub.GetModel(pb.GetModelRequest(), metadata=bearer(key), timeout=20)) == Code.OK

        self.assertTrue(works(WEB))
        new = "key-of-web-00000002"
        # Both keys of one principal, then only the new one: how a key is replaced.
        write_keys(self.keys, [{"key": WEB, "name": "web"}, {"key": new, "name": "web"}])
        wait_for("the changed file is not read", lambda: works(new))
        self.assertTrue(works(WEB))
        stream = stub.Generate(chat_request("Hello", max_tokens=1500, ignore_eos=True), metadata=bearer(WEB),
                               timeout=120)
        next(stream)
        write_keys(self.keys, [{"key": new, "name": "web"}])
        server.signal(signal.SIGHUP)
        wait_for("SIGHUP does not take the key away", lambda: not works(WEB))
        self.assertTrue(works(new))
        *_, last = stream  # what had begun goes on
        self.assertEqual(last.finished.finish_reason, pb.FINISH_REASON_LENGTH)

        for broken in ('{"key": "key-of-web-00000003", "name": "web"', '{"key": "short", "name": "web"}\n', "",
                       '{"key": "key-of-web-00000003", "name": "web", "rolls": []}\n'):
            pathlib.Path(self.keys).write_text(broken)
            complaints = server.output().count("keys stay as they were")
            server.signal(signal.SIGHUP)
            wait_for(f"no complaint about {broken!r}",
                     lambda: server.output().count("keys stay as they were") > complaints)
            self.assertTrue(works(new))
            self.assertFalse(works("key-of-web-00000003"))
        os.remove(self.keys)
        server.signal(signal.SIGHUP)
        self.assertTrue(works(new))
        write_keys(self.keys, KEYS)
        server.signal(signal.SIGHUP)
        wait_for("the mended file is not read", lambda: works(WEB))
        self.assertFalse(works(new))
        self.assertNotIn("key-of-", server.output())


class TlsTest(SecurityTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.start("--api-key-file", cls.keys, *cls.ca.tls_flags(), "--plaintext", "off")

    def s_client(self, *flags):
        return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.server.port}", "-CAfile",
                               self.ca.path("ca.pem"), "-verify_return_error", *flags], input="", capture_output=True,
                              text=True, timeout=60, check=False)

    def test_a_health_check_finds_its_way_through_tls(self):
        check = subprocess.run([SERVER, "--check-health", f"--port={self.server.port}"], capture_output=True, text=True, timeout=60)
        self.assertEqual((check.returncode, check.stderr), (0, ""))

    def test_the_load_generator_speaks_tls(self):
        target = f"https://localhost:{self.server.port}"
        for backend in ("quire", "openai"):  # HTTP/2, HTTP/1.1
            for ca, code in ((self.ca.path("ca.pem"), 0), ("", 69)):
                with self.subTest(backend=backend, ca=ca):
                    bench = subprocess.run(
                        [BENCH, "serve", "--backend", backend, "--target", target, "--num-prompts", "2", "--input-len", "4",
                         "--output-len", "2"], env={**os.environ, "QUIRE_API_KEY": WEB, "QUIRE_CA_FILE": ca},
                        capture_output=True, text=True, timeout=60)
                    self.assertEqual(bench.returncode, code, bench.stdout + bench.stderr)
                    if code != 0:
                        self.assertIn("certificate verify failed", bench.stderr)

    def test_versions_and_alpn(self):
        for version, taken in (("-tls1_2", True), ("-tls1_3", True), ("-tls1_1", False), ("-tls1", False)):
            result = self.s_client(version, "-alpn", "h2", "-cipher", "ALL:@SECLEVEL=0")
            self.assertEqual(result.returncode == 0, taken, version + result.stderr)
            self.assertEqual("ALPN protocol: h2" in result.stdout, taken, version)
        self.assertNotEqual(self.s_client("-alpn", "smtp").returncode, 0)
        self.assertNotEqual(self.s_client("-tls1_2", "-cipher", "AES128-SHA").returncode, 0)
        self.assertIn("Verify return code: 0 (ok)", self.s_client("-verify_hostname", "localhost").stdout)

    def test_certificates_are_read_again_while_a_stream_goes_on(self):
        def serial():
            shown = self.s_client("-showcerts").stdout
            return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=shown, capture_output=True, text=True,
                                  check=True, timeout=60).stdout

        before = serial()
        stub = pb_grpc.InferenceStub(self.channel(self.server))
        stream = stub.Generate(chat_request("Hello", max_tokens=3500, ignore_eos=True), metadata=bearer(WEB),
                               timeout=120)
        next(stream)
        pathlib.Path(self.ca.path("server.key")).write_text("broken")
        self.server.signal(signal.SIGHUP)
        self.assertEqual(serial(), before)
        self.ca.issue("server")
        self.server.signal(signal.SIGHUP)
        wait_for("the new certificate is not shown", lambda: serial() != before)
        *_, last = stream
        self.assertEqual(last.finished.finish_reason, pb.FINISH_REASON_LENGTH)
        stub.GetModel(pb.GetModelRequest(), metadata=bearer(WEB), timeout=20)  # on the old connection
        self.assert_serves(self.server)

    def closed_by_server(self, sent, seconds=30):
        """Sends these bytes on a new connection; what comes back until the server closes it."""
        received = b""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=seconds) as connection:
            try:
                connection.sendall(sent)
                while piece := connection.recv(65536):
                    received += piece
            except ConnectionError:
                pass
        return received

    def test_strangers_are_shown_out_and_harm_nobody(self):
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
        record = bytes([22, 3, 1])
        # Plaintext gets only the end of the connection.
        self.assertEqual(self.closed_by_server(preface), b"")
        self.assertEqual(self.closed_by_server(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), b"")
        for garbage in (record + b"\x00\x20" + b"\xff" * 32, record + b"\xff\xff" + b"x" * 70000,
                        record + b"\x00\x00" * 50, bytes([22]) + b"\x00" * 400,
                        record + b"\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(600)):
            answer = self.closed_by_server(garbage)
            self.assertTrue(answer == b"" or answer[0] == 21, answer)  # an alert, or nothing
            self.assert_serves(self.server)
        self.assertEqual(self.code(lambda: pb_grpc.InferenceStub(self.channel(self.server, tls=False)).GetModel(
            pb.GetModelRequest(), metadata=bearer(WEB), timeout=20)), Code.UNAVAILABLE)

    def test_handshakes_that_never_finish_harm_nobody(self):
        with contextlib.ExitStack() as keep:
            silent = []
            for i in range(60):
                connection = keep.enter_context(socket.create_connection(("127.0.0.1", self.server.port), timeout=40))
                connection.sendall((b"", bytes([22]), bytes([22, 3, 1, 2, 0]), bytes([22, 3, 1, 2, 0, 1, 0, 1, 252]))[i % 4])
                silent.append(connection)
            self.assert_serves(self.server)
            for connection in silent:  # and they are closed, though nothing is sent
                with contextlib.suppress(ConnectionError):
                    while connection.recv(1024):
                        pass
        self.assert_serves(self.server)


class PlaintextTest(SecurityTestCase):
    def outcome(self, host, port):
        with grpc.insecure_channel(f"{host}:{port}", OPTIONS) as channel:
            return self.code(lambda: pb_grpc.InferenceStub(channel).GetModel(pb.GetModelRequest(), metadata=bearer(WEB),
                                                                             timeout=20))

    def test_plaintext_is_a_setting(self):
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
            with contextlib.suppress(OSError):
                probe.connect(("192.0.2.1", 9))  # sends nothing: what address would be used?
            address = probe.getsockname()[0]
        has_address = not address.startswith(("127.", "0."))
        for setting, local, remote in ((None, Code.OK, Code.UNAVAILABLE), ("on", Code.OK, Code.OK),
                                       ("local", Code.OK, Code.UNAVAILABLE),
                                       ("off", Code.UNAVAILABLE, Code.UNAVAILABLE)):
            with contextlib.ExitStack() as keep:
                server = self.start("--host", "0.0.0.0", "--api-key-file", self.keys, *self.ca.tls_flags(),
                                    *(() if setting is None else ("--plaintext", setting)), keep=keep)
                with self.subTest(setting=setting):
                    self.assertEqual(self.outcome("127.0.0.1", server.port), local)
                    if has_address:
                        self.assertEqual(self.outcome(address, server.port), remote)
                    self.assert_serves(server)

    def test_tls_to_a_server_without_it(self):
        server = self.start("--api-key-file", self.keys)
        stub = pb_grpc.InferenceStub(self.channel(server))
        self.assertEqual(self.code(lambda: stub.GetModel(pb.GetModelRequest(), timeout=20)), Code.UNAVAILABLE)
        self.assert_serves(server, tls=False)

    def test_a_client_certificate_is_enough_and_needed_without_keys(self):
        self.ca.issue("web", "DNS:web.example")
        server = self.start(*self.ca.tls_flags(), "--tls-client-ca", self.ca.path("ca.pem"), "--plaintext", "off",
                            "--access-log")

        def ask(client):
            return self.code(lambda: pb_grpc.InferenceStub(self.channel(server, client)).GetModel(
                pb.GetModelRequest(), timeout=20))

        self.assertEqual(ask("web"), Code.OK)
        self.assertEqual(ask(None), Code.UNAVAILABLE)
        wait_for("the certificate's name is in the log", lambda: "principal=cert:web.example" in server.output())


class StartTest(SecurityTestCase):
    """What cannot be kept is refused before the model is loaded, in one line."""

    def test_settings_that_contradict_each_other_end_the_start(self):
        bad = os.path.join(self.folder, "bad")
        pathlib.Path(bad).write_text('{"key": "key-of-somebody-01"}\n')
        for flags, words in (
                (("--tls-cert", self.ca.path("server.pem")), "--tls-key"),
                (("--tls-client-ca", self.ca.path("ca.pem")), "--tls-cert"),
                (("--plaintext", "off"), "--tls-cert"),
                (("--tls-cert", self.ca.path("server.pem"), "--tls-key", self.ca.path("ca.key")), "does not fit"),
                (("--api-key-file", bad), "has no name"),
                (("--api-key-file", self.folder + "/none"), "--api-key-file")):
            with self.subTest(flags=flags), Server(*flags, wait=False) as server:
                self.assertEqual(server.process.wait(timeout=60), 64)
                self.assertIn(words, server.output())
                self.assertNotIn("key-of-", server.output())
                self.assertNotIn("ready on", server.output())


if __name__ == "__main__":
    main()
