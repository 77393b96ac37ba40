"""quire-bench quality against a running server: scores, likelihoods, and one run beside another."""

import json
import math
import os
import pathlib
import subprocess
import tempfile

from harness import BENCH, ROOT, Server, ServerTestCase, main, pb

HELDOUT = ROOT / "configs/demo/heldout.jsonl"


class QualityTest(ServerTestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, *lines):
        path = self.folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def quality(self, *arguments, target=None, code=0):
        result = self.folder / "result.json"
        run = subprocess.run([BENCH, "quality", "--target", target or self.server.target, "--json", result,
                              *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return json.loads(result.read_text()) if result.exists() else None, run

    def test_answers_are_scored_by_task(self):
        path = self.write("q.jsonl", {"messages": [{"role": "user", "content": "What is 37 + 48?"}], "answer": "85",
                                      "task": "sums"},
                          {"messages": [{"role": "user", "content": "What is 37 + 48?"}], "answer": "86", "task": "lies"},
                          {"prompt": "Q: What is 3 + 4?\nA:", "answers": ["eight", "7"], "max_tokens": 8, "stop": ["\n"],
                           "task": "sums"})
        result, run = self.quality("--dataset-path", path, "--show-wrong", "--require", 0.6)
        self.assertEqual(result["results"]["sums"]["exact_match"], 1)
        self.assertEqual(result["results"]["lies"]["exact_match"], 0)
        self.assertEqual(result["results"]["total"]["num_right"], 2)
        self.assertIn('line 2: asked "What is 37 + 48?", expected "86", got "85"', run.stdout)
        _, run = self.quality("--dataset-path", path, "--require", 0.7, code=1)
        self.assertIn("66.67 % are right, less than --require 0.7", run.stderr)

    def test_likelihoods_are_those_of_the_server(self):
        text = "Once upon a time there was a man who lived in Rome."
        request = pb.GenerateRequest()
        request.text.text = text
        request.stop.max_tokens = 1
        request.output.prompt_logprobs = 0
        logprobs = [token.logprob for token in self.generate(request).started.prompt_logprobs[1:]]
        path = self.write("texts.jsonl", {"text": text})
        for backend in ("quire", "openai"):
            result, _ = self.quality("--dataset-path", path, "--backend", backend)
            total = result["results"]["total"]
            self.assertEqual(total["num_tokens"], len(logprobs))
            self.assertAlmostEqual(total["log_likelihood"], sum(logprobs), places=3)
            self.assertAlmostEqual(total["perplexity"], math.exp(-sum(logprobs) / len(logprobs)), places=3)

    def test_the_likeliest_choice(self):
        path = self.write("choices.jsonl", {"prompt": "Q: What is 3 + 4?\nA:", "choices": [" 9", " 7", " fig"],
                                            "answer": 1},
                          {"prompt": "Q: What is 3 + 4?\nA:", "choices": [" 9", " 7"], "answer": " 9"})
        for backend in ("quire", "openai"):
            result, _ = self.quality("--dataset-path", path, "--backend", backend)
            self.assertEqual((result["results"]["total"]["acc"], result["results"]["total"]["acc_norm"]), (0.5, 0.5))

    def test_a_run_beside_another(self):
        answers = self.folder / "answers.jsonl"
        questions = ("--dataset-path", HELDOUT, "--every", 20)
        self.quality(*questions, "--save-answers", answers)
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
        self.assertEqual(len(lines), 36)
        self.assertTrue(all(len(line["token_ids"]) == len(line["logprobs"]) for line in lines))
        # The same server says the same over another interface, with ids or only with texts.
        for extra in ((), ("--extra-body", '{"return_token_ids": true}')):
            result, run = self.quality(*questions, "--compare-with", answers, "--backend", "openai-chat",
                                       "--require-identical", 1, *extra)
            comparison = result["comparison"]
            self.assertEqual((comparison["num_compared"], comparison["share_identical"]), (36, 1))
            self.assertLess(comparison["max_logprob_difference"], 1e-4)
            self.assertIn("36 of    36 answers, 100.0 %", run.stdout)
        # A cache of 8 bits is near, but not the same.
        with Server("--kv-cache-dtype", "fp8") as other:
            result, _ = self.quality(*questions, "--compare-with", answers, target=other.target)
            self.assertEqual(result["comparison"]["num_compared"], 36)
            self.assertGreater(result["comparison"]["max_logprob_difference"], 1e-4)
        # An answer that was another one is seen.
        lines[0]["token_ids"][0] += 1
        answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result, run = self.quality(*questions, "--compare-with", answers, "--require-identical", 1, code=1)
        self.assertEqual(result["comparison"]["num_identical"], 35)
        self.assertEqual(result["comparison"]["min_first_divergence"], 0)
        self.assertIn("are identical, less than --require-identical 1", run.stderr)

    def test_what_cannot_be_asked(self):
        path = self.write("texts.jsonl", {"text": "Once upon a time"})
        for fragment, *arguments in (("--dataset-path is missing",),
                                     ("cannot read", "--dataset-path", "/nowhere"),
                                     ("take --backend quire or openai", "--dataset-path", path, "--backend",
                                      "openai-chat"),
                                     ("take quire, openai", "--dataset-path", path, "--backend", "vllm-grpc"),
                                     ("goes with --compare-with", "--dataset-path", path, "--require-identical", 1)):
            result, run = self.quality(*arguments, code=64)
            self.assertIsNone(result)
            self.assertIn(fragment, run.stderr)
        long = self.write("long.jsonl", {"text": "word " * 100_000}, {"text": "Once upon a time"})
        result, run = self.quality("--dataset-path", long, code=1)
        self.assertEqual((result["failed"], result["results"]["total"]["num_texts"]), (1, 1))
        self.assertIn("1 item failed; the first: ", run.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["long.jsonl", "result.json", "texts.jsonl"])


if __name__ == "__main__":
    main()
