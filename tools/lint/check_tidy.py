#!/usr/bin/env python3
"""clang-tidy over our sources, two at a time, with what passed remembered by content: a file is checked
again only when it or a header of ours has changed. Exits 77 (skipped) where clang-tidy is missing.

    check_tidy.py [FILE...]      # default: every .cc file outside tests/ in the compilation database"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu"))
PASSED = BUILD / "tidy_passed.json"


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                             *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\n") if name and (ROOT / name).is_file()]


def digest(names):
    result = hashlib.sha256()
    for name in names:
        result.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return result.hexdigest()


def main():
    tidy = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    database = BUILD / "compile_commands.json"
    if tidy is None or not database.exists():
        print("skipped: clang-tidy or compile_commands.json is missing")
        return 77
    known = {os.path.relpath(entry["file"], ROOT) for entry in json.loads(database.read_text())}
    files = sys.argv[1:] or [name for name in tracked("*.cc")
                             if name in known and not name.startswith("tests/")]
    context = digest(sorted([*tracked("*.h"), ".clang-tidy"]))
    passed = json.loads(PASSED.read_text()) if PASSED.exists() else {}

    def check(name):
        key = digest([name]) + context
        if passed.get(name) == key:
            return name, key, ""
        result = subprocess.run([tidy, "--quiet", "-p", str(BUILD), name], cwd=ROOT, check=False,
                                capture_output=True, text=True)
        return name, key, result.stdout if result.returncode != 0 else ""

    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, key, output in pool.map(check, files):
            if output:
                failures += 1
                print(output)
            else:
                passed[name] = key
    PASSED.write_text(json.dumps(passed))
    print(f"{len(files)} files checked, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
