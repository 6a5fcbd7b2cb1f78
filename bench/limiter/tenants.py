"""Containers and tenants for the measurement: a folder with limits for each container, a process that takes commands for each tenant."""

import ctypes
import json
import mmap
import os
import shutil
import struct
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SLOTS = 1024
REGION = 64 + 128 * SLOTS
LIMITS = 128


def gpu_uuid():
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.check_output(query, text=True).split()[0]


class Container:
    """A share of a GPU, as the agent leaves it for a container: beside a copy of the limiter, which looks there first."""

    def __init__(self, place, library, uuid, name, memory=1 << 40, compute=0, context=0):
        self.folder = Path(place) / name
        shutil.rmtree(self.folder, ignore_errors=True)
        for kind in ("limits", "usage"):
            (self.folder / kind / uuid).mkdir(parents=True)
        self.library = self.folder / "libcarve_limiter.so"
        shutil.copy(library, self.library)
        limits = self.folder / "limits" / uuid / "share"
        head = b"CARVELIM" + struct.pack("<IIQIIQ", 1, LIMITS, memory, compute, 0, context)
        limits.write_bytes(head.ljust(LIMITS, b"\0"))
        self.usage = self.folder / "usage" / uuid / "share"
        self.usage.write_bytes((b"CARVEUSE" + struct.pack("<II", 1, 0)).ljust(REGION, b"\0"))
        with open(limits, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), LIMITS)
        self.said = (0, 0, 0, 0)

    def say(self, lent=0, period=0, offset=0, length=0):
        """What the agent says about turns and lent time; it counts for a second, so it is said again and again."""
        self.said = (lent, period, offset, length)
        self.repeat()

    def repeat(self):
        lent, period, offset, length = self.said
        sequence = (struct.unpack_from("<I", self.page, 64)[0] | 1) + 1
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.page[64:104] = struct.pack("<IIQQQQ", sequence & 0xFFFFFFFF, lent, period, offset, length, now)

    def counters(self):
        data = self.usage.read_bytes()
        reached = struct.unpack_from("<I", data, 12)[0]
        names = ("owner", "namespace", "held", "asked", "denials", "busy", "throttled", "launches", "wanted", "longest", "trouble", "nothing")
        slots = [struct.unpack_from("<12Q", data, 64 + 128 * slot) for slot in range(reached)]
        return {name: sum(slot[at] for slot in slots) for at, name in enumerate(names) if at > 1}


class Agent:
    """Repeats what was said to containers, as the agent on a node does."""

    def __init__(self):
        self.containers = []
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            for container in list(self.containers):
                container.repeat()
            time.sleep(0.1)


class Tenant:
    """A process that takes commands, in a container or bare; on one core where it is compared with another."""

    def __init__(self, command, container=None, core=None):
        environment = dict(os.environ)
        if container:
            environment["LD_PRELOAD"] = str(container.library)
        stay = None if core is None else lambda: os.sched_setaffinity(0, {core})
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=stay
        )

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a tenant ended with {self.process.wait()}")
        return json.loads(line)

    def __call__(self, *words):
        self.ask(*words)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


def build(place):
    """The tenant's program, for the GPU that is here."""
    program = Path(place) / "tenant"
    source = HERE / "tenant.cu"
    subprocess.check_call(["nvcc", "-O2", "-arch=native", "-o", str(program), str(source), "-lcuda"])
    return program


class Card:
    """What NVML says of the whole card."""

    class Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64)]

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        assert self.library.nvmlInit_v2() == 0
        assert self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0

    def used(self):
        memory = self.Memory()
        assert self.library.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)) == 0
        return memory.used
