"""A server under attack beside a normal client: what it costs, and whether anybody notices."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.path.insert(0, str(HERE))

import harness  # noqa: E402
from harness import grpc, health_grpc, health_pb, pb, pb_grpc  # noqa: E402

import sanitizer  # noqa: E402
from attacks import ATTACKS  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
TOKEN_THREADS = ("quire-engine", "quire-compute", "quire-masks")
# On the CPU a block of the cache becomes memory when it is first written, which is nobody's attack.
KV_CACHE_BYTES = str(16 << 20)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What an attack may cost. Where memory or cores are False, they are figures and no faults."""

    memory: bool = True  # whether an attack's growth is a limit
    cores: bool = True  # whether what it may cost of the processor is one
    deadline: float = 10  # seconds that the normal client gives the server
    after: float = 5  # seconds after which memory is given back
    # That a client is gone is seen behind what it has sent, which is read at the pace of its address's debt.
    after_files: float = 20
    server_flags: tuple = ()


# A sanitizer keeps what is freed, and shadows the rest: its memory says nothing of the server's. It makes everything
# some ten times slower, so only whether something comes to its end is seen, not when.
# A step of the default size would take a minute, in which nobody's request ends.
SANITIZED = Limits(memory=False, cores=False, deadline=120, after=60, after_files=60,
                   server_flags=("--max-num-batched-tokens", "64", "--max-num-seqs", "16"))


class Process:
    """What the system says about a process."""

    def __init__(self, pid):
        self.folder = pathlib.Path(f"/proc/{pid}")

    def rss(self):
        pages = int((self.folder / "statm").read_text().split()[1])
        if pages == 0:
            raise ProcessLookupError("it has ended")
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self):
        """Beside the tokens: those are what a client may ask for, and the scheduler shares them out."""
        seconds = 0.0
        for task in (self.folder / "task").iterdir():
            try:
                name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
            except FileNotFoundError:
                continue  # it has just ended
            if name not in TOKEN_THREADS:
                values = rest.split()
                seconds += (int(values[11]) + int(values[12])) / TICK
        return seconds

    def threads(self):
        return len(list((self.folder / "task").iterdir()))

    def files(self):
        return len(list((self.folder / "fd").iterdir()))


class NormalClient(threading.Thread):
    """Calls all the time, on a kept connection or on a new one for each call."""

    def __init__(self, target, new_connections, deadline):
        super().__init__(daemon=True)
        self.target, self.new_connections, self.deadline = target, new_connections, deadline
        self.stopped = threading.Event()
        self.calls, self.failures, self.slowest = 0, [], (0.0, "")
        self.start()

    def open(self):
        return grpc.insecure_channel(self.target, options=[
            ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)])

    def run(self):
        channel = self.open()
        while not self.stopped.is_set():
            for call in (self.get_model, self.check, self.generate):
                if self.new_connections:
                    channel.close()
                    channel = self.open()
                begin = time.monotonic()
                try:
                    call(channel)
                except grpc.RpcError as error:
                    self.failures.append(f"{call.__name__}: {error.code().name}: {error.details()}")
                except Exception as error:  # whatever it is, the thread goes on and the call has failed
                    self.failures.append(f"{call.__name__}: {error!r}")
                self.slowest = max(self.slowest, (time.monotonic() - begin, call.__name__))
                self.calls += 1
            self.stopped.wait(0.1)
        channel.close()

    def get_model(self, channel):
        pb_grpc.InferenceStub(channel).GetModel(pb.GetModelRequest(), timeout=self.deadline)

    def check(self, channel):
        health_grpc.HealthStub(channel).Check(health_pb.HealthCheckRequest(), timeout=self.deadline)

    def generate(self, channel):
        request = harness.ids_request([1, 2, 3], max_tokens=4)
        answer = harness.Answer(pb_grpc.InferenceStub(channel).Generate(request, timeout=self.deadline))
        if len(answer.ids) != 4:
            raise ValueError(f"{len(answer.ids)} of 4 tokens, and OK: {answer.events}")

    def take(self):
        """The figures since the last call."""
        taken = self.calls, self.failures, self.slowest
        self.calls, self.failures, self.slowest = 0, [], (0.0, "")
        return taken

    def stop(self):
        self.stopped.set()
        self.join()


