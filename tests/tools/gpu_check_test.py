"""run-gpu-check in a made-up bundle: what it counts, which figures it takes from where, and how it ends."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = {"llama8b_bs1_tok_s", "llama8b_bs64_tok_s", "llama8b_offline_1000_1000_tok_s", "llama8b_ttft_2048_ms",
        "qwen06b_bs1_tok_s", "qwen06b_256req_tok_s", "decode_attn_read_ratio", "decode_attn_skew_ratio",
        "prefill_attn_tflops", "gpu_idle_share", "start_06b_s", "start_8b_s", "read_ceiling_tb_s"}

# The results that each command writes to --json, as quire-bench lays them out: one member a line.
RESULTS = {
    "kernels": {"attention": [{"tb_s": 9},
                              {"op": "native", "shape": "decode 64 x 1024", "us": 80.0, "tb_s": 3.3},
                              {"op": "trtllm", "shape": "decode 64 x 1024", "us": 72.0, "tb_s": 3.75},
                              {"op": "trtllm", "shape": "decode 64 x 2048", "us": 140.0, "tb_s": 3.9},
                              {"op": "trtllm", "shape": "decode 64 x 2048, 4 tokens each", "us": 154.0, "tb_s": 3.5}],
                "cascade": [{"num_seqs": 64, "prefix_len": 2048, "speedup": 1.5},
                            {"num_seqs": 64, "prefix_len": 8192, "speedup": 4.0}],
                "format_table": [{"shape": shape, "format": name, "rows": rows, "us": 5, "speedup": speedup,
                                  "share_of_reading": share, "tflops": tflops}
                                 for name in ("fp8-block", "awq", "fp8-channel", "gptq", "gptq-group32", "int8-group128")
                                 for shape, rows, speedup, share, tflops in (
                                     ("4096 -> 6144", 1, 1.5, 0.7, 3), ("4096 -> 6144", 64, 1.2, 0.5, 90),
                                     ("4096 -> 6144", 256, 0.8, 0.3, 700), ("14336 -> 4096", 1, 1.4, 0.8, 3),
                                     ("14336 -> 4096", 64, 1.1, 0.6, 80), ("14336 -> 4096", 256, 0.9, 0.4, 800))],
                "sampling_table": [{"op": "sample", "shape": "64 x 128256, greedy", "us": 10.0},
                                   {"op": "sample", "shape": "256 x 128256, k 50, p 0.9, middling", "us": 80.0}],
                "steps": [{"us": 9, "operations": [{"op": "add_rms_norm", "shape": "1 x 4096", "tb_s": 1}]},
                          {"us": 8, "operations": [{"op": "add_rms_norm", "shape": "2048 x 4096", "tb_s": 3.6},
                                                   {"op": "store_heads", "shape": "2048 x 4096", "tb_s": 3.2}]}],
                "figures": {"read_ceiling_tb_s": 4.5, "copy_ceiling_tb_s": 4, "decode_attn_read_ratio": 0.91, "decode_attn_skew_ratio": 0.8,
                            "prefill_attn_tflops": 444.0}},
    "timeline": {"idle_share": 0.0125, "tokens_per_s": 8600.25, "period_us": {"p50": 7}},
    "latency": {"batch_ms": {"mean": 9, "p50": 8}, "mean_ttft_ms": 51, "median_ttft_ms": 50.5, "median_itl_ms": 5,
                "decode_tokens_per_s": 207.5},
    "throughput": {"output_throughput": 24000.5, "total_token_throughput": 1},
    "serve": {"output_throughput": 18000.375, "mean_itl_ms": 9, "median_itl_ms": 8, "p99_itl_ms": 10},
    "startup": {"listening_ms": {"p50": 700}, "first_token_ms": {"mean": 1, "p50": 1250.0},
                "starts": [{"listening_ms": 700, "first_token_ms": 1500}]},
}

FAKE_BENCH = """#!/usr/bin/env python3
import json, os, sys
command = sys.argv[1]
print("choices in", os.environ.get("QUIRE_CACHE_DIR"))
if command in os.environ.get("BROKEN", "").split():
    sys.exit("quire-bench: no memory for " + command)
if "--json" in sys.argv:
    with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
        json.dump(json.loads(os.environ["RESULTS"])[command], file, indent=2)
