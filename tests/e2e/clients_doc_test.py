"""Runs the programs of docs/clients.md, as readme_test.py runs README.md's commands, against a server on a free port. A
language that this machine lacks is named. Versions that the document names are those of tests/requirements*.txt."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import ROOT, Server, main
from readme_test import Missing, Reader, blocks, clone, follow

DOCUMENT = "docs/clients.md"
TEXT = (ROOT / DOCUMENT).read_text()
JARS = "/usr/share/java/*"


def need(*programs):
    for program in programs:
        path = shutil.which(program)
        if path is None or subprocess.run([path, "--help"], capture_output=True, check=False).returncode == 127:
            raise Missing(f"no {program}")


def write(folder, name, source):
    path = folder / "build/snippets" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return path


def python(folder, source):
    return f".venv/bin/python {write(folder, 'snippet.py', source)}"


def js(folder, source):
    need("node")
    return f"node {write(folder, 'snippet.mjs', source)}"


def java(folder, source):
    need("java")
    name = re.search(r"public class (\w+)", source)[1]
    path = write(folder, f"{name}.java", source)
    if "io.grpc" not in source:
        return f"java {path}"
    need("javac", "protoc", "grpc_java_plugin")
    for jar in ("grpc-stub", "grpc-netty", "protobuf", "perfmark-api", "netty-all"):
        if not glob.glob(f"/usr/share/java/{jar}.jar"):
            raise Missing(f"no {jar}.jar of Debian")
    made = path.parent / "java"
    made.mkdir()
    return (f"protoc -Iproto --java_out={made} --grpc-java_out={made} "
            f"--plugin=protoc-gen-grpc-java=$(command -v grpc_java_plugin) quire/v1/inference.proto\n"
            f"javac -nowarn -cp '{JARS}' -d {made}/classes {made}/quire/v1/*.java\n"
            f"java -cp '{made}/classes:{JARS}' {path}")


def go(folder, source):
    need("go")
    if "google.golang.org/grpc" not in source:
        return f"go run {write(folder, 'go/http/main.go', source)}"
    need("protoc", "protoc-gen-go", "protoc-gen-go-grpc")
    if not os.path.isdir("/usr/share/gocode/src/google.golang.org/grpc"):
        raise Missing("no golang-google-grpc-dev of Debian")
    module = write(folder, "go/src/quire/main.go", source).parent
    # The document's commands make this in a module. Here it is in a GOPATH with Debian's packages.
    options = "module=quire,Mquire/v1/inference.proto=quire/quirepb"
    return (f"protoc -Iproto --go_out={module} --go_opt={options} --go-grpc_out={module} --go-grpc_opt={options} "
            f"quire/v1/inference.proto\ncd {module}\n"
            f"GO111MODULE=off GOPATH={module.parents[1]}:/usr/share/gocode go run main.go")


class ClientsDocumentTest(unittest.TestCase):
    def test_every_block(self):
        with tempfile.TemporaryDirectory(prefix="quire_clients_") as folder, Server() as server:
            folder = pathlib.Path(folder)
            clone(folder)
            (folder / "build").mkdir()
            environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIRE_")}
            environment.update(GOCACHE=str(folder / "build/go-cache"), no_proxy="127.0.0.1")
            reader = Reader(folder, environment)
            self.assertIn("127.0.0.1:8000", TEXT)
            follow(reader, DOCUMENT, TEXT.replace("127.0.0.1:8000", server.target),
                   {"python": python, "js": js, "java": java, "go": go})
            reader.press_ctrl_c()

    def test_what_is_not_run_is_said(self):
        languages = {language for _, _, language, _ in blocks(DOCUMENT, TEXT)}
        self.assertEqual(languages, {"bash", "python", "js", "java", "go"})
        unrun = [place for place, how, _, _ in blocks(DOCUMENT, TEXT) if how.startswith("no,")]
        self.assertEqual(len(unrun), 2, "the section How each was checked counts them")

    def test_versions_are_those_of_the_tests(self):
        pinned = "".join((ROOT / "tests" / name).read_text().replace("\n", " ")
                         for name in ("requirements.txt", "requirements-files.txt"))
        named = re.findall(r"`([\w\[\]-]+==[\w.]+)`", TEXT)
        self.assertGreater(len(named), 5)
        for version in named:
            self.assertIn(f" {version} ", f" {pinned} ")


if __name__ == "__main__":
    main()
