"""Briefly, what tools/soak does at length: nothing is left behind, and no call ends otherwise than it may. Nothing
here asserts how fast the server is, nor how its memory grows: that takes an hour."""

import random
import sys
import unittest

import overload
import small
import soak
from slope import slope


class SoakTest(unittest.TestCase):
    def test_nothing_is_left_behind(self):
        seed = random.randrange(1 << 31)
        print(f"seed {seed}")
        figures = soak.run(10, 2, 4, seed, print)
        print(*soak.report(figures), sep="\n")
        self.assertEqual(figures["faults"], [])
        for ended in ("served", "left by the client", "ended as deserved"):
            self.assertGreater(figures["ended"][ended], 0, ended)
        self.assertGreater(figures["highest"]["descriptors"], figures["before"]["descriptors"])
        self.assertGreater(figures["highest"]["blocks"], 0)


class OthersTest(unittest.TestCase):
    """That the other commands work; their figures are for people."""

    def test_small_requests(self):
        self.assertEqual(small.run(200, print), [])

    def test_overload(self):
        results = overload.run(1, 1, 1, print)
        self.assertEqual([result["faults"] for taken in results.values() for result in taken], [[]] * 3)
        self.assertEqual(len(overload.refusals(1, 1)), 1)
        self.assertEqual(set(overload.ratios(results)), {10, 100})


class SlopeTest(unittest.TestCase):
    def test_a_line(self):
        rise, uncertainty = slope(list(range(100)), [3 * x + 5 for x in range(100)])
        self.assertAlmostEqual(rise, 3)
        self.assertAlmostEqual(uncertainty, 0)

    def test_the_interval_holds_the_truth(self):
        chance = random.Random(1)
        held = 0
        for _ in range(200):
            rise, uncertainty = slope(list(range(400)), [0.5 * x + chance.gauss(0, 30) for x in range(400)])
            held += abs(rise - 0.5) <= uncertainty
        self.assertGreater(held, 180)  # of 190 that are to be expected
        self.assertLess(held, 200)

    def test_what_cannot_be_said(self):
        self.assertIsNone(slope([1, 2, 3, 4], [1, 2, 3, 4]))

    def test_growth_is_a_fault_only_beyond_doubt(self):
        def fault(bytes_per_hour, half_interval, seconds=3600):
            return soak.slope_fault({"seconds": seconds, "slope": {
                "rss": {"bytes_per_hour": bytes_per_hour, "half_interval": half_interval}}})
        self.assertIsNone(fault(0.9e6, 0.1e6))
        self.assertIsNotNone(fault(1.1e6, 0.9e6))
        self.assertIsNone(fault(2e6, 1.5e6))
        self.assertIsNotNone(fault(3e6, 1.5e6))
        self.assertIsNone(fault(3e6, 0.1e6, seconds=60))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
