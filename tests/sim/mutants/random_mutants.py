"""Mutants that nobody chose: one small change at a random place of the code under test."""

import dataclasses
import pathlib
import random
import re

from mutant import Mutant

# CHECKs and their own file are part of what finds bugs, so they stay.
FILES = ("scheduler/scheduler.cc", "scheduler/schedule.cc", "scheduler/commit.cc", "scheduler/stop.cc",
         "scheduler/prefill_budget.cc", "scheduler/fair_queue.cc", "scheduler/queue_bounds.cc",
         "kvcache/block_manager.cc", "kvcache/block_pool.cc", "kvcache/prefix_index.cc", "kvcache/block_hash.cc",
         "kvcache/state_pool.cc", "scheduler/snapshot_plan.cc")
SKIPPED_LINE = re.compile(r"^\s*(//|#|CHECK|namespace|}|\"|absl::StrCat|static_assert)|StrCat\(|CHECK_|: config_")
SKIPPED_FUNCTION = re.compile(r"::(CheckInvariants|CheckTable|CheckStates)\(")
SWAPS = [(" <= ", " < "), (" < ", " <= "), (" >= ", " > "), (" > ", " >= "), (" == ", " != "), (" != ", " == "),
         (" && ", " || "), (" || ", " && "), (" + 1", ""), (" - 1", ""), (" + ", " - "), (" - ", " + "),
         (" += ", " -= "), (" -= ", " += "), ("++", "--"), ("--", "++"), ("(!", "("), ("true", "false"),
         ("false", "true"), ("std::min", "std::max"), ("std::max", "std::min"), ("continue;", "break;"),
         (" ? 1 : 0", " ? 0 : 1")]
STATEMENT = re.compile(r"^\s+(?!return|const |auto |using |while|for|if|else|int|bool|case|switch|default|break)"
                       r"[\w:>\-.*()\[\]+]+[ (=+\-].*;\s*$|^\s+(\+\+|--)[\w>\-.\[\]]+;$")


@dataclasses.dataclass
class LineMutant(Mutant):
    line: int = 0
    text: str = ""

    def stale(self, root):
        return ""

    def write(self, root, overlay):
        lines = (pathlib.Path(root) / self.file).read_text().splitlines()
        lines[self.line] = self.text
        target = pathlib.Path(overlay) / self.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n")


def candidates(root):
    for file in FILES:
        skipping = False
        for number, line in enumerate((pathlib.Path(root) / file).read_text().splitlines()):
            if SKIPPED_FUNCTION.search(line):
                skipping = True
            if line == "}":
                skipping = False
            if skipping or not line.startswith(" ") or SKIPPED_LINE.search(line):
                continue
            code = line.split("  //")[0]
            for old, new in SWAPS:
                for match in re.finditer(re.escape(old), code):
                    yield file, number, code[:match.start()] + new + code[match.end():]
            if STATEMENT.match(code) and code.count("(") == code.count(")"):
                yield file, number, ""


def make(root, count, seed):
    chosen = random.Random(seed).sample(sorted(candidates(root)), count)
    return [LineMutant(f"random-{seed}-{i}", "bug", file, f"{file}:{line + 1}: {text.strip() or '(deleted)'}", [], line,
                       text) for i, (file, line, text) in enumerate(chosen)]
