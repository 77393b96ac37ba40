"""An image of the Dockerfile, as tools/image-test has built it: what it says about itself, how large it is, and whether it
serves as containers run it: a root that cannot be written, no /proc and no /sys, users of any number in group 0, ports of
any number, SIGTERM.

    image_check.py cpu|cuda ROOT_FOLDER INSPECTED.json PUSHED_FOLDER"""

import contextlib
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from harness import ROOT, free_port
from log_file import written

sys.path.insert(0, str(ROOT / "tools/lib"))
import image_root

TARGET, IMAGE, INSPECTED, PUSHED = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
CONFIG = image_root.read_config(INSPECTED)
LIMIT_BYTES = {"cpu": 80e6, "cuda": 1.5e9}[TARGET]
SECONDS = 120
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Container:
    """A process in the image, as tools/lib/image_root.py starts it."""

    def __init__(self, *arguments, user=None, volumes=True, program=None):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.user = user or CONFIG["User"]
        # Until this server has left its own address: whatever else listens on this machine is not asked.
        nobody = "127.0.0.1:1" if volumes else None
        self.process = subprocess.Popen(
            image_root.command(IMAGE, CONFIG, [*(program or CONFIG["Entrypoint"]), *arguments], user=user, volumes=volumes,
                               left_address=nobody), stdout=self.log, stderr=subprocess.STDOUT)
        while self.process.poll() is None and not self.has_entered():
            time.sleep(0.01)

    def has_entered(self):
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            return os.readlink(f"/proc/{self.process.pid}/root") == str(IMAGE.resolve())

    def output(self):
        return written(self.log)

    def run(self, *command):
        """A command beside the server, as docker exec runs it."""
        return subprocess.run(
            ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt", "chroot", f"--userspec={self.user}", str(IMAGE),
             *image_root.environment(CONFIG), *command], capture_output=True, text=True, timeout=SECONDS)

    def check_health(self):
        kind, *command = CONFIG["Healthcheck"]["Test"]
        assert kind == "CMD", "a form without a shell"
        return self.run(*command)

    def wait_until_healthy(self):
        give_up = time.monotonic() + SECONDS
        while self.check_health().returncode != 0:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.output()}"
            assert time.monotonic() < give_up, self.output()
            time.sleep(0.1)

    def end(self):
        """How the process ends by itself."""
        code = self.process.wait(timeout=SECONDS)
        return code, self.output()

    def stop(self):
        self.process.send_signal(getattr(signal, CONFIG["StopSignal"]))
        return self.process.wait(timeout=SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


def ask(port):
    body = {"messages": [{"role": "user", "content": "What is 37 + 48?"}], "temperature": 0}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    with OPEN(request, timeout=SECONDS) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


class ImageTest(unittest.TestCase):
    def test_its_size(self):
        size = sum(path.stat().st_size for path in PUSHED.iterdir() if re.fullmatch("[0-9a-f]{64}", path.name))
        unpacked = int(subprocess.run(["du", "-sxb", IMAGE], capture_output=True, text=True, check=True).stdout.split()[0])
        print(f"{TARGET}: {size / 1e6:.0f} MB compressed, {unpacked / 1e6:.0f} MB unpacked", file=sys.stderr)
        self.assertLess(size, LIMIT_BYTES)

    def test_what_it_says(self):
        user, group = CONFIG["User"].split(":")
        self.assertGreater(int(user), 0)
        self.assertEqual(int(group), 0)
        self.assertEqual(CONFIG["Entrypoint"], ["/opt/quire/bin/quire-server"])
        self.assertEqual(list(CONFIG["ExposedPorts"]), ["8000/tcp"])
        self.assertEqual(CONFIG["StopSignal"], "SIGTERM")
        label = "org.opencontainers.image."
        version = re.search(r"^project\(quire VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertEqual(CONFIG["Labels"][f"{label}version"], version)
        self.assertRegex(CONFIG["Labels"][f"{label}revision"], "^[0-9a-f]{40}$")
        self.assertEqual(CONFIG["Labels"][f"{label}licenses"], "Apache-2.0")

    def test_its_programs_find_their_libraries(self):
        for program in ("quire-server", "quire-bench"):
            with Container("--version", program=[f"/opt/quire/bin/{program}"]) as container:
                code, output = container.end()
            self.assertEqual((code, output.split()[0]), (0, program), output)
            with Container("--help", program=[f"/opt/quire/bin/{program}"]) as container:
                self.assertEqual(container.end()[0], 0)

    def test_it_has_nothing_that_its_user_may_change(self):
        user, group = map(int, CONFIG["User"].split(":"))

        def may_change(path):
            status = path.lstat()
            return stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFDIR) and (
                status.st_mode & 0o002 or (status.st_uid == user and status.st_mode & 0o200)
                or (status.st_gid == group and status.st_mode & 0o020))

        device = IMAGE.stat().st_dev
        found = set()
        for name, folders, files in os.walk(IMAGE):
            folder = pathlib.Path(name)
            folders[:] = [name for name in folders if (folder / name).lstat().st_dev == device]
            found |= {"/" + str((folder / name).relative_to(IMAGE)) for name in folders + files if may_change(folder / name)}
        self.assertEqual(found - {"/tmp", "/var/tmp", "/run/lock"}, set(CONFIG["Volumes"]))

    def test_serves_whoever_it_runs_as_on_any_port(self):
        for user, flags in ((None, ()), ("1000660000:0", ()), (None, ("--host=::",))):
            port = free_port()
            with self.subTest(user=user, flags=flags), Container(f"--port={port}", *flags, user=user) as container:
                container.wait_until_healthy()
                self.assertIn("85", ask(port))
                self.assertEqual(container.stop(), 0, container.output())

    def test_it_is_not_healthy_without_a_server(self):
        with Container(program=["/bin/sleep", "1000"]) as container:
            check = container.check_health()
            self.assertEqual(check.returncode, 69, check.stdout + check.stderr)

    def test_without_volumes_it_says_so_and_serves(self):
        port = free_port()
        with Container(f"--port={port}", volumes=False) as container:
            give_up = time.monotonic() + SECONDS
            while container.run("/opt/quire/bin/quire-server", "--check-health", f"--port={port}").returncode != 0:
                self.assertIsNone(container.process.poll(), container.output())
                self.assertLess(time.monotonic(), give_up, container.output())
            self.assertIn("85", ask(port))
            self.assertIn("cannot write /run/quire/address: Read-only file system", container.output())
            self.assertEqual(container.stop(), 0)

    def test_it_has_the_load_generator(self):
        port = free_port()
        with Container(f"--port={port}") as container:
            container.wait_until_healthy()
            bench = container.run("/opt/quire/bin/quire-bench", "serve", "--target", f"127.0.0.1:{port}", "--num-prompts", "4")
            self.assertEqual(bench.returncode, 0, bench.stdout + bench.stderr)

    def test_a_mistake_ends_it_with_one_line(self):
        with Container("--port=none") as container:
            code, output = container.end()
        self.assertEqual(code, 64, output)
        self.assertIn("--port", output)

    @unittest.skipUnless(TARGET == "cuda", "the image for GPUs")
    def test_without_a_gpu_it_says_so(self):
        with Container("--device=cuda") as container:
            code, output = container.end()
        self.assertEqual(code, 69, output)
        self.assertIn("GPU", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
