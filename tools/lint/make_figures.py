#!/usr/bin/env python3
"""Fills tables of figures in documents from docs/figures/*.json: whatever stands between the lines
`<!-- figures: NAME -->` and `<!-- end -->` of a document is the table NAME of one of these files.

    make_figures.py                    # writes the tables
    make_figures.py --check            # names each document whose tables differ from the data; exits 1 if there is one
    make_figures.py --root FOLDER      # the repository of another folder, for tests

A file AREA.json has
  "about":     one sentence
  "measured":  what holds for each figure that does not say otherwise: "device", "date", "commit", "model", "command"
  "figures":   by key: "what" was measured ("model", "unit" with it); "value": a number, a list of rounds, or a text;
               "peer": {"name", "value"} for another program's; "times" a peer where only the ratio was measured;
               "goal"; "before": {column: value} for older values; "note" for readers of the file; and the members of
               "measured"
  "tables":    by NAME: "rows", a list of keys (of another file: AREA.KEY), and "columns", of: what, value, peer, times,
               goal, measured, command, device, and the columns of "before"; "titles" names them otherwise.
               Or a grid that is not made of figures: "header" and "cells", a list of lists.
docs/lab/README.md says where a new figure goes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from repository_files import repository_files
from script_help import answer_help

answer_help(__doc__)

import argparse
import decimal
import json
import re
import statistics

BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
LOWER_IS_BETTER = {"ms", "us", "s", "ms a token"}
FIGURE_MEMBERS = {"what", "model", "unit", "value", "peer", "times", "goal", "before", "note", "device", "date", "commit",
                  "command"}
MEASURED_MEMBERS = {"device", "date", "commit", "model", "command"}
TITLES = {"what": "what", "value": "Quire", "times": "times as fast", "goal": "to reach",
          "measured": "measured", "command": "command", "device": "device"}


class Wrong(Exception):
    """The data or a document cannot be used as they are."""


def text(value):
    """Numbers as people write them; decimals keep the digits that the file has."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(text(one) for one in value)
    return value if isinstance(value, str) else f"{value:,}"


def middle(value):
    """A number to divide by, or None."""
    numbers = value if isinstance(value, list) else [value]
    if any(isinstance(one, str) or one is None for one in numbers) or not numbers:
        return None
    return float(statistics.median(numbers))


def check_members(place, found, known):
    if unknown := set(found) - known:
        raise Wrong(f"{place}: {', '.join(sorted(unknown))} means nothing here")


class Figures:
    def __init__(self, folder):
        self.figures, self.tables = {}, {}
        for path in sorted(folder.glob("*.json")):
            try:
                area = json.loads(path.read_text(), parse_float=decimal.Decimal)
            except ValueError as error:
                raise Wrong(f"{path.name}: {error}") from None
            self.read_area(path.stem, area)
        used = set()
        for name, (area, table) in self.tables.items():
            for key in self.keys(area, table):
                if key not in self.figures:
                    raise Wrong(f"{area}.json: the table {name} names {key.removeprefix(area + '.')}, which is no figure")
                used.add(key)
        if unused := set(self.figures) - used:
            raise Wrong(f"in no table: {', '.join(sorted(unused))}")

    def read_area(self, name, area):
        check_members(f"{name}.json", area, {"about", "measured", "figures", "tables"})
        measured = area.get("measured", {})
        check_members(f"{name}.json, measured", measured, MEASURED_MEMBERS)
        for key, figure in area.get("figures", {}).items():
            check_members(f"{name}.json, {key}", figure, FIGURE_MEMBERS)
            whole = {**measured, **figure}
            if "value" not in whole and "times" not in whole:
                raise Wrong(f"{name}.json, {key}: no value")
            for member in ("what", "device", "date", "command"):
                if not whole.get(member):
                    raise Wrong(f"{name}.json, {key}: it does not say its {member}")
            self.figures[f"{name}.{key}"] = whole
        for key, table in area.get("tables", {}).items():
            if key in self.tables:
                raise Wrong(f"{name}.json: another file has a table {key}, too")
            self.tables[key] = (name, table)

    @staticmethod
    def keys(area, table):
        return [row if "." in row else f"{area}.{row}" for row in table.get("rows", [])]

    def cell(self, figure, column):
        if column == "what":
            return ", ".join(figure[member] for member in ("model", "what", "unit") if figure.get(member))
        if column == "peer":
            return text(figure.get("peer", {}).get("value"))
        if column == "times":
            return self.times(figure)
        if column == "measured":
            return figure["date"] + (f", {figure['commit']}" if figure.get("commit") else "")
        if column == "command":
            return f"`{figure['command']}`"
        if column in ("value", "goal", "device"):
            return text(figure.get(column))
        return text(figure.get("before", {}).get(column))

    @staticmethod
    def times(figure):
        if "times" in figure:
            return text(figure["times"])
        ours, theirs = middle(figure.get("value")), middle(figure.get("peer", {}).get("value"))
        if ours is None or theirs is None:
            return "-"
        times = theirs / ours if figure.get("unit") in LOWER_IS_BETTER else ours / theirs
        return f"{times:.2f}" if times < 10 else f"{times:.1f}"

    def table(self, name):
        """The lines of a table, with what they say of where and when."""
        if name not in self.tables:
            raise Wrong(f"no file of docs/figures has a table {name}")
        area, table = self.tables[name]
        if "cells" in table:
            header, cells = table["header"], [[text(cell) for cell in row] for row in table["cells"]]
            if wrong := [row for row in cells if len(row) != len(header)]:
                raise Wrong(f"{area}.json, {name}: a row has not as many cells as the header: {wrong[0]}")
        else:
            rows = [self.figures[key] for key in self.keys(area, table)]
            titles = {**TITLES, **table.get("titles", {})}
            peers = sorted({row["peer"]["name"] for row in rows if "peer" in row})
            titles.setdefault("peer", peers[0] if len(peers) == 1 else "peer")
            header = [titles.get(column, column) for column in table["columns"]]
            cells = [[self.cell(row, column) for column in table["columns"]] for row in rows]
        lines = [f"| {' | '.join(header)} |", f"| {' | '.join('---' for _ in header)} |"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in cells)])


def fill(figures, name, document, found):
    def block(match):
        found.add(match[2])
        try:
            return f"{match[1]}\n{figures.table(match[2])}\n\n{match[4]}"
        except Wrong as error:
            raise Wrong(f"{name}: {error}") from None

    filled = BLOCK.sub(block, document)
    opened = re.findall(r"(?m)^<!-- figures: .*$", document)
    if len(opened) != len(BLOCK.findall(document)):
        raise Wrong(f"{name}: a line `<!-- figures: NAME -->` has no `<!-- end -->`, or another name than letters and hyphens")
    return filled


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    args = parser.parse_args()
    problems, found = [], set()
    try:
        figures = Figures(args.root / "docs/figures")
        for name in sorted(repository_files(args.root, "*.md")):
            document = (args.root / name).read_text()
            filled = fill(figures, name, document, found)
            if filled == document:
                continue
            if args.check:
                problems.append(f"{name}: its tables are not those of docs/figures: run tools/lint/make_figures.py")
            else:
                (args.root / name).write_text(filled)
        if unused := set(figures.tables) - found:
            problems.append(f"no document has the table {', '.join(sorted(unused))}")
    except Wrong as error:
        problems.append(str(error))
    print("\n".join(problems) if problems else "tables of figures are those of docs/figures")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
