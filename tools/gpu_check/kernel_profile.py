#!/usr/bin/env python3
"""Where the kernels of a decode step spend their time, out of what kernel_trace.so wrote.
    kernel_profile.py TRACE [--all-steps] [--json FILE]
Prints a table of the kernels by what they add to a step; FILE gets the same as JSON. A step lasts from one plan kernel
(PlanDecode; where there is none, the native attention's PlanSequences) to the next. Steps count that run the same
kernels as most do, and every figure is the median over them; a row is every call of a kernel with one grid. With
--all-steps, for runs with prompts between decodes, all steps count, figures are means and a row is a kernel. What has a
pause of 10 ms in it is no step: the device had nothing to do between two runs. A kernel is launched while the one
before still runs, and then waits for it: what it adds to the step is the time from the end of all kernels before it to
its own end. A gap is time in which no kernel runs. Ends with 0, or with 1 and one line on stderr."""

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
PAUSE_NS = 10_000_000


class BadTrace(Exception):
    pass


class Kernel(NamedTuple):
    start: int  # ns
    end: int
    grid: Tuple[int, int, int]
    threads: int  # of a CTA
    name: str  # mangled


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


class Launch(NamedTuple):
    kernel: Kernel
    place: Tuple[str, int]  # its name, and how many of that name come before it in its step
    added: int  # ns


class Step:
    """Some kernels, and what each adds to `before`, the time at which all before them had ended."""

    def __init__(self, kernels, before):
        self.launches = []
        self.gaps = 0  # ns
        self.end = before
        num_before = collections.Counter()
        for kernel in kernels:
            added = max(0, kernel.end - max(kernel.start, self.end))
            self.launches.append(Launch(kernel, (kernel.name, num_before[kernel.name]), added))
            num_before[kernel.name] += 1
            self.gaps += max(0, kernel.start - self.end)
            self.end = max(self.end, kernel.end)
        self.duration = self.end - before
        self.names = tuple(sorted(kernel.name for kernel in kernels))


def all_steps(kernels):
    starts = step_starts(kernels)
    ends = [kernels[0].start]  # of all kernels before each
    for kernel in kernels:
        ends.append(max(ends[-1], kernel.end))
    steps = []
    for begin, end in zip(starts, starts[1:]):
        if any(kernels[i].start - ends[i] >= PAUSE_NS for i in range(begin + 1, end)):
            continue
        after_pause = kernels[begin].start - ends[begin] >= PAUSE_NS
        steps.append(Step(kernels[begin:end], kernels[begin].start if after_pause else ends[begin]))
    if not steps:
        raise BadTrace("no whole step without a pause of 10 ms in it")
    return steps


def alike_steps(steps):
    """The steps of the commonest kind."""
    commonest = collections.Counter(step.names for step in steps).most_common(1)[0][0]
    return [step for step in steps if step.names == commonest]


def commonest_shapes(steps):
    """Grid and threads of each place in a step: what most steps have there."""
    shapes = collections.defaultdict(collections.Counter)
    for step in steps:
        for launch in step.launches:
            shapes[launch.place][launch.kernel.grid, launch.kernel.threads] += 1
    return {place: counts.most_common(1)[0][0] for place, counts in shapes.items()}


def make_profile(steps):
    """The profile of alike steps as it is written as JSON; times in microseconds, medians of steps."""
    names = short_names(steps[0].names)
    places = collections.defaultdict(set)  # of each row of the table
    for place, shape in commonest_shapes(steps).items():
        places[place[0], shape].add(place)
    rows = []
    for (name, (grid, threads)), mine in places.items():
        launches = [[launch for launch in step.launches if launch.place in mine] for step in steps]
        added_ns = statistics.median(sum(launch.added for launch in step) for step in launches)
        busy_ns = statistics.median(sum(launch.kernel.end - launch.kernel.start for launch in step) for step in launches)
        rows.append({"name": names[name], "grid": list(grid), "threads": threads, **times(len(mine), busy_ns, added_ns)})
    return with_totals(rows, steps, statistics.median, len(steps[0].names))


def make_mean_profile(steps):
    """The same of all steps, whichever they are: means, and no grids."""
    launches = collections.defaultdict(list)
    for step in steps:
        for launch in step.launches:
            launches[launch.kernel.name].append(launch)
    names = short_names(launches)
    rows = []
    for name, mine in launches.items():
        added_ns = sum(launch.added for launch in mine) / len(steps)
        busy_ns = sum(launch.kernel.end - launch.kernel.start for launch in mine) / len(steps)
        rows.append({"name": names[name], **times(len(mine) / len(steps), busy_ns, added_ns)})
    return with_totals(rows, steps, statistics.fmean, sum(map(len, launches.values())) / len(steps))


def times(calls, busy_ns, added_ns):
    """Of a row; what is given is per step."""
    return {
        "calls_per_step": round(calls, 1),
        "mean_us": round(busy_ns / calls / 1e3, 3),
        "added_us_per_step": round(added_ns / 1e3, 3),
    }


def with_totals(rows, steps, middle, kernels_per_step):
    """The rows, largest first, with what they are of the step that `middle` makes of all."""
    step_us = middle(step.duration for step in steps) / 1e3
    for row in rows:
        row["share_of_step"] = round(row["added_us_per_step"] / step_us, 4)
    rows.sort(key=lambda row: (-row["added_us_per_step"], row["name"], row.get("grid", [])))
    return {
        "step_us": round(step_us, 3),
        "num_steps": len(steps),
        "kernels_per_step": round(kernels_per_step, 1),
        "gaps_us_per_step": round(middle(step.gaps for step in steps) / 1e3, 3),
        "kernels": rows,
    }


def to_text(profile, kind):
    lines = [f"a step of {profile['step_us']:.1f} us and {profile['kernels_per_step']} kernels "
             f"({kind} of {profile['num_steps']} steps), of it {profile['gaps_us_per_step']:.1f} us in which none runs",
             f"{'us a step':>10} {'share':>6} {'calls':>5} {'us each':>9} {'grid':>11} {'threads':>7}  kernel"]
    for row in profile["kernels"]:
        grid = "x".join(map(str, row.get("grid", ["any"])))
        lines.append(f"{row['added_us_per_step']:10.1f} {100 * row['share_of_step']:5.1f}% {row['calls_per_step']:5} "
                     f"{row['mean_us']:9.2f} {grid:>11} {row.get('threads', 'any'):>7}  {row['name']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--all-steps", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    flags = parser.parse_args()
    try:
        steps = all_steps(read_trace(flags.trace))
        profile = make_mean_profile(steps) if flags.all_steps else make_profile(alike_steps(steps))
        if flags.json:
            with open(flags.json, "w", encoding="utf-8") as file:
                file.write(json.dumps(profile, indent=2) + "\n")
    except (BadTrace, OSError, UnicodeDecodeError) as error:
        sys.exit(f"kernel_profile: {error}")
    print(to_text(profile, "mean" if flags.all_steps else "median"))


if __name__ == "__main__":
    main()
