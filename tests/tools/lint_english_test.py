"""tools/lint/check_english.py finds sentences of the kinds that docs/english.md forbids, and no others."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/check_english.py"


class LintEnglishTest(unittest.TestCase):
    def run_lint(self, text, name="page.md"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            path.write_text(text)
            result = subprocess.run([sys.executable, LINT, path], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout

    def test_sentences_that_are_found(self):
        for text in ("What does not fit is an error.", "A first one. What was tried was slower.", "| a | What no request has, is `-` |",
                     "Who finds no room is refused.", "Whoever reaches it may call.", "clients of this machine alone",
                     "prompts with so many tokens", "answers are of one", "Of a model that also sees, the text part is served.",
                     "Of the running flows the one that has had least runs.", "all fields, but for `tools`", "It releases nothing but blocks.",
                     "every so manieth layer", "templates that do not look for it are as without", "over\ntwo lines and so\nmany keys"):
            with self.subTest(text=text):
                self.assertEqual(self.run_lint(text + "\n")[0], 1)
        self.assertEqual(self.run_lint("// What is first runs.\nint a;  // so many\n", "a.h")[0], 1)
        self.assertIn(":2:", self.run_lint("One line.\nWhat was tried was slower.\n")[1])

    def test_sentences_that_are_fine(self):
        for text in ("What is a block? It is a unit.", "what it does", "Leave the default alone.", "so many that it fails",
                     "`so many`, \"Whoever\"", "```\nWhat was tried was slower.\n```", "Of course it runs.", "It is one of two.",
                     "Everyone who reaches it may call.", "only clients of this machine", "A clause says what it means.",
                     "<!-- figures: x -->\n| so many |\n<!-- end -->", "[so](alone.md)"):
            with self.subTest(text=text):
                self.assertEqual(self.run_lint(text + "\n")[0], 0, self.run_lint(text + "\n")[1])
        self.assertEqual(self.run_lint("int so_many = alone;\n", "a.cc")[0], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
