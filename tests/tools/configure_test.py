"""Whoever configures again compiles nothing again: the second configuration of a folder says of every file what the
first one said."""

import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ConfigureTest(unittest.TestCase):
    def test_twice(self):
        with tempfile.TemporaryDirectory(prefix="quire_configure_") as folder:
            said = []
            for _ in range(2):
                result = subprocess.run(["cmake", "--preset", "cpu", "-B", folder, "-DQUIRE_TESTS=OFF"], cwd=ROOT,
                                        capture_output=True, text=True, timeout=300, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                commands = json.loads(pathlib.Path(folder, "compile_commands.json").read_text())
                said.append({command["file"]: command["command"] for command in commands})
            first, second = said
            self.assertGreater(len(first), 100)
            changed = [file for file in first if first[file] != second.get(file)]
            self.assertEqual(changed, [], changed and f"{first[changed[0]]}\n{second.get(changed[0])}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
