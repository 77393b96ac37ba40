"""docs/migration.md: quire-server knows every flag of others that it names and says of it what the table says, and every
flag that it names as ours is ours."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/quire-server"
TEXT = (ROOT / "docs/migration.md").read_text()


def answer(flag):
    """What the server says to a flag alone: an unknown one, another server's, and one of ours without its value are
    errors; a switch of ours is none."""
    return subprocess.run([SERVER, flag, "--version"], capture_output=True, text=True, check=False, timeout=20).stderr


def rows():
    for line in TEXT.splitlines():
        row = re.match(r"\| `(-[^`]+)` \| (?:`(-[^`]+)` )?\| ?(.*?) ?\|$", line)
        if row:
            yield row.groups()


def is_ours(flag):
    said = answer(flag)
    return said == "" or "a value must follow" in said


class MigrationTest(unittest.TestCase):
    def test_every_row(self):
        found = list(rows())
        self.assertGreater(len(found), 120)
        self.assertEqual(len(found), len(re.findall(r"(?m)^\| `", TEXT)), "a row is not of this form")
        for theirs, ours, note in found:
            with self.subTest(flag=theirs):
                said = answer(theirs)
                if ours:
                    self.assertTrue(is_ours(ours), ours)
                if theirs == ours:
                    continue
                if theirs.replace("_", "-") == ours:
                    self.assertTrue(is_ours(theirs), said)
                    continue
                self.assertNotIn("unknown flag", said)
                self.assertFalse(is_ours(theirs), "a flag of ours under the same name")
                if ours:
                    self.assertIn(ours.replace("--no-", "--"), said.replace("--no-", "--"))
                for kind in ("not supported yet", "not needed"):
                    if note.startswith(kind):
                        self.assertIn(kind, said)

    def test_flags_in_the_text_are_ours(self):
        for flag in re.findall(r"`(--[a-z-]+)", "\n".join(re.findall(r"(?m)^[^|\n].*$", TEXT))):
            self.assertTrue(is_ours(flag), flag)


if __name__ == "__main__":
    if not SERVER.exists():
        print(f"skipped: {SERVER} is not built")
        sys.exit(77)
    unittest.main(verbosity=2)
