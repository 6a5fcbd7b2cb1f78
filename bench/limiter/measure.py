#!/usr/bin/env python3
"""Measures the limiter on the GPU of this machine: `measure.py CARVE LIBRARY RESULTS.json [PART…]`.

Shares are finished work times the calibrated length of a kernel, never what the limiter counts itself. Containers that share the GPU are
commands of `carve run`, which gives them their turns.
PARTs: compute, together, burst, overhead, training, memory, mps. Without any, all of them, which takes some ten minutes; what RESULTS.json holds of
other parts stays. `--quick` leaves most of the compute cells out.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import alternate, bound, shares, switches
from tenants import HERE, Agent, Card, Container, Tenant, build, gpu_uuid

LIMITS = (10, 20, 25, 50, 75, 80, 90)
KERNELS = {"50 µs": 0.05, "1 ms": 1, "10 ms": 10, "100 ms": 100}
WAYS = ("cudaMalloc", "cudaMallocAsync", "cuMemCreate", "cudaMallocManaged", "cudaMallocPitch", "cudaMallocArray", "graph")
MS = 1_000_000
# Where two are compared, both run here, in turns.
CORE = 3
PROCESSES = 40


class Bench:
    def __init__(self, carve, library, results, quick):
        self.place = tempfile.mkdtemp(prefix="carve-limiter-")
        self.carve = carve
        self.library, self.results_file, self.quick = library, results, quick
        # Parts that were measured before, in another call, stay.
        known = Path(results)
        self.uuid, self.agent, self.results = gpu_uuid(), Agent(), json.loads(known.read_text()) if known.exists() else {}
        self.program = build(self.place)
        self.bare = Tenant([str(self.program)])
        probe = 1_000_000
        per_round = self.bare("calibrate", probe, 0)["in_a_row_ms"] / probe
        self.rounds = {name: int(length / per_round) for name, length in KERNELS.items()}
        self.lengths = {}
        for name, rounds in self.rounds.items():
            told = self.bare("calibrate", rounds, 0)
            self.lengths[name] = int(told["in_a_row_ms"] * MS)
            self.note("calibration", name, told)

    def note(self, part, cell, result):
        self.results.setdefault(part, {})[cell] = result
        print(f"{part:<12} {cell:<28} {json.dumps(result)}", flush=True)
        Path(self.results_file).write_text(json.dumps(self.results, indent=1, ensure_ascii=False))

    def container(self, name, **limits):
        container = Container(self.place, self.library, self.uuid, name, **limits)
        self.agent.containers.append(container)
        return container

    def saturated(self, tenant, mode, name, seconds):
        window = 100 * MS if KERNELS[name] <= 1 else 40 * self.lengths[name]
        ends = tenant(mode, self.rounds[name], seconds + 0.7)["ends"]
        return shares(ends, self.lengths[name], seconds, window)

    def compute(self):
        """One tenant under each limit, for kernels of all lengths, a graph and a mixture."""
        # The least that the library knows, and the rest lent: one process can then be measured under all limits.
        container = self.container("compute", compute=100)
        cells = [(name, "spin", name, 2.5 if length <= 1 else 4 if length <= 10 else 12) for name, length in KERNELS.items()]
        cells += [("graph", "graph", "50 µs", 2.5), ("mixed", "mixed", "50 µs", 2.5)]
        if self.quick:
            cells = [(title, mode, name, min(seconds, 8)) for title, mode, name, seconds in cells]
        for title, mode, name, seconds in cells:
            # A program of its own for each kind of work, as there would be.
            tenant = Tenant([str(self.program)], container)
            self.note("bare", title, self.saturated(self.bare, mode, name, 1.5 if KERNELS[name] < 100 else 4))
            for limit in (20, 75) if self.quick else LIMITS:
                container.say(lent=limit * 100 - 100)
                self.note("compute", f"{title} {limit} %", self.saturated(tenant, mode, name, seconds))
            tenant.end()
        self.note("counters", "compute", container.counters())

    def running(self, *options, mechanism="limiter", memory="20Gi"):
        """A tenant as people start one."""
        command = [self.carve, "run", "--mechanism", mechanism, "--limiter", self.library]
        command += ["--run-dir", f"{self.place}/run", "--memory", memory, *options, "--", str(self.program)]
        return Tenant(command)

    def together(self):
        """Several containers at once: their shares, and the sum beside that of bare ones."""
        for name in ("1 ms", "50 µs", "10 ms"):
            for limits in ((30, 70), (20, 30, 50)):
                title = f"{name} {' / '.join(map(str, limits))}"
                tenants = [self.running("--compute", str(limit)) for limit in limits]
                self.note("together", title, self.at_once(tenants, name))
                bare = [Tenant([str(self.program)]) for _ in limits]
                self.note("together bare", title, self.at_once(bare, name))
                for tenant in tenants + bare:
                    tenant.end()

    def mps(self):
        """Commands under an MPS daemon of our own: side by side, on multiprocessors of their own."""
        folders = {f"CUDA_MPS_{kind}_DIRECTORY": f"{self.place}/mps-{kind}" for kind in ("PIPE", "LOG")}
        for folder in folders.values():
            Path(folder).mkdir()
        self.bare.end()
        os.environ.update(folders)
        control = ["nvidia-cuda-mps-control"]
        subprocess.check_call([*control, "-d"])
        try:
            name = "1 ms"
            for limits in ((30, 70), (20, 30, 50)):
                bare = [Tenant([str(self.program)]) for _ in limits]
                whole = bare[0]("calibrate", self.rounds[name], 0)["multiprocessors"]
                got = self.at_once(bare, name)
                title = f"{name} {' / '.join(map(str, limits))}"
                self.note("mps bare", title, got)
                for tenant in bare:
                    tenant.end()
                tenants = [self.running("--compute", str(limit), mechanism="mps") for limit in limits]
                # A kernel has a block for each multiprocessor that its process sees.
                sizes = [tenant("calibrate", self.rounds[name], 0)["multiprocessors"] / whole for tenant in tenants]
                got = self.at_once(tenants, name)
                self.note("mps", title, [[share * size, varies, size] for (share, varies), size in zip(got, sizes)])
                for tenant in tenants:
                    tenant.end()
            tenant = self.running("--compute", "50", mechanism="mps", memory="4Gi")
            self.note("mps", "memory under 4 GiB", tenant("hold", 0, 1))
            tenant.end()
        finally:
            subprocess.run(control, input="quit\n", text=True)
            for folder in folders:
                del os.environ[folder]
        self.bare = Tenant([str(self.program)])

    def at_once(self, tenants, name):
        seconds = 3
        for tenant in tenants:
            tenant.ask("spin", self.rounds[name], seconds + 2.5)
        ends = [tenant.answer()["ends"] for tenant in tenants]
        start = max(one[0][0] for one in ends)
        window = max(100 * MS, 40 * self.lengths[name])
        print(" " * 12, switches(ends, self.lengths[name]), flush=True)
        # Turns begin when somebody has seen how long the work takes.
        return [shares(one, self.lengths[name], seconds, window, start, settle=1.5) for one in ends]

    def burst(self):
        """A tenant that is lent what another does not use, before the other comes, while it works, and after it."""
        borrower, owner = self.running("--compute", "30", "--burst"), self.running("--compute", "70")
        for name in ("50 µs", "1 ms"):
            length, rounds = self.lengths[name], self.rounds[name]
            owner("spin", rounds, 0.3)
            time.sleep(0.5)
            borrower.ask("spin", rounds, 6)
            time.sleep(2.5)
            owner.ask("spin", rounds, 1.5)
            lender = owner.answer()["ends"]
            lent = borrower.answer()["ends"]
            came, left = lender[0][0] - length, lender[-1][0]
            before, _ = shares(lent, length, 1, 100 * MS, came - 1000 * MS, settle=0)
            after, _ = shares(lent, length, 1, 100 * MS, left + 300 * MS, settle=0)
            both = [shares(one, length, 1, 100 * MS, came + 300 * MS, settle=0) for one in (lent, lender)]
            # Until the owner first had what it is due for as long as turns take to come round.
            steps = range(0, 1000, 5)
            due = lambda at: shares(lender, length, 0.1, 100 * MS, came + at * MS, settle=0)[0] >= 0.65
            back = next((at for at in steps if due(at)), None)
            free = lambda at: shares(lent, length, 0.1, 100 * MS, left + at * MS, settle=0)[0] >= 0.9
            again = next((at for at in steps if free(at)), None)
            self.note("burst", name, {"alone": before, "both": both, "taken back after ms": back, "alone again": after, "lent again after ms": again})
        for tenant in (borrower, owner):
            tenant.end()

    def overhead(self):
        """What the limiter costs where nothing is limited, and beside the ideal of a limit."""
        def of(tenant, mode, rounds=1, seconds=0.02):
            return lambda: tenant(mode, rounds, seconds)["per_s"]
        # Where a program happens to lie in memory counts for a percent, so many are compared, and what one pair of processes found is one ratio.
        found, container = {}, self.container("free")
        for _ in range(PROCESSES):
            bare, free = Tenant([str(self.program)], core=CORE), Tenant([str(self.program)], container, core=CORE)
            for mode, pairs in (("launch", 20), ("malloc", 20), ("malloc-async", 10)):
                found.setdefault(mode, []).append(statistics.mean(alternate(of(bare, mode), of(free, mode), pairs)))
            for tenant in (bare, free):
                tenant.end()
        for mode, ratios in found.items():
            print(f"{mode}: {[round(one, 4) for one in ratios]}")
            self.note("overhead", f"{mode}, no limit", bound(ratios))
        bare = Tenant([str(self.program)], core=CORE)
        half = Tenant([str(self.program)], self.container("half", compute=5000), core=CORE)
        for name in ("50 µs", "1 ms"):
            rounds = self.rounds[name]
            full, limited = of(bare, "kernel", rounds, 0.1), of(half, "kernel", rounds, 0.2)
            ratios = [ratio / 2 for ratio in alternate(full, limited, 30)]
            self.note("overhead", f"{name} kernels at 50 %, beside the ideal", bound(ratios))
        for tenant in (bare, half):
            tenant.end()

    def training(self):
        """PyTorch: shares of a training step, and what the limiter costs it."""
        command = [sys.executable, str(HERE / "trainer.py")]
        free_container, container = self.container("torch-free"), self.container("torch", compute=100)
        container.say(lent=9900)
        tenants = [Tenant(command, core=CORE), Tenant(command, free_container, core=CORE), Tenant(command, container)]
        for tenant in tenants:
            tenant.answer()
        bare, free, limited = tenants
        bare.ask("steps", 2.0)
        time.sleep(1.5)
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
        self.note("training", "clock and power of the bare one", subprocess.check_output(query, text=True).strip())
        self.note("training", "bare steps per s", bare.answer()["per_s"])
        # How long each part of a step takes where nobody is in the way.
        told, took = bare("marks", 2.0)["marks"], {}
        for (before, _), (end, place) in zip(told, told[1:]):
            took.setdefault(place, []).append(end - before)
        took = {place: int(statistics.median(all)) for place, all in took.items()}
        self.note("bare", "training", shares([(end, took[place]) for end, place in told[1:]], 1, 1.5, 100 * MS, settle=0.4))
        for limit in LIMITS:
            container.say(lent=limit * 100 - 100)
            marks = limited("marks", 3.5)["marks"]
            ends = [(end, took[place]) for end, place in marks]
            self.note("compute", f"training {limit} %", shares(ends, 1, 3, 100 * MS, settle=0.4))
        once = lambda tenant: lambda: tenant("steps", 0.25)["per_s"]
        self.note("overhead", "training step, no limit", bound(alternate(once(bare), once(free), 30)))
        for tenant in tenants:
            tenant.end()

    def memory(self):
        """What tenants with 4 GiB can take in each way, and what NVML says of it."""
        limit, card = 4 << 30, Card()
        for way, title in enumerate(WAYS):
            container = self.container(f"hold-{way}", memory=limit)
            idle = card.used()
            tenant = Tenant([str(self.program)], container)
            tenant("calibrate", 1000, 0)
            begun, counted = card.used(), container.counters()["held"]
            told = tenant("hold", way, 1)
            full = {"NVML": card.used() - begun + counted, "counted": container.counters()["held"]}
            back = tenant("free", way, 1)
            left = container.counters()["held"] - counted
            self.note("memory", title, {**told, "at most": full, "context": begun - idle - counted, "free after": back["free"], "left": left})
            tenant.end()
        for way in (0, 1, 2, WAYS.index("graph")):
            container = self.container(f"race-{way}", memory=limit)
            tenants = [Tenant([str(self.program)], container) for _ in range(16)]
            for tenant in tenants:
                tenant("calibrate", 1000, 0)
            begun, counted, most, seen = card.used(), container.counters()["held"], 0, 0
            for tenant in tenants:
                tenant.ask("race", way, 4)
            end = time.time() + 4
            while time.time() < end:
                most, seen = max(most, card.used()), seen + 1
            told = [tenant.answer() for tenant in tenants]
            sums = {name: sum(one[name] for one in told) for name in told[0]}
            counters = container.counters()
            result = {**sums, "most by NVML": most - begun + counted, "looks": seen, "denials": counters["denials"], "left": counters["held"] - counted}
            self.note("memory", f"16 processes race, {WAYS[way]}", result)
            for tenant in tenants:
                tenant.end()
        container = self.container("traces", memory=limit)
        tenant = Tenant([str(self.program)], container)
        tenant("traces", 1, 0)
        counted = container.counters()["held"]
        told = tenant("traces", 1000 if self.quick else 10_000, 0)
        self.note("memory", "random traces", {**told, "left": container.counters()["held"] - counted, "denials": container.counters()["denials"]})
        tenant.end()


def main():
    words = [word for word in sys.argv[1:] if word != "--quick"]
    carve, library, results, *parts = words
    begin = time.time()
    bench = Bench(carve, library, results, "--quick" in sys.argv)
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    bench.note("machine", "gpu", subprocess.check_output(query, text=True).strip())
    for part in parts or ("compute", "together", "burst", "overhead", "training", "memory", "mps"):
        getattr(bench, part)()
        print(f"{part} took until {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
