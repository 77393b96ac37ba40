"""Every script in tools/ answers --help at once: with text and exit code 0, and without installing, configuring,
building or connecting to anything."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a script may not start before it has answered.
FORBIDDEN = ("apt-get", "dpkg-query", "cmake", "ninja", "pip", "pip3", "ctest", "sudo", "curl", "docker", "buildah", "mmdebstrap")


def scripts():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", ".ci", "tools"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in listed if os.access(ROOT / name, os.X_OK) and (ROOT / name).is_file()]


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.marks = pathlib.Path(self.folder.name, "started")
        for program in FORBIDDEN:
            shim = pathlib.Path(self.folder.name, program)
            shim.write_text(f"#!/bin/sh\necho {program} >>{self.marks}\nexit 1\n")
            shim.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{self.folder.name}:{os.environ['PATH']}")

    def run_script(self, *command):
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True,
                              timeout=60, check=False)

    def test_help(self):
        found = scripts()
        self.assertIn("tools/quickstart", found)
        self.assertIn("tools/test", found)
        for script in found:
            for flag in ("--help", "-h"):
                with self.subTest(script=script, flag=flag):
                    result = self.run_script(script, flag)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertGreater(len(result.stdout), 40)
                    self.assertNotIn("set -", result.stdout)
        self.assertFalse(self.marks.exists(), self.marks.exists() and self.marks.read_text())

    def test_mistakes_end_before_anything_is_installed(self):
        for command in (("tools/quickstart", "--prot", "1"), ("tools/quickstart", "--port", "70000"),
                        ("tools/quickstart", "--port"), ("tools/quickstart", "a", "b"),
                        ("tools/package", "--cdua"), ("tools/package", "--python", "--cuda"),
                        ("tools/image-test", "gpu"), ("tools/image-test", "--run"), ("tools/image-test", "--run", "all"),
                        ("tools/test", "--sanitizer", "nothing"), ("tools/test", "--preset", "nothing"),
                        ("tools/test", "--since", "no-such-revision"), ("tools/test", "--since"),
                        ("tools/test", "--within", "5"), ("tools/test", "--nightly", "--within", "soon"),
                        ("tools/test", "--nightly", "--since", "HEAD")):
            with self.subTest(command=command):
                result = self.run_script(*command)
                self.assertEqual(result.returncode, 64, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertFalse(self.marks.exists())

    def test_the_gpu_says_what_is_built(self):
        for answer, expected, code in (("9.0", "90a-real", 0), ("8.9", "89-real", 0), ("8.0\n8.0", "80-real", 0),
                                       ("8.6", "80-real", 0), ("", "", 0), ("12.0", "", 1), ("7.5", "", 1),
                                       ("10.3", "", 1)):
            with self.subTest(answer=answer):
                shim = pathlib.Path(self.folder.name, "nvidia-smi")
                shim.write_text(f"#!/bin/sh\nprintf '%s\\n' '{answer}'\n" if answer else "#!/bin/sh\nexit 9\n")
                shim.chmod(0o755)
                result = self.run_script("bash", "-c", "source tools/lib/setup.sh && gpu_architecture")
                self.assertEqual((result.stdout.strip(), result.returncode), (expected, code), result.stderr)
                if code != 0:
                    self.assertIn(f"compute capability {answer}, and there are kernels for 8.0 to 9.0", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
