#!/usr/bin/env python3
"""Sentences that must be read twice: finds those whose pattern docs/english.md forbids. Prints file, line and what to
write instead; exits 1 if there is one. Of Markdown it reads everything but code, quotations and generated tables, of
sources the comments.

    check_english.py              # the files of CLEAN, which are clean: this is the test
    check_english.py FILE...      # these files
    check_english.py --all        # how far the other files of the repository are"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from repository_files import repository_files
from script_help import answer_help

answer_help(__doc__)

import collections
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files and folders that pass. It grows: add what you have made clean.
CLEAN = [
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "configs/*.md", "docs/*.md", "engine/*README.md",
    "kernels/*README.md", "kvcache/README.md", "proto/README.md", "scheduler/README.md", "server/*README.md", "tests/*README.md",
    "tools/*README.md", *(f":(glob){folder}/**/*.{kind}" for folder in ("engine", "kernels", "kvcache", "scheduler", "server", "tests", "tools")
                          for kind in ("h", "cuh", "cc", "cu")), ":(glob)tests/**/*.py", ":(glob)tools/**/*.py"]
SOURCES = (".h", ".cc", ".cu", ".cuh", ".py")
START = r"(?:(?<=^)|(?<=[.:;!?] ))"  # of a sentence, in a paragraph of one line
NO_QUESTION = r"(?![^.!?]*\?)"
RULES = [
    # (pattern, what to write instead)
    (START + r"What (?!is |are |does |do |did |can |must |should |has |have |a |an |happens\b|about |if )" + NO_QUESTION + r"[a-z_]",
     "name the thing: \"A model that ...\", not \"What ...\""),
    (START + r"What (?:is|are|does|do|did|can|must|should|has|have) " + NO_QUESTION + r"[^.?]*?\b(?:is|are|goes|stays|comes|counts|has|have|gets|ends)\b[^?]*?[.:;]",
     "name the thing: \"A model that ...\", not \"What ...\""),
    (START + r"Who (?!is |are |does |may |can |has )" + NO_QUESTION + r"[a-z]", "name the person: \"A client that ...\", not \"Who ...\""),
    (r"\b[Ww]hoever\b|\b[Ww]homever\b|\b[Ww]hosoever\b", "name them: \"a client that\", \"everyone who\""),
    (r"\bfor (?:who|whom) (?!is\b)", "name them: \"for a client that\""),
    (r"\balone\b", "only (before the word that it limits), or \"by itself\""),
    (r"\b[Ss]o (?:many|much)\b(?! (?:as|that|slower|faster|more|less)\b)", "\"that many\", \"this many\", \"that much\""),
    (r"\bmanieth\b|\bsuch of\b|\bthose of (?:whom|which)\b", "not a word that people say: name the thing"),
    (r"\b(?:is|are|was|were|be) of (?:one|two|three|a|an|the same|that|these|those)\b(?! kind| type| size| form| use)",
     "a genitive needs its noun: \"has one token\", \"belongs to a plan\""),
    (START + r"Of (?:a|an|the|such|what|these|those|all|each|every|two|several|some|it|one|[a-z]+s) " + NO_QUESTION +
     r"(?!course\b)[^.,:;]*,? (?!only\b)", "begin with the thing that acts, not with \"Of ...\""),
    (r"\bbut for\b", "\"except\", or \"except for\""),
    (r"\b(?:none|nothing|nobody|all|any|every one|everything|no other) but (?!for\b)", "\"only\", \"except\""),
    (r"\bis (?:not )?to be (?:said|had|told|changed|seen|turned)\b", "say who does it: \"you set\", \"nothing needs\""),
    (r"\bwherefore\b|\bthereof\b|\bthereby\b|\bwherein\b|\btherein\b|\bhence\b|\bwhilst\b|\balbeit\b", "a plainer word"),
    (r"\b(?:that|this) is how it comes\b|\bas without (?:it|one)\b", "say what happens"),
    (r"\b(?:is|are) as without\b", "say what happens: \"behaves as if it were not set\""),
    (r"\bit stands (?:at|in) the limit\b", "\"it is at the limit\""),
    (r"\b(?:want|wants|wanted) (?:a|an|no) (?:key|tokenizer|body)\b", "\"needs\", \"requires\""),
]
LEFT_ALONE = re.compile(r"(?i)\b(?:leaves?|leaving|left|lets?)\b [^.,;:]{0,40}?\balone\b")
COMPILED = [(re.compile(pattern), instead) for pattern, instead in RULES]


def blank(match):
    """The same place without its words: newlines stay, so that lines keep their numbers."""
    return re.sub(r"[^\n]", "_", match[0])


def markdown_text(text):
    text = re.sub(r"(?ms)^```.*?^```", blank, text)
    text = re.sub(r"(?ms)^<!-- (?:figures|settings|quoted): .*?^<!-- end.*?-->", blank, text)
    text = re.sub(r"(?m)^#+ .*$", blank, text)  # a title may be a clause
    text = re.sub(r"(?m)^    .*$", lambda match: blank(match) if not re.match(r" +(?:[-*]|\d+\.) |   +[a-zA-Z`(\[]", match[0]) else match[0], text)
    text = re.sub(r"`[^`\n]*`", blank, text)
    text = re.sub(r"\"[^\"\n]*\"", blank, text)
    return re.sub(r"\]\([^)\n]*\)", lambda match: "]" + blank(match)[1:], text)


def comment_text(text, suffix):
    if suffix == ".py":
        lines = [(line[line.index("#") + 1:] if line.lstrip().startswith("#") else "") for line in text.split("\n")]
    else:
        lines = [re.sub(r"^.*?(?<!:)//+", "", line) if re.search(r"(?<![:\"])//", line) else "" for line in text.split("\n")]
    return re.sub(r"\"[^\"\n]*\"|`[^`\n]*`", blank, "\n".join(lines))


def paragraphs(text, is_markdown):
    """[(number of a line, its text)] for each of: paragraphs, points of lists, cells of tables."""
    current = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        body = line.strip()
        is_table = is_markdown and body.startswith("|")
        begins = is_markdown and re.match(r"(?:[-*] |\d+\. |<!--|\||!\[)", body)
        if current and (not body or begins):
            yield current
            current = []
        if not body:
            continue
        if is_table:
            for cell in body.strip("|").split(" | "):
                yield [(number, cell.strip())]
            continue
        current.append((number, re.sub(r"^(?:[-*] |\d+\. )", "", body).replace("**", "")))


def problems_of(path):
    text = path.read_text(errors="replace")
    is_markdown = path.suffix == ".md"
    text = markdown_text(text) if is_markdown else comment_text(text, path.suffix)
    found = []
    for lines in paragraphs(text, is_markdown):
        joined, places = "", []
        for number, line in lines:
            places.append((len(joined), number))
            joined += line + " "
        joined = LEFT_ALONE.sub(blank, joined.strip())
        for pattern, instead in COMPILED:
            for match in pattern.finditer(joined):
                number = next(number for begin, number in reversed(places) if begin <= match.start())
                found.append((number, joined[match.start():match.start() + 50].strip(), instead))
    return sorted(set(found))


def listed(patterns):
    return [ROOT / name for name in repository_files(ROOT, *patterns) if name.endswith((".md", *SOURCES))]


def main():
    arguments = sys.argv[1:]
    if arguments == ["--all"]:
        counts = collections.Counter({path.relative_to(ROOT): len(problems_of(path)) for path in listed(["."])})
        for path, count in counts.most_common():
            if count > 0:
                print(f"{count:5} {path}")
        return 0
    paths = [pathlib.Path(one).resolve() for one in arguments] if arguments else listed(CLEAN)
    num_found = 0
    for path in paths:
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for number, words, instead in problems_of(path):
            print(f"{shown}:{number}: \"{words}\": {instead} (docs/english.md)")
            num_found += 1
    if num_found == 0:
        print("sentences are as docs/english.md says")
    return 1 if num_found > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
