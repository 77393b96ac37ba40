"""What a server that is built with a sanitizer needs, and what it says when it has found something."""

import json
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESETS = {"address": "asan", "thread": "tsan"}
MARKS = {"address": b"__asan_init", "thread": b"__tsan_init"}  # in programs that are built so
REPORT = re.compile(r"^.*(?:(?:Address|Thread|Leak|UndefinedBehavior)Sanitizer|runtime error:)", re.MULTILINE)
MAX_REPORT = 8000  # characters


def prepare(sanitizer, program):
    """Sets the environment of servers as the test preset has it: whatever a sanitizer finds ends them. A sentence
    when `program` is not built with it."""
    if MARKS[sanitizer] not in program.read_bytes():
        return f"{program} is not built with --sanitizer {sanitizer}; tools/attack builds one that is"
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
    environment = next(preset["environment"] for preset in presets if preset["name"] == PRESETS[sanitizer])
    for name, value in environment.items():
        os.environ[name] = value.replace("${sourceDir}", str(ROOT))
    return None


def find_report(output):
    """The first report in what a server printed, or None."""
    found = REPORT.search(output)
    return output[found.start():found.start() + MAX_REPORT] if found else None
