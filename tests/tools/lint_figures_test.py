"""tools/lint/make_figures.py fills tables, and finds what is not as the data are."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/make_figures.py"
DATA = {
    "about": "A test.",
    "measured": {"device": "H200", "date": "2026-11-25", "command": "bench"},
    "figures": {
        "rate": {"model": "8B", "what": "1 stream", "unit": "tokens/s", "value": 1250, "peer": {"name": "vLLM", "value": 1000},
                 "before": {"old": 1100}},
        "time": {"what": "first token", "unit": "ms", "value": [9, 10, 11], "peer": {"name": "vLLM", "value": 5}, "goal": 4.50},
    },
    "tables": {"speed": {"columns": ["what", "old", "value", "peer", "times", "goal"], "rows": ["rate", "test.time"]},
               "grid": {"header": ["a", ""], "cells": [["x", 1000]]}},
}
PAGE = "# Page\n\n<!-- figures: speed -->\nold\n<!-- end -->\n\n<!-- figures: grid -->\n<!-- end -->\n"
FILLED = """# Page

<!-- figures: speed -->

| what | old | Quire | vLLM | times as fast | to reach |
| --- | --- | --- | --- | --- | --- |
| 8B, 1 stream, tokens/s | 1,100 | 1,250 | 1,000 | 1.25 | - |
| first token, ms | - | 9, 10, 11 | 5 | 0.50 | 4.5 |

<!-- end -->

<!-- figures: grid -->

| a |  |
| --- | --- |
| x | 1,000 |

<!-- end -->
"""


class LintFiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs/figures").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.data = json.loads(json.dumps(DATA))

    def run_script(self, *arguments, page=PAGE):
        (self.root / "docs/figures/test.json").write_text(json.dumps(self.data))
        if page is not None:
            (self.root / "page.md").write_text(page)
        result = subprocess.run([sys.executable, SCRIPT, "--root", self.root, *arguments], capture_output=True, text=True,
                                check=False)
        return result.returncode, result.stdout.strip()

    def test_tables_are_filled_and_then_checked(self):
        code, output = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("page.md: its tables are not those of docs/figures", output)
        self.assertEqual(self.run_script()[0], 0)
        self.assertEqual((self.root / "page.md").read_text(), FILLED)
        self.assertEqual(self.run_script("--check", page=None)[0], 0)
        self.data["figures"]["rate"]["value"] = 1300
        self.assertEqual(self.run_script("--check", page=None)[0], 1)

    def test_data_that_cannot_be_used(self):
        for change, problem in [
            (lambda data: data["figures"]["rate"].pop("value"), "rate: no value"),
            (lambda data: data["measured"].pop("date"), "does not say its date"),
            (lambda data: data["figures"]["rate"].update(valu=1), "valu means nothing here"),
            (lambda data: data["tables"]["speed"]["rows"].append("gone"), "names gone, which is no figure"),
            (lambda data: data["tables"]["speed"]["rows"].remove("rate"), "in no table: test.rate"),
            (lambda data: data["tables"].pop("grid"), "has a table grid"),
            (lambda data: data["tables"].update(more=data["tables"]["grid"]), "no document has the table more"),
            (lambda data: data["tables"]["grid"]["cells"].append(["x"]), "not as many cells")]:
            with self.subTest(problem=problem):
                self.data = json.loads(json.dumps(DATA))
                change(self.data)
                code, output = self.run_script("--check")
                self.assertEqual(code, 1)
                self.assertIn(problem, output)

    def test_a_block_without_an_end(self):
        self.assertIn("has no `<!-- end -->`", self.run_script(page=PAGE + "<!-- figures: grid -->\n")[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
