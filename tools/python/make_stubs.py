"""Makes the rest of quire_client in a copy of this folder: v1/ from proto/quire/v1/inference.proto (messages and stubs
with their types, and the types of the keyword arguments that requests take), and the asynchronous client from the
other.

    make_stubs.py FOLDER     # needs grpcio-tools"""

import importlib
import pathlib
import re
import sys

import grpc_tools
from grpc_tools import protoc

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "proto"
NAME = "quire/v1/inference.proto"
ASYNCHRONOUS = (  # what differs from _sync.py
    (r'^""".*?"""', '"""The client of asyncio, made from _sync.py."""'),
    (r"\bQuireClient\b", "AsyncQuireClient"),
    (r"Any = grpc\b", "Any = grpc.aio"),
    (r"import grpc\b", "import grpc.aio"),
    (r"\bGenerator\[Event, None, None\]", "AsyncGenerator[Event, None]"),
    (r"\bGenerator\b", "AsyncGenerator"),
    (r"(    )def (?!generate\b)", r"\1async def "),
    (r"self\._call\(|self\.close\(|self\._channel\.close\(|(?<=return )method\(", r"await \g<0>"),
    (r"\bfor response in", "async for response in"),
    (r"or close\(\)", "or aclose()"),
    (r"__(enter|exit)__", r"__a\1__"),
)


def python_type(field):
    if field.message_type and field.message_type.GetOptions().map_entry:
        return "Mapping[{key}, {value}]".format(
            **{name: python_type(part) for name, part in field.message_type.fields_by_name.items()})
    scalars = {field.CPPTYPE_FLOAT: "float", field.CPPTYPE_DOUBLE: "float", field.CPPTYPE_BOOL: "bool",
               field.CPPTYPE_STRING: "str"}
    is_json = field.name.endswith("_json") or field.name == "json_schema"
    name = "Any" if is_json else scalars.get(field.cpp_type, "int")
    return f"Sequence[{name}]" if field.label == field.LABEL_REPEATED and not field.message_type else name


def options_of(request, groups):
    """(name, type) of what may be said beside the prompt: the request's own fields and those of its parts."""
    is_option = lambda field: field.message_type is None or field.message_type.GetOptions().map_entry
    owners = [request] + [request.fields_by_name[name].message_type for name in groups]
    fields = [field for owner in owners for field in owner.fields if is_option(field) and field.name != "text"]
    return [(field.name, python_type(field)) for field in fields]


def main():
    package = pathlib.Path(sys.argv[1]).resolve() / "quire_client"
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    code = protoc.main(["protoc", f"-I{PROTOS}", f"-I{well_known}", f"--python_out={package.parent}",
                        f"--pyi_out={package.parent}", f"--grpc_python_out={package.parent}", NAME])
    if code != 0:
        raise SystemExit(f"protoc failed on {NAME}")
    (package.parent / "quire/v1").rename(package / "v1")  # the name quire stays free for other packages
    (package.parent / "quire").rmdir()
    stubs = package / "v1/inference_pb2_grpc.py"
    stubs.write_text(stubs.read_text().replace("from quire.v1 import", "from . import"))
    (package / "v1/__init__.py").write_text("")

    text = (package / "_sync.py").read_text()
    for pattern, replacement in ASYNCHRONOUS:
        text = re.sub(pattern, replacement, text)
    (package / "_aio.py").write_text(text)

    sys.path.insert(0, str(package / "v1"))
    pb = importlib.import_module("inference_pb2")
    lines = ["from typing import Any, Mapping, Sequence, TypedDict"]
    for name, request, groups in (
            ("GenerateOptions", pb.GenerateRequest, ("sampling", "stop", "output", "choice", "text", "messages")),
            ("TokenizeOptions", pb.TokenizeRequest, ("text", "messages"))):
        lines += ["", f"class {name}(TypedDict, total=False):"]
        lines += [f"    {option}: {kind} | None" for option, kind in options_of(request.DESCRIPTOR, groups)]
    (package / "v1/options.pyi").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
