"""cmake --install: the programs run from where they were installed, with the model, the man pages and the completion
scripts that came with them."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
PROGRAMS = ("quire-server", "quire", "quire-bench")


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="quire_install_"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        cls.install("--prefix", cls.prefix)

    @staticmethod
    def install(*arguments, **environment):
        result = subprocess.run(["cmake", "--install", BUILD, *arguments], capture_output=True, text=True, check=False,
                                env=dict(os.environ, **environment))
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)

    def run_program(self, name, *flags):
        return subprocess.run([self.prefix / "bin" / name, *flags], cwd=self.prefix, capture_output=True, text=True,
                              check=True, timeout=60).stdout

    def test_programs(self):
        self.assertEqual(sorted(path.name for path in (self.prefix / "bin").iterdir()), sorted(PROGRAMS))
        for program in PROGRAMS:
            self.assertRegex(self.run_program(program, "--version"), r"\d+\.\d+\.\d+")
            self.assertIn("--help", self.run_program(program, "--help"))

    def test_the_engine_serves_the_installed_model(self):
        self.assertIn("2 generated", self.run_program("quire-bench", "throughput", "--num-prompts", "1", "--input-len", "4",
                                                   "--output-len", "2"))
        # Not that of the source tree: without its own weights it has none.
        weights = self.prefix / "share/quire/demo/model.safetensors"
        hidden = weights.with_suffix(".hidden")
        weights.rename(hidden)
        self.addCleanup(hidden.rename, weights)
        result = subprocess.run([self.prefix / "bin/quire-server", "--host", "127.0.0.1", "--port", "0"],
                                capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 66, result.stderr)
        self.assertIn(str(weights.parent), result.stderr)

    def test_documentation(self):
        share = self.prefix / "share"
        for program in PROGRAMS:
            self.assertIn(".SH OPTIONS", (share / f"man/man1/{program}.1").read_text())
        for file in ("bash-completion/completions/quire", "zsh/site-functions/_quire", "fish/vendor_completions.d/quire.fish"):
            self.assertIn("temperature", (share / file).read_text())
        self.assertTrue(any((share / "quire/workloads").iterdir()))

    def test_components_and_destdir(self):
        with tempfile.TemporaryDirectory(prefix="quire_install_") as stage:
            for component in ("server", "client", "documentation"):
                self.install("--prefix", "/opt/quire", "--component", component, DESTDIR=stage)
            installed = pathlib.Path(stage, "opt/quire")
            self.assertEqual(sorted(path.name for path in (installed / "bin").iterdir()), ["quire", "quire-server"])
            self.assertTrue((installed / "share/quire/demo/config.json").exists())
            self.assertTrue((installed / "share/man/man1/quire.1").exists())


if __name__ == "__main__":
    if not all((BUILD / "bin" / program).exists() for program in (*PROGRAMS, "quire-man")):
        print(f"skipped: the programs are not built in {BUILD}")
        sys.exit(77)
    unittest.main(verbosity=2)
