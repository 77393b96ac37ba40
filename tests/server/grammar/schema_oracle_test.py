#!/usr/bin/env python3
"""Random JSON schemas and values: Quire accepts the values that the Python package jsonschema calls valid.

A schema is a few keywords that are put together at random, over few names, texts and numbers, so that values are often
valid by a hair. Quire may refuse a schema. A valid value is written with its members in the order in which Quire writes
them: if it is not accepted, any other order must be. Texts that random walks through the constraint make must be valid,
too. Exit code 77 (skipped) without the package.

usage: schema_oracle_test.py CONSTRAINT_TOOL [--schemas N] [--seed N]"""

import argparse
import itertools
import json
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    import jsonschema
except ImportError as error:
    print(f"skipped: the Python module {error.name} is not installed")
    sys.exit(77)

from constraint_tool import ConstraintTool, Refused

NAMES = ("a", "b", "ab", "c")
TEXTS = ("", "a", "ab", "b", "abc")
NUMBERS = (0, 1, 2, 3, -1, 1.5, 0.5, 6)
SHOWN = 5
MAX_ORDERS = 500
LONG_NUMBER = re.compile(r"[0-9.]{13}")  # jsonschema computes with doubles


class Maker:
    """Makes schemas and values."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, values, most):
        return self.random.sample(values, self.random.randint(1, min(most, len(values))))

    def value(self, depth=2):
        kind = self.random.randrange(8 if depth else 5)
        if kind < 2:
            return self.random.choice(NUMBERS)
        if kind < 4:
            return self.random.choice(TEXTS)
        if kind == 4:
            return self.random.choice((None, True, False))
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        names = [name for name in NAMES if self.random.random() < 0.5]
        return {name: self.value(depth - 1) for name in names}

    def schema(self, depth=3):
        if depth == 0 or self.random.random() < 0.1:
            return self.leaf()
        schema = {}
        makers = (self.leaf, self.of_numbers, self.of_texts, self.of_arrays, self.of_objects, self.of_objects,
                  self.combined, self.combined)
        for make in self.random.choices(makers, k=self.random.randint(1, 3)):
            schema |= make(depth - 1)
        entries = list(schema.items())
        self.random.shuffle(entries)
        return dict(entries)

    def leaf(self, _=0):
        types = ["null", "boolean", "integer", "number", "string", "array", "object"]
        return self.random.choice((
            {"type": self.random.choice(types)}, {"type": self.some(types, 3)}, {"const": self.value(1)},
            {"enum": [self.value(1) for _ in range(self.random.randint(1, 4))]}, {}))

    def of_numbers(self, _):
        number = lambda: self.random.choice(NUMBERS)
        return self.random.choice((
            {"minimum": number()}, {"maximum": number()}, {"exclusiveMinimum": number(), "maximum": number()},
            {"multipleOf": self.random.choice((0.5, 1, 2, 3, 1.5))}))

    def of_texts(self, _):
        return self.random.choice((
            {"minLength": self.random.randrange(4)}, {"maxLength": self.random.randrange(4)},
            {"pattern": self.random.choice(("a", "^a", "b$", "^(ab|b)?$", "^[^b]*$", "a.?b"))}))

    def of_arrays(self, depth):
        count = lambda: self.random.randrange(4)
        return self.random.choice((
            {"items": self.schema(depth)}, {"minItems": count()}, {"maxItems": count()},
            {"prefixItems": [self.schema(depth) for _ in range(self.random.randint(1, 2))]},
            {"prefixItems": [self.schema(depth)], "items": self.schema(depth)},
            {"contains": self.schema(depth)},
            {"contains": self.schema(depth), "minContains": count(), "maxContains": count()}))

    def of_objects(self, depth):
        count = lambda: self.random.randrange(4)
        return self.random.choice((
            {"properties": {name: self.schema(depth) for name in self.some(NAMES, 3)}},
            {"properties": {name: self.schema(depth) for name in self.some(NAMES, 3)},
             "additionalProperties": self.random.choice((False, self.schema(depth)))},
            {"properties": {name: self.schema(depth) for name in self.some(NAMES, 2)},
             "required": self.some(NAMES, 2)},
            {"required": self.some(NAMES, 2)}, {"additionalProperties": self.schema(depth)},
            {"patternProperties": {self.random.choice(("^a", "b", "a$")): self.schema(depth)}},
            {"patternProperties": {"^a": self.schema(depth)}, "additionalProperties": self.schema(depth)},
            {"propertyNames": self.random.choice(({"maxLength": 1}, {"pattern": "a"}, {"enum": ["a", "c"]}))},
            {"minProperties": count()}, {"maxProperties": count()},
            {"dependentRequired": {self.random.choice(NAMES): self.some(NAMES, 2)}},
            {"dependentSchemas": {self.random.choice(NAMES): self.schema(depth)}}))

    def combined(self, depth):
        several = lambda: [self.schema(depth) for _ in range(self.random.randint(1, 3))]
        return self.random.choice((
            {"anyOf": several()}, {"oneOf": several()}, {"allOf": several()}, {"not": self.schema(depth)},
            {"if": self.schema(depth), "then": self.schema(depth)},
            {"if": self.schema(depth), "then": self.schema(depth), "else": self.schema(depth)}))


def texts(value):
    """The value's texts with the members of its objects in each order."""
    if isinstance(value, list):
        for items in itertools.product(*(list(texts(item)) for item in value)):
            yield "[" + ", ".join(items) + "]"
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            for items in itertools.product(*(list(texts(value[name])) for name in names)):
                yield "{" + ", ".join(f"{json.dumps(name)}: {item}" for name, item in zip(names, items)) + "}"
    else:
        yield json.dumps(value)


