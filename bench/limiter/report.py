#!/usr/bin/env python3
"""Makes a page of what `measure.py` found: `report.py DATE COMMIT RESULTS.json > PAGE.md`."""

import json
import sys

LIMITS = (10, 20, 25, 50, 75, 80, 90)
ROWS = ("50 µs", "1 ms", "10 ms", "100 ms", "graph", "training", "mixed")
TITLES = {"graph": "graph of 20 × 50 µs", "training": "PyTorch training", "mixed": "mixed, two streams"}
# What was measured of HAMi-core on such a GPU; a range where runs differed.
HAMI = {
    ("50 µs", 20): (0.27, 0.35), ("50 µs", 50): (0.70, 0.78), ("50 µs", 80): (0.86, 0.86),
    ("1 ms", 20): (0.98, 0.98), ("1 ms", 50): (0.92, 0.98), ("1 ms", 80): (0.94, 0.96),
    ("10 ms", 20): (0.85, 0.85), ("10 ms", 50): (0.93, 0.93), ("10 ms", 80): (0.997, 0.997),
}
BOUNDS = {
    "launch, no limit": 1.01, "training step, no limit": 1.01, "malloc, no limit": 1.05, "malloc-async, no limit": 1.05,
    "50 µs kernels at 50 %, beside the ideal": 1.02, "1 ms kernels at 50 %, beside the ideal": 1.02,
}
MIB = 1 << 20


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def verdict(holds):
    return "holds" if holds else "**missed**"


def compute(results):
    cells = {(row, limit): results["compute"][f"{row} {limit} %"] for row in ROWS for limit in LIMITS}
    print("## Time of one container\n")
    print("Share of busy time, in brackets its variation between windows (standard deviation / mean).\n")
    show = lambda cell: f"{cell[0]:.3f} ({cell[1]:.2f})"
    table(
        ["", *(f"{limit} %" for limit in LIMITS)],
        [[TITLES.get(row, row), *(show(cells[row, limit]) for limit in LIMITS)] for row in ROWS],
    )
    if "training" in results.get("bare", {}):
        print(f"The bare training program reaches {results['bare']['training'][0]:.3f} by the same count.\n")
    errors = {cell: abs(found[0] * 100 - cell[1]) for cell, found in cells.items()}
    worst, wild = max(errors, key=errors.get), max(cells, key=lambda cell: cells[cell][1])
    mean = sum(errors.values()) / len(errors)
    where = lambda cell: f"{TITLES.get(cell[0], cell[0])} at {cell[1]} %"
    table(
        ["", "found", "at most", ""],
        [
            ["mean absolute error, points", f"{mean:.2f}", "2", verdict(mean <= 2)],
            [f"worst error, points ({where(worst)})", f"{errors[worst]:.2f}", "5", verdict(errors[worst] <= 5)],
            [f"largest variation ({where(wild)})", f"{cells[wild][1]:.3f}", "0.15", verdict(cells[wild][1] <= 0.15)],
        ],
    )
    print("### Beside HAMi-core\n")
    print("The nine cells that were measured of HAMi-core (commit 8f3a89c of 2026-06-30, its own unoptimised build, which lacks later")
    print("fixes) on the same kind of GPU and driver, at another time; other cells and other programs were not measured.\n")
    span = lambda low, high: f"{low:g}" if low == high else f"{low:g}–{high:g}"
    table(
        ["", *(f"{limit} %: {name}" for limit in (20, 50, 80) for name in ("HAMi-core", "carve"))],
        [
            [row, *(text for limit in (20, 50, 80) for text in (span(*HAMI[row, limit]), f"{cells[row, limit][0]:.3f}"))]
            for row in ("50 µs", "1 ms", "10 ms")
        ],
    )


