"""Which tests a change reaches: those whose programs are built of a changed file, and those that read one (READS in
tests/*/CMakeLists.txt). Where that cannot be known all are."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# No test needs to be known as a reader of these files. Documents are for people, and for lints, which read everything.
# A header that nothing is built of yet is new, and then a file that includes it has changed, too.
HARMLESS = (".md", ".png", ".svg", ".h")


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def changed_since(revision):
    """Files that differ from that revision in the work tree, new ones too; relative to the top."""
    return sorted({*git("diff", "--name-only", "--no-renames", revision, "--"),
                   *git("ls-files", "--others", "--exclude-standard")})


def relative(build, name):
    """A path as ninja writes it, from the top; None for one outside the sources."""
    path = pathlib.Path(build, name).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else None


def included(build):
    """{object: {source file...}} as ninja recorded it when it last built the object."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    result = {}
    for entry in listed.split("\n\n"):
        head, *files = entry.split("\n")
        if files:
            result[head.split(":")[0]] = {name for line in files if (name := relative(build, line.strip()))}
    return result


def sources_of(build, target, deps):
    """All source files that the target is made of."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "inputs", target], check=True, capture_output=True, text=True)
    files = set()
    for name in listed.stdout.split("\n"):
        files |= deps.get(name, set())
        if path := relative(build, name):
            files.add(path)
    return files


def reads(test, name):
    """Whether the test says that it reads this file. A script reads what is beside it, but for other tests."""
    for path in test.reads:
        if path == "." or name == path or name.startswith(path + "/"):
            return True
        if path.endswith(".py") and name.endswith(".py") and not name.endswith("_test.py"):
            if pathlib.PurePath(name).parent == pathlib.PurePath(path).parent:
                return True
    return name == f"tests/{test.name.rsplit('/', 1)[0]}/CMakeLists.txt"


def reached(build, revision, tests):
    """The names of those `tests` that the change since `revision` reaches, and a sentence that says why."""
    changed = changed_since(revision)
    everything = {test.name for test in tests}
    deps = included(build)
    if not deps:
        return everything, "nothing is built here yet, so that no test can be left out"
    sources = {target: sources_of(build, target, deps)
               for target in {target for test in tests for target in test.targets}}
    names, unknown = set(), []
    for name in changed:
        found = {test.name for test in tests
                 if reads(test, name) or any(name in sources[target] for target in test.targets)}
        names |= found
        if not name.endswith(HARMLESS) and all("." in test.reads for test in tests if test.name in found):
            unknown.append(name)
    if unknown:
        return everything, f"no test says that it reads {unknown[0]}, so all are run"
    return names, f"{len(changed)} files changed since {revision}; {len(names)} of {len(tests)} tests read them"