class Siege:
    """One server, two normal clients, any number of attacks."""

    def __init__(self, target, pid, limits):
        self.limits = limits
        self.port, self.process = int(target.rpartition(":")[2]), Process(pid)
        self.clients = [NormalClient(target, new, limits.deadline) for new in (False, True)]
        time.sleep(1)
        begin, calls_begin = self.process.cpu_seconds(), self.calls()
        time.sleep(2)
        self.call_seconds = (self.process.cpu_seconds() - begin) / max(1, self.calls() - calls_begin)
        self.base = self.levels()
        self.clients[0].take(), self.clients[1].take()

    def calls(self):
        return sum(client.calls for client in self.clients)

    def levels(self):
        return {"rss": self.process.rss(), "files": self.process.files(), "threads": self.process.threads()}

    def round(self, name, seconds):
        before = self.levels()
        begin, cpu_begin, calls_begin = time.monotonic(), self.process.cpu_seconds(), self.calls()
        attacker = subprocess.Popen([sys.executable, str(HERE / "attacker.py"), name, "--port", str(self.port),
                                     "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
        highest = dict(before)
        while attacker.poll() is None:
            for key, value in self.levels().items():
                highest[key] = max(highest[key], value)
            time.sleep(0.05)
        elapsed = time.monotonic() - begin
        normal = self.call_seconds * (self.calls() - calls_begin)
        cores = (self.process.cpu_seconds() - cpu_begin - normal) / elapsed
        did = json.loads(attacker.stdout.read() or '{"crashed": 1}')
        end = time.monotonic()
        while True:
            after = self.levels()
            memory_is_back, all_is_back = self.back(after, before, ATTACKS[name])
            waited = time.monotonic() - end
            if all_is_back or waited > self.limits.after_files or (not memory_is_back and waited > self.limits.after):
                break
            time.sleep(0.05)
        calls, failures, slowest = zip(*(client.take() for client in self.clients))
        return {"attack": name, "rss_before": before["rss"], "rss_highest": highest["rss"],
                "rss_after": after["rss"], "cores": max(0.0, cores), "calls": sum(calls),
                "failures": sum(failures, []), "slowest_s": max(slowest)[0], "slowest_call": max(slowest)[1],
                "files_before": before["files"], "files_highest": highest["files"], "files_after": after["files"],
                "threads_before": before["threads"], "threads_after": after["threads"], **did}

    def back(self, levels, before, attack):
        """Whether memory is given back, and whether everything is."""
        memory = not self.too_much(levels["rss"] - before["rss"], attack.growth)
        # A normal client's connection may be opening or closing just now.
        files = levels["files"] <= self.base["files"] + 4
        return memory, memory and files and levels["threads"] <= self.base["threads"]

    def too_much(self, growth, limit=64 << 20):
        return self.limits.memory and growth > limit

    def faults(self, result, first_rss):
        """What must not be, as sentences."""
        most = result["rss_highest"] - first_rss
        left = result["rss_after"] - first_rss
        limit = ATTACKS[result["attack"]].growth
        checks = [
            (self.too_much(most, limit), f"memory grew by {most >> 20} MiB"),
            (self.too_much(left, limit), f"{left >> 20} MiB are not given back"),
            (self.limits.cores and result["cores"] > ATTACKS[result["attack"]].cores, f"it cost {result['cores']:.2f} cores"),
            (result["failures"], f"{len(result['failures'])} calls failed: {result['failures'][:2]}"),
            (result["files_after"] > self.base["files"] + 4, f"{result['files_after']} descriptors are left"),
            (result["threads_after"] > self.base["threads"], f"{result['threads_after']} threads are left"),
            ("crashed" in result, "the attacker broke"),
        ]
        return [sentence for is_wrong, sentence in checks if is_wrong]

    def stop(self):
        for client in self.clients:
            client.stop()


def start_server(attack, limits):
    program = (harness.SERVER,)
    if attack.server_files:
        program = ("prlimit", f"--nofile={attack.server_files}", *program)
    server = harness.Server("--no-access-log", "--kv-cache-memory-bytes", KV_CACHE_BYTES, *limits.server_flags,
                            *attack.server_flags, program=program)
    return server


def run(names, seconds, rounds=3, on_result=lambda result: None, target=None, pid=None, limits=Limits()):
    """Plays each attack `rounds` times for so many seconds. Returns the results, each with its faults. One server
    for all attacks that ask for the same one, or the server at `target`, whose process is `pid`."""
    groups = {}
    for name in names:
        attack = ATTACKS[name]
        wants = (attack.server_flags, attack.server_files) if target is None else None
        groups.setdefault(wants, []).append(name)
    results = []

    def take(result):
        results.append(result)
        on_result(result)

    for group in groups.values():
        if target is not None:
            play(Siege(target, pid, limits), group, seconds, rounds, take)
            continue
        left = list(group)
        while left:  # anew after a death
            with start_server(ATTACKS[left[0]], limits) as server:
                left = play(Siege(server.target, server.process.pid, limits), left, seconds, rounds, take)
                code, output = server.stop(), server.output()
                report = sanitizer.find_report(output)
                if code != 0 or report:
                    take({"attack": "the end of the server", "round": 0, "faults": [
                        f"server ended with {code}: {report or output[-2000:]}"]})
    return results


def play(siege, names, seconds, rounds, take):
    """Returns the attacks that are left when the server has died."""
    try:
        for i, name in enumerate(names):
            first_rss = siege.process.rss()
            for number in range(rounds):
                try:
                    result = siege.round(name, seconds)
                except (FileNotFoundError, ProcessLookupError):
                    take({"attack": name, "round": number + 1, "faults": ["the server died"]})
                    return names[i + 1:]
                take({**result, "round": number + 1, "faults": siege.faults(result, first_rss)})
        # Each may leave a little: all of them together must not leave more than one may.
        time.sleep(Limits.after)
        left = siege.process.rss() - siege.base["rss"]
        faults = [f"{left >> 20} MiB are not given back after all of them"] if siege.too_much(left) else []
        siege.stop()
        failures = sum((client.take()[1] for client in siege.clients), [])
        faults += [f"{len(failures)} calls failed: {failures[:2]}"] if failures else []
        take({"attack": "all together", "round": 0, "rss_left": left, "faults": faults})
    finally:
        siege.stop()
    return []


def table_line(result):
    if "cores" not in result:
        left = f"{result['rss_left'] >> 20} MiB left  " if "rss_left" in result else ""
        return f"{result['attack']:36} {result['round']:2} {left}{'; '.join(result['faults'])}"
    mib = [f"{result[key] / 2**20:6.0f}" for key in ("rss_before", "rss_highest", "rss_after")]
    return (f"{result['attack']:36} {result['round']:2} {' '.join(mib)} {result['cores']:6.2f} "
            f"{result['calls']:6} {len(result['failures']):5} {result['slowest_s']:7.2f} "
            f"{result['files_highest']:6} {result['files_after']:6} {result['threads_after']:4} "
            f"{result.get('connections', 0):8} {result.get('sent', 0) / 1e6:8.1f}  {'; '.join(result['faults'])}")


TABLE_HEAD = (f"{'attack':36} {'#':>2} {'before':>6} {'most':>6} {'after':>6} {'cores':>6} {'calls':>6} {'fail':>5} "
              f"{'slow s':>7} {'files':>6} {'after':>6} {'thr':>4} {'opened':>8} {'MB sent':>8}  what is wrong")
