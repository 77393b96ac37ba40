#!/usr/bin/env python3
"""Checks what keeps the tree readable: no upward include, device headers only in their backend, file
sizes. Prints each violation; exits 1 if there is one.

Layers: kernels < kvcache < scheduler < engine < server; proto is included by server, tools and tests
only; nothing includes tests or tools."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANK = {"kernels": 0, "kvcache": 1, "scheduler": 2, "engine": 3, "server": 4}
MAX_LINES = {".h": 200, ".cc": 500, ".cu": 500, ".cuh": 500}
MAX_TEST_LINES = 800
MAX_README_LINES = 100
DEVICE_HEADERS = {
    "kernels/cuda/": re.compile(r"<(cuda|cublas|nccl|nvml|curand)[A-Za-z_]*\.h(pp)?>"),
    "kernels/cpu/": re.compile(r"<(hwy/.*|oneapi/dnnl/.*|dnnl\.hpp|immintrin\.h)>|\"hwy/"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+("([^"]+)"|<[^>]+>)')


def source_files():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [pathlib.Path(name) for name in listed if (ROOT / name).is_file()]


def check_include(path, number, line, problems):
    match = INCLUDE.match(line)
    if not match:
        return
    top = path.parts[0]
    for folder, pattern in DEVICE_HEADERS.items():
        allowed = str(path).startswith(folder) or top == "tests"
        if pattern.search(line) and not allowed:
            problems.append(f"{path}:{number}: {match.group(1)} belongs under {folder} only")
    included = (match.group(2) or "").split("/")[0]
    if top not in RANK:
        return
    if included in ("tests", "tools"):
        problems.append(f"{path}:{number}: {top}/ may not include {included}/")
    if included in RANK and RANK[included] > RANK[top]:
        problems.append(f"{path}:{number}: upward include of {included}/ from {top}/")
    if included == "quire" and top != "server":
        problems.append(f"{path}:{number}: only server/ and tools/ may include the wire contract")


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


def main():
    allowed = set()
    for line in (ROOT / "tools/lint/size_allow.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            allowed.add(line.split(":")[0].strip())
    problems = []
    for path in source_files():
        if path.suffix not in MAX_LINES and path.name != "README.md":
            continue
        lines = (ROOT / path).read_text().splitlines()
        check_size(path, len(lines), allowed, problems)
        for number, line in enumerate(lines, 1):
            check_include(path, number, line, problems)
    for folder in [*RANK, "proto", "configs", "tools", "tests"]:
        if not (ROOT / folder / "README.md").is_file():
            problems.append(f"{folder}/README.md is missing")
    print("\n".join(problems) if problems else "layers, device headers and sizes are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
