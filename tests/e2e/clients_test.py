"""The programs people use: quire, and any gRPC client through reflection."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
from unittest import mock

from harness import BENCH, BUILD, CLIENT, Server, ServerTestCase, chat_request, free_port, main, pb


class ClientTest(ServerTestCase):
    def run_client(self, *arguments, program=CLIENT, stdin="", code=0):
        result = subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True,
                                timeout=120, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def quire(self, command, *arguments, **kwargs):
        return self.run_client(command, "--target", self.server.target, *arguments, **kwargs)

    def test_generate_streams_text_and_sums_up(self):
        result = self.quire("generate", "--message", "What is 17 + 25?", "--temperature", "0")
        self.assertIn("42", result.stdout)
        self.assertIn("prompt tokens", result.stderr)

    def test_generate_json(self):
        result = self.quire("generate", "--message", "What is 17 + 25?", "--temperature", "0",
                            "--json", "--logprobs", "2")
        answer = json.loads(result.stdout)
        choice = answer["choices"][0]
        self.assertIn("42", choice["text"])
        self.assertEqual(choice["usage"]["completion_tokens"], len(choice["token_ids"]))
        self.assertEqual(len(choice["logprobs"][0]["top"]), 2)

    def test_generate_reads_standard_input_and_reports_errors(self):
        self.assertTrue(self.quire("generate", "--max-tokens", "3", stdin="Once upon a").stdout)
        bad = self.quire("generate", "--message", "x", "--top-k", "-7", code=1)
        self.assertIn("INVALID_ARGUMENT", bad.stderr)
        self.assertIn("top_k", bad.stderr)
        self.quire("generate", "--message", "x", "--logit-bias", "nonsense", code=64)

    def test_generate_takes_the_prompt_as_an_argument(self):
        argument = self.quire("generate", "Once upon a", "--temperature", "0", "--max-tokens", "5")
        flag = self.quire("generate", "--prompt", "Once upon a", "--temperature", "0", "--max-tokens", "5")
        self.assertEqual(argument.stdout, flag.stdout)
        self.assertIn("time", argument.stdout)

    def test_generate_refuses_flags_that_contradict_each_other(self):
        for one, other in ((("--prompt", "a"), ("--message", "b")), (("--message", "a"), ("--messages", "b")),
                           (("--prompt", "a"), ("--token-ids", "1")), (("--system", "a"), ("--messages", "b"))):
            bad = self.quire("generate", *one, *other, code=64)
            self.assertIn(one[0], bad.stderr)
            self.assertIn(other[0], bad.stderr)
            self.assertEqual(bad.stderr.count("\n"), 1)
        self.assertIn("--prompt", self.quire("generate", "a", "--prompt", "b", code=64).stderr)
        self.assertIn("--message", self.quire("generate", "--system", "a", code=64).stderr)
        self.assertIn("no prompt", self.quire("generate", code=64).stderr)
        self.assertIn("--decode", self.quire("tokenize", "a", "--decode", "1", code=64).stderr)

    def test_generate_prints_logprobs_and_several_continuations(self):
        result = self.quire("generate", "Once upon", "--temperature", "0", "--max-tokens", "3", "--logprobs", "2",
                            "--prompt-logprobs", "0", "-n", "2")
        self.assertIn("--- continuation 1 of 2\n a time", result.stdout)
        self.assertIn("--- continuation 2 of 2\n a time", result.stdout)
        self.assertIn("Prompt logprobs\n", result.stdout)
        self.assertIn("Logprobs of continuation 2\n", result.stdout)
        self.assertRegex(result.stdout, r'\d+  " time" +-\d\.\d{4} +1  " time" -\d\.\d{4}  "')

    def test_targets(self):
        for target in (f"http://{self.server.target}/", f"grpc://{self.server.target}"):
            self.assertEqual(self.run_client("health", "--target", target).stdout, "SERVING\n")
        with mock.patch.dict(os.environ, QUIRE_TARGET=self.server.target):
            self.assertEqual(self.run_client("health").stdout, "SERVING\n")
            self.run_client("health", "--target", f"127.0.0.1:{free_port()}", code=69)  # the flag wins
        with mock.patch.dict(os.environ, QUIRE_CA_FILE="/nonexistent/ca"):
            self.assertIn("QUIRE_CA_FILE: cannot read /nonexistent/ca",
                          self.run_client("info", "--target", "https://localhost", code=64).stderr)
        with mock.patch.dict(os.environ, QUIRE_API_KEY="two words"):
            self.assertIn("QUIRE_API_KEY: no key has spaces", self.run_client("info", code=64).stderr)
        with mock.patch.dict(os.environ, QUIRE_TARGET="a:b:c"):
            self.assertIn("QUIRE_TARGET", self.run_client("info", code=64).stderr)

    def test_what_is_said_when_no_server_serves(self):
        def said(target):
            result = self.run_client("info", "--target", target, code=69)
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr.count("\n"), 1)
            return result.stderr

        self.assertIn("Is a server running there?", said(f"127.0.0.1:{free_port()}"))
        self.assertIn("is unknown", said("no-such-host.invalid"))
        with socket.create_server(("127.0.0.1", 0)) as other:
            def speak_something_else():
                connection, _ = other.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1024):
                        pass
            threading.Thread(target=speak_something_else, daemon=True).start()
            self.assertIn("not a Quire gRPC server", said(f"127.0.0.1:{other.getsockname()[1]}"))

    def test_a_draining_server_is_not_called_missing(self):
        with Server() as server:
            stream = server.inference.Generate(chat_request("Hello", max_tokens=3000, ignore_eos=True))
            next(stream)
            server.signal(signal.SIGTERM)
            give_up = time.monotonic() + 20
            while time.monotonic() < give_up:
                result = subprocess.run([CLIENT, "generate", "Once", "--target", server.target],
                                        capture_output=True, text=True, timeout=60, check=False)
                if result.returncode != 0:
                    break
            stream.cancel()
        self.assertEqual(result.returncode, 69)
        self.assertIn("UNAVAILABLE", result.stderr)
        self.assertNotIn("server running", result.stderr)

    def test_abort_and_flush(self):
        stream = self.server.inference.Generate(
            chat_request("Hello", max_tokens=4000, ignore_eos=True), timeout=60)
        request_id = next(stream).started.request_id
        self.assertIn(request_id, self.quire("abort", request_id).stdout)
        *_, last = stream
        self.assertEqual(last.finished.finish_reason, pb.FINISH_REASON_ABORT)
        again = self.quire("abort", request_id, "--json", code=1)
        self.assertEqual(json.loads(again.stdout), {"found": False})
        self.assertIn(request_id, again.stderr)
        self.server.wait_until_idle()
        self.assertGreater(json.loads(self.quire("flush", "--json").stdout)["blocks"], 0)
        self.assertIn("0 blocks", self.quire("flush").stdout)
        self.assertIn("abort REQUEST_ID", self.quire("abort", code=64).stderr)

    def test_commands_flags_and_versions(self):
        self.assertRegex(self.run_client("--version").stdout, r"^quire \d+\.\d+\.\d+\n$")
        self.assertIn("did you mean chat?", self.run_client("caht", code=64).stderr)
        self.assertIn("did you mean --temperature?", self.run_client("chat", "--temprature=1", code=64).stderr)
        nothing = self.run_client(code=64)
        self.assertIn("Examples", nothing.stdout)
        self.assertEqual(nothing.stderr.count("\n"), 1)
        self.assertEqual(self.run_client("help", "chat").stdout, self.run_client("chat", "--help").stdout)

    def test_completion_scripts_are_valid(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.run_client("completion", shell).stdout
            self.assertIn("temperature", script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)
        completed = subprocess.run(
            ["bash", "-c", 'source <("$0" completion bash); COMP_WORDS=(quire generate --tempe); COMP_CWORD=2; _quire; '
             'echo "${COMPREPLY[@]}"; COMP_WORDS=(quire ch); COMP_CWORD=1; _quire; echo "${COMPREPLY[@]}"', CLIENT],
            capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(completed.stdout.split(), ["--temperature", "chat"])

    def test_man_pages_are_valid(self):
        for program, flags in ((CLIENT, ["--help-man"]), (BENCH, ["--help-man"]), (BUILD / "bin/quire-man", [])):
            if not program.exists():
                continue
            page = self.run_client(*flags, program=program).stdout
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"):
                self.assertIn(f"\n.SH {section}\n", page)
            if shutil.which("groff"):
                complaints = subprocess.run(["groff", "-man", "-ww", "-z"], input=page, capture_output=True, text=True,
                                            check=True, timeout=60).stderr
                self.assertEqual(complaints, "")

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([CLIENT, "info", "--target", self.server.target], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr)

    def test_chat_keeps_the_history(self):
        result = self.quire("chat", "--temperature", "0",
                            stdin="What is 17 + 25?\nWhat is 2 + 3?\n")
        self.assertEqual(result.stdout.count("\n"), 2)
        self.assertIn("42", result.stdout)

    def test_chat_at_a_pipe_ends_at_an_empty_line_and_tells_failures(self):
        result = self.quire("chat", "--temperature", "0", stdin="What is 17 + 25?\n\nWhat is 2 + 3?\n")
        self.assertEqual(result.stdout, "42\n")
        self.assertIn("top_k", self.quire("chat", "--top-k=-7", stdin="Hello\n", code=1).stderr)
        self.run_client("chat", "--target", f"127.0.0.1:{free_port()}", stdin="Hello\n", code=69)

    def test_tokenize_and_back(self):
        tokens = json.loads(self.quire("tokenize", "--text", "Hello 🙂", "--json").stdout)
        self.assertEqual(bytes(byte for token in tokens["bytes"] for byte in token).decode(), "Hello 🙂")
        ids = json.loads(self.quire("tokenize", "--text", "Hello world", "--json").stdout)["ids"]
        back = self.quire("tokenize", "--decode", ",".join(map(str, ids)))
        self.assertEqual(back.stdout, "Hello world\n")

    def test_health_and_info(self):
        self.assertEqual(self.quire("health").stdout, "SERVING\n")
        info = json.loads(self.quire("info", "--json").stdout)
        self.assertEqual(info["model"]["architecture"], "Qwen3ForCausalLM")
        self.assertIsInstance(info["status"]["kv_blocks_total"], int)
        self.assertIsInstance(info["model"]["num_parameters"], int)
        self.assertGreater(info["status"]["kv_blocks_total"], 0)
        self.assertEqual(json.loads(self.quire("health", "--json").stdout), {"status": "SERVING"})
        self.assertIn("KV blocks", self.quire("info").stdout)

    def test_reflection_lists_and_describes_the_services(self):
        from google.protobuf.descriptor_pool import DescriptorPool
        try:
            from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
                ProtoReflectionDescriptorDatabase)
        except ImportError as error:
            self.skipTest(str(error))
        database = ProtoReflectionDescriptorDatabase(self.server.channel)
        self.assertLessEqual(
            {"quire.v1.Inference", "quire.v1.Admin", "grpc.health.v1.Health"},
            set(database.get_services()))
        service = DescriptorPool(database).FindServiceByName("quire.v1.Inference")
        self.assertIn("Generate", service.methods_by_name)


if __name__ == "__main__":
    main()
