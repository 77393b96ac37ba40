#!/usr/bin/env python3
"""Checks what keeps the tree readable and the server steady: no upward include, device headers only in
their backend, file sizes; what has one home (ONE_HOME below): the clocks, JSON's parser, standard error, gRPC's library and
libcurl; and that no two files define a class of one name, which the linker would silently make one.
Prints each violation; exits 1 if there is one.

Layers: kernels < kvcache < scheduler < engine < server; proto is included by server, tools and tests
only; nothing includes tests or tools. Within a layer there is one order of folders, too (PLACES below): a
file includes its own place and those before it. kernels/cpu and kernels/cuda do not know each other.

    check_layers.py [FOLDER]      # the repository of another folder, for tests"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from repository_files import repository_files
from script_help import answer_help

answer_help(__doc__)

import re

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
# Folders within one of the server's that have an order of their own, before the folder itself.
INNER_PLACES = {
    "server/text/tokenizer/": ("file/", "regex/", "models/", "stages/"),
    "server/text/chat/": ("jinja/values/", "jinja/builtins/", "jinja/tree/", "jinja/syntax/", "jinja/"),
}


def server_places():
    """The order of the server's folders: the rows of the table in server/README.md."""
    readme = ROOT / "server/README.md"
    text = readme.read_text() if readme.is_file() else ""
    if "| wing |" not in text:  # the folder of a test
        text = (pathlib.Path(__file__).resolve().parents[2] / "server/README.md").read_text()
    places, wing = [], ""
    for line in text.splitlines():
        row = re.match(r"\| (?:`([a-z_]+/)`)? ?\| ((?:`[a-z_0-9]+/`(?:, )?)*) ?\|", line)
        if not row or not (row[1] or wing):
            continue
        wing = row[1] or wing
        for folder in re.findall(r"`([a-z_0-9]+/)`", row[2]) or [""]:
            place = f"server/{wing}{folder}"
            places += [place + inner for inner in INNER_PLACES.get(place, ())] + [place]
    return places


