"""A server under more load than it can serve, for a while: does it keep anything?"""

import csv
import time

import grpc_client
from grpc_client import Call, Connection, Loop, wire
from mix import ANSWERS, KINDS, OK, Mix, RESOURCE_EXHAUSTED, head, percentile
from served import Server
from slope import slope

MAX_SLOPE = 1e6  # bytes an hour
LEAST_SECONDS_FOR_SLOPE = 600
CONCURRENCY = 64  # of operations, while the rate is looked for
QUIET = 120  # seconds that what is left may take to end, on any machine
# A cache that a minute's load fills: memory that is used for the first time is no leak.
FLAGS = ("--kv-cache-memory-bytes", str(64 << 20), "--max-num-queued-reqs", "1024")
STATUS = "/quire.v1.Admin/GetStatus"
# Numbers of fields.
RUNNING_SEQUENCES, WAITING_REQUESTS, BLOCKS_IN_USE, GENERATED_TOKENS, ACTIVE_STREAMS = 3, 1, 6, 13, 16
TEXT, STOP_TOKENS = 2, 2  # GenerateResponse.delta and Delta.text
COLUMNS = ("seconds", "rss", "private_dirty", "descriptors", "threads", "blocks", "streams", "tokens", "operations")


class Watch:
    """Looks at the server once a second, and asks it the same question again and again: nobody's load may change the
    answer, nor keep a client that asks for little from getting it."""

    ADDRESS = "127.0.0.99"

    def __init__(self, loop, server):
        self.loop, self.server = loop, server
        self.connection = Connection(loop, self.ADDRESS)
        self.status, self.text, self.latency, self.faults = {}, None, [], []
        self.ask()

    def call(self, path, body, on_end):
        self.connection.start(Call("watch", head(path), body, on_end, keeps=True))

    def ask(self):
        """Where the server stands; again a second after the answer."""
        self.call(STATUS, b"", self.take_status)

    def take_status(self, call):
        if call.status != OK:
            self.faults.append(f"GetStatus ended with {call.status}")
            return
        for message in grpc_client.messages(call.answer):
            self.status = {number: value for number, value in grpc_client.fields(message)}
        self.loop.at(call.begin + 0.5, self.ask)

    def ask_question(self):
        body = wire.generate("what is two plus two", 12) + wire.field(6, wire.field(3, 1))  # the likeliest token
        self.call(wire.GENERATE, body, self.take_answer)

    def take_answer(self, call):
        if call.status != OK:
            self.faults.append(f"the question ended with {call.status}")
            return
        self.latency.append(call.end - call.begin)
        text = b"".join(value for message in grpc_client.messages(call.answer)
                        for kind, event in grpc_client.fields(message) if kind == 2
                        for number, value in grpc_client.fields(event) if number == TEXT)
        if self.text is None:
            self.text = text
        if text != self.text:
            self.faults.append(f"the answer to the question is {text!r}, before it was {self.text!r}")

    def levels(self):
        return {**self.server.levels(), "blocks": self.status.get(BLOCKS_IN_USE, 0),
                "streams": self.status.get(ACTIVE_STREAMS, 0), "tokens": self.status.get(GENERATED_TOKENS, 0)}

    def is_idle(self):
        return self.status and not any(self.status.get(number) for number in (
            RUNNING_SEQUENCES, WAITING_REQUESTS, BLOCKS_IN_USE, ACTIVE_STREAMS))


def run_closed(loop, mix, seconds, concurrency=CONCURRENCY):
    """Keeps so many operations under way; returns how many ended in a second, after the first third."""
    end = time.monotonic() + seconds
    begin, count = end - seconds * 2 / 3, 0
    while time.monotonic() < end:
        while mix.num_running < concurrency:
            mix.start()
        before = sum(mix.ended.values())
        loop.turn()
        if time.monotonic() > begin:
            count += sum(mix.ended.values()) - before
    return count / (seconds * 2 / 3)


