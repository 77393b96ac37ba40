"""quire-server --plan: what it says is what a server that is then started says of itself; what it needs of a model,
and what it says when something does not fit."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import ROOT, SERVER, Server, main, pb

try:
    from quantize_checkpoint import quantize_checkpoint
except ImportError as error:
    quantize_checkpoint = None
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")

MIB = 2**20


def run_plan(*flags, code=0):
    result = subprocess.run([SERVER, *flags], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, f"exit code {result.returncode}:\n{result.stderr}"
    return result


def plan(*flags):
    return json.loads(run_plan("--plan-json", *flags).stdout)


def ledger(text):
    """The lines of a ledger, MiB, in a log or a plan."""
    return {what: float(mib) for what, mib in re.findall(r"^  (\S.*?) +(\d+\.\d) MiB$", text, re.MULTILINE)}


class PlanTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare_with_start(self, *flags):
        flags = ("--device", "cpu", *flags)
        planned = plan(*flags)
        said = ledger(run_plan("--plan", *flags).stdout)
        with Server(*flags) as server:
            model = server.inference.GetModel(pb.GetModelRequest())
            started = ledger(server.output())
        for name in ("num_parameters", "max_model_len", "block_size", "num_kv_blocks", "architecture", "dtype",
                     "kv_cache_dtype"):
            self.assertEqual(planned[name], getattr(model, name), name)
        for entry in planned["memory"]["entries"]:
            self.assertAlmostEqual(entry["bytes"] / MIB, started[entry["what"]], delta=0.051, msg=entry["what"])
            self.assertEqual(said[entry["what"]], started[entry["what"]])
        return planned

    def test_a_started_server_has_what_was_planned(self):
        self.compare_with_start("--no-cpu-compress-weights")
        self.compare_with_start("--no-cpu-compress-weights", "--kv-cache-memory-bytes", "48M", "--kv-cache-dtype",
                                "fp8", "--max-num-seqs", "7", "--block-size", "32", "--max-model-len", "1000")

    @unittest.skipUnless(quantize_checkpoint, "no numpy or ml_dtypes")
    def test_a_quantized_checkpoint(self):
        model = self.folder / "model"
        quantize_checkpoint(ROOT / "configs/demo", model, "awq")
        planned = self.compare_with_start("--no-cpu-compress-weights", "--model", str(model))
        weights = {weights["format"]: weights["bytes"] for weights in planned["weights"]}
        self.assertEqual(sum(weights.values()), planned["memory"]["entries"][0]["bytes"])
        self.assertEqual(list(weights), ["bfloat16", "int4, groups of 128, zero points", "norms, biases and padding"])
        self.assertIn("\n  int4, groups of 128, zero points ", run_plan("--plan", "--device", "cpu", str(model)).stdout)

    def test_streams_follow_from_the_blocks(self):
        planned = plan("--device", "cpu", "--kv-cache-memory-bytes", "48M")
        self.assertEqual(planned["memory"]["entries"][-1], {"what": "KV cache",
                                                            "bytes": planned["num_kv_blocks"] * planned["block_bytes"]})
        for streams in planned["streams"]:
            self.assertEqual(streams["num_streams"], planned["num_kv_blocks"] // (streams["num_tokens"] // 16))
        self.assertEqual(planned["streams"][-1]["num_tokens"], planned["max_model_len"])

    def test_a_gpu_that_is_not_here(self):
        small, large = (plan("--device", "cuda", "--plan-memory", size) for size in ("8GiB", "80GiB"))
        for planned, gib, num_seqs in ((small, 8, 256), (large, 80, 1024)):
            self.assertEqual(planned["memory"]["total_bytes"], gib * 2**30)
            self.assertEqual(planned["max_num_seqs"], num_seqs)
            taken = sum(entry["bytes"] for entry in planned["memory"]["entries"])
            self.assertEqual(planned["memory"]["in_use_before_bytes"] + taken + planned["memory"]["free_bytes"],
                             gib * 2**30)
        self.assertGreater(large["num_kv_blocks"], 10 * small["num_kv_blocks"])

    def test_weights_are_checked_by_their_headers_where_they_are(self):
        demo = ROOT / "configs/demo"
        shutil.copy(demo / "config.json", self.folder)
        model = str(self.folder)
        self.assertIsNone(plan("--device", "cpu", model)["weight_file_bytes"])
        with open(demo / "model.safetensors", "rb") as file:
            weights = file.read()
        (self.folder / "model.safetensors").write_bytes(weights)
        self.assertEqual(plan("--device", "cpu", model)["weight_file_bytes"], len(weights))
        (self.folder / "model.safetensors").write_bytes(weights[:-1])
        self.assertIn("model.safetensors", run_plan("--device", "cpu", "--plan", model, code=66).stderr)
        plan("--device", "cpu", model, "--load-format", "dummy")  # which reads no weights

    def test_mistakes(self):
        for flags, code, fragment in (
                (("--plan-memory", "8GiB"), 64, "--plan"), (("--plan", "--plan-memory", "much"), 64, "80GiB"),
                (("--plan=yes",), 64, "no value"), (("--plan", "/nowhere"), 66, "/nowhere"),
                (("--plan", "--device", "cpu", "--plan-memory", "8M"), 69, "does not fit"),
                (("--plan", "--device", "cpu", "--max-model-len", "1000000"), 64, "--max-model-len")):
            with self.subTest(flags=flags):
                result = run_plan(*flags, code=code)
                self.assertIn(fragment, result.stderr)
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    main()
