"""What is made of the moments at which kernels ended: shares, their variation, and ratios with bounds."""

import math
import random


def shares(ends, length, seconds, window, start=None, settle=0.5):
    """The share of busy time, and how much it varies between windows, from the ends of pieces of a known length (all nanoseconds)."""
    first = (ends[0][0] if start is None else start) + int(settle * 1e9)
    last = first + int(seconds * 1e9)
    count = max(1, (last - first) // window)
    windows, busy = [0.0] * count, 0
    for end, pieces in ends:
        begin, finish = max(end - length * pieces, first), min(end, last)
        if finish <= begin:
            continue
        busy += finish - begin
        at = (begin - first) // window
        while at < count and first + at * window < finish:
            part = min(finish, first + (at + 1) * window) - max(begin, first + at * window)
            windows[at] += max(0, part)
            at += 1
    mean = sum(windows) / count
    deviation = math.sqrt(sum((one - mean) ** 2 for one in windows) / count)
    return busy / (seconds * 1e9), deviation / mean if mean else float("inf")


def bound(ratios, draws=4000):
    """The mean of ratios, and the interval in which it lies with 95 % (bootstrap)."""
    dice = random.Random(1)
    means = sorted(sum(dice.choices(ratios, k=len(ratios))) / len(ratios) for _ in range(draws))
    return sum(ratios) / len(ratios), means[int(draws * 0.025)], means[int(draws * 0.975)]


def alternate(bare, limited, pairs):
    """Ratios of two measurements, taken in turns (ABBA) so that a drift of the machine meets both."""
    ratios = []
    for number in range(pairs):
        order = (bare, limited, limited, bare) if number % 2 == 0 else (limited, bare, bare, limited)
        sums = {bare: 0.0, limited: 0.0}
        for one in order:
            sums[one] += one()
        ratios.append(sums[bare] / sums[limited])
    return ratios


def switches(ends, length):
    """How long the GPU is idle from one tenant's last kernel to another's first one: median and longest of the middle 90 %, milliseconds."""
    kernels = sorted((end - length * pieces, end, tenant) for tenant, one in enumerate(ends) for end, pieces in one)
    gaps = {}
    for (_, end, left), (begin, _, right) in zip(kernels, kernels[1:]):
        if left != right:
            gaps.setdefault(f"{left} to {right}", []).append((begin - end) / 1e6)
    middle = lambda one: (sorted(one)[len(one) // 2], sorted(one)[int(len(one) * 0.95)], len(one))
    return {way: middle(one) for way, one in gaps.items()}
