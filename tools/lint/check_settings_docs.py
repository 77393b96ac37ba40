#!/usr/bin/env python3
"""The settings table of docs/settings.md is what quire-server prints. With --write, makes it so. Exits 77
(skipped) when quire-server is not built."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from script_help import answer_help

answer_help(__doc__)

import os
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("QUIRE_BUILD_DIR", ROOT / "build/cpu")) / "bin/quire-server"
BEGIN = "<!-- settings: quire-server --print-settings-table -->\n"
END = "<!-- end of settings -->"


def main():
    if not SERVER.exists():
        print(f"skipped: {SERVER} is not built")
        return 77
    table = subprocess.run([SERVER, "--print-settings-table"], check=True, capture_output=True,
                           text=True).stdout.strip()
    page = ROOT / "docs/settings.md"
    text = page.read_text()
    head, rest = text.split(BEGIN)
    wanted = head + BEGIN + "\n" + table + "\n\n" + END + rest.split(END)[1]
    if "--write" in sys.argv:
        page.write_text(wanted)
        return 0
    if text == wanted:
        print("the settings table is up to date")
        return 0
    print("docs/settings.md's table is out of date: run tools/lint/check_settings_docs.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
