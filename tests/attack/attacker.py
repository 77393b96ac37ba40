"""Runs one attack of attacks.py: attacker.py NAME --port PORT --seconds N. A process of its own, so that neither
the normal client nor the sampling waits for it. Prints what it did as one JSON line."""

import argparse
import errno
import heapq
import itertools
import json
import selectors
import socket
import struct
import time

import wire

READ_SIZE = 1 << 16


class Connection:
    """A non-blocking connection that plays a script: an iterator of bytes to send and of seconds to wait."""

    def __init__(self, attack, address, source):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        if attack.receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, attack.receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            self.socket.bind((source, 0))
        self.attack = attack
        self.script = iter(attack.script())
        self.pending = memoryview(b"")
        self.input = b""  # an incomplete frame, where PINGs are answered
        self.ended = False
        error = self.socket.connect_ex(address)
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, "connect")

    def answer_pings(self, received):
        self.input += received
        answers = b""
        while len(self.input) >= 9:
            size = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + size:
                break
            if self.input[3] == wire.PING and not self.input[4] & wire.ACK:
                answers += wire.frame(wire.PING, wire.ACK, 0, self.input[9:17])
            self.input = self.input[9 + size:]
        if answers:
            self.pending = memoryview(bytes(self.pending) + answers)


class Attacker:
    def __init__(self, attack, port, seconds, source):
        self.attack, self.address, self.source = attack, ("127.0.0.1", port), source
        self.end = time.monotonic() + seconds
        self.selector = selectors.DefaultSelector()
        self.waiting = []  # (when, number, connection)
        self.numbers = itertools.count()
        self.num_open = 0
        self.next_open = 0.0
        self.did = {"connections": 0, "refused": 0, "closed_by_server": 0, "sent": 0, "received": 0,
                    "most_open": 0, "open_at_end": 0}

    def run(self):
        while (now := time.monotonic()) < self.end:
            # Some at a time, so that those that are open get their turn.
            for _ in range(64):
                if self.num_open >= self.attack.connections or now < self.next_open:
                    break
                self.open()
            while self.waiting and self.waiting[0][0] <= now:
                connection = heapq.heappop(self.waiting)[2]
                if not connection.ended:
                    self.watch(connection)
            for key, events in self.selector.select(0.02):
                connection = key.data
                if events & selectors.EVENT_READ:
                    self.read(connection)
                if not connection.ended and events & selectors.EVENT_WRITE:
                    self.write(connection)
        self.did["open_at_end"] = self.num_open
        for key in list(self.selector.get_map().values()):
            self.hang_up(key.data)
        return self.did

    def hang_up(self, connection):
        if self.attack.resets:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.socket.close()

    def open(self):
        source = next(self.source)
        try:
            connection = Connection(self.attack, self.address, source)
        except OSError:
            self.did["refused"] += 1
            self.next_open = time.monotonic() + 0.05
            return
        self.did["connections"] += 1
        self.num_open += 1
        self.did["most_open"] = max(self.did["most_open"], self.num_open)
        self.selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        self.watch(connection)

    def watch(self, connection, writing=True):
        events = (selectors.EVENT_READ if self.attack.reads else 0) | (selectors.EVENT_WRITE if writing else 0)
        if events:
            try:
                self.selector.modify(connection.socket, events, connection)
            except KeyError:
                self.selector.register(connection.socket, events, connection)
        elif connection.socket in self.selector.get_map():
            self.selector.unregister(connection.socket)

    def close(self, connection):
        connection.ended = True
        if connection.socket in self.selector.get_map():
            self.selector.unregister(connection.socket)
        self.hang_up(connection)
        self.num_open -= 1
        self.next_open = time.monotonic() + self.attack.reopen_after

    def read(self, connection):
        try:
            received = connection.socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self.did["received"] += len(received)
        if not received:
            self.did["closed_by_server"] += 1
            self.close(connection)
        elif self.attack.answers_pings:
            connection.answer_pings(received)
            if connection.pending:
                self.watch(connection)

    def write(self, connection):
        if not connection.pending:
            step = next(connection.script, None)
            if step is None:
                if self.attack.hangs_up:
                    self.close(connection)
                else:
                    self.watch(connection, writing=False)
                return
            if isinstance(step, (int, float)):
                heapq.heappush(self.waiting, (time.monotonic() + step, next(self.numbers), connection))
                self.watch(connection, writing=False)
                return
            connection.pending = memoryview(step)
        try:
            sent = connection.socket.send(connection.pending)
        except BlockingIOError:
            return
        except OSError:
            self.did["closed_by_server"] += 1
            self.close(connection)
            return
        self.did["sent"] += sent
        connection.pending = connection.pending[sent:]


def main():
    import attacks

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(attacks.ATTACKS))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--source", default="127.0.0.2", help="address to come from; empty: the client's")
    options = parser.parse_args()
    attack = attacks.ATTACKS[options.name]
    sources = itertools.cycle([options.source])
    if attack.addresses > 1:
        sources = (f"127.0.{1 + i // 200 % 200}.{1 + i % 200}"
                   for i in itertools.cycle(range(attack.addresses)))
    print(json.dumps(Attacker(attack, options.port, options.seconds, sources).run()))


if __name__ == "__main__":
    main()
