#!/usr/bin/env python3
"""How long templates that want to run for ever are allowed to: milliseconds to the error, the best of five.

usage: hostile_templates.py TEMPLATE_TOOL     (tools/tokenizer/hostile_templates builds first)
"""

import json
import subprocess
import sys
import time

DEPTH = 10**5
TEMPLATES = {
    "range(10 ** 9)": "{% for a in range(10 ** 9) %}{% endfor %}",
    "loop in a loop": "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "lists compared in a loop": "{% for a in range(100000) %}{% set x = range(99999) == range(99999) %}{% endfor %}",
    "a list sorted in a loop": "{% set x = range(50000)|list %}{% for a in x %}{% set y = x|sort %}{% endfor %}",
    "a text copied in a loop": "{% set x = 'ab' * 500000 %}{% for a in range(100000) %}{% set y = x|upper %}{% endfor %}",
    "a text doubled": "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "self recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    f"{DEPTH} brackets": "{{ " + "(" * DEPTH + "1" + ")" * DEPTH + " }}",
    f"{DEPTH} lists": "{{ " + "[" * DEPTH + "]" * DEPTH + " }}",
    f"{DEPTH} ifs": "{% if 1 %}" * DEPTH + "{% endif %}" * DEPTH,
}


def main():
    tool = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(f"{'template':<28}{'ms':>8}  the error")
    for name, template in TEMPLATES.items():
        times = []
        for _ in range(5):
            start = time.monotonic()
            tool.stdin.write(json.dumps({"template": template, "input": {}}) + "\n")
            tool.stdin.flush()
            answer = json.loads(tool.stdout.readline())
            times.append(time.monotonic() - start)
        print(f"{name:<28}{1e3 * min(times):>8.1f}  {answer.get('error', 'NONE: it was rendered')[:90]}")
    tool.stdin.close()
    return tool.wait()


if __name__ == "__main__":
    sys.exit(main())
