"""What clients do, in the proportions of KINDS: most read their answers to the end, some go away in every way there
is, some ask for what they cannot have. Counts how calls end, and whether that is how they may."""

import collections
import functools
import random
import time

import grpc_client
from grpc_client import Call, Connection, wire

OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 3, 4, 8, 12
CANCELLED, LEFT = "cancelled", "left"  # by us: the call, and the connection with its calls
SERVED_OR_REFUSED = {OK, RESOURCE_EXHAUSTED}

# Of 100 operations.
KINDS = {"stream": 32, "once": 12, "stream_on_new_connection": 6, "tokenize": 8, "get_model": 3, "health": 1, "watch": 1,
         "cancel": 15, "deadline": 10, "reset_connection": 4, "unread": 2, "invalid": 4, "unknown_method": 2}
# Whole streams and answers: what a server is there for.
ANSWERS = ("stream", "once", "stream_on_new_connection")

WORDS = ("one two three four five six seven eight nine ten add plus minus times what is the sum of red green blue "
         "cat dog house tree").split()

head = functools.lru_cache(maxsize=1024)(grpc_client.message_head)


class Mix:
    """Operations on kept connections from several addresses, and on connections of their own."""

    def __init__(self, loop, seed, kept=8, max_tokens=48):
        self.loop, self.random, self.max_tokens = loop, random.Random(seed), max_tokens
        self.kinds = self.random.choices(list(KINDS), KINDS.values(), k=1 << 14)
        self.next_kind = 0
        self.sources = [f"127.0.0.{2 + i % 4}" for i in range(kept)]
        self.kept = [Connection(loop, source) for source in self.sources]
        self.own = set()
        self.num_running = 0
        self.on_idle = lambda: None  # an operation has ended
        self.ended = collections.Counter()  # (kind, status)
        self.faults = collections.Counter()
        self.latency = collections.defaultdict(list)  # seconds, of answers and of refusals

    def start(self):
        """Begins the next operation."""
        kind = self.kinds[self.next_kind % len(self.kinds)]
        self.next_kind += 1
        self.num_running += 1
        getattr(self, kind)()

    def num_answers(self):
        return sum(self.ended[kind, OK] for kind in ANSWERS)

    def close(self):
        for connection in [*self.kept, *self.own]:
            connection.close()

    # What an operation asks for.

    def text(self):
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 60)))

    def generate(self, most=None):
        return wire.generate(self.text(), self.random.randint(1, most or self.max_tokens))

    # Where.

    def connection(self):
        place = self.random.randrange(len(self.kept))
        if not self.kept[place].usable:
            self.faults[f"a kept connection ended: {self.kept[place].goaway or 'closed'}"] += 1
            self.kept[place] = Connection(self.loop, self.sources[place])
        return self.kept[place]

    def new_connection(self, reads=True):
        connection = Connection(self.loop, self.random.choice(self.sources), reads)
        self.own.add(connection)
        return connection

    def give_up(self, connection, reset=False):
        """Closes a connection of its own, at once."""
        self.own.discard(connection)
        calls = list(connection.calls.values())
        connection.close(reset)
        for call in calls:
            connection.finish(call, LEFT)

    # How it ends.

    def call(self, path, body, may_end, timeout_ms=None, connection=None, on_message=None, on_end=None):
        def ended(call):
            self.note(path.kind, call, may_end)
            if on_end is not None:
                on_end()
        call = Call(path.kind, head(path.path, timeout_ms), body, ended, on_message)
        (connection or self.connection()).start(call)
        return call

    def note(self, kind, call, may_end):
        self.num_running -= 1
        self.ended[kind, call.status] += 1
        seconds = call.end - call.begin
        if call.status not in may_end:
            self.faults[f"{kind} ended with {call.status}"] += 1
        elif call.status == RESOURCE_EXHAUSTED:
            self.latency["refusal"].append(seconds)
        elif call.status == OK and kind in ANSWERS:
            self.latency[kind].append(seconds)
            if call.num_messages < (1 if kind == "once" else 2):
                self.faults[f"{kind} has ended well with {call.num_messages} messages"] += 1
        self.on_idle()

    # The kinds.

    def stream(self):
        self.call(Path("stream", wire.GENERATE), self.generate(), SERVED_OR_REFUSED)

    def once(self):
        self.call(Path("once", wire.GENERATE_ONCE), self.generate(), SERVED_OR_REFUSED)

    def stream_on_new_connection(self):
        connection = self.new_connection()
        self.call(Path("stream_on_new_connection", wire.GENERATE), self.generate(), SERVED_OR_REFUSED,
                  connection=connection, on_end=lambda: self.give_up(connection))

    def tokenize(self):
        self.call(Path("tokenize", wire.TOKENIZE), wire.tokenize(self.text()), SERVED_OR_REFUSED)

    def get_model(self):
        self.call(Path("get_model", wire.GET_MODEL), b"", {OK})

    def health(self):
        self.call(Path("health", wire.CHECK), b"", {OK})

    def watch(self):
        """Health, for a while."""
        call = self.call(Path("watch", wire.WATCH), b"", {CANCELLED})
        self.loop.at(call.begin + self.random.uniform(0, 2), call.cancel)

    def cancel(self):
        """After some time, or some messages."""
        may_end = {*SERVED_OR_REFUSED, CANCELLED}
        path, body = Path("cancel", wire.GENERATE), self.generate(4 * self.max_tokens)
        if self.random.random() < 0.5:
            most = self.random.randint(1, 4)
            self.call(path, body, may_end,
                      on_message=lambda call: call.cancel() if call.num_messages == most else None)
        else:
            call = self.call(path, body, may_end)
            self.loop.at(call.begin + self.random.uniform(0, 0.3), call.cancel)

    def deadline(self):
        self.call(Path("deadline", wire.GENERATE), self.generate(4 * self.max_tokens),
                  {*SERVED_OR_REFUSED, DEADLINE_EXCEEDED}, timeout_ms=self.random.choice((1, 5, 20, 50, 100, 300)))

    def reset_connection(self):
        """The connection breaks, as when a client is killed, with some calls on it."""
        connection = self.new_connection()
        num_calls = self.random.randint(1, 4)
        self.num_running += num_calls - 1
        for _ in range(num_calls):
            self.call(Path("reset_connection", wire.GENERATE), self.generate(), {*SERVED_OR_REFUSED, LEFT},
                      connection=connection)
        self.loop.at(time.monotonic() + self.random.uniform(0, 0.3), lambda: self.give_up(connection, reset=True))

    def unread(self):
        """The answer is not read; the client goes away after some seconds."""
        connection = self.new_connection(reads=False)
        self.call(Path("unread", wire.GENERATE), self.generate(4 * self.max_tokens), {*SERVED_OR_REFUSED, LEFT},
                  connection=connection)
        self.loop.at(time.monotonic() + self.random.uniform(0.5, 3), lambda: self.give_up(connection))

    def invalid(self):
        body = self.random.choice((b"\xff\xff", wire.generate("", 4), wire.generate("a", 4, logprobs=1000),
                                   wire.generate("a", 4, n=10000)))
        self.call(Path("invalid", wire.GENERATE), body, {INVALID_ARGUMENT, RESOURCE_EXHAUSTED})

    def unknown_method(self):
        self.call(Path("unknown_method", wire.INFERENCE + "Nothing"), b"", {UNIMPLEMENTED})


Path = collections.namedtuple("Path", "kind path")


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")