# From low to high; a file is in the longest of these that its path begins with.
PLACES = [
    "kernels/base/",
    "kernels/",
    "kernels/cpu/runtime/",
    "kernels/cpu/gemm/",
    "kernels/cpu/elementwise/",
    "kernels/cpu/sampling/",
    "kernels/cpu/state/",
    "kernels/cpu/experts/",
    "kernels/cpu/attention/",
    "kernels/cpu/",
    "kernels/cuda/runtime/",
    "kernels/cuda/elementwise/",
    "kernels/cuda/gemm/hopper/",
    "kernels/cuda/gemm/quantized/",
    "kernels/cuda/gemm/",
    "kernels/cuda/sampling/",
    "kernels/cuda/state/",
    "kernels/cuda/experts/",
    "kernels/cuda/attention/tiles/",
    "kernels/cuda/attention/hopper/",
    "kernels/cuda/attention/",
    "kernels/cuda/attention/trtllm/",
    "kernels/cuda/",
    # Only these name the implementations.
    "kernels/backend.cc",
    "kernels/memory_probe.cc",
    "kvcache/",
    "scheduler/",
    "engine/metrics/",
    "engine/kv_events/",
    "engine/json/",
    "engine/checkpoint/",
    "engine/model/quantization/",
    "engine/model/config/",
    "engine/model/weights/",
    "engine/model/blocks/",
    "engine/model/",
    "engine/runner/",
    "engine/",
    *server_places(),
]
LAYERS = ["kernels", "kvcache", "scheduler", "engine", "server"]
MAX_LINES = {".h": 200, ".cc": 500, ".cu": 500, ".cuh": 500}
MAX_TEST_LINES = 800
MAX_README_LINES = 100
DEVICE_HEADERS = {
    "kernels/cuda/": re.compile(r"<(cuda|cublas|nccl|nvml|curand)[A-Za-z_]*\.h(pp)?>"),
    "kernels/cpu/": re.compile(r"<(hwy/.*|oneapi/dnnl/.*|dnnl\.hpp|immintrin\.h)>|\"hwy/"),
}
# What a line may have in certain files only: what it is, where the rule holds, the files, what to do instead.
ONE_HOME = [
    # A deadline by the clock on the wall comes early or late whenever somebody sets it.
    (re.compile(r"absl::Now\(|system_clock|gettimeofday|CLOCK_REALTIME|std::time\(|absl::CondVar"
                r"|\bAwaitWith(Deadline|Timeout)\b|\bWaitWith(Deadline|Timeout)\b"),
     ("kernels/", "kvcache/", "scheduler/", "engine/", "server/", "tools/client/", "tools/bench/"),
     {"kernels/base/clock.cc"},
     "the clock on the wall steps: use MonotonicNow, MonotonicCondVar or, for a stamp, WallNow of kernels/base/clock.h"),
    (re.compile(r"\bWallNow\("),
     ("kernels/", "kvcache/", "scheduler/", "engine/", "server/", "tools/"),
     {"kernels/base/clock.h", "kernels/base/clock.cc", "engine/kv_events/kv_event_source.h",
      "server/base/file_stamp.cc", "server/request/generate/prompt.cc", "server/wire/http1/http1_answer.cc",
      "server/wire/http1/http1_connection.cc", "server/surfaces/openai/openai_answer.cc", "server/surfaces/responses/responses_answer.cc",
      "server/surfaces/vllm/kv_event_stream.cc", "server/surfaces/vllm/vllm_engine_service.cc",
      "tools/bench/run_header.cc", "tools/bench/serve/serve_run.cc"},
     "for stamps that others read; whatever waits or measures uses MonotonicNow"),
    (re.compile(r"\b(nlohmann::)?(ordered_)?[jJ]son::(parse|accept|sax_parse)\("),
     ("engine/", "server/", "tools/"), {"engine/json/parse_json.h"},
     "nlohmann's parser ends at a NUL: use engine/json/parse_json.h"),
    # A thread that writes there waits for its reader.
    (re.compile(r"\bstderr\b|std::cerr|STDERR_FILENO|stderr_sink"),
     ("kvcache/", "scheduler/", "engine/", "server/"),
     {"server/observe/log/log_setup.cc", "server/observe/log/log_writer.cc", "server/start/progress_printer.cc",
      "server/auth/check_roles_main.cc"},
     "standard error is the log's thread's: use spdlog or server/observe/log/log_writer.h"),
    # Libraries that do what server/wire/client does.
    (re.compile(r'#\s*include ["<](grpcpp/|grpc/(grpc|impl|support)|[^">]*\.grpc\.pb\.h)'),
     ("kernels/", "kvcache/", "scheduler/", "engine/", "server/", "tools/"),
     {"tools/client/grpc_channel.cc", "tools/client/grpc_log.cc", "tools/client/inference_client.cc"},
     "gRPC's library is the client quire's: use tools/client/inference_client.h or server/wire/client"),
    (re.compile(r'#\s*include ["<]curl/'),
     ("kernels/", "kvcache/", "scheduler/", "engine/", "server/", "tools/"),
     {"server/start/hub/http_client.cc"}, "libcurl downloads models: use server/wire/client"),
]
CLASS = re.compile(r"(?:struct|class|enum class)(?: alignas\(\w+\))? (\w+)(?: final)?(?: : [^;]*)?(?: \{|$)")
NAMESPACE = re.compile(r"namespace ([\w:]+) \{$")
INCLUDE = re.compile(r'^\s*#\s*include\s+("([^"]+)"|<[^>]+>)')


def source_files():
    return [pathlib.Path(name) for name in repository_files(ROOT)]


def place_of(path):
    """The rank of a file's place, or None for a file of no layer."""
    matches = [(len(place), rank) for rank, place in enumerate(PLACES) if path.startswith(place)]
    return max(matches)[1] if matches else None


