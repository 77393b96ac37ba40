#!/usr/bin/env python3
"""quire-bench constraints: what it counts of a few schemas, with the vocabulary of the bundled model, and what it
refuses."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/quire-bench"
TOKENIZER = ROOT / "configs/demo"

SAMPLE = (
    {"id": "passes", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
     "valid": [{"a": 1}, {"a": 2.0}], "invalid": [{}, {"a": "é"}]},
    {"id": "refused", "schema": {"items": {"$ref": "http://example.com/other"}}, "valid": [[]], "invalid": []},
    {"id": "wrong", "schema": {"type": "string", "maxLength": 2}, "valid": ["ab", "abc"], "invalid": ["a", "abcd"]},
    {"id": "alone", "schema": True, "valid": [], "invalid": []},
)


class BenchConstraintsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.schemas = Path(self.folder.name) / "sample.jsonl"
        # 2.0 stays as it is: an integer is not written with a fraction.
        self.schemas.write_text("".join(json.dumps(line) + "\n" for line in SAMPLE))

    def run_bench(self, *arguments, schemas=None, tokenizer=TOKENIZER):
        return subprocess.run([PROGRAM, "constraints", "--schemas", schemas or self.schemas, "--tokenizer", tokenizer,
                               *arguments], capture_output=True, encoding="utf-8", timeout=120)

    def measured(self, *arguments, tokenizer=TOKENIZER):
        output = Path(self.folder.name) / "results.json"
        result = self.run_bench("--json", output, *arguments, tokenizer=tokenizer)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(output.read_text()), result.stdout

    def test_counts(self):
        results, text = self.measured()
        summary = results["summary"]
        counts = {name: summary[name] for name in (
            "schemas", "compiled", "passes", "with_instances", "valid_walked", "valid_refused", "invalid_walked",
            "invalid_taken")}
        self.assertEqual(counts, {"schemas": 4, "compiled": 3, "passes": 1, "with_instances": 3, "valid_walked": 4,
                                  "valid_refused": 2, "invalid_walked": 4, "invalid_taken": 1})
        lines = {line["id"]: line for line in results["schemas"]}
        self.assertEqual([line["status"] for line in lines.values()], ["wrong", "compile: refused", "wrong", "passes"])
        self.assertEqual(lines["passes"]["valid_refused"], [1])
        self.assertIn("#/items/$ref", lines["refused"]["reason"])
        self.assertEqual((lines["wrong"]["valid_refused"], lines["wrong"]["invalid_taken"]), ([1], [0]))
        self.assertIn("$ref \"...\" leads out of the schema", next(iter(summary["refused"])))
        times = summary["times_us"]
        self.assertEqual(times["compile"]["count"], 3)
        self.assertEqual(times["mask"]["count"], times["mask, again"]["count"])
        self.assertEqual(times["mask"]["count"], sum(len(line.get("mask_us", ())) for line in lines.values()))
        for values in times.values():
            self.assertTrue(0 < values["p50"] <= values["p99.9"] <= values["max"], values)
        self.assertIn("1 of 4 schemas pass", text)

    def test_limit_and_tokenizer_file(self):
        results, _ = self.measured("--limit", "1", "--repeats", "1", tokenizer=TOKENIZER / "tokenizer.json")
        self.assertEqual(len(results["schemas"]), 1)

    def test_wrong_usage(self):
        self.schemas.write_text('{"id": "a"}\n')
        for schemas, error in (("/nowhere", "--schemas"), (None, "there is no \"schema\"")):
            result = self.run_bench(schemas=schemas)
            self.assertEqual(result.returncode, 64, result.stderr)
            self.assertIn(error, result.stderr)
        self.schemas.write_text('{"schema": {}}\n')
        self.assertEqual(self.run_bench(tokenizer="/nowhere").returncode, 66)
        self.assertEqual(self.run_bench("--eos", "no such token").returncode, 64)


if __name__ == "__main__":
    unittest.main()
