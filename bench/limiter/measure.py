#!/usr/bin/env python3
"""Measures the limiter on the GPU of this machine: `measure.py LIBRARY RESULTS.json [PART…]`.

Shares are finished work times the calibrated length of a kernel, never what the limiter counts itself.
PARTs: compute, together, overhead, training, memory. Without any, all of them. `--quick` leaves most of the compute cells out.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import alternate, bound, shares, switches
from tenants import HERE, Agent, Container, Tenant, build, gpu_uuid

LIMITS = (10, 20, 25, 50, 75, 80, 90)
KERNELS = {"50 µs": 0.05, "1 ms": 1, "10 ms": 10, "100 ms": 100}
MS = 1_000_000


class Bench:
    def __init__(self, library, results, quick):
        self.place = tempfile.mkdtemp(prefix="carve-limiter-")
        self.library, self.results_file, self.quick = library, results, quick
        self.uuid, self.agent, self.results = gpu_uuid(), Agent(), {}
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
        tenant = Tenant([str(self.program)], container)
        cells = [(name, "spin", name, 2.5 if length <= 1 else 4 if length <= 10 else 16) for name, length in KERNELS.items()]
        cells += [("graph", "graph", "50 µs", 2.5), ("mixed", "mixed", "50 µs", 2.5)]
        if self.quick:
            cells = [(title, mode, name, 1.2) for title, mode, name, _ in cells if title != "100 ms"]
        for title, mode, name, seconds in cells:
            self.note("bare", title, self.saturated(self.bare, mode, name, min(seconds, 4)))
            for limit in (20, 50, 90) if self.quick else LIMITS:
                container.say(lent=limit * 100 - 100)
                self.note("compute", f"{title} {limit} %", self.saturated(tenant, mode, name, seconds))
        self.note("counters", "compute", container.counters())
        tenant.end()

    def together(self):
        """Several containers at once: their shares, and the sum beside that of bare ones."""
        for name in ("1 ms", "50 µs", "10 ms")[: 2 if self.quick else 3]:
            for limits in ((30, 70), (20, 30, 50)):
                # Turns come round in fifty lengths of a kernel at least.
                period, offset = max(20 * MS, 50 * self.lengths[name]), 0
                tenants = []
                for limit in limits:
                    title = f"{name}-{'-'.join(map(str, limits))}-{limit}".replace(" ", "")
                    container = self.container(title, compute=limit * 100)
                    container.say(period=period, offset=offset, length=period * limit // 100)
                    offset += period * limit // 100
                    tenants.append(Tenant([str(self.program)], container))
                title = f"{name} {' / '.join(map(str, limits))}"
                self.note("together", title, self.at_once(tenants, name))
                bare = [Tenant([str(self.program)]) for _ in limits]
                self.note("together bare", title, self.at_once(bare, name))
                for tenant in tenants + bare:
                    tenant.end()

    def at_once(self, tenants, name):
        seconds = 3
        for tenant in tenants:
            tenant.ask("spin", self.rounds[name], seconds + 1.5)
        ends = [tenant.answer()["ends"] for tenant in tenants]
        start = max(one[0][0] for one in ends)
        window = max(100 * MS, 40 * self.lengths[name])
        print(" " * 12, switches(ends, self.lengths[name]), flush=True)
        return [shares(one, self.lengths[name], seconds, window, start) for one in ends]

    def overhead(self):
        """What the limiter costs where nothing is limited, and beside the ideal of a limit."""
        free = Tenant([str(self.program)], self.container("free"))
        half_container = self.container("half", compute=5000)
        half = Tenant([str(self.program)], half_container)
        def of(tenant, mode, rounds=1, seconds=0.1):
            return lambda: tenant(mode, rounds, seconds)["per_s"]
        for mode in ("launch", "malloc", "malloc-async"):
            self.note("overhead", f"{mode}, no limit", bound(alternate(of(self.bare, mode), of(free, mode), 30)))
        for name in ("50 µs", "1 ms"):
            rounds = self.rounds[name]
            bare, limited = of(self.bare, "kernel", rounds, 0.15), of(half, "kernel", rounds, 0.3)
            ratios = [ratio / 2 for ratio in alternate(bare, limited, 30)]
            self.note("overhead", f"{name} kernels at 50 %, beside the ideal", bound(ratios))
        for tenant in (free, half):
            tenant.end()

    def training(self):
        """PyTorch: shares of a training step, and what the limiter costs it."""
        command = [sys.executable, str(HERE / "trainer.py")]
        free_container, container = self.container("torch-free"), self.container("torch", compute=100)
        container.say(lent=9900)
        tenants = [Tenant(command), Tenant(command, free_container), Tenant(command, container)]
        for tenant in tenants:
            tenant.answer()
        bare, free, limited = tenants
        bare.ask(2.0)
        time.sleep(1.5)
        query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
        self.note("training", "clock and power of the bare one", subprocess.check_output(query, text=True).strip())
        self.note("training", "bare steps per s", bare.answer()["per_s"])
        for limit in LIMITS:
            container.say(lent=limit * 100 - 100)
            self.note("compute", f"training {limit} %", (limited(3.0)["per_s"] / bare(1.0)["per_s"], None))
        once = lambda tenant: lambda: tenant(0.25)["per_s"]
        self.note("overhead", "training step, no limit", bound(alternate(once(bare), once(free), 30)))
        for tenant in tenants:
            tenant.end()

    def memory(self):
        """What a tenant with 4 GiB can take, and what NVML says of it."""
        container = self.container("four", memory=4 << 30, context=518 << 20)
        tenant = Tenant([str(self.program)], container)
        self.note("memory", "cudaMalloc under 4 GiB", tenant("fill", 1, 1))
        self.note("memory", "counters", container.counters())
        query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"]
        self.note("memory", "nvidia-smi, idle", subprocess.check_output(query, text=True).split("\n"))
        tenant.end()


def main():
    words = [word for word in sys.argv[1:] if word != "--quick"]
    library, results, *parts = words
    begin = time.time()
    bench = Bench(library, results, "--quick" in sys.argv)
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    bench.note("machine", "gpu", subprocess.check_output(query, text=True).strip())
    for part in parts or ("compute", "together", "overhead", "training", "memory"):
        getattr(bench, part)()
        print(f"{part} took until {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
