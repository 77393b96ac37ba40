"""The command line of tools/soak, which says what there is."""

import argparse
import json
import pathlib
import random
import sys

import soak
from served import SAMPLES


def main():
    parser = argparse.ArgumentParser(prog="tools/soak")
    parser.add_argument("--seconds", type=float, default=3600, metavar="N", help="of load (3600)")
    parser.add_argument("--rate-over-saturation", type=float, default=2, metavar="X", help="how much of it (2)")
    parser.add_argument("--samples", default=str(SAMPLES), metavar="FILE",
                        help="a line a second goes there (build/soak.csv)")
    parser.add_argument("--json", metavar="FILE", help="all figures go there, too")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="of the load (by chance)")
    options = parser.parse_args()
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
