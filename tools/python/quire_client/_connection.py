"""What both clients have in common: where the server is, what it is shown, and how long a call may take."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any, Dict, Optional, Union

import grpc

from .v1 import inference_pb2_grpc as rpc

Path = Union[str, "os.PathLike[str]"]
_TARGET = re.compile(r"(?:(?:http|grpc)(s?)://)?(\[[0-9a-f:.]+(?:%[\w.-]+)?\]|[\w.-]+)(?::(\d{1,5}))?/?", re.I | re.A)


class Connection:
    """`target` is HOST:PORT, or https://HOST:PORT for TLS. What is None comes from QUIRE_TARGET, QUIRE_API_KEY,
    QUIRE_CA_FILE, QUIRE_CLIENT_CERT and QUIRE_CLIENT_KEY. `timeout` is the deadline of calls in seconds, none unless
    given. A call that is refused with RESOURCE_EXHAUSTED or UNAVAILABLE before it began to answer is tried again up
    to `retries` times (at most 4), after the time that the server names."""

    _grpc: Any  # the module that makes the channel

    def __init__(self, target: Optional[str] = None, *, api_key: Optional[str] = None, ca: Optional[Path] = None,
                 certificate: Optional[Path] = None, certificate_key: Optional[Path] = None,
                 timeout: Optional[float] = None, retries: int = 4) -> None:
        target = target or os.environ.get("QUIRE_TARGET") or "127.0.0.1:8000"
        match = _TARGET.fullmatch(target)
        if not match or not 0 < int(match[3] or 8000) < 65536:
            raise ValueError(f"{target!r} is no address; write HOST:PORT, such as 127.0.0.1:8000, or https://HOST:PORT")
        key = (os.environ.get("QUIRE_API_KEY", "") if api_key is None else api_key).strip()
        if not re.fullmatch("[!-~]*", key):
            raise ValueError("no API key has spaces, control characters or letters beyond ASCII; is it a file's name?")
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()
        if not 0 <= retries <= 4:
            raise ValueError(f"retries={retries}: gRPC tries again 0 to 4 times")
        self._timeout = timeout
        policy = {"maxAttempts": retries + 1, "initialBackoff": "0.1s", "maxBackoff": "5s", "backoffMultiplier": 2,
                  "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}
        config = {"methodConfig": [{"name": [{}], **({"retryPolicy": policy} if retries > 0 else {})}]}
        options = [("grpc.service_config", json.dumps(config)), ("grpc.enable_http_proxy", 0),
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 1000),
                   ("grpc.per_rpc_retry_buffer_size", 2**26),  # what is larger is not tried again; by default 256 KiB
                   ("grpc.max_receive_message_length", -1)]  # logprobs of long prompts
        address = f"{match[2]}:{match[3] or 8000}"
        if match[1]:
            files = (_read(ca, "QUIRE_CA_FILE"), _read(certificate_key, "QUIRE_CLIENT_KEY"),
                     _read(certificate, "QUIRE_CLIENT_CERT"))
            self._channel = self._grpc.secure_channel(address, grpc.ssl_channel_credentials(*files), options)
        else:
            self._channel = self._grpc.insecure_channel(address, options)
        self._inference, self._admin = rpc.InferenceStub(self._channel), rpc.AdminStub(self._channel)
        # The standard health service, without its stubs: the request names no service, and the answer is SERVING.
        check = self._channel.unary_unary("/grpc.health.v1.Health/Check", None, lambda answer: answer == b"\x08\x01")
        self._health = lambda request, **context: check(b"", **context)

    def _context(self, timeout: Optional[float]) -> Dict[str, Any]:
        return {"metadata": self._metadata, "timeout": self._timeout if timeout is None else timeout}


def _read(path: Optional[Path], variable: str) -> Optional[bytes]:
    path = path or os.environ.get(variable)
    return pathlib.Path(path).read_bytes() if path else None
