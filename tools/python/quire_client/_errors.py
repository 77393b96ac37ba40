"""What calls raise."""

from __future__ import annotations

from typing import Any, Optional


class QuireError(Exception):
    """A call that failed: gRPC's name of the status, what the server says, and after how many seconds to try again."""

    def __init__(self, code: str, message: str, retry_after: Optional[float] = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.retry_after = code, message, retry_after


class InvalidArgument(QuireError): ...
class NotFound(QuireError): ...
class AlreadyExists(QuireError): ...
class PermissionDenied(QuireError): ...
class Unauthenticated(QuireError): ...
class ResourceExhausted(QuireError): ...
class Unavailable(QuireError): ...
class DeadlineExceeded(QuireError): ...


def error_of(error: Any) -> QuireError:
    """The QuireError of a grpc.RpcError that ended a call."""
    code = error.code().name
    kind = {kind.__name__: kind for kind in QuireError.__subclasses__()}.get(code.title().replace("_", ""), QuireError)
    pushback = dict(error.trailing_metadata() or ()).get("grpc-retry-pushback-ms")
    return kind(code, error.details() or "", None if pushback is None else int(pushback) / 1000)
