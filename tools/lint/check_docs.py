#!/usr/bin/env python3
"""What documents name is there: paths in backticks, targets of links and their anchors, flags, variables, what is given
to `git grep`. Prints each that is not; exits 1 if there is one.

    check_docs.py [FOLDER]      # the repository of another folder, for tests"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from repository_files import repository_files
from script_help import answer_help

answer_help(__doc__)

import re

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
# Flags of other programs, which migration.md is about, and names that the past used.
FLAGS_OF_OTHERS = {"docs/migration.md"}
OF_OTHERS = {"tests/entrypoints/openai"}  # vLLM's
WORDS_OF_OTHERS = {"CamelCase", "MemoryMax", "convert_hf_to_gguf.py", "foo.cc"}
PAST = ("CHANGELOG.md", "docs/lab/")
# Flags of other programs that documents call: git, cmake, docker, kubectl, curl and the like.
FOREIGN_FLAGS = set("""--accelerate --amend --build --build-arg --cap-drop --cap-add --command --container --cpus
    --create-namespace --data --detach --enable-feature --env --file --force --fork --from --from-file --gpus --header --host-port
    --image --install --kind --label --link --master --mount --name --namespace --net --network --no-verify --output
    --parallel --pod --preset --prefix --privileged --publish --pull --query --read-only --restart --rm --security-opt
    --set --shm-size --tail --target --template --timeout --tls --tmpfs --user --volume --wait --watch --worker-urls""".split())


def anchors(text):
    """As GitHub makes them of headings."""
    found = set()
    for heading in re.findall(r"(?m)^#+ +(.*)$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


class Documents:
    def __init__(self):
        self.names = repository_files(ROOT)
        self.folders = {str(parent) for name in self.names for parent in pathlib.PurePath(name).parents}
        self.tops = {name.split("/")[0] for name in self.names if "/" in name}
        self.texts = {name: (ROOT / name).read_text() for name in self.names if name.endswith(".md")}
        self.code = "\n".join((ROOT / name).read_text(errors="replace") for name in self.names
                              if not name.endswith((".md", ".png", ".svg", ".safetensors", ".jsonl", "tokenizer.json")))
        self.files = {name.split("/")[-1] for name in self.names}
        self.problems = []

    def exists(self, name):
        name = name.rstrip("/")
        return name in self.names or name in self.folders or (ROOT / name).exists()

    def check(self):
        for name, text in sorted(self.texts.items()):
            for number, line in enumerate(text.splitlines(), 1):
                place = f"{name}:{number}"
                self.check_links(place, name, line)
                if not name.startswith(PAST):
                    self.check_paths(place, line)
                    self.check_words(place, name, line)
            if name.endswith("README.md") and not text.startswith(("# ", "<!--")):
                self.problems.append(f"{name}:1: does not begin with a heading")

    def check_links(self, place, name, line):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = pathlib.PurePath(name).parent / path if path else pathlib.PurePath(name)
            resolved = str((ROOT / file).resolve().relative_to(ROOT))
            if not self.exists(resolved):
                self.problems.append(f"{place}: the link {target} leads nowhere")
            elif anchor and resolved in self.texts and anchor not in anchors(self.texts[resolved]):
                self.problems.append(f"{place}: {resolved} has no heading for #{anchor}")

    def check_paths(self, place, line):
        for path in re.findall(r"`([\w.-]+(?:/[\w.*-]+)+/?)`", line):
            if path.split("/")[0] not in self.tops or path in OF_OTHERS:
                continue
            if "*" in path:
                found = any(pathlib.PurePath(other).match(path) for other in self.names)
            else:  # a file, or a stem of some; of tests their names, too
                stems = (f"{path}.", f"tests/{path}.")
                found = self.exists(path) or any(other.startswith(stems) for other in self.names)
            if not found:
                self.problems.append(f"{place}: there is no {path}")

    def check_words(self, place, name, line):
        spans = " ".join(re.findall(r"`([^`]+)`", line))
        for pattern in re.findall(r"git grep (?:-\w+ )*([\w.:]+)", spans):
            if not re.search(pattern, self.code):
                self.problems.append(f"{place}: git grep {pattern} finds nothing")
        for file in re.findall(r"(?<![\w./*-])[a-z]\w*\.(?:h|cc|cu|cuh|py|proto|sh)(?![\w/])", spans):
            if file not in self.files and file not in WORDS_OF_OTHERS:
                self.problems.append(f"{place}: there is no file {file}")
        for word in re.findall(r"(?<![\w.:])(?:[A-Z][a-z0-9]+){2,}(?![\w.])", spans):
            if word not in self.code and word not in WORDS_OF_OTHERS:
                self.problems.append(f"{place}: nothing is called {word}")
        for variable in re.findall(r"\bQUIRE_[A-Z0-9_]+\b(?![*_])", spans):
            lower = variable.removeprefix("QUIRE_").lower()
            if variable not in self.code and lower.replace("_", "-") not in self.code:
                self.problems.append(f"{place}: nothing reads {variable}")
        if name in FLAGS_OF_OTHERS:
            return
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+\b(?!\*)", spans):
            bare = flag.removeprefix("--").removeprefix("no-")
            if flag in FOREIGN_FLAGS or flag in self.code or f'"{bare}"' in self.code or f"--{bare}" in self.code:
                continue
            self.problems.append(f"{place}: nothing takes {flag}")


def main():
    documents = Documents()
    documents.check()
    print("\n".join(documents.problems) if documents.problems else "what documents name is there")
    return 1 if documents.problems else 0


if __name__ == "__main__":
    sys.exit(main())
