"""tools/lint/check_words.py finds replaced words where they may not be, and nothing elsewhere."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/check_words.py"


def run_lint(path, text):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
        subprocess.run(["git", "init", "-q", root], check=True)
        result = subprocess.run([sys.executable, LINT, root], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout


class LintWordsTest(unittest.TestCase):
    def test_replaced_words(self):
        for path, text, instead in [
            ("kernels/cuda/gemm/gemm.h", "class Matmul {};", "gemm"),
            ("kernels/weight_store.h", "struct LinearProduct {};", "gemm"),
            ("engine/engine_config.h", "bool tune_products = true;", "gemm"),
            ("kernels/cpu/README.md", "never depends on its company", "batch"),
            ("engine/runner/batch.h", "int32_t* context_lens;", "seq_lens"),
            ("scheduler/scheduler.h", "int64_t max_waiting_requests = 1024;", "the setting's name"),
            ("kernels/cuda/attention/README.md", "the copy engine brings K", "TMA"),
        ]:
            code, output = run_lint(path, text)
            self.assertEqual(code, 1, f"{path}: {text}")
            self.assertIn(f"{path}:1: ", output)
            self.assertIn(f"the word is {instead}", output)

    def test_what_stays(self):
        for path, text in [
            ("kernels/cuda/gemm/gemm.cc", "cublasLtMatmul(handle, &operation); CUBLASLT_MATMUL_DESC_TRANSA;"),
            ("tools/bench/kernels/onednn_peer.cc", "dnnl::matmul::primitive_desc desc;"),
            ("server/text/chat/jinja/operators.cc", "constexpr size_t kProductLevel = 2;"),
            ("engine/model/config/model_config.cc", "// low enough that products of a few of them fit 64 bits"),
        ]:
            code, output = run_lint(path, text)
            self.assertEqual(code, 0, output)


if __name__ == "__main__":
    unittest.main()
