#!/usr/bin/env python3
"""Compares published chat templates with Python's jinja2, as differential_test.py does the ones that were written for it.

QUIRE_CHAT_TEMPLATES names a folder: of each *.jinja file and each tokenizer_config.json below it the templates are
rendered with fixed and random conversations. Exits 77 (skipped) where the variable is not set or jinja2 is not installed.
Usage: published_templates_test.py TEMPLATE_TOOL
"""
import json
import os
import pathlib
import random
import sys

from differential_test import Comparison

import differential_random
import family_templates

NUM_RANDOM = 150  # of each template
SEED = 20260101


def templates_below(folder):
    """(name, source) of each template."""
    for path in sorted(folder.rglob("*.jinja")):
        yield str(path.relative_to(folder)), path.read_text(encoding="utf-8")
    for path in sorted(folder.rglob("tokenizer_config.json")):
        given = json.loads(path.read_text(encoding="utf-8")).get("chat_template") or []
        listed = [{"name": "default", "template": given}] if isinstance(given, str) else given
        for one in listed:
            yield f"{path.relative_to(folder)}, {one['name']}", one["template"]


def cases_of(name, template, rng):
    for conversation, messages in family_templates.CONVERSATIONS.items():
        for number, given in enumerate(family_templates.INPUTS):
            yield {"name": f"{name}, {conversation}, input {number}", "template": template,
                   "input": {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **given}}
    for number in range(NUM_RANDOM):
        yield {**differential_random.conversation_case(rng), "name": f"{name}, random {number}", "template": template}


def main():
    folder = os.environ.get("QUIRE_CHAT_TEMPLATES")
    if not folder:
        print("skipped: QUIRE_CHAT_TEMPLATES names no folder with chat templates")
        return 77
    comparison = Comparison(sys.argv[1])
    rng = random.Random(SEED)
    num_templates = 0
    for name, template in templates_below(pathlib.Path(folder)):
        num_templates += 1
        for case in cases_of(name, template, rng):
            comparison.add(case)
    print(f"{num_templates} templates")
    return comparison.status(min_cases=1)


if __name__ == "__main__":
    sys.exit(main())
