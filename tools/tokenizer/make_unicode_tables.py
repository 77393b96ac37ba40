#!/usr/bin/env python3
"""Writes server/text/unicode_tables.cc: the Unicode facts that the tokenizer depends on.

Hugging Face tokenizers split text by the classes of Unicode 16.0, but normalise it as Unicode 9.0 did. System
libraries carry whatever version their release had, so the facts are generated once and committed:

  python3.11 -m venv venv && venv/bin/pip install unicodedata2==16.0.0 tokenizers==0.23.3
  venv/bin/python tools/tokenizer/make_unicode_tables.py server/text/unicode_tables.cc

Python 3.11 itself is needed for its own Unicode 14.0 data: the older version that every regular-expression
library in use knows. tokenizers itself is asked where it follows an older Unicode. The data are Unicode's, under the Unicode License V3 (https://www.unicode.org/license.txt).
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import unicodedata as old
import unicodedata2 as new
from tokenizers import normalizers, pre_tokenizers

NUM_CODE_POINTS = 0x110000

# Bits of quire::CharClass (server/text/unicode.h).
LETTER, NUMBER, SPACE, ACCENT, PUNCTUATION, WORD = 1, 2, 4, 8, 16, 32

# Two properties that are not in the general category (PropList.txt): White_Space, and the symbols that are
# Other_Alphabetic, which with Join_Control count as word characters.
WHITE_SPACE = set([*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                   0x2028, 0x2029, 0x202F, 0x205F, 0x3000])
WORD_EXTRA = set([0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A),
                  *range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)])
MONGOLIAN_VOWEL_SEPARATOR = 0x180E
STRIP_ACCENTS = normalizers.StripAccents()
PUNCTUATION_SPLIT = pre_tokenizers.Punctuation()
HAN_NAMES = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH")


def classes_of(code_point):
    category = new.category(chr(code_point))
    bits = {"L": LETTER, "N": NUMBER}.get(category[0], 0)
    if code_point in WHITE_SPACE:
        bits |= SPACE
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code_point in WORD_EXTRA:
        bits |= WORD
    # These two follow older versions of Unicode in the reference.
    text = chr(code_point)
    is_surrogate = category == "Cs"
    if not is_surrogate and not STRIP_ACCENTS.normalize_str(text):
        bits |= ACCENT
    if not is_surrogate and len(PUNCTUATION_SPLIT.pre_tokenize_str(f"a{text}b")) == 3:
        bits |= PUNCTUATION
    return bits


def ranges_of(value_of):
    """(first, last, value) for every maximal run of one true value."""
    ranges = []
    for code_point in range(NUM_CODE_POINTS):
        value = value_of(code_point)
        if not value:
            continue
        if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == value:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point, value])
    return ranges


def utf8_length(code_point):
    return 3 if code_point < 0x10000 else 4


def kind_of(code_point):
    """What a split pattern can tell apart: UTF-8 length, general category, and whether it is Han."""
    is_han = new.name(chr(code_point), "").startswith(HAN_NAMES)
    return (utf8_length(code_point), new.category(chr(code_point)), is_han)


def stand_ins():
    """code point -> an old one of the same kind, where a library may not know its 16.0 category."""
    candidates = {}
    changed = []
    for code_point in range(0x800, NUM_CODE_POINTS):
        text = chr(code_point)
        if new.category(text) == "Cn":
            continue
        if old.category(text) != new.category(text):
            changed.append(code_point)
        elif code_point not in WHITE_SPACE and code_point != MONGOLIAN_VOWEL_SEPARATOR:
            candidates.setdefault(kind_of(code_point), code_point)
    # White space for some libraries, although Unicode took that back in 6.3.
    changed.append(MONGOLIAN_VOWEL_SEPARATOR)
    return {code_point: candidates[kind_of(code_point)] for code_point in changed}


def inert_characters():
    """Characters that came after the Unicode version of the reference's normal forms: it neither reorders,
    composes nor decomposes them."""
    nfc, nfkd = normalizers.NFC().normalize_str, normalizers.NFKD().normalize_str
    low_mark, high_mark = "\u0334", "\u0315"  # combining classes 1 and 232
    result = set()
    for code_point in range(0x80, NUM_CODE_POINTS):
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        text = chr(code_point)
        if any(nfc(s) != new.normalize("NFC", s) for s in (f"a{text}{low_mark}", f"a{high_mark}{text}")):
            result.add(code_point)
        if nfkd(text) != new.normalize("NFKD", text):
            result.update((code_point, ord(new.normalize("NFD", text)[0])))
    return result


def recent_capitals():
    """The capitals that came after Python 3.11's Unicode, and how far behind them their small letters are."""
    lower = normalizers.Lowercase().normalize_str
    code_points = (c for c in range(NUM_CODE_POINTS) if not 0xD800 <= c <= 0xDFFF)
    changed = {c: lower(chr(c)) for c in code_points if lower(chr(c)) != chr(c).lower()}
    assert all(len(small) == 1 for small in changed.values())
    return {c: ord(small) - c for c, small in changed.items()}


def write_table(out, name, struct, ranges):
    out.write(f"const {struct} {name}[] = {{\n")
    line = "   "
    for first, last, value in ranges:
        third = "" if value is True else f", {'-' if value < 0 else ''}0x{abs(value):X}"
        entry = f" {{0x{first:X}, 0x{last:X}{third}}},"
        if len(line) + len(entry) > 120:
            out.write(line + "\n")
            line = "   "
        line += entry
    out.write(f"{line}\n}};\nconst size_t kNum{name[1:]} = {len(ranges)};\n")


def main():
    assert old.unidata_version == "14.0.0", "run with Python 3.11 (Unicode 14.0)"
    assert new.unidata_version == "16.0.0", "needs unicodedata2==16.0.0"
    substitutes = stand_ins()
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("// Written by tools/tokenizer/make_unicode_tables.py from Unicode data; do not edit.\n"
                  "// The data: Copyright 1991-2024 Unicode, Inc., Unicode License V3\n"
                  "// (https://www.unicode.org/license.txt).\n"
                  '#include "server/text/unicode_tables.h"\n\nnamespace quire {\n\n'
                  "// clang-format off\n")
        write_table(out, "kClassRanges", "ClassRange", ranges_of(classes_of))
        out.write("\n")
        write_table(out, "kStandInRanges", "StandInRange", ranges_of(substitutes.get))
        out.write("\n")
        inert = inert_characters()
        write_table(out, "kInertRanges", "InertRange", ranges_of(lambda c: c in inert))
        out.write("\n")
        write_table(out, "kCapitalRanges", "CapitalRange", ranges_of(recent_capitals().get))
        out.write("// clang-format on\n\n}  // namespace quire\n")


if __name__ == "__main__":
    main()
