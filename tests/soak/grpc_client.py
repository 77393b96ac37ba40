"""Many gRPC calls at a time by one thread: a client that costs little beside the server it loads, and that can do
what libraries do not let their users do (reset a connection, never read). Needs nothing but Python."""

import collections
import heapq
import itertools
import pathlib
import selectors
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "attack"))

import wire  # noqa: E402

HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE = 1, 4
WINDOW = 1 << 30
# With a header table of size 0 the server writes every field in full: the name "grpc-status" in RFC 7541's Huffman
# code, then the value, which is too short to be coded.
GRPC_STATUS = bytes.fromhex("889acac8b21234da8f")
_NO_DELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def message_head(path, timeout_ms=None):
    """The header block of a call, which many calls share. It begins by giving up the header table (RFC 7541, 6.3):
    the server's is smaller than the one that connections begin with, and that has to be confirmed."""
    extra = () if timeout_ms is None else (("grpc-timeout", f"{timeout_ms}m"),)
    return b"\x20" + wire.head(path, *extra)


class Call:
    """One call: `head` and `body` are bytes, `on_end(call)` hears how it ended: `status` is gRPC's number, or a text
    when the server gave none. `num_messages` are the answer's; `answer` has them all, with their prefixes, for who
    asks for it with `keeps`."""

    __slots__ = ("kind", "head", "body", "on_end", "on_message", "begin", "end", "status", "num_messages", "stream",
                 "connection", "left", "answer")

    def __init__(self, kind, head, body, on_end, on_message=None, keeps=False):
        self.kind, self.head, self.body, self.on_end, self.on_message = kind, head, body, on_end, on_message
        self.begin = self.end = 0.0
        self.status, self.num_messages, self.stream, self.connection = None, 0, 0, None
        self.left = 0  # bytes of a message that are still to come
        self.answer = bytearray() if keeps else None

    def cancel(self):
        """As clients cancel: RST_STREAM."""
        if self.status is None and self.connection is not None:
            self.connection.send(wire.frame(wire.RST_STREAM, 0, self.stream, struct.pack(">I", wire.CANCEL)))
            self.connection.finish(self, "cancelled")