class Twice(Exception):
    """An object has a name twice, which only a parser can refuse."""


def once(members):
    if len({name for name, _ in members}) < len(members):
        raise Twice
    return dict(members)


def check_samples(tool, schema, seeds):
    """The texts of random walks through the constraint that are not valid."""
    validator = jsonschema.Draft202012Validator(schema)
    wrong, num_texts = [], 0
    for seed in seeds:
        text = tool.ask(sample=seed)["text"]
        if text is None or LONG_NUMBER.search(text):
            continue
        try:
            value = json.loads(text, object_pairs_hook=once)
        except Twice:
            continue
        num_texts += 1
        if not validator.is_valid(value):
            wrong.append(f"makes {text}")
    return wrong, num_texts


def check(tool, schema, values):
    """What is wrong with Quire's verdicts on the values, one line each."""
    validator = jsonschema.Draft202012Validator(schema)
    wrong = []
    for value in values:
        is_valid = validator.is_valid(value)
        orders = list(itertools.islice(texts(value), MAX_ORDERS))
        accepted = [text for text in orders if tool.accepts(text)]
        if is_valid and not accepted and len(orders) < MAX_ORDERS:
            wrong.append(f"stops {orders[0]}")
        elif accepted and not is_valid:
            wrong.append(f"accepts {accepted[0]}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--schemas", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    tool = ConstraintTool(arguments.tool)
    num_refused, num_values, num_texts, failures, reasons = 0, 0, 0, [], {}
    for index in range(arguments.schemas):
        maker = Maker(f"{arguments.seed}/{index}")
        schema = maker.schema()
        values = [maker.value() for _ in range(20)]
        try:
            tool.ask(schema=json.dumps(schema))
        except Refused as reason:
            num_refused += 1
            text = str(reason)
            text = text[text.find(": ") + 2:] if text.startswith("#") else text
            reasons[text] = reasons.get(text, 0) + 1
            if "nothing is valid" in text:
                validator = jsonschema.Draft202012Validator(schema)
                failures += [f"{json.dumps(schema)}\n  has no value, but {json.dumps(value)} is valid"
                             for value in values if validator.is_valid(value)]
            continue
        num_values += len(values)
        wrong, num_made = check_samples(tool, schema, range(index * 20, index * 20 + 20))
        num_texts += num_made
        failures += [f"{json.dumps(schema)}\n  {line}" for line in [*check(tool, schema, values), *wrong]]
    for failure in sorted(failures, key=len)[:SHOWN]:
        print(failure)
    for reason, count in sorted(reasons.items(), key=lambda entry: -entry[1]):
        print(f"{count:6} refused: {reason}")
    print(f"{arguments.schemas} schemas, {num_refused} refused, {num_values} values, {num_texts} texts, {len(failures)} "
          f"wrong; "
          f"--seed {arguments.seed}")
    if num_values < 10 * arguments.schemas:
        sys.exit("most schemas are refused: this tests nothing")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
