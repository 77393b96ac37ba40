"""What a server still serves when it is asked for many times what it can, and how soon it refuses the rest. The sides
take turns on one server, so that what else happens on the machine meets all of them. The client has a core of its own,
which it keeps busy on every side: where two cores are one to the hardware, that slows the server's alike."""

import contextlib
import os
import random
import statistics
import time

from grpc_client import Call, Connection, Loop, wire
from mix import OK, RESOURCE_EXHAUSTED, WORDS, head, percentile
from served import Server

NUM_CONNECTIONS = 16
NUM_TOKENS = 64  # of an answer
NUM_WORDS = 32  # of a prompt
WARM_UP = 1.5  # seconds of each side that do not count
LOADS = (10, 100)  # times the rate of saturation
PROBES_PER_S = 200
FLAGS = ("--max-num-queued-reqs", "1024")  # a queue that fills while a side warms up


class Side:
    """One load for a while, on connections of its own: `load` times the rate of saturation, or, where that is 1, as
    many calls at a time as keep the server busy without a refusal."""

    def __init__(self, loop, server, seed):
        self.loop, self.server, self.random = loop, server, random.Random(seed)
        self.connections = [Connection(loop, f"127.0.0.{2 + i % 4}") for i in range(NUM_CONNECTIONS)]
        self.num_running = self.num_answers = 0
        self.refusals, self.faults = [], []
        self.counts = False

    def start(self, num_tokens=NUM_TOKENS):
        body = wire.generate(" ".join(self.random.choices(WORDS, k=NUM_WORDS)), num_tokens)
        self.num_running += 1
        self.random.choice(self.connections).start(Call("once", head(wire.GENERATE_ONCE), body, self.ended))

    def ended(self, call):
        self.num_running -= 1
        if not self.counts:
            return
        if call.status == OK:
            self.num_answers += 1
        elif call.status == RESOURCE_EXHAUSTED:
            self.refusals.append(call.end - call.begin)
        else:
            self.faults.append(f"a call ended with {call.status}")

    def run(self, seconds, rate=None, concurrency=None):
        begin = next_start = time.monotonic()
        num_begun = 0
        while (now := time.monotonic()) < begin + WARM_UP + seconds:
            if not self.counts and now >= begin + WARM_UP:
                self.counts, counted_from, cpu, num_begun = True, now, self.server.cpu_seconds(), 0
            if concurrency is not None:
                for _ in range(concurrency - self.num_running):
                    self.start()
                self.loop.turn(0)
                continue
            for _ in range(64):
                if next_start > now:
                    break
                self.start()
                num_begun += 1
                next_start += self.random.expovariate(rate)
            self.loop.turn(0)
        return self.result(num_begun, time.monotonic() - counted_from, self.server.cpu_seconds() - cpu)

    def result(self, num_begun, took, cpu):
        self.counts = False
        for connection in self.connections:
            connection.close()
        return {"answers_per_s": self.num_answers / took, "answers_per_cpu_s": self.num_answers / cpu,
                "cores": cpu / took, "offered_per_s": num_begun / took, "refused_per_s": len(self.refusals) / took,
                "refusal_ms": [1e3 * percentile(self.refusals, share) for share in (0.5, 0.99)],
                "faults": sorted(set(self.faults))}


def run(rounds, seconds, seed, on_line):
    """Returns, by load, the results of all rounds; the load 1 is saturation."""
    results = {load: [] for load in (1, *LOADS)}
    with apart() as cores, Server(*FLAGS, cores=cores) as server:
        loop = Loop(server.port)
        for number in range(rounds):
            for load, taken in results.items():
                side = Side(loop, server, seed + number)
                if load == 1:
                    result = side.run(seconds, concurrency=NUM_CONNECTIONS * 16)
                else:
                    rate = max(1, statistics.median(one["answers_per_s"] for one in results[1]))
                    result = side.run(seconds, rate=load * rate)
                taken.append(result)
                on_line(f"{load:4} times: {result['answers_per_s']:7.1f} answers/s, {result['answers_per_cpu_s']:6.1f} "
                        f"a core's second, {result['cores']:.2f} cores; offered {result['offered_per_s']:8.0f}/s, "
                        f"refused {result['refused_per_s']:8.0f}/s, p50 {result['refusal_ms'][0]:.2f} ms, "
                        f"p99 {result['refusal_ms'][1]:.2f} ms  {'; '.join(result['faults'])}")
                run_for(loop, 0.5)  # all calls were left: their work ends
    return results


@contextlib.contextmanager
def apart():
    """Keeps this process on one core; gives the others, or none where there is one only."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    try:
        yield cores[:-1]
    finally:
        os.sched_setaffinity(0, cores)


def run_for(loop, seconds):
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        loop.turn(min(0.05, end - now))


def refusals(windows, seed):
    """Of so many seconds, each for itself, the p50 and the p99 in milliseconds of refusals by a server whose queue is
    full and which computes on one thread: where there are two cores, one is left for refusing."""
    taken = []
    with Server(*FLAGS, "--num-threads", "1") as server:
        side = Side(Loop(server.port), server, seed)
        side.counts = True
        while len(side.refusals) < NUM_CONNECTIONS:
            side.start(num_tokens=4000)
            side.loop.turn(0)
        run_for(side.loop, WARM_UP)
        for _ in range(windows):
            side.refusals.clear()
            end = time.monotonic() + 1
            while time.monotonic() < end:
                side.start(num_tokens=4000)
                run_for(side.loop, side.random.expovariate(PROBES_PER_S))
            taken.append([1e3 * percentile(side.refusals, share) for share in (0.5, 0.99)])
    return taken


def ratios(results):
    """Of each load to saturation, round by round: the median of answers in a second, and in a core's second."""
    return {load: {name: statistics.median(one[name] / max(base[name], 1e-9) for one, base in zip(taken, results[1]))
                   for name in ("answers_per_s", "answers_per_cpu_s")}
            for load, taken in results.items() if load != 1}