if "QUIRE_KERNEL_TRACE" in os.environ:
    if "NO_CUPTI" in os.environ:
        sys.exit("kernel_trace: no libcupti.so.13")
    name = os.path.basename(os.environ["CUDA_INJECTION64_PATH"])
    with open(os.environ["QUIRE_KERNEL_TRACE"], "w") as file:
        file.write("start_ns,end_ns,grid_x,grid_y,grid_z,threads,name\\n")
        for step in range(3):
            for start, kernel in ((0, "_Z10PlanDecodev"), (6000, name)):
                file.write("%d,%d,1,1,1,32,%s\\n" % (step * 10000 + start, step * 10000 + start + 4000, kernel))
"""

FAKE_SERVER = """#!/bin/sh
echo "server: $*, choices in $QUIRE_CACHE_DIR" >&2
while [ "$1" != --address-file ]; do shift; done
echo 127.0.0.1:4321 > "$2"
exec sleep 60
"""

PASSING = "echo '[  PASSED  ] 12 tests.'; echo '[  SKIPPED ] 2 tests, listed below:'"
FAILING = "echo '[  PASSED  ] 3 tests.'; echo '[  FAILED  ] 1 test, listed below:'; echo '[  FAILED  ] A.B'; exit 1"
CRASHING = "echo 'Segmentation fault'; kill -SEGV $$"
E2E = """import unittest
class T(unittest.TestCase):
    def test_a(self): pass
    @unittest.skip("no")
    def test_b(self): pass
    def test_c(self): self.assertTrue({passes})
