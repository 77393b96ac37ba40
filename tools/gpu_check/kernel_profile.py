#!/usr/bin/env python3
"""Where the kernels of a decode step spend their time, out of what kernel_trace.so wrote.
    kernel_profile.py TRACE [--json FILE]
Prints a table of the kernels by what they add to a step; FILE gets the same as JSON. A step lasts from one plan kernel
(PlanDecode; where there is none, the native attention's PlanSequences) to the next. Steps count that run the same
kernels as most do, and every figure is the median over them. As a kernel is launched while the one before still runs,
and then waits for it, what it adds to the step is the time from the end of all kernels before it to its own end; a
gap is time in which none has begun. Ends with 0, or with 1 and one line on stderr."""

import argparse
import collections
import json
import re
import shutil
import statistics
import subprocess
import sys
from typing import NamedTuple, Tuple

HEADER = "start_ns,end_ns,grid_x,grid_y,grid_z,threads,name"
PLAN_KERNELS = ("PlanDecode", "PlanSequences")  # the first that is there begins steps


class BadTrace(Exception):
    pass


class Kernel(NamedTuple):
    start: int  # ns
    end: int
    grid: Tuple[int, int, int]
    threads: int  # of a CTA
    name: str  # mangled

    def launch(self):
        """What a row of the table has in common."""
        return (self.name, self.grid, self.threads)


def read_trace(path):
    """The kernels in the order in which they started."""
    kernels = []
    with open(path, encoding="utf-8") as file:
        if file.readline().rstrip("\n") != HEADER:
            raise BadTrace(f"{path} is no trace of kernels: its first line is not {HEADER}")
        for number, line in enumerate(file, start=2):
            *numbers, name = line.rstrip("\n").split(",", 6)
            try:
                start, end, x, y, z, threads = map(int, numbers)
            except ValueError:
                raise BadTrace(f"{path}, line {number}: not six numbers and a name: {line.rstrip()}") from None
            kernels.append(Kernel(start, end, (x, y, z), threads, name))
    return sorted(kernels)


def last_identifier(mangled):
    """The function's own name, without namespaces, template arguments and parameters."""
    rest = mangled[3:] if mangled.startswith("_ZN") else mangled[2:] if mangled.startswith("_Z") else ""
    name = mangled
    while True:
        length = re.match(r"\d+", rest)
        if not length:
            return name
        end = length.end() + int(length[0])
        name, rest = rest[length.end():end], rest[end:]


def shorten(demangled):
    """Without namespaces, parameters and what the function returns."""
    text = re.sub(r"\(anonymous namespace\)::|\b[a-z][a-z0-9_]*::", "", demangled)
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            text = text[:i]
            break
    return re.sub(r"^void ", "", text)


def short_names(mangled):
    """Of each kernel by its mangled name: with template arguments where there is a c++filt, else without."""
    mangled = sorted(set(mangled))
    if shutil.which("c++filt"):
        lines = "".join(name + "\n" for name in mangled)
        result = subprocess.run(["c++filt"], input=lines, capture_output=True, text=True, check=False)
        demangled = result.stdout.splitlines()
        if result.returncode == 0 and len(demangled) == len(mangled):
            return {name: shorten(text) for name, text in zip(mangled, demangled)}
    return {name: last_identifier(name) for name in mangled}


def step_starts(kernels):
    """Where steps begin, as positions in the trace."""
    for plan in PLAN_KERNELS:
        starts = [i for i, kernel in enumerate(kernels) if last_identifier(kernel.name) == plan]
        if len(starts) > 1:
            return starts
    raise BadTrace("no whole step: none of " + ", ".join(PLAN_KERNELS) + " ran twice")


class Row:
    """All launches of a kernel with one grid in a step."""

    def __init__(self):
        self.calls = 0
        self.duration = 0  # ns, the sum
        self.added = 0


class Step:
    """What the kernels from `begin` to `end` add to the time at which all before them had ended."""

    def __init__(self, kernels, begin, end, before):
        self.rows = collections.defaultdict(Row)
        self.gaps = 0  # ns
        self.end = before
        for kernel in kernels[begin:end]:
            row = self.rows[kernel.launch()]
            row.calls += 1
            row.duration += kernel.end - kernel.start
            row.added += max(0, kernel.end - max(kernel.start, self.end))
            self.gaps += max(0, kernel.start - self.end)
            self.end = max(self.end, kernel.end)
        self.duration = self.end - before
        self.kernels = tuple(sorted(kernel.name for kernel in kernels[begin:end]))


def alike_steps(kernels):
    """The steps of the commonest kind."""
    starts = step_starts(kernels)
    latest = max((kernel.end for kernel in kernels[:starts[0]]), default=kernels[starts[0]].start)
    steps = []
    for begin, end in zip(starts, starts[1:]):
        steps.append(Step(kernels, begin, end, latest))
        latest = steps[-1].end
    commonest = collections.Counter(step.kernels for step in steps).most_common(1)[0][0]
    return [step for step in steps if step.kernels == commonest]


def make_profile(kernels):
    """The profile as it is written as JSON; times in microseconds."""
    steps = alike_steps(kernels)
    names = short_names(kernel.name for kernel in kernels)

    def median(figure):
        return statistics.median(figure(step) for step in steps)

    step_us = median(lambda step: step.duration) / 1e3
    rows = []
    for launch in {launch for step in steps for launch in step.rows}:
        present = [step.rows[launch] for step in steps if launch in step.rows]
        # A grid that fewer than half of the steps have adds nothing to the median of them.
        if 2 * len(present) < len(steps):
            continue
        added_us = statistics.median(row.added for row in present) / 1e3
        rows.append({
            "name": names[launch[0]],
            "grid": list(launch[1]),
            "threads": launch[2],
            "calls_per_step": statistics.median_low(row.calls for row in present),
            "mean_us": round(statistics.median(row.duration / row.calls for row in present) / 1e3, 3),
            "added_us_per_step": round(added_us, 3),
            "share_of_step": round(added_us / step_us, 4),
        })
    rows.sort(key=lambda row: (-row["added_us_per_step"], row["name"], row["grid"]))
    return {
        "step_us": round(step_us, 3),
        "num_steps": len(steps),
        "kernels_per_step": len(steps[0].kernels),
        "gaps_us_per_step": round(median(lambda step: step.gaps) / 1e3, 3),
        "kernels": rows,
    }


def to_text(profile):
    lines = [f"a step of {profile['step_us']:.1f} us and {profile['kernels_per_step']} kernels "
             f"(median of {profile['num_steps']} steps), of it {profile['gaps_us_per_step']:.1f} us in which none runs",
             f"{'us a step':>10} {'share':>6} {'calls':>5} {'us each':>9} {'grid':>11} {'threads':>7}  kernel"]
    for row in profile["kernels"]:
        lines.append(f"{row['added_us_per_step']:10.1f} {100 * row['share_of_step']:5.1f}% {row['calls_per_step']:5} "
                     f"{row['mean_us']:9.2f} {'x'.join(map(str, row['grid'])):>11} {row['threads']:7}  {row['name']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--json", metavar="FILE")
    flags = parser.parse_args()
    try:
        profile = make_profile(read_trace(flags.trace))
        if flags.json:
            with open(flags.json, "w", encoding="utf-8") as file:
                file.write(json.dumps(profile, indent=2) + "\n")
    except (BadTrace, OSError, UnicodeDecodeError) as error:
        sys.exit(f"kernel_profile: {error}")
    print(to_text(profile))


if __name__ == "__main__":
    main()
