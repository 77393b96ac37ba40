"""quire on a real terminal: line editing, history, pasting, Ctrl-C."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import tempfile
import termios
import time

from harness import CLIENT, ServerTestCase, main

UP = b"\x1b[A"
PASTE = b"\x1b[200~%s\x1b[201~"
STORY = "Tell me a story"  # with end tokens ignored: an answer that goes on for seconds


class Terminal:
    """A program on a pseudo-terminal; a context manager."""

    def __init__(self, *arguments, **environment):
        self.fd, program_end = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        # Not pty.fork(): it would run Python in a copy of this process, whose gRPC threads may hold locks.
        self.process = subprocess.Popen(["setsid", "--ctty", CLIENT, *arguments], stdin=program_end,
                                        stdout=program_end, stderr=program_end,
                                        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment})
        os.close(program_end)
        self.unread = ""
        self.everything = ""

    def _read(self, timeout):
        """Adds what came to `unread`; False at the end."""
        if not select.select([self.fd], [], [], timeout)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program closed the terminal
            return False
        text = data.decode(errors="replace")
        self.unread += text
        self.everything += text
        return bool(data)

    def wait_for(self, pattern, timeout=60):
        """Reads until `pattern` comes; returns what came before its end."""
        give_up = time.monotonic() + timeout
        while not (match := re.search(pattern, self.unread)):
            if time.monotonic() > give_up or not self._read(0.2):
                raise AssertionError(f"{pattern!r} did not come:\n{self.everything!r}")
        before, self.unread = self.unread[:match.end()], self.unread[match.end():]
        return before

    def read_until_quiet(self):
        """Reads what there is: Ctrl-C makes the terminal throw away what nobody has read yet."""
        size = -1
        while size != len(self.everything):
            size = len(self.everything)
            self._read(0.2)

    def send(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def prompt(self):
        """Waits for chat's prompt, with bracketed paste on; returns what was printed before it."""
        return self.wait_for(r"\x1b\[\?2004h> ")

    def ask(self, keys, *then):
        """Types at the prompt and presses Enter; returns what is printed until the next prompt."""
        self.send(keys)
        for more in then:
            self.send(more)
        self.send(b"\r")
        return self.prompt()

    def wait_until_interrupts_are_caught(self, timeout=60):
        """Waits until Ctrl-C neither ends the program nor is ignored: a call is under way."""
        give_up = time.monotonic() + timeout
        while time.monotonic() < give_up:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16)
            if caught & 1 << (signal.SIGINT - 1):
                return
            time.sleep(0.005)
        raise AssertionError(f"SIGINT is not caught:\n{self.everything!r}")

    def exit_code(self, timeout=60):
        give_up = time.monotonic() + timeout
        while time.monotonic() < give_up:
            self._read(0.05)
            code = self.process.poll()
            if code is not None:
                return code
        raise AssertionError(f"still running:\n{self.everything!r}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


class TerminalTest(ServerTestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.history = self.folder / "quire/history"

    def quire(self, *arguments):
        return Terminal(*arguments, QUIRE_TARGET=self.server.target, XDG_STATE_HOME=str(self.folder))

    def chat(self, *arguments):
        return self.quire("chat", "--temperature", "0", *arguments)

    def saved(self, terminal, name="chat.json"):
        """The conversation so far, through /save."""
        self.assertIn("saved", terminal.ask(f"/save {self.folder / name}"))
        return json.loads((self.folder / name).read_text())

    def contents(self, terminal):
        return [message["content"] for message in self.saved(terminal)]

    def test_question_answer_empty_line_and_quit(self):
        with self.chat() as terminal:
            self.assertIn("demo", terminal.prompt())
            answer = terminal.ask("What is 17 + 25?")
            self.assertRegex(answer, r"\r\n.*42\r\n")
            self.assertIn("prompt tokens", answer)
            self.assertNotIn("tokens", terminal.ask(""))
            self.assertNotIn("tokens", terminal.ask("   "))
            terminal.send("/quit\r")
            self.assertEqual(terminal.exit_code(), 0)

    def test_history_with_arrow_up_in_this_and_the_next_chat(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.ask("What is 17 + 25?")
            terminal.ask(PASTE % b"Hello\rGr\xc3\xbc\xc3\x9fe")
            terminal.ask(UP, UP)
            self.assertEqual(self.contents(terminal)[::2],
                             ["What is 17 + 25?", "Hello\nGrüße", "What is 17 + 25?"])
            terminal.send(b"\x04")
            self.assertEqual(terminal.exit_code(), 0)
        self.assertEqual(stat.S_IMODE(self.history.stat().st_mode), 0o600)
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.ask(UP, UP, UP)  # past the /save and the repeated question
            self.assertEqual(self.contents(terminal)[0], "Hello\nGrüße")

    def test_editing_a_line(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.ask(b"What is 17 + 99?", b"\x7f\x7f\x7f", b"25?", b"\x01", b"Well: ")  # Ctrl-A
            self.assertEqual(self.contents(terminal)[0], "Well: What is 17 + 25?")

    def test_ctrl_z_without_a_shell_does_nothing(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.send("dropped\x1a")
            self.assertIn("42", terminal.ask(b"\x15", b"What is 17 + 25?"))

    def test_history_that_cannot_be_written_disturbs_nobody(self):
        self.history.parent.mkdir(parents=True)
        self.history.mkdir()
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            self.assertIn("42", terminal.ask("What is 17 + 25?"))
            self.assertIn("42", terminal.ask(UP))  # remembered in this chat

    def test_ctrl_c_stops_the_answer_and_not_the_chat(self):
        with self.chat("--ignore-eos", "--stop", "apple", "--include-stop") as terminal:
            terminal.prompt()
            terminal.send(STORY + "\r")
            terminal.wait_for(r"2004l\w+")
            with self.server.frozen():  # the answer cannot end by itself
                terminal.read_until_quiet()
                terminal.send(b"\x03")
                self.assertIn("stopped; the part above stays", terminal.prompt())
            self.assertIn("apple\r\n", terminal.ask("Sort these words: pear fig apple"))
            question, part, _, answer = self.contents(terminal)
            self.assertEqual(question, STORY)
            self.assertIn(part.split("\n")[0], terminal.everything)
            self.assertNotEqual(part, "")
            self.assertTrue(answer.endswith("apple"))
        self.assertEqual(self.server.wait_until_idle().running_sequences, 0)

    def test_ctrl_c_before_the_answer_takes_the_question_back(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            with self.server.frozen():
                terminal.send("Hello\r")
                terminal.wait_for("2004l")
                terminal.wait_until_interrupts_are_caught()
                terminal.send(b"\x03")
                self.assertIn("taken back", terminal.prompt())
            terminal.ask("What is 17 + 25?")
            self.assertEqual(self.contents(terminal), ["What is 17 + 25?", "42"])

    def test_ctrl_c_at_the_prompt(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.send("nonsense\x03")
            self.assertIn("again", terminal.prompt())
            self.assertIn("42", terminal.ask("What is 17 + 25?"))
            self.assertEqual(self.contents(terminal), ["What is 17 + 25?", "42"])
            terminal.send(b"\x03")
            terminal.prompt()
            terminal.send(b"\x03")
            self.assertEqual(terminal.exit_code(), 0)

    def test_a_failed_question_is_taken_back(self):
        with self.chat("--quiet", "--max-tokens", "40") as terminal:
            terminal.prompt()
            self.assertIn("taken back", terminal.ask(PASTE % (b"word " * 6000)))
            self.assertIn("42", terminal.ask("What is 17 + 25?"))
            self.assertEqual(self.contents(terminal), ["What is 17 + 25?", "42"])

    def test_pasted_line_breaks_do_not_send(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.ask("First: ", PASTE % b"one\rtwo\nthree\x07\n\n", " and four")
            lines = "".join(f"line {i} of what is pasted\r" for i in range(200))  # more than the screen
            terminal.ask(PASTE % lines.encode())
            first, _, second, _ = self.contents(terminal)
            self.assertEqual(first, "First: one\ntwo\nthree and four")
            self.assertEqual(second, lines.replace("\r", "\n").strip())

    def test_quotes_make_one_message_of_several_lines(self):
        with self.chat("--quiet") as terminal:
            terminal.prompt()
            terminal.send('"""\r')
            terminal.wait_for(r"\.\.\. ")
            terminal.send("/quit is\r")
            terminal.wait_for(r"\.\.\. ")
            terminal.ask('  a command"""')
            terminal.send('"""never sent\r')
            terminal.wait_for(r"\.\.\. ")
            terminal.send(b"\x03")
            terminal.prompt()
            self.assertEqual(self.contents(terminal)[0::2], ["/quit is\n  a command"])

    def test_commands(self):
        with self.chat("--quiet", "--system", "Be kind.") as terminal:
            terminal.prompt()
            self.assertIn("/save FILE", terminal.ask("/help"))
            self.assertIn("did you mean /clear?", terminal.ask("/claer"))
            self.assertIn("nothing is saved", terminal.ask(f"/save {self.folder}/none.json"))
            terminal.ask("Hello")
            terminal.ask("/clear")
            terminal.ask("What is 17 + 25?")
            self.assertEqual(self.contents(terminal), ["Be kind.", "What is 17 + 25?", "42"])
            terminal.ask("/system Be brief.")
            self.assertEqual(self.contents(terminal)[0], "Be brief.")
            (self.folder / "other.txt").write_text("mine")
            self.assertIn("another name", terminal.ask(f"/save {self.folder / 'other.txt'}"))
            terminal.ask("/system")
            self.assertEqual(self.contents(terminal), ["What is 17 + 25?", "42"])
            terminal.send("/quit\r")
            terminal.exit_code()
        self.assertEqual((self.folder / "other.txt").read_text(), "mine")
        self.assertEqual(list(self.folder.glob("*none*")), [])
        with self.quire("generate", "--messages", str(self.folder / "chat.json"), "--max-tokens", "3") as terminal:
            terminal.wait_for("prompt tokens")
            self.assertEqual(terminal.exit_code(), 0)

    def test_generate_says_that_it_waits_for_the_terminal(self):
        with self.quire("generate", "--temperature", "0", "--max-tokens", "3") as terminal:
            terminal.wait_for("reading the prompt from the terminal")
            terminal.send(b"Once upon a\r\x04")
            self.assertIn("time", terminal.wait_for("prompt tokens"))
            self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_c_ends_generate_with_130(self):
        for flags in ((), ("--json",)):
            with self.quire("generate", STORY, "--ignore-eos", "--n", "16", *flags) as terminal:
                terminal.wait_until_interrupts_are_caught()
                if not flags:
                    terminal.wait_for(r"\w+")
                terminal.send(b"\x03")
                self.assertEqual(terminal.exit_code(), 130)
                self.assertTrue(terminal.everything.endswith("\r\n"), terminal.everything[-20:])
        self.assertEqual(self.server.wait_until_idle().running_sequences, 0)

    def test_an_answer_cannot_command_the_terminal(self):
        with self.quire("tokenize", "--json", "a\x1b]0;title\x07b") as terminal:
            self.assertEqual(terminal.exit_code(), 0)
            self.assertNotIn("\x1b", terminal.everything)


if __name__ == "__main__":
    main()
