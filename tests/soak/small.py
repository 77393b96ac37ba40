"""Very many very small requests: what does each leave in memory? Whatever is kept by request, by request id, by salt,
by connection or by address shows here, where the server does little else."""

from grpc_client import Call, Connection, Loop, wire
from mix import OK, head
from served import Server

NUM_KEPT = 4
CONCURRENCY = 24
NUM_ADDRESSES = 250 * 250


def address(number):
    return f"127.{1 + number // NUM_ADDRESSES % 250}.{number // 250 % 250}.{1 + number % 250}"


class Requests:
    """So many of a kind. A request asks for two tokens."""

    # kind: (method, on a connection and from an address of its own, with an id and a salt of its own)
    KINDS = {"stream": (wire.GENERATE, False, False), "once": (wire.GENERATE_ONCE, False, False),
             "own ids": (wire.GENERATE, False, True), "own addresses": (wire.GENERATE, True, False)}

    def __init__(self, loop, kind):
        self.loop = loop
        self.path, self.is_alone, self.has_id = self.KINDS[kind]
        self.kept = [] if self.is_alone else [Connection(loop, address(i)) for i in range(NUM_KEPT)]
        self.num_begun = self.num_ended = 0
        self.faults = set()

    def begin(self):
        number, self.num_begun = self.num_begun, self.num_begun + 1
        connection = Connection(self.loop, address(number)) if self.is_alone else self.kept[number % NUM_KEPT]
        body = wire.generate(f"what is {number} plus {number % 97}", 2)
        if self.has_id:
            body += wire.field(1, f"id-{number}") + wire.field(10, f"salt-{number}")

        def ended(call):
            self.num_ended += 1
            if call.status != OK:
                self.faults.add(f"a request ended with {call.status}")
            if self.is_alone:
                connection.close()

        connection.start(Call("small", head(self.path), body, ended))

    def run(self, count, at_tenth):
        for tenth in range(1, 11):
            while self.num_ended < count * tenth // 10:
                while self.num_begun < count and self.num_begun - self.num_ended < CONCURRENCY:
                    self.begin()
                self.loop.turn()
            at_tenth(tenth)
        for connection in self.kept:
            connection.close()


def run(count, on_line):
    """Returns the faults, sentences."""
    faults = []
    for kind in Requests.KINDS:
        with Server("--kv-cache-memory-bytes", str(16 << 20)) as server:
            requests = Requests(Loop(server.port), kind)
            rss = []
            requests.run(count, lambda _: rss.append(server.levels()["rss"]))
            each = [(rss[-1] - rss[tenth]) / (count * (9 - tenth) / 10) for tenth in (0, 4)]
            on_line(f"{kind}: {count} requests; rss {rss[0] >> 10} kB after a tenth, {rss[4] >> 10} after half of "
                    f"them, {rss[9] >> 10} at the end: {each[0]:.2f} bytes each after the first tenth, "
                    f"{each[1]:.2f} in the second half")
            faults += [f"{kind}: {fault}" for fault in sorted(requests.faults)]
    return faults
