"""The contract vllm.grpc.engine.VllmEngine as its clients have it: the .proto files of the package smg-grpc-proto,
from tests/requirements-files.txt, made into Python modules and into facts that can be compared."""

import importlib
import importlib.util
import pathlib
import sys
import tempfile

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("vllm.grpc.engine", "smg.grpc.common")
OURS = (ROOT / "proto", "vllm/grpc/engine/vllm_engine.proto")


def theirs():
    """Folder and file of the package; ImportError without it."""
    spec = importlib.util.find_spec("smg_grpc_proto")
    if spec is None:
        raise ImportError("no package smg-grpc-proto")
    return pathlib.Path(spec.origin).parent / "proto", "vllm_engine.proto"


def run_protoc(*arguments):
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    if protoc.main(["protoc", f"-I{well_known}", *map(str, arguments)]) != 0:
        raise RuntimeError(f"protoc failed: {arguments}")


def load():
    """(messages, stubs, common messages) of the package."""
    include, name = theirs()
    with tempfile.TemporaryDirectory(prefix="quire_vllm_") as folder:
        run_protoc(f"-I{include}", f"--python_out={folder}", f"--grpc_python_out={folder}", name, "common.proto")
        sys.path.insert(0, folder)
        try:
            return [importlib.import_module(module) for module in
                    ("vllm_engine_pb2", "vllm_engine_pb2_grpc", "common_pb2")]
        finally:
            sys.path.remove(folder)


def load_inference():
    """(vllm.Inference's messages, its stubs, vllm.Control's messages, its stubs), of our files: their own are in no
    package."""
    names = ("vllm/inference.proto", "vllm/control.proto")
    with tempfile.TemporaryDirectory(prefix="quire_vllm_") as folder:
        run_protoc(f"-I{ROOT / 'proto'}", f"--python_out={folder}", f"--grpc_python_out={folder}", *names)
        sys.path.insert(0, folder)
        try:
            return [importlib.import_module(module) for module in
                    ("vllm.inference_pb2", "vllm.inference_pb2_grpc", "vllm.control_pb2", "vllm.control_pb2_grpc")]
        finally:
            sys.path.remove(folder)


def file_facts(file):
    """{"package.Message.field": (number, type, label, type name, oneof, optional)}, and the same of enums and
    methods, of one file's descriptor."""
    found = {}

    def add_enum(prefix, enum):
        found.update({f"{prefix}.{enum.name}.{value.name}": value.number for value in enum.value})

    def add(prefix, message):
        path = f"{prefix}.{message.name}"
        found[path] = tuple((span.start, span.end) for span in message.reserved_range)
        for field in message.field:
            oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
            found[f"{path}.{field.name}"] = (field.number, field.type, field.label, field.type_name, oneof,
                                             field.proto3_optional)
        for nested in message.nested_type:
            add(path, nested)
        for enum in message.enum_type:
            add_enum(path, enum)

    for message in file.message_type:
        add(file.package, message)
    for enum in file.enum_type:
        add_enum(file.package, enum)
    for service in file.service:
        for method in service.method:
            found[f"{file.package}.{service.name}.{method.name}"] = (
                method.input_type, method.output_type, method.client_streaming, method.server_streaming)
    return found


def facts(include, name):
    """What file_facts tells, of a file and those that it imports, where they are in PACKAGES."""
    with tempfile.NamedTemporaryFile() as file:
        run_protoc(f"-I{include}", "--include_imports", f"--descriptor_set_out={file.name}", name)
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file
    found = {}
    for file in files:
        if file.package in PACKAGES:
            found.update(file_facts(file))
    return found
