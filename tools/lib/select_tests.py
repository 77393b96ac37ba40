"""Which tests tools/test runs, and what must be built for them. Prints lines for it: the targets, "python" if a test
needs tests/requirements.txt, then a regular expression of names for each run of ctest.

    select_tests.py BUILD_FOLDER PRESET [--nightly] [--since REVISION] PATTERN... -- CTEST_ARGUMENT...

A pattern is a regular expression that is looked for in the names, or a label. A test with the label nightly is chosen
by --nightly or by its whole name alone. Exits 64 when a pattern matches nothing."""

import argparse
import difflib
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from reached_tests import reached


class Test:
    def __init__(self, entry, targets, reads):
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        self.name = entry["name"]
        self.labels = properties.get("LABELS", [])
        self.targets = targets[self.name]
        self.reads = reads[self.name]
        self.is_serial = properties.get("RUN_SERIAL", False)
        self.uses_python = any(part.endswith("tests/run_python") for part in entry.get("command", ()))

    @property
    def is_nightly(self):
        return "nightly" in self.labels


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(64)


def table(path):
    """{test: [word...]} of a file that tests/CMakeLists.txt wrote."""
    return {name: rest for name, *rest in map(str.split, path.read_text().splitlines())}


def tests_of(build, preset, arguments):
    """What ctest would run with these arguments."""
    targets, reads = table(build / "test_targets.txt"), table(build / "test_reads.txt")
    # It complains about programs that are not built yet.
    listed = subprocess.run(["ctest", "--preset", preset, "--test-dir", build, *arguments, "--show-only=json-v1"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    try:
        entries = json.loads(listed.stdout[listed.stdout.index("{"):])["tests"]
    except ValueError:
        fail("ctest does not take these arguments: " + (listed.stderr.strip() or listed.stdout.strip()))
    return [Test(entry, targets, reads) for entry in entries]


def near(pattern, tests):
    """Words that may have been meant."""
    words = {label for test in tests for label in test.labels}
    for test in tests:
        last = test.name.rsplit("/", 1)[-1]
        words.update((test.name, last, last.removesuffix("_test").removesuffix("_fuzz"), *test.name.split("/")[:-1]))
    return difflib.get_close_matches(pattern, sorted(words), n=4, cutoff=0.6)


def matching(pattern, tests, nightly):
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        fail(f"{pattern} is no regular expression: {error}")
    exact = [test for test in tests if pattern in (test.name, test.name.rsplit("/", 1)[-1])]
    return exact or [test for test in tests if test.is_nightly == nightly
                     and (wanted.search(test.name) or pattern in test.labels)]


def runs_of(tests, nightly):
    """One run of ctest for each change; nightly a run for what may share the machine, and one for each of the rest, so
    that there can be an end between them."""
    runs = [[test.name for test in tests if not (nightly and test.is_serial)]]
    runs += [[test.name] for test in tests if nightly and test.is_serial]
    return ["^(" + "|".join(re.escape(name).replace("\\-", "-") for name in sorted(run)) + ")$" for run in runs if run]


def parse_arguments():
    cut = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("preset")
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--since")
    parser.add_argument("patterns", nargs="*")
    return parser.parse_intermixed_args(sys.argv[1:cut]), sys.argv[cut + 1:]


def main():
    options, arguments = parse_arguments()
    tests = tests_of(options.build, options.preset, arguments)
    labels = sorted({label for test in tests_of(options.build, options.preset, []) for label in test.labels})
    if not tests:
        fail(f"no test matches {' '.join(arguments)}; labels: {' '.join(labels)}; all names: tools/test -N")
    chosen = {}
    for pattern in options.patterns:
        found = matching(pattern, tests, options.nightly)
        if not found:
            words = near(pattern, tests)
            meant = f"did you mean {' or '.join(words)}? " if words else ""
            fail(f"no test matches {pattern}; {meant}labels: {' '.join(labels)}; all names: tools/test -N")
        chosen.update((test.name, test) for test in found)
    if not options.patterns:
        chosen = {test.name: test for test in tests if test.is_nightly == options.nightly}
    if options.since:
        names, why = reached(options.build, options.since, list(chosen.values()))
        print(why, file=sys.stderr)
        chosen = {name: test for name, test in chosen.items() if name in names}
    targets = sorted({target for test in chosen.values() for target in test.targets})
    print(" ".join(["all"] if "all" in targets else targets))
    print("python" if any(test.uses_python for test in chosen.values()) else "")
    for run in runs_of(list(chosen.values()), options.nightly):
        print(run)


if __name__ == "__main__":
    main()
