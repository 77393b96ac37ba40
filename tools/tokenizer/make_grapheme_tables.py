#!/usr/bin/env python3
"""Writes server/text/grapheme_tables.cc: how Unicode 17.0 cuts text into grapheme clusters.

  python3 -m venv venv && venv/bin/pip install regex==2025.11.3
  venv/bin/python tools/tokenizer/make_grapheme_tables.py server/text/grapheme_tables.cc

That version of regex has the data of Unicode 17.0. They are Unicode's, under the Unicode License V3
(https://www.unicode.org/license.txt).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)


import regex

# By quire::GraphemeClass (server/text/graphemes.h); the first that matches counts.
CLASSES = {
    "Control": r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]",
    "NonJoiner": "\u200c",
    "Linker": r"\p{InCB=Linker}",
    "Extend": r"\p{GCB=Extend}",
    "Joiner": r"\p{GCB=ZWJ}",
    "SpacingMark": r"\p{GCB=SpacingMark}",
    "Prepend": r"\p{GCB=Prepend}",
    "Regional": r"\p{GCB=Regional_Indicator}",
    "HangulL": r"\p{GCB=L}",
    "HangulV": r"\p{GCB=V}",
    "HangulT": r"\p{GCB=T}",
    "Pictographic": r"\p{Extended_Pictographic}",
    "Consonant": r"\p{InCB=Consonant}",
}
PATTERN = regex.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in CLASSES.items()))


def ranges():
    found = []
    for code_point in range(0x110000):
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        match = PATTERN.fullmatch(chr(code_point))
        if not match:
            continue
        if found and found[-1][1] == code_point - 1 and found[-1][2] == match.lastgroup:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point, match.lastgroup])
    return found


def main():
    assert regex.fullmatch(r"\p{GCB=Extend}", "\U00011B60"), "regex knows no Unicode 17.0"
    assert not regex.fullmatch(r"\p{GCB=Extend}", "\u05C8"), "regex knows a later Unicode than 17.0"
    table = ranges()
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("// Written by tools/tokenizer/make_grapheme_tables.py from Unicode data; do not edit.\n"
                  "// The data: Copyright 1991-2025 Unicode, Inc., Unicode License V3\n"
                  "// (https://www.unicode.org/license.txt).\n"
                  '#include "server/text/grapheme_tables.h"\n\nnamespace quire {\n\n'
                  "using enum GraphemeClass;\n\n"
                  "// clang-format off\nconst GraphemeRange kGraphemeRanges[] = {\n")
        line = "   "
        for first, last, name in table:
            entry = f" {{0x{first:X}, 0x{last:X}, k{name}}},"
            if len(line) + len(entry) > 120:
                out.write(line + "\n")
                line = "   "
            line += entry
        out.write(f"{line}\n}};\n// clang-format on\nconst size_t kNumGraphemeRanges = {len(table)};\n\n"
                  "}  // namespace quire\n")


if __name__ == "__main__":
    main()
