"""The bundled model answers at least 95 % of the held-out questions right when Quire serves it: of every fourth for each
change, of all at length."""

import subprocess
import unittest

from harness import AT_LENGTH, BENCH, ON_GPU, ROOT, ServerTestCase, main, pb


class ScoreTest(ServerTestCase):
    def test_held_out_score(self):
        self.check_score()

    def check_score(self):
        result = subprocess.run(
            [BENCH, "quality", "--target", self.server.target, "--dataset-path", ROOT / "configs/demo/heldout.jsonl",
             "--every", "1" if AT_LENGTH else "4", "--require", "0.95"], capture_output=True, text=True, check=False)
        print(result.stdout)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("of   720 right" if AT_LENGTH else "of   180 right", result.stdout)


class Float8CacheScoreTest(ScoreTest):
    FLAGS = ("--kv-cache-dtype", "fp8", "--calculate-kv-scales")

    def test_held_out_score(self):
        self.assertEqual(self.server.inference.GetModel(pb.GetModelRequest()).kv_cache_dtype, "fp8_e4m3")
        self.check_score()


@unittest.skipUnless(ON_GPU, "the CPU has one attention path")
class SecondPathScoreTest(ScoreTest):
    FLAGS = ("--attention-backend", "trtllm")


@unittest.skipUnless(ON_GPU, "the CPU has one attention path")
class SecondPathFloat8CacheScoreTest(ScoreTest):
    FLAGS = ("--attention-backend", "trtllm", "--kv-cache-dtype", "fp8", "--calculate-kv-scales")


@unittest.skipUnless(ON_GPU, "on the CPU it is the only path")
class NativePathFloat8CacheScoreTest(ScoreTest):
    FLAGS = ("--attention-backend", "native", "--kv-cache-dtype", "fp8", "--calculate-kv-scales")


class MixedCacheScoreTest(ScoreTest):
    """The first layers keep more digits than the others."""
    FLAGS = ("--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "0,1", "--calculate-kv-scales")


if __name__ == "__main__":
    main()
