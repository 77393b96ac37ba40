"""Which tests tools/test chooses: by patterns, for the nightly list, and for what a change reaches; on a small project
of two programs that ninja has built."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/lib"))
import reached_tests
import select_tests

NINJA = """rule cc
  command = c++ -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = c++ $in -o $out
build one.o: cc ../one.cc
build two.o: cc ../two.cc
build one: link one.o
build two: link two.o
"""


def made_up_test(name, targets=(), reads=(), labels=(), serial=False):
    test = types.SimpleNamespace(name=name, targets=list(targets), reads=list(reads), labels=list(labels),
                                 is_serial=serial)
    test.is_nightly = "nightly" in test.labels
    return test


TESTS = [made_up_test("unit/one_test", ["one"]), made_up_test("unit/two_test", ["two"]),
         made_up_test("e2e/page_test", [], ["e2e/page_test.py", "docs"]),
         made_up_test("e2e/lint", [], ["."]),
         made_up_test("e2e/long_test", [], [], ["nightly"], serial=True)]
CHANGES = TESTS[:4]


class ReachedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name).resolve()
        self.addCleanup(setattr, reached_tests, "ROOT", reached_tests.ROOT)
        reached_tests.ROOT = self.top
        self.write("one.cc", '#include "shared.h"\nint main() { return kShared; }\n')
        self.write("two.cc", "int main() { return 0; }\n")
        self.write("shared.h", "constexpr int kShared = 0;\n")
        for name in ("e2e/page_test.py", "e2e/browser.py", "docs/page.txt", "strange.txt", "README.md", ".gitignore"):
            self.write(name, "build/\n" if name == ".gitignore" else "")
        self.write("build/build.ninja", NINJA)
        self.build = self.top / "build"
        self.run_in_top("git", "init", "-q")
        self.run_in_top("git", "add", "-A")
        self.run_in_top("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")

    def run_in_top(self, *command):
        subprocess.run(command, cwd=self.top, check=True, capture_output=True)

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def reached(self, *names):
        """The tests that a change of these files reaches; the change is taken back."""
        for name in names:
            self.write(name, (self.top / name).read_text() + "\n" if (self.top / name).exists() else "\n")
        found, _ = reached_tests.reached(self.build, "HEAD", CHANGES)
        self.run_in_top("git", "clean", "-fdq")
        self.run_in_top("git", "checkout", "-q", ".")
        return found

    def test_what_a_change_reaches(self):
        everything = {test.name for test in CHANGES}
        self.assertEqual(self.reached("one.cc"), everything, "nothing is built yet")
        if shutil.which("ninja") is None:
            self.skipTest("no ninja")
        self.run_in_top("ninja", "-C", "build")
        self.assertEqual(self.reached(), set())
        self.assertEqual(self.reached("one.cc"), {"unit/one_test", "e2e/lint"})
        self.assertEqual(self.reached("shared.h"), {"unit/one_test", "e2e/lint"})
        self.assertEqual(self.reached("two.cc"), {"unit/two_test", "e2e/lint"})
        self.assertEqual(self.reached("docs/page.txt"), {"e2e/page_test", "e2e/lint"})
        self.assertEqual(self.reached("e2e/browser.py"), {"e2e/page_test", "e2e/lint"}, "beside the script")
        self.assertEqual(self.reached("README.md"), {"e2e/lint"})
        self.assertEqual(self.reached("new.h"), {"e2e/lint"}, "what includes it has changed, too")
        self.assertEqual(self.reached("strange.txt"), everything, "nobody says who reads it")
        self.assertEqual(self.reached("one.cc", "new.py"), everything)

    def test_an_unknown_revision(self):
        with self.assertRaisesRegex(SystemExit, "no-such-revision"):
            reached_tests.changed_since("no-such-revision")


class MatchingTest(unittest.TestCase):
    def names(self, pattern, nightly=False):
        return [test.name for test in select_tests.matching(pattern, TESTS, nightly)]

    def test_patterns_and_lists(self):
        self.assertEqual(self.names("unit"), ["unit/one_test", "unit/two_test"])
        self.assertEqual(self.names("e2e"), ["e2e/page_test", "e2e/lint"], "no nightly ones unless they are asked for")
        self.assertEqual(self.names("e2e", nightly=True), ["e2e/long_test"])
        self.assertEqual(self.names("long_test"), ["e2e/long_test"], "by its name")
        self.assertEqual(self.names("e2e/long_test"), ["e2e/long_test"])
        self.assertEqual(self.names("long"), [])

    def test_what_has_the_machine_to_itself_is_a_run_of_its_own_nightly(self):
        self.assertEqual(len(select_tests.runs_of(CHANGES, nightly=False)), 1)
        self.assertEqual(select_tests.runs_of([TESTS[4], TESTS[0]], nightly=True),
                         ["^(unit/one_test)$", "^(e2e/long_test)$"])


if __name__ == "__main__":
    os.environ.pop("GIT_DIR", None)
    unittest.main(verbosity=2)
