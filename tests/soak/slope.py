"""How fast something grows, and how sure that is."""

import math

# Student's t, both sides, 95 %, by degrees of freedom.
_T = {3: 3.18, 4: 2.78, 6: 2.45, 8: 2.31, 10: 2.23, 14: 2.14, 18: 2.10, 28: 2.05}


def slope(times, values, num_batches=20):
    """Per unit of time, by least squares, with half of its 95 % interval. Samples that follow each other are alike,
    so the means of a few long batches are what is taken as independent. None with fewer than five samples."""
    num_batches = min(num_batches, len(times))
    if num_batches < 5:
        return None
    edges = [round(i * len(times) / num_batches) for i in range(num_batches + 1)]
    points = [(_mean(times[a:b]), _mean(values[a:b])) for a, b in zip(edges, edges[1:])]
    middle, level = _mean([x for x, _ in points]), _mean([y for _, y in points])
    spread = sum((x - middle) ** 2 for x, _ in points)
    rise = sum((x - middle) * (y - level) for x, y in points) / spread
    left = sum((y - level - rise * (x - middle)) ** 2 for x, y in points)
    freedom = num_batches - 2
    t = next(_T[known] for known in sorted(_T, reverse=True) if known <= freedom)
    return rise, t * math.sqrt(left / freedom / spread)


def _mean(values):
    return sum(values) / len(values)
