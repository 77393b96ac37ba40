"""HTTP/2 frames, HPACK literals, gRPC messages and Protobuf fields, written by hand: an attacker must be able
to write what no library would. Needs nothing but Python."""

import json
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8
INITIAL_WINDOW_SIZE = 4
CANCEL = 8


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """`length` may lie."""
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values):
    """By number: settings(s4=0) is an initial window of nothing."""
    return frame(SETTINGS, 0, 0, b"".join(
        struct.pack(">HI", int(name[1:]), value) for name, value in values.items()))


OPENING = PREFACE + settings()


def integer(value, prefix_bits, first=0):
    """RFC 7541, 5.1."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first | value])
    out = [first | limit]
    value -= limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + [value])


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return integer(len(value), 7) + value


def literal(name, value, indexed=False):
    return (b"\x40" if indexed else b"\x00") + text(name) + text(value)


def head(path, *extra, content_type="application/grpc", method="POST"):
    """The header block of a gRPC request."""
    block = b"".join(literal(*field) for field in (
        (":method", method), (":scheme", "http"), (":path", path), (":authority", "x")))
    if content_type:
        block += literal("content-type", content_type)
    return block + literal("te", "trailers") + b"".join(literal(*field) for field in extra)


def json_head(path, *extra):
    """The header block of a request with a JSON body."""
    return b"".join(literal(*field) for field in (
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "127.0.0.1"),
        ("content-type", "application/json"), *extra))


def http1(path, body, length=None):
    """A request of HTTP/1.1; `length` may lie."""
    head_lines = (f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json",
                  f"content-length: {len(body) if length is None else length}")
    return "\r\n".join((*head_lines, "", "")).encode() + body


def completion(num_prompts, n, max_tokens=1000, **more):
    """The body of a request for OpenAI's completions."""
    return json.dumps({"prompt": ["the quick brown fox"] * num_prompts, "n": n, "max_tokens": max_tokens,
                       "ignore_eos": True, **more}).encode()


def message(body=b"", length=None):
    return b"\0" + struct.pack(">I", len(body) if length is None else length) + body


def data(stream, payload, end=False):
    """DATA frames of at most 16 KiB."""
    pieces = [payload[i:i + 16384] for i in range(0, len(payload), 16384)] or [b""]
    return b"".join(frame(DATA, END_STREAM if end and i == len(pieces) - 1 else 0, stream, piece)
                    for i, piece in enumerate(pieces))


def request(stream, path, body=b"", *extra):
    """A whole unary request."""
    return frame(HEADERS, END_HEADERS, stream, head(path, *extra)) + data(stream, message(body), end=True)


def field(number, value):
    """A Protobuf field: bytes, text or a number of zero or more."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


INFERENCE = "/quire.v1.Inference/"
GET_MODEL, TOKENIZE = INFERENCE + "GetModel", INFERENCE + "Tokenize"
GET_TOKENIZER = "/vllm.grpc.engine.VllmEngine/GetTokenizer"
COMPLETIONS = "/v1/completions"
GENERATE, GENERATE_ONCE = INFERENCE + "Generate", INFERENCE + "GenerateOnce"
WATCH, CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def tokenize(words):
    return field(1, field(1, words)) + field(3, 1)  # the tokens' texts too


def generate(words, max_tokens=16, logprobs=None, n=None):
    output = b"" if logprobs is None else field(8, field(1, logprobs) + field(2, logprobs))
    sampling = b"" if n is None else field(6, field(9, n))
    return (field(3, field(1, words)) + sampling +
            field(7, field(1, max_tokens) + field(5, 1)) + output)
