"""Which tests tools/test runs, and what must be built for them. Prints three lines for it: a regular expression of
the tests' names, the targets, and "python" if one of them needs tests/requirements.txt.

    select_tests.py BUILD_FOLDER PRESET PATTERN... -- CTEST_ARGUMENT...

A pattern is a regular expression that is looked for in the names, or a label. Exits 64 when one matches nothing."""

import difflib
import json
import pathlib
import re
import subprocess
import sys


class Test:
    def __init__(self, entry, targets):
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        self.name = entry["name"]
        self.labels = properties.get("LABELS", [])
        self.targets = targets[self.name]
        self.uses_python = any(part.endswith("tests/run_python") for part in entry.get("command", ()))


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(64)


def tests_of(build, preset, arguments):
    """What ctest would run with these arguments."""
    targets = {}
    for line in (build / "test_targets.txt").read_text().splitlines():
        name, *rest = line.split()
        targets[name] = rest
    # It complains about programs that are not built yet.
    listed = subprocess.run(["ctest", "--preset", preset, "--test-dir", build, *arguments, "--show-only=json-v1"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    try:
        entries = json.loads(listed.stdout[listed.stdout.index("{"):])["tests"]
    except ValueError:
        fail("ctest does not take these arguments: " + (listed.stderr.strip() or listed.stdout.strip()))
    return [Test(entry, targets) for entry in entries]


def near(pattern, tests):
    """Words that may have been meant."""
    words = {label for test in tests for label in test.labels}
    for test in tests:
        last = test.name.rsplit("/", 1)[-1]
        words.update((test.name, last, last.removesuffix("_test").removesuffix("_fuzz"), *test.name.split("/")[:-1]))
    return difflib.get_close_matches(pattern, sorted(words), n=4, cutoff=0.6)


def matching(pattern, tests):
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        fail(f"{pattern} is no regular expression: {error}")
    return [test for test in tests if wanted.search(test.name) or pattern in test.labels]


def main():
    build, preset = pathlib.Path(sys.argv[1]), sys.argv[2]
    cut = sys.argv.index("--")
    patterns, arguments = sys.argv[3:cut], sys.argv[cut + 1:]
    tests = tests_of(build, preset, arguments)
    labels = sorted({label for test in tests_of(build, preset, []) for label in test.labels})
    if not tests:
        fail(f"no test matches {' '.join(arguments)}; labels: {' '.join(labels)}; all names: tools/test -N")
    chosen = {}
    for pattern in patterns:
        found = matching(pattern, tests)
        if not found:
            words = near(pattern, tests)
            meant = f"did you mean {' or '.join(words)}? " if words else ""
            fail(f"no test matches {pattern}; {meant}labels: {' '.join(labels)}; all names: tools/test -N")
        chosen.update((test.name, test) for test in found)
    if not patterns:
        chosen = {test.name: test for test in tests}
    targets = sorted({target for test in chosen.values() for target in test.targets})
    print("^(" + "|".join(re.escape(name).replace("\\-", "-") for name in sorted(chosen)) + ")$")
    print(" ".join(["all"] if "all" in targets else targets))
    print("python" if any(test.uses_python for test in chosen.values()) else "")


if __name__ == "__main__":
    main()
