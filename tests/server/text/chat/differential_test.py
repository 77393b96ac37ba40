#!/usr/bin/env python3
"""Compares quire's chat templates with Python's jinja2, set up as transformers sets it up.

Every case is a template and an input. Both sides must render the same bytes, or both must fail. Exits 77 (skipped)
where jinja2 is not installed. Usage: differential_test.py TEMPLATE_TOOL [--random CASES] [--seed N] [-v]
"""
import argparse
import datetime
import functools
import itertools
import json
import os
import random
import subprocess
import sys

try:
    import jinja2
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("skipped: the Python module jinja2 is not installed")
    sys.exit(77)

import differential_cases
import differential_random

NOW = 1751700000
MIN_CASES = 200


class Generation(Extension):
    """{% generation %}, which here only prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def make_environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(NOW).strftime(format)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    environment.from_string = functools.lru_cache(maxsize=64)(environment.from_string)
    return environment


def reference(environment, template, given):
    variables = {
        "messages": given.get("messages", []),
        "tools": given.get("tools"),
        "documents": given.get("documents"),
        "add_generation_prompt": given.get("add_generation_prompt", False),
        "continue_final_message": False,
        "bos_token": given.get("bos_token", ""),
        "eos_token": given.get("eos_token", ""),
        **given.get("kwargs", {}),
    }
    try:
        return {"text": environment.from_string(template).render(**variables)}
    except Exception as error:  # Any failure is a result to compare.
        return {"error": f"{type(error).__name__}: {error}"}


def explain(case, expected, actual):
    print(f"--- {case['name']}\ntemplate: {case['template']!r}\ninput: {json.dumps(case['input'])[:600]}")
    print(f"jinja2: {expected}\nquire:  {actual}\n")


class Comparison:
    """Renders cases on both sides and counts where they differ."""

    def __init__(self, program, is_verbose=False):
        os.environ["TZ"] = "UTC"
        self.tool = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.environment = make_environment()
        self.is_verbose = is_verbose
        self.num_cases = self.num_wrong = self.num_errors = 0

    def add(self, case):
        self.num_cases += 1
        # Through JSON, so that both sides see the same values.
        given = json.loads(json.dumps(case["input"]))
        expected = reference(self.environment, case["template"], given)
        request = {"template": case["template"], "input": {**given, "now": NOW}}
        self.tool.stdin.write(json.dumps(request) + "\n")
        self.tool.stdin.flush()
        line = self.tool.stdout.readline()
        if not line:
            sys.exit(f"the tool died on {case['name']}: {case['template']!r}")
        actual = json.loads(line)
        self.num_errors += "error" in expected
        same = expected.get("text") == actual.get("text")
        if not same or self.is_verbose:
            explain(case, expected, actual)
        self.num_wrong += not same

    def status(self, min_cases):
        """The exit status, after a line that says how it was."""
        self.tool.stdin.close()
        print(f"{self.num_cases} cases, {self.num_errors} of them errors; {self.num_wrong} differ (jinja2 {jinja2.__version__})")
        if self.num_cases < min_cases:
            print(f"expected at least {min_cases} cases")
            return 1
        return 1 if self.num_wrong or self.tool.wait() != 0 else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--random", type=int, default=2000, metavar="CASES")
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    comparison = Comparison(options.tool, options.v)
    rng = random.Random(options.seed)
    for case in itertools.chain(differential_cases.all_cases(), differential_random.cases(rng, options.random)):
        comparison.add(case)
    return comparison.status(MIN_CASES)


if __name__ == "__main__":
    sys.exit(main())
