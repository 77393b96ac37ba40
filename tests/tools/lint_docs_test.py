"""tools/lint/check_docs.py finds what documents name and is not there, and nothing else."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/check_docs.py"


def run_lint(text, path="docs/page.md"):
    files = {path: text, "server/start/server.cc": 'getenv("QUIRE_TARGET"); class OutputPump; {"max-model-len", "--port"}',
             "tests/server/pump_test.cc": "", "docs/other.md": "# Other\n\n## A `b` and c\n"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        subprocess.run(["git", "init", "-q", root], check=True)
        result = subprocess.run([sys.executable, LINT, root], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout


class LintDocsTest(unittest.TestCase):
    def test_what_is_not_there(self):
        for text, problem in [
            ("`server/gone.cc`", "there is no server/gone.cc"), ("`server/g*.cc`", "there is no server/g*.cc"),
            ("`gone.h`", "there is no file gone.h"), ("`OutputQueue`", "nothing is called OutputQueue"),
            ("`--max-modl-len 3`", "nothing takes --max-modl-len"), ("`QUIRE_TARGETS`", "nothing reads QUIRE_TARGETS"),
            ("`git grep -n Gone`", "git grep Gone finds nothing"), ("[x](gone.md)", "the link gone.md leads nowhere"),
            ("[x](other.md#b)", "docs/other.md has no heading for #b")]:
            code, output = run_lint(text)
            self.assertEqual((code, output.strip()), (1, f"docs/page.md:1: {problem}"))
        self.assertIn("does not begin with a heading", run_lint("#server", "server/README.md")[1])

    def test_what_is_there(self):
        for text in ("`server/start/server.cc`", "`server/start/server`", "`server/pump_test`", "`server/*.cc`", "`server.cc`", "`OutputPump`",
                     "`--max-model-len 3`", "`--no-port`", "`QUIRE_TARGET=x`", "`git grep -n OutputPump`", "[x](other.md)",
                     "[x](other.md#a-b-and-c)", "[x](https://example.com)", "`docker run --rm`", "`a/b`"):
            self.assertEqual(run_lint(text), (0, "what documents name is there\n"), text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
