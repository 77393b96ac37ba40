"""Who may do what, through the port: every method with every kind of caller, keys that change while the server
runs, TLS and client certificates, whose request and whose prefix cache it is, and what the log says of it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import CLIENT, Server, chat_request, grpc, ids_request, main, pb, pb_grpc

USER, OTHER, BOSS = "the-key-of-the-user", "the-key-of-another", "the-key-of-the-boss"
KEYS = [{"key": USER, "name": "user"}, {"key": OTHER, "name": "other", "max_concurrent_requests": 1},
        {"key": BOSS, "name": "boss", "roles": ["inference", "admin"], "min_priority": -10},
        {"key": "the-first-of-the-team", "name": "team1", "cache_group": "team"},
        {"key": "the-second-of-the-team", "name": "team2", "cache_group": "team"}]
CODE = grpc.StatusCode


def bearer(key):
    return (("authorization", f"Bearer {key}"),)


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return CODE.OK


class AccessTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quire_access_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.keys = self.folder / "keys"
        self.write_keys(KEYS)

    def write_keys(self, entries):
        fresh = self.folder / "keys.new"
        fresh.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        fresh.rename(self.keys)

    def server(self, *flags):
        server = Server(*flags)
        self.addCleanup(server.__exit__)
        return server

    def keyed_server(self, *flags):
        return self.server("--api-key-file", str(self.keys), *flags)


def every_method(server):
    """(service, method, how to call it with metadata) of everything that the descriptors name."""
    for service in pb.DESCRIPTOR.services_by_name.values():
        stub = getattr(pb_grpc, f"{service.name}Stub")(server.channel)
        for method in service.methods:
            request = getattr(pb, method.input_type.name)()

            def call(metadata, stub=stub, name=method.name, request=request):
                result = getattr(stub, name)(request, metadata=metadata, timeout=20)
                if hasattr(result, "__next__"):
                    list(result)
            yield service.name, method.name, call


class KeyTest(AccessTestCase):
    def test_every_method_with_every_caller(self):
        server = self.keyed_server()
        num_methods = 0
        for _, method, call in every_method(server):
            with self.subTest(method):
                num_methods += 1
                headers = (USER, "Bearer", "Bearer the-key-of-nobody", f"Bearer {USER}x", f"Basic {USER}")
                for metadata in ((), *((("authorization", header),) for header in headers)):
                    self.assertEqual(code_of(lambda: call(metadata)), CODE.UNAUTHENTICATED, metadata)
                is_admin = method in ("GetStatus", "FlushPrefixCache")
                allowed = code_of(lambda: call(bearer(USER)))
                if is_admin:
                    self.assertEqual(allowed, CODE.PERMISSION_DENIED)
                else:  # an empty request may be refused, but by the method itself
                    self.assertIn(allowed, (CODE.OK, CODE.INVALID_ARGUMENT))
                self.assertIn(code_of(lambda: call(bearer(BOSS))), (CODE.OK, CODE.INVALID_ARGUMENT))
        self.assertGreaterEqual(num_methods, 8)
        self.assertNotIn("the-key-of", server.output())

    def test_keys_change_while_the_server_runs(self):
        server = self.keyed_server()

        def ask(key):
            return code_of(lambda: server.inference.GetModel(pb.GetModelRequest(), metadata=bearer(key)))

        def becomes(key, code):
            give_up = time.monotonic() + 20
            while ask(key) != code and time.monotonic() < give_up:
                time.sleep(0.05)
            self.assertEqual(ask(key), code)
        self.assertEqual(ask(USER), CODE.OK)
        running = server.inference.Generate(ids_request([1, 2], max_tokens=300), metadata=bearer(USER))
        next(running)
        self.write_keys([{"key": "a-new-key-of-the-user", "name": "user"}])
        becomes("a-new-key-of-the-user", CODE.OK)
        self.assertEqual(ask(USER), CODE.UNAUTHENTICATED)
        self.assertEqual(sum(len(r.delta.token_ids) for r in running), 300)  # it had been let in
        self.keys.write_text("{broken")
        server.signal(signal.SIGHUP)
        give_up = time.monotonic() + 20
        while "the keys stay as they were" not in server.output() and time.monotonic() < give_up:
            time.sleep(0.05)
        self.assertEqual(ask("a-new-key-of-the-user"), CODE.OK)
        self.assertIn("the keys stay as they were", server.output())

    def test_limits_of_a_principal(self):
        server = self.keyed_server()
        request = ids_request([1, 2], max_tokens=2000)
        first = server.inference.Generate(request, metadata=bearer(OTHER))
        next(first)
        self.assertEqual(code_of(lambda: server.inference.GenerateOnce(request, metadata=bearer(OTHER))),
                         CODE.RESOURCE_EXHAUSTED)
        request.stop.max_tokens = 1
        self.assertEqual(code_of(lambda: server.inference.GenerateOnce(request, metadata=bearer(USER))), CODE.OK)
        first.cancel()
        request.priority = -1
        self.assertEqual(code_of(lambda: server.inference.GenerateOnce(request, metadata=bearer(USER))),
                         CODE.INVALID_ARGUMENT)
        self.assertEqual(code_of(lambda: server.inference.GenerateOnce(request, metadata=bearer(BOSS))), CODE.OK)

    def test_requests_belong_to_their_principal(self):
        server = self.keyed_server()
        request = ids_request([1, 2], max_tokens=3900)
        request.request_id = "mine"
        streams = {key: server.inference.Generate(request, metadata=bearer(key)) for key in (USER, OTHER)}
        for stream in streams.values():
            self.assertEqual(next(stream).started.request_id, "mine")

        def abort(key, principal=""):
            return server.admin.Abort(pb.AbortRequest(request_id="mine", principal=principal),
                                      metadata=bearer(key)).found
        self.assertFalse(abort("the-first-of-the-team"))
        self.assertEqual(code_of(lambda: abort(USER, "other")), CODE.PERMISSION_DENIED)
        self.assertEqual(code_of(lambda: abort(BOSS)), CODE.FAILED_PRECONDITION)
        self.assertTrue(abort(USER))
        self.assertEqual(list(streams[USER])[-1].finished.finish_reason, pb.FINISH_REASON_ABORT)
        self.assertTrue(abort(BOSS, "other"))
        self.assertEqual(list(streams[OTHER])[-1].finished.finish_reason, pb.FINISH_REASON_ABORT)

    def test_prefix_caches_are_apart(self):
        server = self.keyed_server()

        def cached(key, salt=""):
            request = ids_request([7] * 100, max_tokens=1)
            request.cache_salt = salt
            answer = server.inference.GenerateOnce(request, metadata=bearer(key))
            return answer.choices[0].finished.usage.cached_tokens
        self.assertEqual(cached(USER), 0)
        self.assertEqual(cached(USER), 96)
        self.assertEqual(cached(OTHER), 0)
        self.assertEqual(cached(USER, "salt"), 0)
        self.assertEqual(cached(OTHER, "salt"), 0)
        self.assertEqual(cached("the-first-of-the-team"), 0)
        self.assertEqual(cached("the-second-of-the-team"), 96)

    def test_health_and_reflection(self):
        from harness import health_pb
        server = self.keyed_server()
        self.assertEqual(code_of(lambda: server.health.Check(health_pb.HealthCheckRequest())), CODE.OK)
        strict = self.keyed_server("--health-access", "key")
        self.assertEqual(code_of(lambda: strict.health.Check(health_pb.HealthCheckRequest())),
                         CODE.UNAUTHENTICATED)
        self.assertEqual(code_of(lambda: strict.health.Check(health_pb.HealthCheckRequest(),
                                                             metadata=bearer(USER))), CODE.OK)

    def test_our_client_sends_the_key(self):
        server = self.keyed_server()

        def info(**environment):
            return subprocess.run([CLIENT, "info", "--target", server.target], capture_output=True, text=True,
                                  timeout=60, check=False, env={**os.environ, **environment})
        self.assertIn("QUIRE_API_KEY", info().stderr)
        self.assertEqual(info(QUIRE_API_KEY=BOSS).returncode, 0)

    def test_the_log_has_a_line_for_each_request(self):
        server = self.keyed_server("--log-format", "json")
        answer = server.inference.GenerateOnce(chat_request("a secret question"), metadata=bearer(USER))
        server.inference.GetModel(pb.GetModelRequest(), metadata=bearer(BOSS))
        self.assertEqual(server.stop(), 0)
        lines = [json.loads(line) for line in server.output().splitlines()]
        access = [line for line in lines if line["message"] == "access"]
        generated = [line for line in access if line.get("request_id") == answer.request_id]
        self.assertEqual(len(generated), 1, access)
        self.assertEqual((generated[0]["principal"], generated[0]["status"]), ("user", "OK"))
        usage = answer.choices[0].finished.usage
        self.assertEqual((generated[0]["prompt_tokens"], generated[0]["generated_tokens"]),
                         (usage.prompt_tokens, usage.completion_tokens))
        self.assertTrue(any(line["principal"] == "boss" and line["method"].endswith("GetModel") for line in access))
        self.assertNotIn("secret", server.output())
        # The memory ledger is members, too, no text within a line.
        [memory] = [line for line in lines if line["message"] == "memory"]
        for use in ("in_use_before", "weights", "activations", "batch_and_sampling_state", "kv_cache", "free", "device"):
            self.assertIsInstance(memory[f"{use}_bytes"], int, memory)
        self.assertGreater(memory["weights_bytes"], 1 << 20)
        self.assertGreater(memory["device_bytes"], memory["kv_cache_bytes"])


@unittest.skipUnless(shutil.which("openssl"), "no openssl to make certificates")
class TlsTest(AccessTestCase):
    def setUp(self):
        super().setUp()
        self.make("ca", "/CN=ca")
        self.make("server", "/CN=localhost", "ca", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        self.make("web", "/CN=x", "ca", "subjectAltName=DNS:web.example")

    def path(self, name):
        return str(self.folder / name)

    def make(self, name, subject, issuer=None, extension=None):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                   "-subj", subject, "-days", "1", "-keyout", self.path(f"{name}.key"),
                   "-out", self.path(f"{name}.pem")]
        if issuer:
            command += ["-CA", self.path(f"{issuer}.pem"), "-CAkey", self.path(f"{issuer}.key"), "-addext", extension,
                        "-addext", "basicConstraints=CA:FALSE"]
        subprocess.run(command, check=True, capture_output=True)

    def channel(self, server, client=None):
        def read(name):
            return pathlib.Path(self.path(name)).read_bytes()
        credentials = grpc.ssl_channel_credentials(
            read("ca.pem"), *((read(f"{client}.key"), read(f"{client}.pem")) if client else ()))
        channel = grpc.secure_channel(f"localhost:{server.port}", credentials,
                                      options=[("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(channel.close)
        return channel

    def ask(self, channel, metadata=()):
        return code_of(lambda: pb_grpc.InferenceStub(channel).GetModel(pb.GetModelRequest(), metadata=metadata,
                                                                       timeout=20))

    def tls_flags(self):
        return ("--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"))

    def test_tls_and_plaintext_on_one_port(self):
        server = self.keyed_server(*self.tls_flags())
        self.assertEqual(self.ask(self.channel(server), bearer(USER)), CODE.OK)
        self.assertEqual(self.ask(self.channel(server)), CODE.UNAUTHENTICATED)
        self.assertEqual(self.ask(server.channel, bearer(USER)), CODE.OK)  # of this machine
        shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-alpn", "h2",
                                "-CAfile", self.path("ca.pem")], input=b"", capture_output=True, timeout=60,
                               check=False).stdout.decode()
        self.assertIn("ALPN protocol: h2", shown)
        self.assertIn("Verify return code: 0", shown)
        old = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_1", "-cipher",
                              "ALL:@SECLEVEL=0"], input=b"", capture_output=True, timeout=60, check=False)
        self.assertIn(b"Cipher is (NONE)", old.stdout)

    def test_a_certificates_name_is_a_principal(self):
        self.write_keys([{"certificate": "web.example", "name": "web", "roles": ["admin"]},
                         {"key": USER, "name": "user"}])
        server = self.keyed_server(*self.tls_flags(), "--tls-client-ca", self.path("ca.pem"))
        web = self.channel(server, "web")
        pb_grpc.AdminStub(web).GetStatus(pb.GetStatusRequest(), timeout=20)
        self.assertEqual(self.ask(web), CODE.PERMISSION_DENIED)
        self.assertEqual(self.ask(web, bearer(USER)), CODE.OK)
        self.assertEqual(self.ask(self.channel(server), bearer(USER)), CODE.OK)
        self.assertEqual(self.ask(self.channel(server)), CODE.UNAUTHENTICATED)
        self.assertEqual(self.ask(server.channel), CODE.UNAUTHENTICATED)

    def test_certificates_change_without_ending_a_connection(self):
        server = self.server(*self.tls_flags())
        old = self.channel(server)
        stream = pb_grpc.InferenceStub(old).Generate(ids_request([1, 2], max_tokens=1500))
        next(stream)
        for name in ("ca", "server"):  # nothing that the old client trusts
            self.make(name, f"/CN={name}", *(("ca", "subjectAltName=DNS:localhost") if name == "server" else ()))
        server.signal(signal.SIGHUP)
        give_up = time.monotonic() + 20
        while "read the certificate" not in server.output() and time.monotonic() < give_up:
            time.sleep(0.05)
        self.assertEqual(self.ask(self.channel(server)), CODE.OK)
        self.assertEqual(sum(len(r.delta.token_ids) for r in stream), 1500)
        self.assertEqual(self.ask(old), CODE.OK)


if __name__ == "__main__":
    main()
