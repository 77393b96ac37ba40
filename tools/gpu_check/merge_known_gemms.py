#!/usr/bin/env python3
"""Adds choices of gemms that a GPU measured to those that come with the program.
    merge_known_gemms.py CACHE_FILE KNOWN_FILE
CACHE_FILE is what a start leaves in $QUIRE_CACHE_DIR after all gemms of a model are measured (starts go on where the
one before stopped); KNOWN_FILE is kernels/cuda/gemm/known/DEVICE.inc, of the same device, driver and cuBLASLt. Choices
that are known stay as they are. Ends with 0, or with 1 and one line on stderr."""

import sys

NUM_KEY_FIELDS = 9  # of a line; behind them is the choice
BEGIN, END = 'R"(', ')"\n'


def checksum_line(text):
    """FNV-1a, as kernels/cuda/gemm/tuning_cache.cc has it."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"checksum {value:016x}\n"


def read_choices(text, name):
    """The two lines of the head, and the choices by their keys."""
    lines = text.splitlines()
    if len(lines) < 3 or checksum_line("".join(line + "\n" for line in lines[:-1])) != lines[-1] + "\n":
        sys.exit(f"merge_known_gemms: {name} is no such file, or damaged: its checksum does not match")
    return lines[:2], {tuple(line.split()[:NUM_KEY_FIELDS]): line for line in lines[2:-1]}


def main():
    if len(sys.argv) != 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 64)
    cache, known = (open(path, encoding="ascii").read() for path in sys.argv[1:])
    head, measured = read_choices(cache, sys.argv[1])
    known_head, choices = read_choices(known.removeprefix(BEGIN).removesuffix(END), sys.argv[2])
    if head != known_head:
        sys.exit(f"merge_known_gemms: {sys.argv[1]} is of {head[1]}, {sys.argv[2]} of {known_head[1]}")
    num_known = len(choices)
    choices = measured | choices
    text = "".join(line + "\n" for line in head + sorted(choices.values()))
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write(BEGIN + text + checksum_line(text) + END)
    print(f"{num_known} choices were known, {len(choices)} are")


if __name__ == "__main__":
    main()
