#!/usr/bin/env python3
"""What messages in all their forms come to in templates of each kind, beside what Python's jinja2 makes of them.

A case is a kind of template, messages as a client sends them, and the same messages in a form that the template was
written for: as they were sent, where it can show them. jinja2, set up as transformers sets it up, renders the latter,
and the server must come to the same text. Exits 77 (skipped) where jinja2 is not installed.
Usage: message_forms_test.py TEMPLATE_TOOL
"""
import json
import os
import subprocess
import sys
import unittest

from differential_test import make_environment, reference

# Takes only texts; None and lists make it fail.
TEXT = """{%- for m in messages %}<|{{ m.role }}|>{{ m.content + '' }}
{%- for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}"""
# The same, and prints whatever it is.
PRINTS = """{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}
{%- for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}"""
AS_JSON = """{%- for m in messages %}<|{{ m.role }}|>{{ m.content if m.content is string else m.content | tojson }}
{%- for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}"""
# Walks over parts: in the loop, through a variable, through a macro, by a filter.
WALKS = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.content is string %}{{ m.content }}{% else %}
{%- for part in m['content'] or [] %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}"""
WALKS_VARIABLE = """{%- for m in messages %}{% set content = m.content %}<|{{ m.role }}|>
{%- if content is string %}{{ content }}{% elif content %}
{%- for part in content %}{{ '~' ~ part['text'] }}{% endfor %}{% endif %}<|end|>{% endfor %}"""
WALKS_MACRO = """{%- macro show(content) %}{% if content is string %}{{ content }}{% else %}
{%- for part in content %}{{ part.text }}{% if not loop.last %} {% endif %}{% endfor %}{% endif %}{% endmacro %}
{%- for m in messages %}<|{{ m.role }}|>{{ show(m.content) | trim }}<|end|>{% endfor %}"""
WALKS_FILTER = """{%- for m in messages %}<|{{ m.role }}|>
{{- m.content if m.content is string else m.content | map(attribute='text') | join('+') }}<|end|>{% endfor %}"""
# Walks over the parts of users only.
WALKS_USERS = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.role == 'user' and m.content is not string %}{% for part in m.content %}{{ part.text }}{% endfor %}
{%- else %}{{ m.content | trim }}{% endif %}<|end|>{% endfor %}"""
# Takes only parts: a text would be walked over letter by letter.
PARTS = """{%- for m in messages %}<|{{ m.role }}|>
{%- for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}<|end|>{% endfor %}"""
# Shows only the first part of a content, and fails on a text.
FIRST_PART = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.role == 'user' %}{% for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}{% endfor %}
{%- else %}{{ '' + m.content[0]['text'] }}{% endif %}<|end|>{% endfor %}"""
# Looks into the first part or letter, and so fails on an empty text and on null.
FIRST_OF_ALL = """{%- for m in messages %}<|{{ m.role }}|>{% if m.content[0].thinking %}({{ m.content[0].thinking }}){% endif %}
{%- if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}"""
THINKS = """{%- for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}
{%- for part in m.content %}{% if part.type == 'text' %}{{ part.text }}
{%- elif part.type == 'thinking' %}({{ part.thinking }}){% endif %}{% endfor %}{% endif %}<|end|>{% endfor %}"""
# Has the word, but not the type of parts.
THINKS_ELSEWHERE = """{%- for m in messages %}<|{{ m.role }}|>{% if m['thinking'] %}({{ m['thinking'] }}){% endif %}
{%- if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}
{%- else %}{{ raise_exception('unknown part') }}{% endif %}{% endfor %}{% endif %}<|end|>{% endfor %}"""
REASONS = """{%- for m in messages %}<|{{ m.role }}|>{% if m.thinking %}({{ m.thinking }}){% endif %}{{ m.content }}<|end|>{% endfor %}"""
# Does so in one of two places.
REASONS_ONCE = """{%- for m in messages %}{% if m.tool_calls and m.content and m.thinking %}
{{- raise_exception('both') }}{% endif %}<|{{ m.role }}|>{{ m.thinking }}{{ m.content }}<|end|>{% endfor %}"""
# Walks over arguments, or prints what there is.
ARGUMENTS = """{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}
{%- for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}]{% endfor %}<|end|>{% endfor %}"""
PRINTS_ARGUMENTS = """{%- for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}
{%- set a = c.function.arguments %}[{{ a if a is string else a | tojson }}]{% endfor %}<|end|>{% endfor %}"""
# Tells null from an empty text, and no content from both.
NULLS = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.content is not defined %}-{% elif m.content is none %}0{% else %}{{ m.content }}{% endif %}
{%- for c in m.tool_calls or [] %}[{{ c.function.name }}]{% endfor %}<|end|>{% endfor %}"""
# Shows calls only beside null, or only where there is something in the list.
NULL_CALLS = """{%- for m in messages %}<|{{ m.role }}|>
{%- if m.role == 'assistant' and m['content'] is none %}
{%- for c in m['tool_calls'] %}[{{ c.function.name }}]{% endfor %}
{%- else %}{{ m.content + '' }}{% endif %}<|end|>{% endfor %}"""
ASKS_FOR_CALLS = """{%- for m in messages %}<|{{ m.role }}|>{{ m.content if m.content else '' }}
{%- if 'tool_calls' in m %}[{{ m.tool_calls[0].function.name }}]{% endif %}<|end|>{% endfor %}"""
# Knows developers, or none.
DEVELOPERS = """{%- for m in messages %}
{%- if m.role in ['system', 'developer'] %}<|dev|>{{ m.content }}{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}
{%- endfor %}"""
STRICT = """{%- for m in messages %}{% if m.role not in ["system", "user", "assistant", "tool"] %}
{{- raise_exception('unknown role') }}{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"""
NO_SYSTEM = """{%- for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}
{{- m.content }}{% endfor %}"""
# Looks for instructions only in the first message.
FIRST_MESSAGE = """{%- set dev = ['system', 'developer'] %}
{%- if messages[0].role in dev %}<|dev|>{{ messages[0].content }}{% endif %}
{%- for m in messages if m.role not in dev %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"""

CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "now", "arguments": {}}}
ONE, TWO = {"type": "text", "text": "one"}, {"type": "text", "text": "two"}


def user(content):
    return [{"role": "user", "content": content}]


def called(**content):
    return [*user("a"), {"role": "assistant", **content, "tool_calls": [CALL]},
            {"role": "tool", "content": "12:00", "tool_call_id": "abcdefghi"}]


def part(text):
    return [{"type": "text", "text": text}]


def called_with(**arguments):
    call = {**CALL, "function": {"name": "now", **arguments}}
    return [*user("a"), {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "12:00", "tool_call_id": "abcdefghi"}]


def said(**content):
    return [*user("a"), {"role": "assistant", **content}, *user("b")]


# Template, messages as they are sent, as the template sees them (None: the same).
CASES = {
    "parts in a text": (TEXT, user([ONE, TWO]), user("one\ntwo")),
    "parts, printed": (PRINTS, user([ONE, TWO]), user("one\ntwo")),
    "parts, as JSON": (AS_JSON, user([ONE, TWO]), user("one\ntwo")),
    "one part": (TEXT, user([ONE]), user("one")),
    "no parts": (TEXT, user([]), user("")),
    "parts walked over": (WALKS, user([ONE, TWO]), None),
    "a text beside parts": (WALKS, [*user("zero"), *user([ONE, TWO])], None),
    "no parts walked over": (WALKS, user([]), None),
    "texts as parts": (WALKS, user(["one", TWO]), user([ONE, TWO])),
    "parts through a variable": (WALKS_VARIABLE, user([ONE, TWO]), None),
    "parts through a macro": (WALKS_MACRO, user([ONE, TWO]), None),
    "parts by a filter": (WALKS_FILTER, user([ONE, TWO]), None),
    "parts of users": (WALKS_USERS, [{"role": "system", "content": [ONE, TWO]}, *user([ONE, TWO])],
                       [{"role": "system", "content": "one\ntwo"}, *user([ONE, TWO])]),
    "parts of all roles": (WALKS, [{"role": role, "content": [ONE, TWO]}
                                   for role in ("system", "user", "assistant", "tool")], None),
    "a text as parts": (PARTS, user("one"), user([ONE])),
    "null as parts": (PARTS, called(content=None), [
        {**message, "content": [{"type": "text", "text": message["content"]}] if message["content"] else []}
        for message in called(content=None)]),
    "thinking": (THINKS, said(content=[{"type": "thinking", "thinking": "one"}, TWO]), None),
    "thinking, unknown": (WALKS, said(content=[{"type": "thinking", "thinking": "one"}, TWO]),
                          said(content=[ONE, TWO])),
    "thinking in a text": (TEXT, said(content=[{"type": "thinking", "thinking": "one"}, TWO]),
                           said(content="one\ntwo")),
    "null with calls": (NULLS, called(content=None), None),
    "null alone": (NULLS, said(content=None), None),
    "no content with calls": (NULLS, called(), None),
    "no content": (NULLS, said(), None),
    "an empty text": (NULLS, called(content=""), None),
    "null where it is a text": (TEXT, called(content=None), called(content="")),
    "nothing where it is a text": (TEXT, called(), called(content="")),
    "null printed": (PRINTS, called(content=None), called(content="")),
    "null as JSON": (AS_JSON, called(content=None), called(content="")),
    "null walked over": (WALKS, called(content=None), None),
    "calls beside null": (NULL_CALLS, called(content=None), None),
    "calls beside nothing": (NULL_CALLS, called(), called(content=None)),
    "an empty list of calls": (ASKS_FOR_CALLS, [*user("a"), {"role": "assistant", "content": "b", "tool_calls": []}],
                               [*user("a"), {"role": "assistant", "content": "b"}]),
    "calls that are null": (ASKS_FOR_CALLS, [*user("a"), {"role": "assistant", "content": "b", "tool_calls": None}],
                            [*user("a"), {"role": "assistant", "content": "b"}]),
    "calls": (ASKS_FOR_CALLS, called(content="b"), None),
    "an empty part": (TEXT, user([part("")[0], ONE, part("")[0], TWO]), user("one\ntwo")),
    "a text as the first part": (FIRST_PART, [{"role": "system", "content": "s"}, *user("one")],
                                 [{"role": "system", "content": part("s")}, *user([ONE])]),
    "parts as the first part": (FIRST_PART, [{"role": "system", "content": [ONE, TWO]}, *user([ONE, TWO])],
                                [{"role": "system", "content": part("one\ntwo")}, *user([ONE, TWO])]),
    "null as the first part": (FIRST_PART, [{"role": "system", "content": None}, *user("one")],
                               [{"role": "system", "content": part("")}, *user([ONE])]),
    "an empty text that it fails on": (FIRST_OF_ALL, called(content=""), called(content=part(""))),
    "null that it fails on": (FIRST_OF_ALL, called(content=None), called(content=part(""))),
    "no parts that it fails on": (FIRST_OF_ALL, said(content=[]), said(content=part(""))),
    "a text that it does not fail on": (FIRST_OF_ALL, called(content="b"), None),
    "thinking that it fails on": (THINKS_ELSEWHERE, said(content=[{"type": "thinking", "thinking": "one"}, TWO]),
                                  said(content=[ONE, TWO])),
    "reasoning": (REASONS, said(content="b", reasoning_content="r"), said(content="b", thinking="r")),
    "reasoning by another name": (REASONS, said(content="b", reasoning="r"), said(content="b", thinking="r")),
    "reasoning by two names": (REASONS, said(content="b", reasoning_content="r", thinking="t"),
                               said(content="b", thinking="t")),
    "reasoning beside a call": (REASONS_ONCE, called(content="", reasoning_content="r"), called(content="", thinking="r")),
    "reasoning beside a call and a text": (REASONS_ONCE, called(content="b", reasoning_content="r"), called(content="b")),
    "arguments": (ARGUMENTS, called_with(arguments={"a": 1}), None),
    "arguments as a text": (ARGUMENTS, called_with(arguments='{"a": 1}'), called_with(arguments={"a": 1})),
    "arguments that are no JSON": (ARGUMENTS, called_with(arguments='{"a": '), called_with(arguments={})),
    "arguments that are a list": (ARGUMENTS, called_with(arguments=[1]), called_with(arguments={})),
    "arguments that are null": (ARGUMENTS, called_with(arguments=None), called_with(arguments={})),
    "no arguments": (ARGUMENTS, called_with(), called_with(arguments={})),
    "arguments that it prints": (PRINTS_ARGUMENTS, called_with(arguments='{"a": '), None),
    "null arguments that it prints": (PRINTS_ARGUMENTS, called_with(arguments=None), called_with(arguments={})),
    "a developer": (TEXT, [{"role": "developer", "content": "d"}, *user("a")],
                    [{"role": "system", "content": "d"}, *user("a")]),
    "a developer who is known": (DEVELOPERS, [{"role": "developer", "content": "d"}, *user("a")], None),
    "a developer among strict roles": (STRICT, [{"role": "developer", "content": [ONE]}, *user("a")],
                                       [{"role": "system", "content": "one"}, *user("a")]),
    "a developer without a system": (NO_SYSTEM, [{"role": "developer", "content": "d"}],
                                     [{"role": "system", "content": "d"}]),
    "instructions in one message": (FIRST_MESSAGE, [
        {"role": "system", "content": "s"}, {"role": "developer", "content": [ONE, TWO]}, {"role": "system", "content": ""},
        {"role": "system", "content": "t"}, *user("a")], [{"role": "system", "content": "s\n\none\ntwo\n\nt"}, *user("a")]),
    "one instruction": (FIRST_MESSAGE, [{"role": "developer", "content": "s"}, *user("a")], None),
    "a late instruction": (FIRST_MESSAGE, [{"role": "system", "content": "s"}, *user("a"),
                                           {"role": "system", "content": "t"}], None),
    "instructions in several messages": (DEVELOPERS, [{"role": "system", "content": "s"},
                                                      {"role": "developer", "content": "t"}, *user("a")], None),
    "another role": (PRINTS, [{"role": "critic", "content": [ONE, TWO]}], [{"role": "critic", "content": "one\ntwo"}]),
    "a picture for who shows it": (WALKS, user([{"type": "image"}, ONE]), None),
    "a content that is neither": (AS_JSON, user({"a": 1}), None),
}


class MessageFormsTest(unittest.TestCase):
    tool: subprocess.Popen

    @classmethod
    def setUpClass(cls):
        cls.tool = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.tool.stdin.close()
        cls.tool.stdout.close()
        assert cls.tool.wait() == 0

    def answer(self, template, messages):
        request = {"template": template, "input": {"messages": messages}, "adapts": True}
        self.tool.stdin.write(json.dumps(request) + "\n")
        self.tool.stdin.flush()
        return json.loads(self.tool.stdout.readline())

    def test_cases(self):
        environment = make_environment()
        for name, (template, sent, seen) in CASES.items():
            with self.subTest(name):
                expected = reference(environment, template, {"messages": sent if seen is None else seen})
                actual = self.answer(template, sent)
                self.assertEqual("error" in actual, "error" in expected, (actual, expected))
                self.assertEqual(actual.get("text"), expected.get("text"), actual)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    os.environ["TZ"] = "UTC"
    unittest.main()
