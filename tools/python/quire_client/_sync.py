"""The client of threads; one may be shared by many. make_stubs.py makes the asynchronous one, _aio.py, from this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generator, Optional, Sequence

import grpc

from ._connection import Connection
from ._errors import error_of
from ._request import Event, Prompt, make_request
from .v1 import inference_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .v1.options import GenerateOptions, TokenizeOptions


class QuireClient(Connection):
    __doc__ = Connection.__doc__
    _grpc: Any = grpc

    def generate(self, prompt: Prompt, *, timeout: Optional[float] = None,
                 **options: Unpack[GenerateOptions]) -> Generator[Event, None, None]:
        """Started, Delta and Finished events. Leaving the loop, or close(), cancels the request."""
        return self._stream(make_request(pb.GenerateRequest(), prompt, options), timeout)

    def generate_once(self, prompt: Prompt, *, timeout: Optional[float] = None,
                      **options: Unpack[GenerateOptions]) -> pb.GenerateOnceResponse:
        return self._call(self._inference.GenerateOnce, make_request(pb.GenerateRequest(), prompt, options), timeout)

    def tokenize(self, prompt: Prompt, *, timeout: Optional[float] = None,
                 **options: Unpack[TokenizeOptions]) -> pb.TokenizeResponse:
        return self._call(self._inference.Tokenize, make_request(pb.TokenizeRequest(), prompt, options), timeout)

    def detokenize(self, ids: Sequence[int], *, skip_special_tokens: Optional[bool] = None) -> str:
        request = pb.DetokenizeRequest(ids=ids, skip_special_tokens=skip_special_tokens)
        answer: pb.DetokenizeResponse = self._call(self._inference.Detokenize, request)
        return answer.text

    def get_model(self) -> pb.GetModelResponse:
        return self._call(self._inference.GetModel, pb.GetModelRequest())

    def status(self) -> pb.GetStatusResponse:
        return self._call(self._admin.GetStatus, pb.GetStatusRequest())

    def abort(self, request_id: str, *, principal: str = "") -> bool:
        """Whether there was such a request."""
        request = pb.AbortRequest(request_id=request_id, principal=principal)
        answer: pb.AbortResponse = self._call(self._admin.Abort, request)
        return answer.found

    def flush(self) -> int:
        """Empties the prefix cache; how many blocks it had."""
        answer: pb.FlushPrefixCacheResponse = self._call(self._admin.FlushPrefixCache, pb.FlushPrefixCacheRequest())
        return answer.blocks

    def health(self, *, timeout: Optional[float] = None) -> bool:
        """Whether the server serves; Unavailable if there is none."""
        return self._call(self._health, None, timeout)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _call(self, method: Any, request: Any, timeout: Optional[float] = None) -> Any:
        try:
            return method(request, **self._context(timeout))
        except grpc.RpcError as error:
            raise error_of(error) from None

    def _stream(self, request: Any, timeout: Optional[float]) -> Generator[Event, None, None]:
        call = self._inference.Generate(request, **self._context(timeout))
        try:
            for response in call:
                yield getattr(response, response.WhichOneof("event"))
        except grpc.RpcError as error:
            raise error_of(error) from None
        finally:
            call.cancel()