unittest.main()
"""


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quire_gpu_check_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.bundle = self.folder / "bundle"
        check = ROOT / "tools/gpu_check"
        for name in ("bin", "libexec/tests", "share/quire/source/tests/e2e", "share/quire/gpu-check", "fakes"):
            (self.bundle / name).mkdir(parents=True)
        shutil.copy(check / "run-gpu-check", self.bundle / "bin")
        for part in [*check.glob("*.sh"), *check.glob("*.py")]:
            shutil.copy(part, self.bundle / "share/quire/gpu-check")
        (self.bundle / "share/quire/COMMIT").write_text("abc123\n")
        self.program("bin/quire-bench", FAKE_BENCH)
        self.program("bin/with-libraries", "#!/bin/sh\nexec \"$@\"\n")
        # Python's packages, as far as they are asked for by name.
        for package in ("grpc", "google/protobuf"):
            (self.bundle / "fakes" / package).mkdir(parents=True)
            (self.bundle / "fakes" / package / "__init__.py").touch()

    def program(self, path, text):
        path = self.bundle / path
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def gtest(self, name, script):
        self.program(f"libexec/tests/{name}_test", "#!/bin/sh\n" + script + "\n")

    def e2e(self, name, passes):
        (self.bundle / f"share/quire/source/tests/e2e/{name}_test.py").write_text(E2E.format(passes=passes))

    def check(self, *flags, **environment):
        """Exit code, gpu.txt, gpu.json."""
        out = self.folder / "out"
        # -S: no packages but the fakes, so that the rest is skipped.
        self.program("fakes/python3", "#!/bin/sh\nexec /usr/bin/env -u PYTHONHOME " + shutil.which("python3") +
                     " -S \"$@\"\n")
        environment = dict(os.environ, RESULTS=json.dumps(RESULTS), PYTHONPATH=str(self.bundle / "fakes"),
                           PATH=f"{self.bundle / 'fakes'}:/usr/bin:/bin", **environment)
        result = subprocess.run([self.bundle / "bin/run-gpu-check", *flags, out], env=environment, capture_output=True,
                                text=True, timeout=120)
        text = (out / "gpu.txt").read_text()
        self.assertEqual(result.stdout, text, result.stderr)
        return result.returncode, text, json.loads((out / "gpu.json").read_text())

    def test_all_is_well(self):
        self.gtest("a", PASSING)
        self.e2e("generate", True)
        code, text, result = self.check()
        self.assertEqual(code, 0, text)
        self.assertEqual(result["commit"], "abc123")
        self.assertEqual(set(result), {"commit", "gpu", "driver", "tests", "figures"})
        figures = result["figures"]
        self.assertEqual(set(figures), KEYS)
        self.assertEqual(figures["llama8b_bs1_tok_s"], 207.5)
        self.assertEqual(figures["llama8b_bs64_tok_s"], 8600.25)
        self.assertEqual(figures["llama8b_ttft_2048_ms"], 50.5)
        self.assertEqual(figures["qwen06b_256req_tok_s"], 24000.5)
        self.assertEqual(figures["gpu_idle_share"], 0.0125)
        self.assertEqual(figures["start_8b_s"], 1.25)
        self.assertEqual(figures["read_ceiling_tb_s"], 4.5)
        self.assertEqual(figures["prefill_attn_tflops"], 444)
        self.assertEqual(result["tests"]["passed"], 12 + 2)
        self.assertEqual(result["tests"]["failed"], 0)
        # Two by GoogleTest, one by unittest, and by name what this machine lacks.
        self.assertGreaterEqual(result["tests"]["skipped"], 3)
        self.assertIn("skipped: python3 has no torch, transformers", text)
        # The command that repeats a figure stands below it.
        self.assertRegex(text, r"llama8b_offline_1000_1000_tok_s +24000.5\n +quire-bench throughput .*--num-prompts 256")

    def test_failures_are_counted_and_shown(self):
        self.gtest("a", PASSING)
        self.gtest("b", FAILING)
        self.gtest("c", CRASHING)
        self.e2e("generate", False)
        code, text, result = self.check("--only", "tests")
        self.assertEqual(code, 1)
        self.assertEqual(result["tests"]["failed"], 3)
        self.assertEqual(result["tests"]["passed"], 12 + 3 + 1)
        self.assertIn("[  FAILED  ] A.B", text)
        self.assertEqual(set(result["figures"].values()), {None})

    def test_the_bundled_model_in_each_format(self):
        self.e2e("quantized", True)
        _, text, _ = self.check("--only", "tests")
        self.assertRegex(text, r"e2e_quantized +skipped: python3 has no .*ml_dtypes")
        for package in ("numpy", "ml_dtypes"):
            (self.bundle / "fakes" / package).mkdir()
            (self.bundle / "fakes" / package / "__init__.py").touch()
        _, text, _ = self.check("--only", "tests")
        self.assertRegex(text, r"e2e_quantized +2 passed +0 failed +1 skipped")
        _, text, _ = self.check("--only", "tests", "--quick")
        self.assertNotIn("e2e_quantized", text)

    def test_only_what_had_all_its_time_and_does_not_end_has_failed(self):
        self.e2e("generate", True)
        self.program("fakes/timeout", "#!/bin/sh\nexit 124\n")
        code, text, _ = self.check("--only", "tests")
        self.assertEqual(code, 1)
        self.assertRegex(text, r"e2e_generate +0 passed +1 failed")
        code, text, _ = self.check("--only", "tests", "--seconds", "60")
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"e2e_generate +skipped: not done within the \d+ s that were left")

    def test_a_sanitizer_run_without_a_test_is_a_failure(self):
        self.program("fakes/compute-sanitizer", "#!/bin/sh\n"
                     "while [ ! -x \"$1\" ]; do shift; done\nexec \"$@\"\n")
        for name in ("rope", "sampler", "attention", "cuda_attention_plan", "elementwise", "linear_op", "model_runner"):
            self.gtest(name, PASSING)
        self.gtest("rope", "echo '[  PASSED  ] 0 tests.'")
        code, text, _ = self.check("--only", "tests")
        self.assertEqual(code, 1)
        for tool in ("memcheck", "racecheck", "initcheck"):
            self.assertRegex(text, rf"{tool}-rope_test-0 +0 passed +1 failed .*nothing ran")
            self.assertRegex(text, rf"{tool}-elementwise_test-0 +1 passed +0 failed")

    def test_the_sanitizer_alone_runs_every_program_with_cuda_tests_in_shards(self):
        self.program("fakes/compute-sanitizer", "#!/bin/sh\n"
                     "while [ ! -x \"$1\" ]; do shift; done\nexec \"$@\"\n")
        listing = "case \"$*\" in *--gtest_list_tests*) printf 'Suite.\\n'; for t in {}; do echo \"  $t\"; done; exit;; esac\n"
        shard = "echo \"shard $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS $*\"\n"
        self.gtest("many", listing.format("1 2 3 4 5 6 7 8") + shard + PASSING)
        self.gtest("decoder_golden", listing.format("1") + shard + PASSING)
        self.gtest("skipping", listing.format("1") + "echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 1 test.'")
        self.gtest("cpu", listing.format("") + "exit 1")
        self.gtest("cuda_device", listing.format("1") + "exit 1")  # makes errors on purpose
        code, text, result = self.check("--only", "sanitizer")
        self.assertEqual(code, 0, text)
        self.assertEqual(result["tests"], {"passed": 3 * (6 + 1), "failed": 0, "skipped": 3})
        logs = self.folder / "out/logs"
        self.assertIn("shard 5 of 6", (logs / "racecheck-many_test-5.log").read_text())
        self.assertIn("*Float32*Cuda*", (logs / "initcheck-decoder_golden_test-0.log").read_text())

    def test_a_sanitizer_without_any_cuda_test_is_a_failure(self):
        self.program("fakes/compute-sanitizer", "#!/bin/sh\nexit 0\n")
        code, text, _ = self.check("--only", "sanitizer")
        self.assertEqual(code, 1)
        self.assertIn("no program has tests for CUDA", text)

    def test_a_figure_that_cannot_be_measured_is_null_with_its_reason(self):
        code, text, result = self.check("--only", "figures", BROKEN="timeline make-checkpoint")
        self.assertEqual(code, 2)
        for key in KEYS:
            missing = key in ("llama8b_bs64_tok_s", "gpu_idle_share", "start_06b_s", "start_8b_s")
            self.assertEqual(result["figures"][key] is None, missing, key)
        self.assertIn("quire-bench: no memory for timeline", text)
        self.assertIn("quire-bench: no memory for make-checkpoint", text)

    def test_targets_stand_beside_what_was_before(self):
        code, text, result = self.check("--only", "targets")
        self.assertEqual(code, 2, "some rows are not among the results")
        figures = result["figures"]
        self.assertEqual(figures["llama8b_bs1"], 207.5)
        self.assertEqual(figures["llama8b_128_128"], 24000.5)
        self.assertEqual(figures["llama8b_fp8_kv_bs256"], 1)
        self.assertEqual(figures["decode_64x1k"], 3.75)  # of the path that decodes
        self.assertEqual(figures["decode_drafts"], 1.1)
        self.assertEqual(figures["cascade_64x8k"], 4)
        self.assertIsNone(figures["prefill_1k"])
        self.assertRegex(text, r"(?m)^8B, 1 stream, tokens/s +240 +207.5 +262  0.79$")
        self.assertRegex(text, r"(?m)^8B, first token of 2,048 alone, ms +47.6 +50.5 +43.5  0.86$")
        self.assertRegex(text, r"(?m)^prefill attention 16 x 1,024, TFLOP/s +335 +- +430  -$")
        self.assertRegex(text, r"t_8b_prefix: quire-bench throughput .*--shared-prefix-len 4096")

    def test_targets_of_quantized_weights(self):
        _, text, result = self.check("--only", "targets")
        figures = result["figures"]
        self.assertEqual(figures["llama8b_fp8_bs1"], 207.5)
        self.assertEqual(figures["llama8b_awq_bs64"], 8600.25)
        for key, least in (("fp8_read_8", 0.7), ("fp8_read_64", 0.5), ("fp8_tflops_256", 700), ("fp8_tflops_4096", None),
                           ("fp8_over_bf16", 0.8), ("awq_over_bf16_128", 1.1), ("awq_over_bf16_2048", 0.8)):
            self.assertEqual(figures[key], least, key)
        self.assertRegex(text, r"t_fp8_64: quire-bench timeline .*--quantization fp8 --kv-cache-dtype fp8_e4m3 .*--batch-size 64")
        self.assertRegex(text, r"t_awq_1: quire-bench latency --model \S+/awq .*--skip-tokenizer-init")
        self.assertIn("fp8-block over bfloat16, by rows: 4096 -> 6144, 14336 -> 4096\n"
                      "      1   1.50   1.40\n     64   1.20   1.10\n    256   0.80   0.90\n", text)

    def test_every_format_stands_beside_bfloat16(self):
        _, text, result = self.check("--only", "targets")
        for name in ("fp8_channel", "gptq", "gptq_group32", "int8_group128"):
            self.assertEqual(result["figures"][f"{name}_over_bf16"], 0.8, name)
        for name in ("int8", "mxfp4", "nvfp4"):
            self.assertIsNone(result["figures"][f"{name}_over_bf16"], name)  # not in the table
        for name in ("fp8-block", "awq", "fp8-channel", "gptq", "gptq-group32", "int8-group128"):
            self.assertEqual(text.count(f"\n{name} over bfloat16, by rows: 4096 -> 6144, 14336 -> 4096\n      1   1.50"), 1, name)
        for name in ("fp8-channel", "gptq", "int8", "mxfp4", "nvfp4"):
            self.assertRegex(text, rf"t_formats_{name}: quire-bench kernels --only formats --cases {name} --rows \S*,2048 ")

    def test_formats_without_time_are_missing(self):
        code, text, result = self.check("--only", "targets", "--seconds", "1")
        self.assertEqual(code, 2, text)
        self.assertIsNone(result["figures"]["gptq_over_bf16"])
        self.assertNotIn("over bfloat16, by rows", text)

    def test_targets_of_operations_and_of_a_server(self):
        self.program("bin/quire-server", FAKE_SERVER)
        _, text, result = self.check("--only", "targets", QUIRE_CACHE_DIR="/kept")
        figures = result["figures"]
        self.assertEqual(figures["sample_64_greedy"], 10)
        self.assertEqual(figures["sample_256_top"], 80)
        self.assertIsNone(figures["sample_64_top"])
        self.assertEqual(figures["norm_8b"], 0.9)
        self.assertEqual(figures["rope_06b"], 0.8)
        self.assertIsNone(figures["norm_06b"])
        self.assertAlmostEqual(figures["online_over_offline"], 0.75, 4)
        self.assertEqual(figures["online_itl"], 1.25)
        self.assertEqual(figures["first_start_8b"], 1.5)
        self.assertRegex(text, r"(?m)^the same, p99 of inter-token latency over p50 +- +1.25 +1.5  1.20$")
        # The same requests with and without the server, which has stopped.
        requests = r"--num-prompts 4096 .*--seed 5"
        self.assertRegex(text, rf"t_offline: quire-bench throughput .*{requests}")
        self.assertRegex(text, rf"t_online: quire-bench serve --target 127.0.0.1:4321 --ready-check-timeout-sec 60 {requests} --max-concurrency 1024")
        log = (self.folder / "out/logs/server.log").read_text()
        self.assertRegex(log, r"server: --model \S+ --load-format dummy .*--port 0 .*, choices in /kept")
        for size in ("06b", "8b"):
            log = (self.folder / f"out/logs/t_first_start_{size}.log").read_text()
            self.assertRegex(log, rf"choices in /\S+/no-cache-{size}\n")

    def test_targets_without_a_server_are_missing(self):
        self.program("bin/quire-server", "#!/bin/sh\necho 'quire-server: no device' >&2\nexit 69\n")
        code, text, result = self.check("--only", "targets", BROKEN="serve")
        self.assertEqual(code, 2)
        self.assertIsNone(result["figures"]["online_over_offline"])
        self.assertIsNone(result["figures"]["online_itl"])
        self.assertRegex(text, r"(?m)^0.6B, 1,024 streams through gRPC over offline +0.97 +- +0.98  -$")

    def test_a_profile_is_made_of_what_the_library_writes(self):
        code, text, result = self.check("--only", "profile")
        self.assertEqual(code, 0, text)
        names = ("llama8b_bs1", "llama8b_bs64", "llama8b_bs256", "qwen06b_bs1", "qwen06b_bs64",
                 "qwen06b_bs256", "qwen06b_nano_256", "qwen06b_128_128")
        self.assertEqual(result["figures"], {f"profile_{name}_step_us": 10 for name in names})
        for name in names:
            profile = json.loads((self.folder / f"out/profile_{name}.json").read_text())
            self.assertEqual([kernel["name"] for kernel in profile["kernels"]], ["PlanDecode", "kernel_trace.so"])
            self.assertRegex(text, rf"{name}: a step of 10.0 us and 2(.0)? kernels \((median|mean) of 2 steps\)")
        self.assertRegex(text, r"quire-bench timeline --shape llama-3-8b --batch-size 256 --context 1030 --device cuda ")

    def test_a_profile_that_cannot_be_made_is_missing_with_its_reason(self):
        for environment, reason in (({"NO_CUPTI": "1"}, "exit code 1, kernel_trace: no libcupti.so.13"),
                                    ({"BROKEN": "timeline throughput"}, "exit code 1, quire-bench: no memory for timeline")):
            code, text, result = self.check("--only", "profile", **environment)
            self.assertEqual(code, 2, text)
            self.assertEqual(set(result["figures"].values()), {None})
            self.assertIn(f"profile_qwen06b_bs64_step_us     missing: {reason}\n", text)
            self.assertFalse((self.folder / "out/profile_qwen06b_bs64.json").exists())
            self.assertIn("figures missing: 8;", text)

    def test_a_trace_without_kernels_is_no_profile(self):
        # CUDA that loaded no library, as it were: the program ends well, and there is no trace.
        self.program("bin/quire-bench", "#!/bin/sh\nexit 0\n")
        code, text, _ = self.check("--only", "profile")
        self.assertEqual(code, 2)
        self.assertRegex(text, "missing: exit code 1, kernel_profile: .*No such file.*trace.csv")

    def test_without_python_every_profile_is_missing(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for name in "bash cat dirname grep head mkdir mktemp readlink rm sed tail tee wc".split():
            (tools / name).symlink_to(shutil.which(name))
        result = subprocess.run([self.bundle / "bin/run-gpu-check", "--only", "profile", self.folder / "out"],
                                env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("all missing: no python3", result.stdout)
        self.assertIn("figures missing: 8;", result.stdout)

    def test_quick_leaves_out_what_takes_long(self):
        code, text, result = self.check("--quick", "--only", "figures")
        self.assertEqual(code, 0, text)
        self.assertIsNone(result["figures"]["llama8b_offline_1000_1000_tok_s"])
        self.assertEqual(result["figures"]["start_06b_s"], 1.25)
        self.assertIn("left out: --quick", text)

    def test_without_time_everything_is_left_out_by_name(self):
        self.e2e("generate", True)
        code, text, result = self.check("--seconds", "1")
        self.assertEqual(code, 2)
        self.assertEqual(set(result["figures"].values()), {None})
        self.assertRegex(text, r"qwen06b_bs1_tok_s +missing: exit code none, no time left")
        self.assertRegex(text, r"e2e_generate +skipped: no time left")

    def test_wrong_usage(self):
        for flags in ([], ["--device", "tpu", "x"], ["--device", "cpu", "--only", "profile", "x"], ["--nonsense", "x"], ["--seconds", "soon", "x"], ["--only"]):
            result = subprocess.run([self.bundle / "bin/run-gpu-check", *flags], capture_output=True, text=True,
                                    cwd=self.folder)
            self.assertEqual(result.returncode, 64)
            self.assertIn("run-gpu-check [--quick]", result.stderr)
            self.assertIn("sanitizer, targets and profile run on a GPU alone", result.stderr)


class MergeKnownGemmsTest(unittest.TestCase):
    """What a start measured joins what comes with the program, which stays as it is."""

    SCRIPT = ROOT / "tools/gpu_check/merge_known_gemms.py"
    KNOWN = ROOT / "kernels/cuda/gemm/known/nvidia_h200.inc"

    def merge(self, cache, known):
        return subprocess.run([self.SCRIPT, cache, known], capture_output=True, text=True, check=False)

    def test_only_new_choices_are_added(self):
        import importlib.util
        spec = importlib.util.spec_from_file_location("merge_known_gemms", self.SCRIPT)
        merging = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(merging)
        known = self.KNOWN.read_text().splitlines()
        taken = known[2].split()
        lines = [known[0].removeprefix(merging.BEGIN), known[1], " ".join(taken[:-1] + ["1x1x1"]),
                 "7777 8888 9999 bfloat16 bfloat16 0 256 256 256 gemv 2x8x8"]
        text = "".join(line + "\n" for line in lines)
        with tempfile.TemporaryDirectory() as folder:
            cache, copy = pathlib.Path(folder, "cache"), pathlib.Path(folder, "known.inc")
            shutil.copy(self.KNOWN, copy)
            cache.write_text(text + merging.checksum_line(text))
            result = self.merge(cache, copy)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(sorted(set(copy.read_text().splitlines()) - set(known))[0], lines[3])
            self.assertEqual(set(known) - set(copy.read_text().splitlines()), {known[-2]})  # the checksum
            merged = copy.read_text()
            cache.write_text(text.replace("9999", "9998") + merging.checksum_line(text))
            result = self.merge(cache, copy)
            self.assertEqual(result.returncode, 1)
            self.assertIn("its checksum does not match", result.stderr)
            self.assertEqual(copy.read_text(), merged)


if __name__ == "__main__":
    unittest.main()
