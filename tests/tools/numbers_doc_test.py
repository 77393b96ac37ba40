"""Facts in documents are those of the code: the table of limits in docs/openai.md, the architectures that are served,
the paths of the HTTP interface, the GPUs, the goals of figures, how many cases a test has, which versions of its peers."""

import ast
import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Without the hub, which is a client: its limits are none of the server's.
HEADERS = "\n".join(path.read_text() for folder in ("server", "engine", "kernels")
                    for path in sorted((ROOT / folder).rglob("*.*"))
                    if path.suffix in (".h", ".cc") and "hub" not in path.parts)


def value_of(name):
    """A constant's number; seconds of a duration."""
    place, _, member = name.rpartition("::")
    text = HEADERS
    if place:
        text = re.search(rf"struct {place} \{{\n(.*?)\n\}};", HEADERS, re.S)[1]
    found = re.search(rf"\b{member} = ([^;]+);", text)
    expression = re.sub(r"(?:size_t|int64_t)\{(\d+)\}|absl::Seconds\((\d+)\)", lambda m: m[1] or m[2], found[1])
    return eval(expression, {"__builtins__": {}})  # noqa: S307: our own constants


def spellings(number):
    yield f"{number:,}"
    for unit, shift in (("KiB", 10), ("MiB", 20), ("GiB", 30)):
        if number % (1 << shift) == 0:
            yield f"{number >> shift} {unit}"


def documents():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class NumbersDocTest(unittest.TestCase):
    def test_checkpoints_of_the_parity_test(self):
        tree = ast.parse((ROOT / "tests/engine/model/tiny_checkpoints.py").read_text())
        cases = next(node.value.elts for node in tree.body
                     if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CASES")
        said = re.search(r"(\d+) random checkpoints", (ROOT / "docs/design.md").read_text())
        self.assertEqual(int(said[1]), len(cases))

    def test_architectures(self):
        sources = "".join(path.read_text() for path in sorted((ROOT / "engine/model/config").glob("*.cc")))
        served = set(re.findall(r'"(\w+For(?:CausalLM|ConditionalGeneration))"', sources))
        self.assertGreater(len(served), 25)
        for name in ("docs/models.md", "engine/model/README.md"):
            with self.subTest(document=name):
                self.assertEqual(set(re.findall(r"`(\w+For(?:CausalLM|ConditionalGeneration))`", (ROOT / name).read_text())), served)

    def test_paths_of_the_http_interface(self):
        routes = "".join(path.read_text() for path in sorted((ROOT / "server").rglob("*_route*.cc")))
        answered = {path for path in re.findall(r'"(/[a-z_0-9/*]*)"', routes) if path != "/"}
        self.assertGreater(len(answered), 12)
        told = set()
        for document in documents():
            told.update(re.findall(r"(?<![\w.])/[a-z_0-9]+(?:/[A-Za-z_0-9]+)*", document.read_text()))
        for path in answered:
            with self.subTest(path=path):
                self.assertIn(path.removesuffix("/*"), told, "no document tells of it")
        surfaces = (ROOT / "docs/openai.md").read_text().split("\n## Surfaces\n")[1].split("\n## ")[0].split("There are no")[0]
        for path in re.findall(r"(/[a-z_0-9]+(?:/[a-z_0-9]+)*)[`/]", surfaces):
            with self.subTest(path=path):
                self.assertIn(path, {one.removesuffix("/*") for one in answered}, "docs/openai.md tells of it, no route has it")

    def test_compute_capabilities(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        portable = next(one for one in presets if one["name"] == "cuda-portable")["cacheVariables"]["QUIRE_CUDA_ARCHITECTURES"]
        numbers = sorted(int(re.match(r"\d+", one)[0]) for one in portable.split(";"))
        said = f"compute capability {numbers[0] / 10} to {numbers[-1] / 10}"
        for name in ("README.md", "CHANGELOG.md", "docs/deployment.md"):
            with self.subTest(document=name):
                self.assertIn(said, " ".join((ROOT / name).read_text().split()))

    def test_goals_of_figures(self):
        """docs/figures/h200.json has the goals, and the values before, that run-gpu-check prints."""
        targets = (ROOT / "tools/gpu_check/targets.sh").read_text().split('targets="')[1].split('"')[0]
        rows = {row[0]: row for row in (line.split("|") for line in targets.split("\n"))}
        figures = json.loads((ROOT / "docs/figures/h200.json").read_text())["figures"]
        self.assertGreater(len(figures), 40)
        for key, figure in figures.items():
            with self.subTest(figure=key):
                _, _, before, goal, _ = rows[key]
                self.assertEqual(float(goal), figure["goal"])
                self.assertEqual(None if before == "-" else float(before), figure["before"].get("before"))

    def test_versions_of_peers(self):
        requirements = "".join((ROOT / "tests" / name).read_text() for name in ("requirements.txt", "requirements-files.txt"))
        versions = dict(re.findall(r"(?m)^([\w.-]+)(?:\[\w,]+\])?==([\w.]+)", requirements))
        self.assertGreater(len(versions), 20)
        num_found = 0
        for path in documents():
            if path.name == "figures.md":  # of the day when it was measured
                continue
            for name, version in versions.items():
                for said in re.findall(rf"(?<![\w-])`?{re.escape(name)}`? (?:client )?(\d+\.\d+(?:\.\d+)*)", path.read_text()):
                    num_found += 1
                    with self.subTest(document=path.name, package=name):
                        self.assertEqual(version.split(".")[:said.count(".") + 1], said.split("."))
        self.assertGreater(num_found, 5)

    def test_limits(self):
        section = (ROOT / "docs/openai.md").read_text().split("\n## Limits\n")[1].split("\n## ")[0]
        rows = re.findall(r"(?m)^\| (.*?) \| (.*?) ?\| (`.*`) \|$", section)
        self.assertGreater(len(rows), 15)
        for limit, _, names in rows:
            for name in re.findall(r"`([\w:]+)`", names):
                with self.subTest(name=name):
                    number = value_of(name)
                    self.assertTrue(any(re.search(rf"(?<![\d,]){re.escape(one)}(?![\d,]\d)", limit)
                                        for one in spellings(number)), f"{name} is {number}: {limit}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
