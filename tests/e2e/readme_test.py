"""Runs the README and docs/tour.md as a newcomer would: every command block, in order, in a fresh clone.

A comment before each block says how: `test: background` starts it, waits until it serves, and at the end presses Ctrl-C (`, port N`
where it is not 8000); `test: expect TEXT` wants exit code 0 and this text; `test: stdin TEXT` types a line; `test: no, REASON` is not
run here, and is named. Models by name come from a hub on this machine, which serves the bundled model under every name, quantized
as the name says.

    readme_test.py [--keep FOLDER]     # the clone goes to FOLDER and stays"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/lib")]
from hub_server import Hub
from log_file import written

try:
    from quantize_checkpoint import quantize_checkpoint
except ImportError as error:
    print(f"skipped: {error}; tools/test installs tests/requirements.txt")
    sys.exit(77)

BLOCK = re.compile(r"(?:<!-- test: (?P<how>[^>]*) -->\n)?```(?P<language>bash|python|js|java|go)\n(?P<source>.*?)```\n", re.DOTALL)
BUILD_SECONDS = 3000
# One after the other, in the same clone: servers that one has started run on for the next.
DOCUMENTS = ("README.md", "docs/tour.md")


class Missing(Exception):
    """This machine lacks what a block needs."""


def blocks(document, text):
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("source")) + 1
        yield f"{document}:{line}", match.group("how"), match.group("language"), match.group("source")


def is_open(port):
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def clone(folder):
    """What git would bring: no build, no file that it ignores."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


class Reader:
    """A newcomer at two terminals: one for what keeps running, one for the rest."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = environment
        self.running = []  # (place, process, log)

    def start(self, place, commands, port):
        if is_open(port):
            raise AssertionError(f"{place}: port {port} is taken on this machine")
        log = open(self.folder / f"build-log-{len(self.running)}.txt", "w+")
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder,
                                   env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        self.running.append((place, process, log))
        client = self.folder / "build/cpu/bin/quire"
        give_up = time.monotonic() + BUILD_SECONDS
        while time.monotonic() < give_up and process.poll() is None:
            # Quick start serves while it still links the client.
            with contextlib.suppress(OSError):
                if is_open(port) and subprocess.run([client, "health", "--target", f"127.0.0.1:{port}"],
                                                    capture_output=True, check=False).returncode == 0:
                    return
            time.sleep(0.2)
        raise AssertionError(f"{place}: it does not serve:\n{self.text(log)[-4000:]}")

    def run(self, place, commands, stdin, expected):
        started = time.monotonic()
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder, env=self.environment,
                                input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=BUILD_SECONDS, check=False)
        print(f"--- {place}, {time.monotonic() - started:.0f} s\n{result.stdout}", flush=True)
        if result.returncode != 0:
            raise AssertionError(f"{place}: exit code {result.returncode}")
        if expected not in result.stdout:
            raise AssertionError(f"{place}: {expected!r} is not in the output")

    def press_ctrl_c(self):
        """What a terminal does: the signal goes to every process of the group."""
        for place, process, log in reversed(self.running):
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(timeout=60)
            text = self.text(log)
            print(f"--- {place}, until Ctrl-C\n{text[-3000:]}", flush=True)
            if code != 0:
                raise AssertionError(f"{place}: Ctrl-C ended it with {code}")
        self.running = []

    def kill(self):
        for _, process, log in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            log.close()

    @staticmethod
    def text(log):
        return written(log)


def follow(reader, document, text, languages=None):
    """Leaves running what it started. `languages` has a function for each language but bash, which makes commands of a
    program, or is Missing."""
    skipped = []
    for place, how, language, source in blocks(document, text):
        if how is None:
            raise AssertionError(f"{place}: the block does not say how it is tested")
        word, _, rest = how.strip().partition(" ")
        if word == "no,":
            skipped.append(f"{place} ({rest})")
            continue
        try:
            commands = source if language == "bash" else languages[language](reader.folder, source)
        except Missing as missing:
            skipped.append(f"{place} ({missing})")
            continue
        if word.rstrip(",") == "background":
            port = int(rest.removeprefix("port ")) if rest else 8000
            reader.start(place, commands, port)
        elif word == "expect":
            reader.run(place, commands, "", rest)
        elif word == "stdin":
            reader.run(place, commands, rest + "\n", "")
        else:
            raise AssertionError(f"{place}: no way of testing is called {word!r}")
    print("not run here: " + "; ".join(skipped))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=pathlib.Path, help="empty folder for the clone, which stays there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quire_readme_") as temporary:
        folder = args.keep or pathlib.Path(temporary, "quire")
        folder.mkdir(exist_ok=True)
        clone(folder)
        with Hub() as hub:
            hub.add("Qwen/Qwen3-0.6B", ROOT / "configs/demo")
            for name, kind in (("Qwen/Qwen3-0.6B-FP8", "fp8-block"), ("Qwen/Qwen3-4B-AWQ", "awq")):
                model = pathlib.Path(temporary, kind)
                quantize_checkpoint(ROOT / "configs/demo", model, kind)
                hub.add(name, model)
            environment = dict(os.environ, HF_ENDPOINT=hub.endpoint, no_proxy="127.0.0.1", HF_HOME=str(pathlib.Path(temporary, "hf")))
            # Nothing that this test was started with may help: only what a new terminal has.
            for name in ("QUIRE_BUILD_DIR", "QUIRE_TEST_PYTHON", "CCACHE_BASEDIR", "QUIRE_TARGET", "QUIRE_API_KEY", "QUIRE_CA_FILE"):
                environment.pop(name, None)
            reader = Reader(folder, environment)
            try:
                for document in DOCUMENTS:
                    follow(reader, document, (ROOT / document).read_text())
                reader.press_ctrl_c()
            finally:
                reader.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