def check_include(path, number, line, problems):
    match = INCLUDE.match(line)
    if not match:
        return
    top = path.parts[0]
    for folder, pattern in DEVICE_HEADERS.items():
        allowed = str(path).startswith((folder, "tools/bench/kernels/")) or top == "tests"
        if pattern.search(line) and not allowed:
            problems.append(f"{path}:{number}: {match.group(1)} belongs under {folder} only")
    header = match.group(2) or ""
    if top not in LAYERS:
        return
    if header.startswith(("tests/", "tools/")):
        problems.append(f"{path}:{number}: {top}/ may not include {header}")
    own, other = place_of(str(path)), place_of(header)
    if own is not None and other is not None and other > own:
        problems.append(f"{path}:{number}: {header} stands above {PLACES[own]}")
    backend = re.match("kernels/(cpu|cuda)/", str(path))
    if backend and header.startswith({"cpu": "kernels/cuda/", "cuda": "kernels/cpu/"}[backend[1]]):
        problems.append(f"{path}:{number}: {header} is the other backend's")
    if header.startswith("quire/") and top != "server":
        problems.append(f"{path}:{number}: only server/ and tools/ may include the wire contract")


def check_home(path, number, line, problems):
    for pattern, folders, homes, instead in ONE_HOME:
        if not str(path).startswith(folders) or str(path) in homes:
            continue
        match = pattern.search(line.split("//")[0])
        if match:
            problems.append(f"{path}:{number}: {match.group(0)} has one home: {instead}")


def check_size(path, num_lines, allowed, problems):
    limit = MAX_LINES.get(path.suffix)
    if path.name == "README.md" and len(path.parts) > 1 and path.parts[0] != "configs":
        limit = MAX_README_LINES
    if limit is None:
        return
    if path.parts[0] == "tests" and path.suffix != ".md":
        limit = MAX_TEST_LINES
    if num_lines > limit and str(path) not in allowed:
        problems.append(f"{path}: {num_lines} lines, at most {limit} "
                        "(split it by concept, or give a reason in tools/lint/size_allow.txt)")


def find_classes(path, lines, homes, problems):
    """Adds to `homes`, by full name, what the file defines outside of unnamed namespaces and other classes."""
    if path.parts[0] not in [*LAYERS, "tools"]:
        return
    names = []
    for number, line in enumerate(lines, 1):
        if line == "namespace {":
            names.append(None)
        elif opened := NAMESPACE.match(line):
            names.append(opened[1])
        elif line.startswith("}  // namespace") and names:
            names.pop()
        elif (defined := CLASS.match(line)) and None not in names:
            name = "::".join([*names, defined[1]])
            home = homes.setdefault(name, path)
            if home != path:
                problems.append(f"{path}:{number}: {name} is a class of {home}, too: give it another name")


def main():
    allowed = set()
    allow_list = ROOT / "tools/lint/size_allow.txt"
    for line in allow_list.read_text().splitlines() if allow_list.exists() else []:
        if line.strip() and not line.startswith("#"):
            allowed.add(line.split(":")[0].strip())
    problems, homes = [], {}
    for path in source_files():
        if path.suffix not in MAX_LINES and path.name != "README.md":
            continue
        lines = (ROOT / path).read_text().splitlines()
        check_size(path, len(lines), allowed, problems)
        find_classes(path, lines, homes, problems)
        if path.parts[0] in LAYERS and path.suffix in MAX_LINES and place_of(str(path)) is None:
            problems.append(f"{path}: its folder has no row in the table of server/README.md")
        for number, line in enumerate(lines, 1):
            check_include(path, number, line, problems)
            check_home(path, number, line, problems)
    for folder in [*LAYERS, "proto", "configs", "tools", "tests"]:
        if not (ROOT / folder / "README.md").is_file():
            problems.append(f"{folder}/README.md is missing")
    print("\n".join(problems) if problems else "layers, device headers, sizes, homes and names are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