def together(results):
    print("## Containers beside each other\n")
    print("Commands of `carve run` without burst, each with more work than its share. Shares are of what all got together.\n")
    rows = []
    for title, shares in results["together"].items():
        got, bare = [one[0] for one in shares], [one[0] for one in results["together bare"][title]]
        limits = [float(word) for word in title.split(" ", 2)[2].split(" / ")]
        parts = [one / sum(got) * 100 for one in got]
        off = max(abs(part - limit) for part, limit in zip(parts, limits))
        line = lambda all: " / ".join(f"{one:.3f}" for one in all)
        beside = sum(got) / sum(bare)
        share = " / ".join(f"{part:.1f}" for part in parts)
        rows.append([title, line(got), share, f"{off:.1f}", line(bare), f"{beside:.3f}", verdict(off <= 2 and beside >= 0.95)])
    table(["kernels, limits", "busy", "share of the total, %", "farthest off (at most 2)", "bare", "total beside bare (at least 0.95)", ""], rows)
    if "burst" in results:
        print("A container of 30 % with burst, beside one of 70 % that comes, works for 1.5 s and goes:\n")
        words = lambda one: f"{one} ms" if one is not None else "not within 1 s"
        rows = [
            [name, f"{one['alone']:.3f}", " / ".join(f"{share[0]:.3f}" for share in one["both"]), words(one["taken back after ms"]),
             f"{one['alone again']:.3f}", words(one["lent again after ms"])]
            for name, one in results["burst"].items()
        ]
        table(["kernels", "alone", "both", "the owner has its share in the 100 ms that begin after", "alone again", "lent again after"], rows)


def mps(results):
    if "mps" not in results:
        return
    print("### Under MPS\n")
    print("The same commands where an MPS daemon answers (one of our own, in a folder of its own): each has multiprocessors of its own, and the limiter")
    print("holds memory and counts. A kernel is as many blocks as its process sees multiprocessors, so work is counted in blocks.\n")
    rows = []
    for title, found in results["mps"].items():
        if isinstance(found, list):
            bare = " / ".join(f"{one[0]:.3f}" for one in results["mps bare"][title])
            rows.append([title, " / ".join(f"{one[2]:.3f}" for one in found), " / ".join(f"{one[0]:.3f}" for one in found), bare])
    table(["kernels, limits", "multiprocessors", "finished work", "under MPS without limits"], rows)
    held = results["mps"]["memory under 4 GiB"]
    print(f"Under 4 GiB a program got {held['got'] / MIB:.0f} MiB; its context, which the share contains, is the rest.\n")


def overhead(results):
    print("## What it costs\n")
    print("Ratio of rates without and with the limiter, pairs taken in turns (ABBA) on one core, with the 95 % interval of the mean. Launches and\nallocations are those of forty pairs of processes, a ratio each, because where a program happens to lie in memory counts for a percent.\n")
    rows = []
    for name, (mean, low, high) in results["overhead"].items():
        most = BOUNDS[name]
        told = "**unresolved**" if low <= most < high else verdict(high <= most)
        rows.append([name, f"{mean:.4f}", f"{low:.4f} to {high:.4f}", f"{most:g}", told])
    table(["", "ratio", "interval", "at most", ""], rows)


def memory(results):
    print("## Memory under 4 GiB\n")
    rows = []
    for name, one in results["memory"].items():
        if "got" in one:
            most = one["at most"]
            rows.append([name, f"{one['got'] / MIB:.0f}", f"{most['NVML'] / MIB:.0f}", f"{most['counted'] / MIB:.0f}", f"{one['context'] / MIB:.0f}", str(one["left"])])
    print("MiB. NVML's figure is what the card had more than before, without the context, which it shows above the limit.\n")
    table(["way", "got", "NVML", "counted", "context beside it", "left after frees"], rows)
    for name, one in results["memory"].items():
        if "most by NVML" in one:
            most = one["most by NVML"] / MIB
            print(f"- {name}: {one['taken']:,} allocations, {one['denials']:,} refused, at most **{most:.0f} MiB** in {one['looks']:,} looks with NVML, {one['left']} bytes left.")
        if "traces" in one:
            print(f"- {one['traces']:,} random traces ({one['steps']:,} steps in all ways): {one['left']} bytes left.")
    print()


def main():
    date, commit, file = sys.argv[1:]
    results = json.load(open(file))
    print(f"# The limiter on a real GPU, {date}\n")
    print(f"{results['machine']['gpu']}; the library of {commit}. Made by `bench/limiter/report.py` from what `bench/limiter/measure.py` found; nothing is written by hand.\n")
    print("A share is the number of kernels that finished times the length that a kernel has on the bare GPU (calibrated in the same run), divided by the")
    print("time; the limiter's own counters have no say. Kernels fill all multiprocessors and keep others off them. Windows are 100 ms for kernels of up to")
    print("1 ms, graphs, training and the mixture, and 40 kernel lengths beyond. Training is a transformer in full precision (PyTorch, cuBLAS).")
    print("Every cell is one run. A lone container is limited to 1 % and lent the rest of its limit, so that one process serves all limits.\n")
    for part in (compute, together, mps, overhead, memory):
        part(results)


if __name__ == "__main__":
    main()