class Pace:
    """The rate to load with, which follows what the server has to give: other work on the machine changes that."""

    SECONDS = 20  # after which the rate is set anew
    SHARE = sum(KINDS[kind] for kind in ANSWERS) / sum(KINDS.values())

    def __init__(self, mix, saturated_rate, over_saturation):
        self.mix, self.over_saturation = mix, over_saturation
        self.least = saturated_rate / 8
        self.rate = saturated_rate * over_saturation
        self.since, self.num_answers = time.monotonic(), mix.num_answers()

    def at(self, now):
        if now - self.since >= self.SECONDS:
            answers = self.mix.num_answers()
            served = (answers - self.num_answers) / (now - self.since) / self.SHARE
            self.rate = self.over_saturation * max(self.least, served)
            self.since, self.num_answers = now, answers
        return self.rate


def run_open(loop, mix, seconds, pace, on_second):
    """Begins operations at a rate, whatever becomes of them."""
    begin = next_start = time.monotonic()
    next_second = begin
    while (now := time.monotonic()) < begin + seconds:
        if now >= next_second:
            on_second(now - begin)
            next_second = max(next_second + 1, now)
        for _ in range(256):
            if next_start > now:
                break
            mix.start()
            next_start += mix.random.expovariate(pace.at(now))
        # A client that the machine held up does not make up for it all at once.
        next_start = max(next_start, now - 0.2)
        loop.turn(min(0.05, max(0.0, next_start - time.monotonic())))


def settle(loop, watch, mix, is_done):
    """Lets what runs come to its end; False when it does not."""
    give_up = time.monotonic() + QUIET
    while time.monotonic() < give_up:
        loop.turn()
        if mix.num_running == 0 and is_done():
            return True
    return False


def run(seconds, over_saturation, rate_seconds, seed, on_line, samples=None):
    """Returns the figures, with what is wrong as sentences in "faults"."""
    rows = []
    with Server(*FLAGS) as server:
        loop = Loop(server.port)
        watch = Watch(loop, server)
        mix = Mix(loop, seed)
        rate = run_closed(loop, mix, rate_seconds)
        settle(loop, watch, mix, watch.is_idle)
        time.sleep(0.2)
        before = watch.levels()
        on_line(f"saturated at {rate:.0f} operations/s; {over_saturation:g} times that for {seconds:g} s")
        writer = None
        if samples is not None:
            writer = csv.writer(samples)
            writer.writerow(COLUMNS)

        def on_second(at):
            row = {"seconds": round(at, 1), **watch.levels(), "operations": sum(mix.ended.values())}
            rows.append(row)
            if writer is not None:
                writer.writerow([row[column] for column in COLUMNS])
                samples.flush()
            if len(rows) % 60 == 1:
                on_line(line(row))
            watch.ask_question()

        run_open(loop, mix, seconds, Pace(mix, rate, over_saturation), on_second)
        is_settled = settle(loop, watch, mix, lambda: watch.is_idle() and
                            server.levels()["descriptors"] <= before["descriptors"])
        after = watch.levels()
        left = mix.num_running
        mix.close()
        code = server.stop()
        figures = {"seconds": seconds, "saturated_rate": rate, "over_saturation": over_saturation, "seed": seed,
                   "before": before, "highest": highest(rows), "after": after, "log_lines": server.num_lines,
                   **outcomes(mix, watch), "slope": growth(rows)}
        figures["faults"] = faults(figures, mix, watch, left)
        if not is_settled:
            figures["faults"].append(f"not at rest {QUIET} s after the load: {watch.status}")
        if code != 0:
            figures["faults"].append(f"the server ended with {code}: {server.log()}")
        return figures


def highest(rows):
    return {name: max(row[name] for row in rows) for name in COLUMNS[1:7]}


