"""tests/lib/log_file: reading a process' output while it writes loses and moves nothing."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from log_file import written

NUM_LINES = 3000
CHILD = f"for i in range({NUM_LINES}): print('line', i, flush=True)"


class LogFileTest(unittest.TestCase):
    def test_what_is_written_while_it_is_read_is_whole(self):
        expected = "".join(f"line {i}\n" for i in range(NUM_LINES))
        num_read = 0
        with tempfile.TemporaryFile(mode="w+") as log:
            process = subprocess.Popen([sys.executable, "-c", CHILD], stdout=log)
            while process.poll() is None:
                text = written(log)
                self.assertTrue(expected.startswith(text), text[:200])
                num_read += 1
            self.assertEqual(process.returncode, 0)
            self.assertEqual(written(log), expected)
        self.assertGreater(num_read, 1)


if __name__ == "__main__":
    unittest.main()
