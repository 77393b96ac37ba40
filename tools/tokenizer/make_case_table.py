#!/usr/bin/env python3
"""Writes server/text/special_case.cc: the characters whose upper or title case is several characters.

  python3 tools/tokenizer/make_case_table.py server/text/special_case.cc

Unicode promises that these never change (SpecialCasing.txt). The data are Unicode's, under the Unicode License V3
(https://www.unicode.org/license.txt).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)



def literal(text):
    return '"' + "".join(c if c.isascii() else f"\\u{ord(c):04X}" for c in text) + '"'


def main():
    characters = [chr(c) for c in range(0x110000) if len(chr(c).upper()) > 1 or len(chr(c).title()) > 1]
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("// Written by tools/tokenizer/make_case_table.py from Unicode data; do not edit.\n"
                  "// The data: Copyright 1991-2024 Unicode, Inc., Unicode License V3\n"
                  "// (https://www.unicode.org/license.txt).\n"
                  '#include "server/text/special_case.h"\n\nnamespace quire {\n\n'
                  "// clang-format off\nconst SpecialCase kSpecialCases[] = {\n")
        for c in characters:
            out.write(f"    {{0x{ord(c):X}, {literal(c.upper())}, {literal(c.title())}}},\n")
        out.write("};\n// clang-format on\n"
                  f"const size_t kNumSpecialCases = {len(characters)};\n\n}}  // namespace quire\n")


if __name__ == "__main__":
    main()