def outcomes(mix, watch):
    counts = {"served": 0, "refused": 0, "left by the client": 0, "ended as deserved": 0}
    for (kind, status), count in mix.ended.items():
        key = {OK: "served", RESOURCE_EXHAUSTED: "refused"}.get(status)
        if key is None:
            key = "left by the client" if isinstance(status, str) else "ended as deserved"
        counts[key] += count
    answers = [value for kind in ANSWERS for value in mix.latency[kind]]
    return {"ended": counts, "by_kind": {f"{kind}: {status}": count for (kind, status), count in
                                         sorted(mix.ended.items(), key=str)},
            "answer_s": [percentile(answers, share) for share in (0.5, 0.99)],
            "refusal_ms": [1e3 * percentile(mix.latency["refusal"], share) for share in (0.5, 0.99)],
            "question_s": [percentile(watch.latency, share) for share in (0.5, 0.99)]}


def growth(rows):
    """Of the second half: bytes an hour, half of the interval, bytes an operation."""
    half = rows[len(rows) // 2:]
    if len(half) < 5:
        return None
    result = {}
    for name in ("rss", "private_dirty"):
        rise, uncertainty = slope([row["seconds"] / 3600 for row in half], [row[name] for row in half])
        result[name] = {"bytes_per_hour": rise, "half_interval": uncertainty,
                        "grown": half[-1][name] - half[0][name],
                        "operations": half[-1]["operations"] - half[0]["operations"]}
    return result


def faults(figures, mix, watch, left):
    """What must not be, as sentences; what the slope says is another matter."""
    before, after = figures["before"], figures["after"]
    found = [f"{name}: {before[name]} before, {after[name]} after" for name in ("descriptors", "threads", "blocks")
             if after[name] > before[name]]
    found += [f"{count} times: {what}" for what, count in mix.faults.items()]
    found += sorted(set(watch.faults))
    if left:
        found.append(f"{left} operations have not ended")
    return found


def slope_fault(figures):
    """A sentence when memory grows too fast, beyond doubt; None else."""
    rss = (figures["slope"] or {}).get("rss")
    if rss is None or figures["seconds"] < LEAST_SECONDS_FOR_SLOPE:
        return None
    surely = rss["bytes_per_hour"] - (rss["half_interval"] if rss["half_interval"] > MAX_SLOPE else 0)
    if surely <= MAX_SLOPE:
        return None
    return f"memory grows by {rss['bytes_per_hour'] / 1e6:.2f} MB/h"


def line(row):
    return (f"{row['seconds']:7.0f} s  rss {row['rss'] / 1e6:8.3f} MB  dirty {row['private_dirty'] / 1e6:8.3f} MB  "
            f"descriptors {row['descriptors']:4}  threads {row['threads']:3}  blocks {row['blocks']:4}  "
            f"streams {row['streams']:4}  operations {row['operations']}")


def report(figures):
    """Lines for people."""
    for name in ("before", "highest", "after"):
        levels = figures[name]
        yield (f"{name:8} rss {levels['rss'] / 1e6:.2f} MB, descriptors {levels['descriptors']}, threads "
               f"{levels['threads']}, blocks {levels['blocks']}")
    yield "operations: " + ", ".join(f"{count} {name}" for name, count in figures["ended"].items())
    for name, unit in (("answer_s", "s"), ("refusal_ms", "ms"), ("question_s", "s")):
        yield f"{name.partition('_')[0]}: p50 {figures[name][0]:.3g} {unit}, p99 {figures[name][1]:.3g} {unit}"
    for name, value in (figures["slope"] or {}).items():
        each = value["grown"] / max(1, value["operations"])
        yield (f"{name} over the second half: {value['bytes_per_hour'] / 1e6:+.2f} MB/h, 95 % within "
               f"{value['half_interval'] / 1e6:.2f}; {value['grown']} bytes in {value['operations']} operations, "
               f"{each:.2f} each")
    rss = (figures["slope"] or {}).get("rss")
    if figures["seconds"] < LEAST_SECONDS_FOR_SLOPE:
        yield f"the slope is not judged: that takes {LEAST_SECONDS_FOR_SLOPE} s"
    elif rss is not None and rss["half_interval"] > MAX_SLOPE:
        yield "the noise is larger than the limit of 1 MB/h: only what exceeds both is a fault; soak for longer"
