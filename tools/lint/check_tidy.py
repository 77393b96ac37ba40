#!/usr/bin/env python3
"""clang-tidy over our sources, as many at a time as there are cores. What passed is remembered by the
contents of the file and of the headers it includes, beside the compiler's cache, so that only what changed is
checked again, in whatever clone. Run by the Python of build/venv-test, which has clang-tidy beside it
(tests/requirements.txt); exits 77 (skipped) where that is missing.

    check_tidy.py                every .cc file outside tests/ in the compilation database
    check_tidy.py FILE...        these
    check_tidy.py --changed      those that differ from the revision of .ci/nightly, and for each header that differs
                                 the first that includes it. More than 120 of them that have not passed yet are left
                                 to the nightly list: exits 77
    check_tidy.py --within 1200  begins no file after so many seconds; the next run goes on. Without findings, but
                                 with files left, it exits 77"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
PASSED = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "quire/tidy_passed.json"
MOST_REMEMBERED = 5000
MOST_OF_A_CHANGE = 120
PRECOMPILED = re.compile(r" -Winvalid-pch| -fpch-preprocess| -include \S*cmake_pch\.hxx")
# Written for GCC's target pragma, which clang ignores: clang would see intrinsics it may not use.
EXCLUDED = ("kernels/cpu/gemm/gemm_avx", "kernels/cpu/gemm/gemm_amx")


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
        for source in (name for name in ours if name.endswith(".cc")):
            if not source.startswith(("tests/", *EXCLUDED)):
                result[source] = sorted({source, *(name for name in ours if not name.endswith(".cc"))})
    return result


def commands_for_clang():
    """A folder with the build's commands as clang can take them: what GCC has precompiled is nothing to it, and what is
    compiled together is looked at one by one."""
    commands = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        entry["command"] = PRECOMPILED.sub("", entry["command"]) + " -Wno-unknown-warning-option"
        united = pathlib.Path(entry["file"])
        if united.parent.parent.name != "united":
            commands.append(entry)
            continue
        for source in re.findall(r'#include "(.*)"', united.read_text()):
            file = str(ROOT / source)
            commands.append({**entry, "file": file, "command": entry["command"].replace(entry["file"], file)})
    folder = BUILD / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    return folder


def changed(known):
    """What to check of a change; everything where git cannot tell."""
    last = (ROOT / ".ci/nightly").read_text().strip()
    listed = subprocess.run(["git", "diff", "--name-only", last, "--"], cwd=ROOT, check=False, capture_output=True,
                            text=True)
    if listed.returncode != 0:
        return sorted(known)
    new = subprocess.run(["git", "ls-files", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                         capture_output=True, text=True)
    names = set(listed.stdout.splitlines() + new.stdout.splitlines())
    files = {name for name in known if name in names}
    for header in (name for name in names if name.endswith(".h")):
        # Its own source, where it has one, else any: the first by name.
        includers = sorted((name for name in known if header in known[name]),
                           key=lambda name: (name != header.removesuffix(".h") + ".cc", name))
        if includers and not any(header in known[name] for name in files):
            files.add(includers[0])
    return sorted(files)


def digest(rules, names):
    result = hashlib.sha256(rules)
    for name in names:
        result.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return result.hexdigest()


def load_passed():
    """{digest: file} of what has passed, in this clone or another; empty where the file is missing or damaged."""
    try:
        return dict(json.loads(PASSED.read_text()))
    except (OSError, ValueError):
        return {}


def save_passed(passed):
    """Keeps what another clone has added meanwhile, and of all the newest."""
    kept = {**load_passed(), **passed}
    PASSED.parent.mkdir(parents=True, exist_ok=True)
    scratch = PASSED.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(dict(list(kept.items())[-MOST_REMEMBERED:])))
    scratch.replace(PASSED)


def main():
    tidy = pathlib.Path(sys.executable).with_name("clang-tidy")
    if not tidy.exists() or not (BUILD / "compile_commands.json").exists():
        print("skipped: clang-tidy or compile_commands.json is missing; tools/test makes both")
        return 77
    rules = (ROOT / ".clang-tidy").read_bytes() + (ROOT / "tests/requirements.txt").read_bytes()
    known = sources()
    parser = argparse.ArgumentParser()
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--within", type=float, metavar="SECONDS", default=float("inf"))
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    files = options.files or (changed(known) if options.changed else sorted(known))
    passed = load_passed()
    commands = commands_for_clang()

    digests = {name: digest(rules, known.get(name, [name])) for name in files}
    num_new = sum(key not in passed for key in digests.values())
    if options.changed and num_new > MOST_OF_A_CHANGE:
        print(f"skipped: {num_new} files differ from the last nightly run; so many take too long for each change, and "
              "tools/test --nightly checks them")
        return 77

    end = time.monotonic() + options.within
    left = []

    def check(name):
        key = digests[name]
        if key in passed:
            return ""
        if time.monotonic() > end:
            left.append(name)
            return ""
        result = subprocess.run([tidy, "--quiet", "-p", str(commands), name], cwd=ROOT, check=False,
                                capture_output=True, text=True)
        if result.returncode != 0:
            return result.stdout
        passed[key] = name
        return ""

    failures = 0
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for output in pool.map(check, files):
                failures += bool(output)
                print(output, end="")
    finally:
        save_passed(passed)
    print(f"{len(files) - len(left)} files checked, {failures} with findings")
    if left:
        print(f"not begun within {options.within:g} s: {len(left)} files, {left[0]} first; the next run goes on there")
    return 1 if failures else 77 if left else 0


if __name__ == "__main__":
    sys.exit(main())
