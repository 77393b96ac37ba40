"""Mutant: a small patch of one source file, applied to a copy."""

import dataclasses
import pathlib


@dataclasses.dataclass
class Mutant:
    name: str
    kind: str  # "bug": something breaks; "policy": everything is right, but worse
    file: str
    what: str
    edits: list  # [(text that occurs once, its replacement)]

    def stale(self, root):
        """Why the patch does not apply, or nothing."""
        text = (pathlib.Path(root) / self.file).read_text()
        for old, _ in self.edits:
            if text.count(old) != 1:
                return f"{self.name}: {self.file} has {text.count(old)} times: {old}"
        return ""

    def write(self, root, overlay):
        text = (pathlib.Path(root) / self.file).read_text()
        for old, new in self.edits:
            text = text.replace(old, new)
        target = pathlib.Path(overlay) / self.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def bug(name, file, what, *edits):
    return Mutant(name, "bug", file, what, list(edits))


def policy(name, file, what, *edits):
    return Mutant(name, "policy", file, what, list(edits))
