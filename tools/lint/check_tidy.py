#!/usr/bin/env python3
"""clang-tidy over our sources, as many at a time as there are cores. What passed is remembered by the
contents of the file and of the headers it includes, so that only what changed is checked again. Run by the
Python of build/venv-test, which has clang-tidy beside it (tests/requirements.txt); exits 77 (skipped) where
that is missing.

    check_tidy.py [FILE...]      # default: every .cc file outside tests/ in the compilation database"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import concurrent.futures
import hashlib
import json
import os
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
PASSED = BUILD / "tidy_passed.json"
# Written for GCC's target pragma, which clang ignores: clang would see intrinsics it may not use.
EXCLUDED = ("kernels/cpu/gemm/gemm_avx", "kernels/cpu/gemm/gemm_amx", "tools/bench/kernels/attention_bench")


def sources():
    """{source: [headers of ours that it includes]}, from ninja's record of the last build."""
    listed = subprocess.run(["ninja", "-C", str(BUILD), "-t", "deps"], check=True,
                            capture_output=True, text=True).stdout
    result = {}
    for entry in listed.split("\n\n"):
        # Some compilers' wrappers write paths relative to the build folder.
        files = [os.path.relpath(BUILD / line.strip(), ROOT) for line in entry.split("\n")[1:]]
        ours = [name for name in files
                if not name.startswith(("build", "..")) and (ROOT / name).is_file()]
        source = next((name for name in ours if name.endswith(".cc")), None)
        if source and not source.startswith(("tests/", *EXCLUDED)):
            result[source] = sorted(ours)
    return result


def digest(rules, names):
    result = hashlib.sha256(rules)
    for name in names:
        result.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return result.hexdigest()


def main():
    tidy = pathlib.Path(sys.executable).with_name("clang-tidy")
    if not tidy.exists() or not (BUILD / "compile_commands.json").exists():
        print("skipped: clang-tidy or compile_commands.json is missing; tools/test makes both")
        return 77
    rules = (ROOT / ".clang-tidy").read_bytes() + (ROOT / "tests/requirements.txt").read_bytes()
    known = sources()
    files = sys.argv[1:] or sorted(known)
    passed = json.loads(PASSED.read_text()) if PASSED.exists() else {}

    def check(name):
        key = digest(rules, known.get(name, [name]))
        if passed.get(name) == key:
            return ""
        result = subprocess.run([tidy, "--quiet", "-p", str(BUILD), name], cwd=ROOT, check=False,
                                capture_output=True, text=True)
        if result.returncode != 0:
            return result.stdout
        passed[name] = key
        return ""

    failures = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for output in pool.map(check, files):
                failures += bool(output)
                print(output, end="")
    finally:
        PASSED.write_text(json.dumps(passed))
    print(f"{len(files)} files checked, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