class Connection:
    """One connection of a Loop. `reads` False: its windows are closed and nothing is ever read."""

    def __init__(self, loop, source="", reads=True):
        self.loop, self.reads = loop, reads
        self.calls, self.next_stream = {}, 1
        self.input, self.output, self.received = b"", bytearray(), 0
        self.closed, self.goaway = False, False
        self.on_close = lambda: None
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(*_NO_DELAY)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect_ex(("127.0.0.1", loop.port))
        self.events = selectors.EVENT_READ
        loop.selector.register(self.socket, self.events, self)
        self.send(wire.PREFACE + wire.settings(s1=0, s4=WINDOW if reads else 0))
        if reads:
            self.send(wire.frame(wire.WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW)))

    @property
    def usable(self):
        return not (self.closed or self.goaway or self.next_stream > 1 << 30)

    def start(self, call):
        call.connection, call.stream, call.begin = self, self.next_stream, time.monotonic()
        self.next_stream += 2
        if self.closed:
            self.loop.at(0, lambda: self.finish(call, "connection lost"))
            return
        self.calls[call.stream] = call
        self.send(wire.frame(wire.HEADERS, wire.END_HEADERS, call.stream, call.head) +
                  wire.data(call.stream, wire.message(call.body), end=True))

    def send(self, data):
        if not self.output:
            self.loop.unsent.append(self)
        self.output += data

    def flush(self):
        if self.closed or not self.output:
            return
        try:
            sent = self.socket.send(self.output)
            del self.output[:sent]
        except BlockingIOError:
            pass
        except OSError:
            # While the connection is being made there is ENOTCONN; its end shows when it is read.
            pass
        self.watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if self.output else 0))

    def watch(self, events):
        if events != self.events and not self.closed:
            self.events = events
            self.loop.selector.modify(self.socket, events, self)

    def on_ready(self, events):
        if events & selectors.EVENT_READ:
            self.read()
        if events & selectors.EVENT_WRITE and not self.closed:
            self.flush()

    def read(self):
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.lost("connection lost")
            return
        self.received += len(data)
        if self.reads and self.received > WINDOW // 2:
            self.send(wire.frame(wire.WINDOW_UPDATE, 0, 0, struct.pack(">I", self.received)))
            self.received = 0
        data = self.input + data if self.input else data
        at, size = 0, len(data)
        while size - at >= 9:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if size - at < 9 + length:
                break
            self.on_frame(data[at + 3], data[at + 4], int.from_bytes(data[at + 5:at + 9], "big") & 0x7fffffff,
                          data[at + 9:at + 9 + length])
            at += 9 + length
        self.input = data[at:]

    def on_frame(self, kind, flags, stream, payload):
        call = self.calls.get(stream)
        if kind == wire.DATA:
            if call is not None:
                self.on_data(call, payload)
        elif kind == wire.HEADERS:
            if call is not None and flags & wire.END_STREAM:
                self.finish(call, status_of(payload))
        elif kind == wire.SETTINGS:
            if not flags & wire.ACK:
                self.send(wire.frame(wire.SETTINGS, wire.ACK))
        elif kind == wire.PING:
            if not flags & wire.ACK:
                self.send(wire.frame(wire.PING, wire.ACK, 0, payload))
        elif kind == wire.RST_STREAM:
            if call is not None:
                self.finish(call, f"reset with {int.from_bytes(payload, 'big')}")
        elif kind == wire.GOAWAY:
            self.goaway = payload[8:].decode("latin-1") or f"GOAWAY {int.from_bytes(payload[4:8], 'big')}"

    def on_data(self, call, payload):
        if call.answer is not None:
            call.answer += payload
        at = 0
        while at < len(payload):
            if call.left == 0:
                # Our server writes no prefix in two frames.
                call.left = int.from_bytes(payload[at + 1:at + 5], "big")
                at += 5
            taken = min(call.left, len(payload) - at)
            at += taken
            call.left -= taken
            if call.left == 0:
                call.num_messages += 1
                if call.on_message is not None:
                    call.on_message(call)

    def finish(self, call, status):
        self.calls.pop(call.stream, None)
        call.status, call.end = status, time.monotonic()
        call.on_end(call)

    def lost(self, why):
        if self.closed:
            return
        self.close()
        for call in list(self.calls.values()):
            self.finish(call, self.goaway or why)
        self.on_close()

    def close(self, reset=False):
        """Ends the connection with what runs on it, whose calls end with no word to them."""
        if self.closed:
            return
        self.closed = True
        self.loop.selector.unregister(self.socket)
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def status_of(block):
    """gRPC's status in a header block of our server's, or a text."""
    at = block.find(GRPC_STATUS)
    if at < 0:
        return "no grpc-status"
    at += len(GRPC_STATUS)
    return int(block[at + 1:at + 1 + block[at]])


def messages(answer):
    """The messages of an answer that was kept."""
    at = 0
    while at < len(answer):
        end = at + 5 + int.from_bytes(answer[at + 1:at + 5], "big")
        yield bytes(answer[at + 5:end])
        at = end


def fields(message):
    """(number, value) of the fields of a Protobuf message: numbers, or the bytes of what is no varint."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        yield key >> 3, message[at:at + size]
        at += size


class Loop:
    """Connections to one port, and timers."""

    def __init__(self, port):
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.timers, self.numbers = [], itertools.count()
        self.unsent = collections.deque()

    def at(self, when, work):
        heapq.heappush(self.timers, (when, next(self.numbers), work))

    def turn(self, most=0.05):
        """Everything that is due now, or within `most` seconds."""
        while self.unsent:
            self.unsent.popleft().flush()
        wait = most
        if self.timers:
            wait = min(most, max(0.0, self.timers[0][0] - time.monotonic()))
        for key, events in self.selector.select(wait):
            key.data.on_ready(events)
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            heapq.heappop(self.timers)[2]()
