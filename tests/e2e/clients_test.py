"""The programs people use: quire, quire-bench, and any gRPC client through reflection."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from harness import BENCH, CLIENT, SMALL_CACHE, ServerTestCase, grpc, main, pb


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

    def test_chat_keeps_the_history(self):
        result = self.quire("chat", "--temperature", "0",
                            stdin="What is 17 + 25?\nWhat is 2 + 3?\n")
        self.assertEqual(result.stdout.count("\n"), 2)
        self.assertIn("42", result.stdout)

    def test_tokenize_and_back(self):
        ids = json.loads(self.quire("tokenize", "--text", "Hello world", "--json").stdout)["ids"]
        back = self.quire("tokenize", "--decode", ",".join(map(str, ids)))
        self.assertEqual(back.stdout, "Hello world\n")

    def test_health_and_info(self):
        self.assertEqual(self.quire("health").stdout, "SERVING\n")
        info = json.loads(self.quire("info", "--json").stdout)
        self.assertEqual(info["model"]["architecture"], "Qwen3ForCausalLM")
        self.assertGreater(int(info["status"]["kv_blocks_total"]), 0)
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

    def test_bench_serve(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            self.run_client("serve", "--target", self.server.target, "--num-prompts", "12",
                            "--input-len", "50", "--output-len", "20", "--request-rate", "100",
                            "--json", file.name, program=BENCH)
            result = json.load(file)
        self.assertEqual(result["completed"], 12)
        self.assertEqual(result["completion_tokens"], 240)
        self.assertEqual(result["prompt_tokens"], 600)
        self.assertEqual(result["ttft_ms"]["count"], 12)
        self.assertEqual(result["itl_ms"]["count"], 12 * 19)

    def test_bench_offline(self):
        for command in (("throughput", "--num-prompts", "8", "--input-len", "40", "--output-len", "8"),
                        ("latency", "--input-len", "40", "--output-len", "8", "--num-iters", "2")):
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                self.run_client(*command, *SMALL_CACHE, "--json", file.name, "--dtype", "float32",
                                program=BENCH)
                self.assertEqual(json.load(file)["dtype"], "float32")

    def test_bench_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_client("timeline", "--batch-size", "3", "--context", "40", "--num-steps", "8", *SMALL_CACHE,
                            "--json", f"{folder}/t.json", "--html", f"{folder}/t.html", program=BENCH)
            result = json.loads(pathlib.Path(folder, "t.json").read_text())
            page = pathlib.Path(folder, "t.html").read_text()
        self.assertGreaterEqual(result["steps"], 8)
        self.assertGreater(result["busy_us"], 0)
        self.assertLessEqual(result["busy_us"], result["wall_us"] * 1.001)
        self.assertEqual(set(result["host_us"]), {"schedule", "build", "submit", "wait", "commit", "deliver"})
        self.assertIn("<svg", page)

    def test_bench_kernels(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            self.run_client("kernels", "--only", "steps", "--batch-sizes", "1,3", "--context", "40", "--prefill-len",
                            "20", "--json", file.name, program=BENCH)
            result = json.load(file)
        self.assertEqual([step["num_seqs"] for step in result["steps"]], [1, 3, 1])
        # The bundled model has eight layers with four products each, and the LM head.
        linear = [op["count"] for op in result["steps"][1]["operations"] if "linear" in op["op"]]
        self.assertEqual(sum(linear), 8 * 4 + 1)
        for step in result["steps"]:
            self.assertTrue(all(op["us"] > 0 and op["bytes"] > 0 for op in step["operations"]))

    def test_bench_startup(self):
        result = self.run_client("startup", "--num-starts", "1", "--idle-seconds", "0.2", *SMALL_CACHE,
                                 program=BENCH)
        self.assertIn("first token", result.stdout)
        self.assertIn("idle", result.stdout)


if __name__ == "__main__":
    main()
