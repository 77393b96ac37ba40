"""docs/runbook.md has every exit code, and every line that the server logs as a warning or an error; and no other."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
FOLDERS = ("server", "engine", "scheduler", "kvcache", "kernels")
LITERAL = r'"(?:[^"\\]|\\.)*"'
# Where somebody else's sentence is passed on: who writes it. Warnings of the settings, of what they leave open and of
# the plan are looked for where they are made; failures of a start are as many as there are statuses, of which the
# runbook has the usual ones.
PASSED_ON = {
    ("server/start/run_server.cc", "std::string(status.message())"): "any failure of a start",
    ("server/start/run_plan.cc", "WithPlaces(command_line, std::string(status.message()))"): "the same of --plan",
    ("server/start/run_server.cc", '"{}", warning'): "settings_environment.cc and security.cc",
    ("server/start/run_server.cc", '"{}", std::string(Placed(written).message())'): "address_file.cc",
    ("server/start/hub/hub.cc", '"{}", std::string(remembered.message())'): "ExplainWriteError of hub_error.cc",
    ("server/start/settings/settings_environment.cc", "UnknownVariable(name)"): "UnknownVariable, below",
    ("engine/start_plan.cc", '"{}", kv.lowered'): "memory_plan.cc",
    ("server/start/server.cc", '"{}", stretch'): "rope_table.cc",
    ("server/surfaces/openai/dropped_fields.cc", '"{}", line'): "LineFor, above it",
}
CALLS = re.compile(r"\b(?:spdlog::(?:warn|error|critical|log)|PrintFailure|warnings(?:\.|->)push_back)\(")
# Made elsewhere than they are logged: between these.
SENTENCES = {"server/surfaces/openai/dropped_fields.cc": ('return absl::StrCat("a request has fields', "void DroppedFields::Tell"),
             "server/start/address_file.cc": ("absl::Status WriteAddressFile", "}  // namespace quire"),
             "server/start/settings/settings_environment.cc": ("std::string UnknownVariable", "ProcessEnvironment"),
             "engine/model/config/rope_table.cc": ('return absl::StrCat("the context of', "void FillRopeTable"),
             "engine/memory_plan.cc": ("plan.lowered =", "if (MaxBytes(plan.max_model_len)"),
             "server/start/hub/hub_error.cc": ("absl::Status ExplainWriteError", "}  // namespace quire")}


def sources():
    for folder in FOLDERS:
        for pattern in ("*.cc", "*.cu"):
            for path in sorted((ROOT / folder).rglob(pattern)):
                yield str(path.relative_to(ROOT)), re.sub(r"(?m)^ *//[^\n]*|  //[^\n\"]*$", "", path.read_text()) + "}  // namespace quire"


def arguments(text, begin):
    """What stands between the parenthesis before `begin` and its other half."""
    depth, at = 1, begin
    while depth:
        literal = re.compile(LITERAL).match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return re.sub(r"\s+", " ", text[begin:at - 1]).strip()


def joined(text):
    """With literals that follow each other made one."""
    return re.sub(r'"\s+"', "", text)


def sentences(code):
    """The texts that a piece of code may say, … for what differs. Of a choice (? :), both."""
    parts = [code] if " ? " not in code else re.split(r" \? | : (?=[\"a-z])", joined(code))
    for part in parts:
        words = "…".join(literal[1:-1] for literal in re.findall(LITERAL, joined(part)))
        words = re.sub(r"\{[^}]*\}", "…", words).replace('\\"', '"')
        # "; did you mean ..." only goes on.
        if re.search(r"[A-Za-z]{3,} [A-Za-z]{2,}|Protobuf", words) and not words.startswith(";"):
            yield words


def logged():
    """(file, arguments, sentences) of each call."""
    for file, text in sources():
        for call in CALLS.finditer(text):
            code = arguments(text, call.end())
            if "const std::string" not in code and file != "server/base/exit_code.cc":
                yield file, code, list(sentences(code))
        if file in SENTENCES:
            begin, end = (text.index(part) for part in SENTENCES[file])
            for statement in re.findall(r"(?:return|=) (?:[^;\"]|" + LITERAL + r")*;", text[begin:end]):
                if said := list(sentences(statement)):
                    yield file, statement, said


def rows():
    """The pieces of each line that the runbook explains."""
    for line in RUNBOOK.splitlines():
        cells = re.match(r"\| (?:\d+ \| )?`([^`]+)` \|", line)
        if cells and not line.startswith("| `quire_"):
            yield [piece.strip() for piece in cells[1].split("…") if piece.strip()]


def covers(row, sentence):
    at = 0
    for piece in row:
        at = sentence.find(piece, at)
        if at < 0:
            return False
    return True


class RunbookTest(unittest.TestCase):
    def test_every_line_is_explained(self):
        explained, passed_on = list(rows()), set()
        found = 0
        for file, code, said in logged():
            if not said:
                passed_on.add((file, code))
            for sentence in said:
                found += 1
                self.assertTrue(any(covers(row, sentence) for row in explained),
                                f"{file} says '{sentence}', which is not in docs/runbook.md")
        self.assertGreater(found, 15)
        self.assertEqual(passed_on, set(PASSED_ON), "who makes these sentences? The runbook has to have them")

    def test_nothing_else_is_explained(self):
        said = "\n".join(joined(text).replace('\\"', '"') for _, text in sources())
        for row in rows():
            for piece in row:
                self.assertIn(piece, said, "no source says this any more")

    def test_exit_codes(self):
        header = (ROOT / "server/base/exit_code.h").read_text()
        codes = re.findall(r"\bk\w+ = (\d+),", header)
        self.assertGreaterEqual(len(codes), 6)
        for code in codes:
            self.assertRegex(RUNBOOK, rf"(?m)^\| {code} \| ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
