"""The command line of tools/soak, which says what there is."""

import argparse
import json
import pathlib
import random
import signal
import statistics
import sys

import overload
import small
import soak
from served import SAMPLES


def run_overload(options):
    print(f"seed {options.seed}", flush=True)
    results = overload.run(options.overload, 4, options.seed, lambda text: print(text, flush=True))
    ratios = overload.ratios(results)
    for load, ratio in ratios.items():
        print(f"{load} times the load: {ratio['answers_per_s']:.3f} of the answers at saturation, "
              f"{ratio['answers_per_cpu_s']:.3f} for the same processor time")
    windows = overload.refusals(15, options.seed)
    p50, p99 = (statistics.median(column) for column in zip(*windows))
    print(f"refusals with a core to spare, of {len(windows)} seconds the median one: p50 {p50:.2f} ms, p99 {p99:.2f} ms; "
          f"the p99s: {', '.join(f'{window[1]:.2f}' for window in windows)}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"results": results, "ratios": ratios, "refusal_ms": [p50, p99]}, indent=1) + "\n")
    return 1 if any(result["faults"] for taken in results.values() for result in taken) else 0


def main():
    parser = argparse.ArgumentParser(prog="tools/soak")
    parser.add_argument("--seconds", type=float, default=3600, metavar="N", help="of load (3600)")
    parser.add_argument("--rate-over-saturation", type=float, default=2, metavar="X", help="how much of it (2)")
    parser.add_argument("--samples", default=str(SAMPLES), metavar="FILE",
                        help="a line a second goes there (build/soak.csv)")
    parser.add_argument("--json", metavar="FILE", help="all figures go there, too")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="of the load (by chance)")
    parser.add_argument("--overload", type=int, metavar="ROUNDS",
                        help="instead: what is served of 10 and 100 times the load, and how soon the rest is refused")
    parser.add_argument("--small", type=int, metavar="N", help="instead: what each of N small requests leaves")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the server with us
    if options.small:
        faults = small.run(options.small, lambda text: print(text, flush=True))
        print(*faults, sep="\n")
        return 1 if faults else 0
    if options.overload:
        return run_overload(options)
    print(f"seed {options.seed}, samples in {options.samples}", flush=True)
    with open(options.samples, "w", newline="") as samples:
        figures = soak.run(options.seconds, options.rate_over_saturation, min(20, options.seconds / 5), options.seed,
                           lambda text: print(text, flush=True), samples)
    print(*soak.report(figures), sep="\n")
    faults = figures["faults"] + list(filter(None, [soak.slope_fault(figures)]))
    for fault in faults:
        print(f"wrong: {fault}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
