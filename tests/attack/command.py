"""The command line of tools/attack, which says what there is."""

import argparse
import json
import pathlib
import sys

import sanitizer
import siege
import terminations


def main():
    parser = argparse.ArgumentParser(prog="tools/attack", allow_abbrev=False)
    parser.add_argument("attacks", nargs="*", help="which; all by default (--list names them)")
    parser.add_argument("--list", action="store_true", help="name the attacks and end")
    parser.add_argument("--seconds", type=float, default=5, metavar="N", help="of each round (5)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of each attack (3)")
    parser.add_argument("--json", metavar="FILE", help="all figures go there, too")
    parser.add_argument("--target", metavar="HOST:PORT", help="a running server, with --pid")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--sanitizer", choices=sanitizer.PRESETS,
                        help="the servers are built with it: its reports are faults, memory and cores are none")
    parser.add_argument("--terminations", type=int, metavar="N",
                        help="instead: end so many servers by SIGTERM at random moments under load")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    options = parser.parse_args()
    if (options.target is None) != (options.pid is None):
        parser.error("--target and --pid go together")
    if options.target and options.sanitizer:
        parser.error("--sanitizer starts servers of its own: it goes without --target")
    if options.list:
        for name, attack in siege.ATTACKS.items():
            print(f"{name:36} {(attack.script.__doc__ or '').strip()}")
        return 0
    if options.sanitizer and (complaint := sanitizer.prepare(options.sanitizer, siege.harness.SERVER)):
        parser.error(complaint)
    if options.terminations:
        result = terminations.run(options.terminations, options.seed)
        results, faults = [result], result["faults"]
        print(json.dumps(result, indent=1))
    else:
        unknown = set(options.attacks) - set(siege.ATTACKS)
        if unknown:
            parser.error(f"no such attack: {', '.join(sorted(unknown))}; --list names them")
        print(siege.TABLE_HEAD, flush=True)
        results = siege.run(options.attacks or list(siege.ATTACKS), options.seconds, options.rounds,
                            lambda result: print(siege.table_line(result), flush=True),
                            options.target, options.pid,
                            siege.SANITIZED if options.sanitizer else siege.Limits())
        faults = [fault for result in results for fault in result["faults"]]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
