"""From Python's values to messages, as the descriptors of the contract say."""

from __future__ import annotations

import difflib
import json
from typing import Any, Mapping, Sequence, TypeVar, Union

from .v1.inference_pb2 import Delta, Finished, Started

Event = Union[Started, Delta, Finished]
Prompt = Union[str, Sequence[int], Sequence[Mapping[str, Any]]]  # text, token ids, or chat messages
Request = TypeVar("Request", bound=Any)


def make_request(request: Request, prompt: Prompt, options: Mapping[str, Any]) -> Request:
    """Fills `request`. An option that neither it, its parts nor its kind of prompt has is a TypeError."""
    fields = request.DESCRIPTOR.fields_by_name
    kind = "text" if isinstance(prompt, str) else "token_ids"
    if kind == "token_ids" and len(prompt) > 0 and isinstance(prompt[0], Mapping):
        kind = "messages"
    if kind not in fields:
        raise TypeError("the prompt must be a string or messages")
    part = getattr(request, kind)
    part.SetInParent()
    if isinstance(prompt, str):
        part.text = prompt
    elif kind == "token_ids":
        part.ids.extend(prompt)
    else:
        part.messages.extend(_message(type(part)().messages.add(), message) for message in prompt)
    owners = [request] + [getattr(request, name) for name in ("sampling", "stop", "output", "choice", kind)
                          if name in fields]
    allowed = {field.name: (owner, field) for owner in owners for field in owner.DESCRIPTOR.fields
               if field.name not in ("text", "ids")
               and (not field.message_type or field.message_type.GetOptions().map_entry)}
    for name, value in options.items():
        if name not in allowed:
            near = " or ".join(difflib.get_close_matches(name, allowed))
            raise TypeError(f"a request with {kind} has no option {name}" + (f"; did you mean {near}?" if near else ""))
        if value is not None:
            _set(*allowed[name], value)
    return request


def _set(owner: Any, field: Any, value: Any) -> None:
    if isinstance(value, str):
        value = [value] if hasattr(getattr(owner, field.name), "extend") else value  # one string where several may be
    elif field.name.endswith("_json") or field.name == "json_schema":
        value = json.dumps(value)
    try:
        owner.MergeFrom(type(owner)(**{field.name: value}))
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{field.name}={value!r}: {error}") from None


def _message(message: Any, values: Mapping[str, Any]) -> Any:
    """One of the chat: members beside role and content are for the template."""
    extra = {name: value for name, value in values.items() if name != "role"}
    message.role = values.get("role", "")
    if isinstance(extra.get("content"), str):
        message.content = extra.pop("content")
    message.extra_json = json.dumps(extra) if extra else ""
    return message
