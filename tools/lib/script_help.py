"""Answers --help of a script with its docstring, before the script imports what may be missing or slow."""

import sys


def answer_help(docstring):
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(docstring.strip())
        sys.exit(0)
