"""A quire-server of the bundled model, for loads: started, watched by what the system says of it, ended."""

import collections
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))

from ports import free_port  # noqa: E402

BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
SERVER = BUILD / "bin/quire-server"
SAMPLES = BUILD.parent / "soak.csv"


class Server:
    """A context manager. Its log is read all the time, as in a container; the last lines are kept."""

    def __init__(self, *flags, cores=()):
        """`cores`: those it may use; all without."""
        if not SERVER.exists():
            print(f"skipped: {SERVER} is not built")
            sys.exit(77)
        self.port = free_port()
        pinned = ("taskset", "--cpu-list", ",".join(map(str, cores))) if cores else ()
        self.process = subprocess.Popen([*pinned, SERVER, "--host", "127.0.0.1", "--port", str(self.port), *flags],
                                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.folder = pathlib.Path(f"/proc/{self.process.pid}")
        self.num_lines, self.last_lines = 0, collections.deque(maxlen=40)
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        give_up = time.monotonic() + 60
        while True:
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError("the server did not start:\n" + self.log())
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)

    def read_log(self):
        for line in self.process.stderr:
            self.num_lines += 1
            self.last_lines.append(line)

    def log(self):
        return b"".join(self.last_lines).decode(errors="replace")

    def levels(self):
        """What it holds now; bytes."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the server has ended with {self.process.returncode}:\n{self.log()}")
        memory = {line.split()[0]: int(line.split()[1]) << 10
                  for line in (self.folder / "smaps_rollup").read_text().splitlines()[1:]}
        return {"rss": memory["Rss:"], "private_dirty": memory["Private_Dirty:"],
                "descriptors": len(os.listdir(self.folder / "fd")),
                "threads": len(os.listdir(self.folder / "task"))}

    def cpu_seconds(self):
        values = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """By SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stderr.close()
