#!/usr/bin/env python3
"""Plants bugs in the scheduler and the block manager and says which of them the simulator finds.

Each mutant (scheduler_mutants.py, kvcache_mutants.py) is a small patch of a copy of the sources,
compiled with the build's own commands and linked in place of the original. A bug must be found by
`simulate` within 10^6 steps and found again by the replay command that it prints, or else by
`quality_test`; a deliberately worse policy, which breaks nothing, by `quality_test`.

    tests/sim/mutants/run.py                      all of them: at least 95 % must be found
    tests/sim/mutants/run.py --only NAME[,NAME]   some
    tests/sim/mutants/run.py --random N --seed S  N that nobody chose: prints the share found and the survivors,
                                                  some of which change nothing that matters
    tests/sim/mutants/run.py --canaries           a few, and unchanged sources, in which nothing is found
    tests/sim/mutants/run.py --apply              none; only whether all of them still apply to the sources

The build folder is QUIRE_BUILD_DIR (default build/cpu); ninja must have built simulate and
quality_test there."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kvcache_mutants  # noqa: E402
import random_mutants  # noqa: E402
import scheduler_mutants  # noqa: E402
from mutant import Mutant  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
MUTANTS = [*scheduler_mutants.MUTANTS, *kvcache_mutants.MUTANTS]
CANARIES = ["settle-keeps-the-row", "window-released-early", "hash-ignores-salt", "lifo-eviction"]
MAX_STEPS = 990_000  # the last seed goes beyond
LEAST_SHARE_FOUND = 0.95
HANG_SECONDS = 600
MAX_MEMORY_BYTES = 4 << 30


class DoesNotCompile(Exception):
    pass


class Build:
    """The build's commands, to repeat some of them for changed sources."""

    def __init__(self, folder):
        self.folder = folder
        self.compile_commands = {}  # what one command compiles -> command
        self.sources = {}  # the same -> the sources in it: it alone, or those that it includes
        self.link_commands = {}  # program -> command
        for program in ("simulate", "quality_test"):
            lines = self.commands_for(program)
            self.link_commands[program] = lines[-1]
            for line in lines:
                match = re.search(r" -c (\S+)$", line)
                if match:
                    unit = str(pathlib.Path(match[1]).relative_to(ROOT))
                    self.compile_commands[unit] = line
                    included = re.findall(r'#include "(\S+\.cc)"', (ROOT / unit).read_text())
                    self.sources[unit] = included if "/united/" in unit else [unit]

    def commands_for(self, program):
        lines = subprocess.run(["ninja", "-t", "commands", program], cwd=self.folder, check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return [line for line in lines if line.strip()]

    def units_of(self, file):
        """What must be compiled when `file` changes: what it is in, or for a header its folder, where
        its inline functions are used."""
        def is_reached(source):
            return source == file if file.endswith(".cc") else source.split("/")[0] == file.split("/")[0]
        return [unit for unit, sources in self.sources.items() if any(map(is_reached, sources))]

    def compile(self, unit, overlay):
        """The object of `unit`, with the files of `overlay` in place of the originals."""
        changed = overlay / unit
        file = changed if changed.exists() else ROOT / unit
        target = overlay / (unit + ".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        arguments = shlex.split(self.compile_commands[unit])
        arguments = arguments[:arguments.index("-MD")] + [
            "-o", str(target), "-c", str(file)]
        first_include = next(i for i, a in enumerate(arguments) if a.startswith("-I"))
        # A patch may leave something unused.
        arguments = [a for a in arguments if a != "-Werror"]
        arguments[first_include:first_include] = ["-w", f"-I{overlay}"]
        done = subprocess.run(arguments, cwd=self.folder, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise DoesNotCompile(done.stderr)
        return target

    def link(self, program, objects, overlay):
        """The program with `objects` before the libraries, whose own versions are then not taken."""
        target = overlay / program
        arguments = shlex.split(self.link_commands[program])
        arguments = [a for a in arguments if a not in (":", "&&")]
        at = arguments.index("-o")
        arguments[at + 1] = str(target)
        own = [o for o in arguments[:at] if o.endswith(".o")]
        replaced = {str(o.relative_to(overlay)).removesuffix(".o") for o in objects}
        kept = [a for a in arguments[:at] if a not in own or self.source_of(a) not in replaced]
        subprocess.run([*kept, *map(str, objects), *arguments[at:]], cwd=self.folder, check=True)
        return target

    @staticmethod
    def source_of(object_file):
        return re.sub(r"CMakeFiles/[^/]+\.dir/", "", object_file).removesuffix(".o")


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def run_program(command):
    """The exit code and what was printed; a program that does not end is killed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, cwd=ROOT,
                              preexec_fn=limit_memory)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return -1, "a hang\n"


class Outcome:
    def __init__(self, mutant, found_by="", detail="", seconds=0.0):
        self.mutant = mutant
        self.found_by = found_by
        self.detail = detail
        self.seconds = seconds

    def __str__(self):
        verdict = f"found by {self.found_by}" if self.found_by else "NOT FOUND"
        return f"{self.mutant.name:34} {self.mutant.kind:6} {verdict}: {self.detail} | {self.mutant.what}"


def judge(mutant, simulate, quality):
    start = time.monotonic()
    if mutant.kind == "bug":
        command = [str(simulate), "--seeds=999999", f"--steps={MAX_STEPS}", "--floors"]
        code, text = run_program(command)
        replay = re.search(r"found after (\d+) steps; replay: (.*)", text)
        if replay:
            what = re.search(r"violation: (.*)", text)[1]
            check = re.search(r"CHECK failed.*", text)
            again, _ = run_program(shlex.split(replay[2]))
            seconds = time.monotonic() - start
            seed = re.search(r"--seed=(\d+)", replay[2])[1]
            if again == 0:
                return Outcome(mutant, "", f"its replay finds nothing: {replay[2]}", seconds)
            detail = f"{int(replay[1]):,} steps, seed {seed}: {check[0] if check else what}"
            return Outcome(mutant, "simulate", detail[:150], seconds)
    code, text = run_program([str(quality)])
    seconds = time.monotonic() - start
    if code != 0:
        failed = sorted(set(re.findall(r"\[  FAILED  \] (\S+)", text))) or [text.strip()[-100:]]
        return Outcome(mutant, "quality_test", ", ".join(failed).replace("QualityTest.", "")[:150], seconds)
    steps = f"{MAX_STEPS:,} steps and " if mutant.kind == "bug" else ""
    return Outcome(mutant, "", steps + "the quality test are clean", seconds)


def plant(mutant, build):
    overlay = build.folder / "mutants" / mutant.name
    mutant.write(ROOT, overlay)
    try:
        objects = [build.compile(unit, overlay) for unit in build.units_of(mutant.file)]
    except DoesNotCompile as error:
        if mutant.what.startswith(mutant.file):
            return Outcome(mutant, "the compiler", "")
        raise
    simulate = build.link("simulate", [o for o in objects if "quality" not in o.name], overlay)
    quality = build.link("quality_test", [o for o in objects if o.name != "simulate.cc.o"], overlay)
    return judge(mutant, simulate, quality)


def judge_all(mutants, build, jobs):
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(plant, m, build) for m in mutants]):
            outcomes.append(future.result())
            print(f"{outcomes[-1]}  [{outcomes[-1].seconds:.1f} s]", flush=True)
    return outcomes


def judge_random(mutants, build, jobs):
    outcomes = [o for o in judge_all(mutants, build, jobs) if o.found_by != "the compiler"]
    survivors = [o for o in outcomes if not o.found_by]
    print(f"{len(outcomes) - len(survivors)} of {len(outcomes)} that compile are found; the others:")
    for outcome in survivors:
        print(f"  {outcome.mutant.what}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--canaries", action="store_true")
    parser.add_argument("--apply", action="store_true")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    stale = [text for m in MUTANTS if (text := m.stale(ROOT))]
    if stale:
        sys.exit("the code has changed under these mutants:\n" + "\n".join(stale))
    assert len({m.name for m in MUTANTS}) == len(MUTANTS), "names are not unique"
    if args.apply:
        print(f"{len(MUTANTS)} mutants apply")
        return 0
    build = Build(pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")).resolve())
    names = CANARIES if args.canaries else [n for n in args.only.split(",") if n]
    mutants = [m for m in MUTANTS if not names or m.name in names]
    if args.random > 0:
        mutants = random_mutants.make(ROOT, args.random, args.seed)
        return judge_random([m for m in mutants if not names or m.name in names], build, args.jobs)
    outcomes = judge_all(mutants, build, args.jobs)
    status = 0
    if args.canaries:
        # The rig itself finds nothing in what it has not changed.
        unchanged = Mutant("unchanged", "bug", "scheduler/commit.cc", "nothing is changed", [])
        outcome = plant(unchanged, build)
        print(outcome)
        status = 1 if outcome.found_by else 0
    found = [o for o in outcomes if o.found_by]
    for kind in ("bug", "policy"):
        of_kind = [o for o in outcomes if o.mutant.kind == kind]
        num_found = sum(1 for o in of_kind if o.found_by)
        print(f"{kind}: {num_found} of {len(of_kind)} found")
    least = len(mutants) if names else LEAST_SHARE_FOUND * len(mutants)
    return status if len(found) >= least else 1


if __name__ == "__main__":
    sys.exit(main())
