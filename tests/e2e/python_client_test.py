"""The package quire-client: tools/package makes its wheel, which is installed into a fresh environment of each Python
that is here, new and old; python_client_calls.py then uses it there. mypy --strict checks the types of that use."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import ROOT, Server, main
from security_test import Authority, write_keys

CALLS = ROOT / "tests/e2e/python_client_calls.py"
KEY = "key-of-the-python-client"


# What a type checker must mind.
WRONG = 'import quire_client\nquire_client.QuireClient().generate_once("a", temperatur=1, max_tokens="b").choice\n'


def run(*command, code=0, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                            check=False, **options)
    if result.returncode != code:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def pythons():
    """This one, and the oldest that the package supports, if it is here."""
    old = shutil.which("python3.9")
    works = old and subprocess.run([old, "-c", ""], capture_output=True, check=False).returncode == 0
    return [sys.executable] + ([old] if works else [])


class PythonClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="quire_python_")))
        cls.wheel = run(ROOT / "tools/package", "--python").split()[-1]

    def install(self, python):
        """A new environment with the wheel and what it asks for; its Python."""
        folder = self.folder / pathlib.Path(python).name
        run(python, "-m", "venv", folder)
        run(folder / "bin/pip", "install", "-q", f"{self.wheel}[types]")
        return folder / "bin/python"

    def test_the_wheel_has_the_version_of_the_project(self):
        version = re.search(r"project\(quire VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(pathlib.Path(self.wheel).name, f"quire_client-{version}-py3-none-any.whl")

    def test_calls_and_types(self):
        ca = Authority(self.folder)
        ca.issue("server")
        ca.issue("operator", "DNS:operator.example")
        write_keys(self.folder / "keys", [{"key": KEY, "name": "web"},
                                          {"certificate": "operator.example", "name": "operator", "roles": ["admin"]}])
        template = self.folder / "template"
        template.write_text("{% for m in messages %}{{ m.role }} {{ m.name }} {{ m.content }}, {% endfor %}{{ mood }}")
        with Server("--served-model-name", "demo") as plain, \
                Server("--served-model-name", "demo", "--max-num-seqs", "1", "--max-num-queued-reqs", "2",
                       "--chat-template", str(template)) as small, \
                Server("--served-model-name", "demo", "--api-key-file", str(self.folder / "keys"), *ca.tls_flags(),
                       "--tls-client-ca", ca.path("ca.pem")) as tls:
            servers = {"plain": plain.target, "small": small.target, "tls": f"https://localhost:{tls.port}",
                       "ca": ca.path("ca.pem"), "key": KEY, "certificate": ca.path("operator.pem"),
                       "certificate_key": ca.path("operator.key")}
            environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIRE_")}
            for python in pythons():
                with self.subTest(python=python):
                    installed = self.install(python)
                    print(run(installed, "-W", "error::DeprecationWarning", CALLS, cwd=self.folder,
                              env=dict(environment, SERVERS=json.dumps(servers))))
                    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed, "--cache-dir",
                            self.folder / "mypy")
                    print(run(*mypy, CALLS, cwd=self.folder))
                    minded = run(*mypy, "-c", WRONG, cwd=self.folder, code=1)
                    for wrong in ('"temperatur"', '"max_tokens" to "generate_once"', 'has no attribute "choice"'):
                        self.assertIn(wrong, minded)


if __name__ == "__main__":
    main()
