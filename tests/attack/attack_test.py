"""Briefly, what tools/attack does at length: attacks from outside beside a normal client, and terminations under
load. Nothing here asserts how fast the server is, which other work on the machine changes; only what attacks make it
hold and whether clients are served."""

import sys
import unittest

import siege
import terminations

SECONDS = 1.0
DANGEROUS = ("endless_value", "rapid_reset_of_requests")  # three rounds; the others one
OTHERS = ("header_lists", "paths_of_slashes", "endless_continuation", "unfinished_messages", "made_you_reset",
          "unknown_methods", "malformed_heads", "stream_misuse", "garbage", "unread_pings", "windowless_models",
          "unread_tokens", "idle_connections", "half_prefaces", "connections_beyond_files", "abandoned_continuations",
          "reset_continuations", "continuations_without_time", "windowless_continuations", "half_bodies")


class AttackTest(unittest.TestCase):
    def test_memory_and_clients(self):
        print(siege.TABLE_HEAD)
        names = [*DANGEROUS * 3, *OTHERS]
        for result in siege.run(names, SECONDS, 1, lambda result: print(siege.table_line(result), flush=True),
                                limits=siege.Limits(cores=False)):
            with self.subTest(attack=result["attack"]):
                self.assertEqual(result["faults"], [])


class TerminationTest(unittest.TestCase):
    def test_no_accepted_request_is_lost(self):
        result = terminations.run(10, seed=1)
        print(result)
        self.assertEqual(result["faults"], [])
        self.assertGreater(result["finished"], 0)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
