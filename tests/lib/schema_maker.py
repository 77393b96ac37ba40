"""Random JSON schemas that can be satisfied, for tests of structured output: nested objects and lists, enumerations,
alternatives, references, patterns, formats, numbers with bounds. And a check of what was written for one."""

import datetime
import ipaddress
import re

import jsonschema

PATTERNS = ["^[a-z]{2,5}$", r"^\d{3}-\d{4}$", "^(red|green|blue)( fox)?$", "b+c", r"^[^\s,]+, [A-Z]$", "[.!?]$",
            "^(?!no).{1,6}$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email"]
WORDS = ["name", "age", "a b", "Größe", "x\"y", "id", "items", "kind", "left", "right", "note", "0"]


def _time(text):
    hour, minute, second = re.match(r"(\d\d):(\d\d):(\d\d)(\.\d+)?([zZ]|[+-]\d\d:\d\d)$", text).groups()[:3]
    return int(hour) < 24 and int(minute) < 60 and int(second) <= 60


def _date(text):
    year, month, day = re.match(r"(\d{4})-(\d\d)-(\d\d)$", text).groups()
    return bool(datetime.date(int(year) or 4, int(month), int(day)))  # Python has no year 0


CHECKS = {
    "date": _date,
    "time": _time,
    "date-time": lambda text: text[10] in "tT" and _date(text[:10]) and _time(text[11:]),
    "uuid": lambda text: re.match(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", text),
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "email": lambda text: re.match(r".+@[^@]+$", text),
}


def _checker():
    checker = jsonschema.FormatChecker(formats=())
    for name, check in CHECKS.items():
        checker.checks(name, raises=(ValueError, AttributeError, IndexError))(
            lambda value, check=check: not isinstance(value, str) or bool(check(value)))
    return checker


def validate(value, schema):
    """Raises jsonschema.ValidationError if the value is not valid."""
    jsonschema.Draft202012Validator(schema, format_checker=_checker()).validate(value)


class SchemaMaker:
    """`random` is a random.Random, on which alone the schemas depend."""

    def __init__(self, random):
        self.random = random

    def make(self):
        schema = self.object(3)
        if "$ref" in repr(schema):
            schema["$defs"] = {
                "leaf": self.scalar(),
                "tree": {"type": "object", "properties": {
                    "value": {"type": "integer", "minimum": 0, "maximum": 99},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
                    "required": ["value"], "additionalProperties": False}}
        return schema

    def value(self, depth):
        kinds = [self.scalar] * 5
        if depth > 0:
            kinds += [lambda: self.object(depth - 1)] * 2 + [lambda: self.array(depth - 1)] * 2 + [
                lambda: self.alternatives(depth - 1), lambda: {"$ref": "#/$defs/leaf"}, lambda: {"$ref": "#/$defs/tree"}]
        return self.random.choice(kinds)()

    def scalar(self):
        return self.random.choice([self.string, self.string, self.integer, self.number, self.choices,
                                   lambda: {"type": "boolean"}, lambda: {"type": "null"},
                                   lambda: {"type": ["string", "null"], "maxLength": 8}])()

    def string(self):
        schema = {"type": "string"}
        kind = self.random.randrange(4)
        if kind == 0:
            schema["pattern"] = self.random.choice(PATTERNS)
            schema["maxLength"] = self.random.randrange(9, 20)
        elif kind == 1:
            schema["format"] = self.random.choice(FORMATS)
            if schema["format"] in ("email", "time", "date-time"):
                schema["maxLength"] = 40
        else:
            schema["minLength"] = self.random.randrange(3)
            schema["maxLength"] = schema["minLength"] + self.random.randrange(12)
        return schema

    def integer(self):
        schema = {"type": "integer"}
        low = self.random.randrange(-1000, 1000)
        schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        schema[self.random.choice(["maximum", "exclusiveMaximum"])] = low + self.random.choice([2, 9, 100, 12345])
        if self.random.random() < 0.3 and "maximum" in schema:
            schema["multipleOf"] = self.random.choice([2, 3, 7])
            schema["maximum"] = low + 40
        return schema

    def number(self):
        low = self.random.randrange(-4000, 4000) / 8
        schema = {"type": "number", "minimum": low, "maximum": low + self.random.choice([0, 0.125, 1, 30.5])}
        if self.random.random() < 0.3:
            schema = {"type": "number", "multipleOf": 0.25, "minimum": -3, "exclusiveMaximum": 1000}
        return schema

    def choices(self):
        values = ["red", "", "tab\there", "\u2603 \"quoted\"", 7, -2.5, True, None, {"a": [1, "x"]}, [], "\\"]
        if self.random.random() < 0.2:
            return {"const": self.random.choice(values)}
        return {"enum": self.random.sample(values, self.random.randrange(1, 5))}

    def array(self, depth):
        schema = {"type": "array"}
        if self.random.random() < 0.3:
            schema["prefixItems"] = [self.value(depth) for _ in range(self.random.randrange(1, 4))]
            schema["items"] = self.random.choice([False, self.scalar()])
            schema["minItems"] = self.random.randrange(len(schema["prefixItems"]) + 1)
            schema["maxItems"] = len(schema["prefixItems"]) + 1
        else:
            schema["items"] = self.value(depth)
            schema["minItems"] = self.random.randrange(3)
            schema["maxItems"] = schema["minItems"] + self.random.randrange(3)
        return schema

    def alternatives(self, depth):
        if self.random.random() < 0.5:
            return {"anyOf": [self.value(depth) for _ in range(self.random.randrange(2, 4))]}
        if self.random.random() < 0.5:
            return {"allOf": [{"type": "object", "properties": {"kind": self.choices()}, "required": ["kind"]},
                              {"properties": {"more": self.scalar()}, "maxProperties": 2}]}
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, "value": self.value(depth)},
                           "required": ["kind", "value"], "additionalProperties": False} for kind in ("a", "b")]}

    def object(self, depth):
        names = self.random.sample(WORDS, self.random.randrange(1, 5))
        schema = {"type": "object", "properties": {name: self.value(depth) for name in names}}
        required = [name for name in names if self.random.random() < 0.6]
        if self.random.random() < 0.2:
            required.append("undeclared")
        if required:
            schema["required"] = required
        others = self.random.randrange(4)
        if others == 0:
            schema["patternProperties"] = {"^n[0-9]$": self.scalar()}
            schema["maxProperties"] = len(names) + 2
        if others != 1:
            schema["additionalProperties"] = "undeclared" in required and self.scalar()
            if schema["additionalProperties"]:
                schema["maxProperties"] = len(names) + 2
        else:
            schema["maxProperties"] = len(names) + 1
        return schema
