#!/usr/bin/env python3
"""Quire's token masks beside llguidance's, over the tokenizer of the bundled model: for simple JSON schemas and regular
expressions, both allow the same tokens at each step of random walks.

JSON is compared without white space. Differences that are meant, and not compared:
- tokens with a backslash: Quire's strings have every escape, llguidance's only the usual ones, and neither writes what a
  list or a pattern contains in more than one way;
- tokens with the byte 0x7f, which llguidance's strings lack;
- tokens that are shorter than a text that must come: llguidance only allows the token with which its tokenizer would
  begin that text;
- \\d and \\w, which have all of Unicode in llguidance, and the line ends that a dot does not match;
- -0, which only one of them may allow where a number has bounds.
Exit code 77 (skipped) without the packages.

usage: mask_oracle_test.py CONSTRAINT_TOOL MODEL_FOLDER [--walks N] [--seed N]"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    import llguidance
    import numpy
except ImportError as error:
    print(f"skipped: the Python module {error.name} is not installed")
    sys.exit(77)

from constraint_tool import ConstraintTool

MAX_STEPS = 60
SHOWN = 10

SCHEMAS = (
    {"type": "null"}, {"type": "boolean"}, {"type": "integer"}, {"type": "number"}, {"type": "string"},
    {"type": "array"}, {"type": "object"}, {}, {"type": ["string", "null"]},
    {"enum": ["red", "green", "greener", 12, 1, None, True]}, {"const": "a constant"},
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {"type": "boolean"}},
     "required": ["b"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}, "abc": {"type": "boolean"}},
     "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"enum": ["x", "xy"]}, "minItems": 2},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}},
    {"type": "string", "pattern": "^[a-z]{2,5}$"}, {"type": "string", "pattern": "^(foo|bar)+[0-9]?$"},
    {"type": "string", "pattern": "^[A-Z][a-z]* [A-Z][a-z]*$"}, 
    {"type": "string", "format": "time"}, {"type": "string", "format": "uuid"}, {"type": "string", "format": "ipv4"},
    {"type": "string", "minLength": 3, "maxLength": 6}, {"type": "string", "maxLength": 20},
    {"type": "integer", "minimum": 5, "maximum": 120}, {"type": "integer", "minimum": -10, "maximum": 9},
    {"type": "integer", "exclusiveMinimum": 99},
    {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^x+$"}]},
    {"anyOf": [{"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "integer"}},
                "required": ["k", "v"], "additionalProperties": False},
               {"type": "object", "properties": {"k": {"const": "b"}, "w": {"type": "null"}},
                "required": ["k", "w"], "additionalProperties": False}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"type": "object", "properties": {"a": {"maximum": 100, "minimum": 1}}}], "additionalProperties": True},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["value", "children"], "additionalProperties": False}}},
)

REGEXES = (
    "a*b", "(yes|no|maybe)", "[0-9]{3}-[0-9]{4}", r"[0-9]+(\.[0-9]+)?", "[^a-z]{1,8}", "(the )?(cat|dog)s?( and )?", r"[^\n\r]{0,12}",
    "(?i)hello world", "[a-zA-Z_][a-zA-Z0-9_]*", "x{10,40}", "(ab|cd){2,4}e?", r"[a-z_.]+@[a-z0-9.]+\.[a-z]{2,3}",
    "é+ü?", "[α-ω]{2,4}", "(0|1(01*0)*1)+",
)


class Peer:
    """llguidance with the same vocabulary."""

    def __init__(self, folder):
        self.tokenizer = llguidance.LLTokenizer(str(Path(folder) / "tokenizer.json"), eos_token=end_of(folder))
        self.mask_words = numpy.zeros((self.tokenizer.vocab_size + 31) // 32, dtype=numpy.uint32)

    def begin(self, kind, constraint):
        maker = llguidance.LLMatcher
        if kind == "regex":
            grammar = maker.grammar_from_regex(constraint)
        else:
            compact = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
            grammar = maker.grammar_from_json_schema(json.dumps(constraint), overrides=compact)
        self.matcher = maker(self.tokenizer, grammar, log_level=0)
        if self.matcher.is_error():
            raise ValueError(self.matcher.get_error())

    def mask(self):
        self.matcher.unsafe_compute_mask_ptr(self.mask_words.ctypes.data, self.mask_words.nbytes)
        bits = numpy.unpackbits(self.mask_words.view(numpy.uint8), bitorder="little")
        return set(numpy.flatnonzero(bits).tolist())


def end_of(folder):
    name = json.loads((Path(folder) / "tokenizer_config.json").read_text())["eos_token"]
    added = json.loads((Path(folder) / "tokenizer.json").read_text())["added_tokens"]
    return next(entry["id"] for entry in added if entry["content"] == name)


def walk(tool, peer, compared, text_of, end, chance):
    """Steps of one walk; the first difference, or None."""
    text = b""
    for step in range(MAX_STEPS):
        ours, theirs = tool.mask(), peer.mask()
        forced = peer.matcher.compute_ff_bytes()
        if forced:
            theirs |= {token for token in compared & ours if forced.startswith(text_of[token])}
        different = {token for token in ours ^ theirs if token in compared
                     and not (text + text_of[token]).strip(b"[{,").endswith(b"-0")}
        if different:
            words = ", ".join(f"{'Quire' if token in ours else 'llguidance'} allows {text_of[token]!r}"
                              for token in sorted(different)[:4])
            return step, f"after {text!r}: {len(different)} tokens differ: {words}"
        both = sorted(token for token in ours & theirs if token in compared)
        if end in both and (len(both) == 1 or chance.random() < 0.2) or not both:
            return step + 1, None
        token = chance.choice([token for token in both if token != end])
        if not tool.ask(accept=token)["accepted"] or not peer.matcher.consume_token(token):
            return step, f"after {text!r}: {text_of[token]!r} is in the mask but not accepted"
        text += text_of[token]
    return MAX_STEPS, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("folder")
    parser.add_argument("--walks", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    tool, peer = ConstraintTool(arguments.tool, arguments.folder), Peer(arguments.folder)
    end = end_of(arguments.folder)
    text_of = {token: peer.tokenizer.decode_bytes([token]) for token in range(peer.tokenizer.vocab_size)}
    compared = {token for token, text in text_of.items() if b"\\" not in text and b"\x7f" not in text}
    constraints = [("schema", schema) for schema in SCHEMAS] + [("regex", regex) for regex in REGEXES]
    num_steps, failures = 0, []
    for kind, constraint in constraints:
        chance = random.Random(f"{arguments.seed}/{constraint}")
        tool.ask(**{kind: json.dumps(constraint) if kind == "schema" else constraint}, compact=True)
        for _ in range(arguments.walks):
            peer.begin(kind, constraint)
            tool.ask(restart=True)
            steps, difference = walk(tool, peer, compared, text_of, end, chance)
            num_steps += steps
            if difference:
                failures.append(f"{constraint}\n  {difference}")
                break
    for failure in failures[:SHOWN]:
        print(failure)
    print(f"{len(constraints)} constraints, {num_steps} masks, {len(failures)} constraints differ; --seed {arguments.seed}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
