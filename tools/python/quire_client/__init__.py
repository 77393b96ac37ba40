"""Client of the Quire inference server: QuireClient and, for asyncio, AsyncQuireClient."""

from importlib.metadata import version

from ._aio import AsyncQuireClient
from ._errors import (AlreadyExists, DeadlineExceeded, InvalidArgument, NotFound, PermissionDenied, QuireError,
                      ResourceExhausted, Unauthenticated, Unavailable)
from ._sync import QuireClient
from .v1.inference_pb2 import Delta, Finished, Started

__version__ = version("quire-client")
__all__ = ["AlreadyExists", "AsyncQuireClient", "DeadlineExceeded", "Delta", "Finished", "InvalidArgument", "NotFound",
           "PermissionDenied", "QuireClient", "QuireError", "ResourceExhausted", "Started", "Unauthenticated",
           "Unavailable"]
