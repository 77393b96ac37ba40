"""Python's view of proto/: modules that protoc makes. A bundle has them made already, in stubs/; in a checkout they
are made for each run, with grpcio-tools."""

import importlib
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = ROOT / "stubs"
# The generated package must not shadow the grpc package: health goes in by itself.
PROTOS = (("proto", "quire/v1/inference.proto"), ("proto/grpc/health/v1", "health.proto"))
MODULES = ("quire.v1.inference_pb2", "quire.v1.inference_pb2_grpc", "health_pb2", "health_pb2_grpc")


def load():
    """The modules of MODULES. ImportError when grpcio, or what makes them, is missing."""
    import grpc  # noqa: F401: says so before anything is made
    if MADE.is_dir():
        return _import_from(MADE)
    import grpc_tools
    from grpc_tools import protoc
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"  # google/protobuf/*.proto
    with tempfile.TemporaryDirectory(prefix="quire_protos_") as folder:
        for include, proto in PROTOS:
            code = protoc.main(["protoc", f"-I{ROOT / include}", f"-I{well_known}",
                                f"--python_out={folder}", f"--grpc_python_out={folder}", proto])
            if code != 0:
                raise RuntimeError(f"protoc failed on {proto}")
        return _import_from(folder)


def _import_from(folder):
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(name) for name in MODULES]
    finally:
        sys.path.remove(str(folder))
