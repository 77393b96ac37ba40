"""The program constraint_tool, which compiles constraints and says what they allow (constraint_tool.cc)."""

import json
import subprocess


class Refused(Exception):
    """The constraint is refused, or too complex."""


class ConstraintTool:
    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        encoding="utf-8")

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def accepts(self, text):
        return self.ask(text=text)["valid"]

    def mask(self):
        """The ids of the tokens that may come next."""
        digits = self.ask(mask=True)["mask"]
        return {4 * place + bit for place, digit in enumerate(digits) if digit != "0"
                for bit in range(4) if int(digit, 16) >> bit & 1}
