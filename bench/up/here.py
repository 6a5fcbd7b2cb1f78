#!/usr/bin/env python3
"""Tries `carve up` on the GPU of this machine: `here.py CARVE LIBRARY [RESULTS.json]`. Needs PyTorch, and changes no setting of the GPU.

Two commands and a pod share the card by 50, 25 and 10 percent of its time and never end by themselves. What the page tells of each is held against what was promised; a fourth is refused
for want of room and then waits for it; carve up is killed, and finds them again; at the end nothing of it is left on the GPU.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BURN = """
import sys, time, torch
a = torch.randn(2048, 2048, device='cuda')
b = torch.randn(2048, 2048, device='cuda')
end, done = time.time() + float(sys.argv[1]), 0
while time.time() < end:
    a @ b
    done += 1
    if done % 8 == 0:
        torch.cuda.synchronize()
print('products', done)
"""


class Place:
    def __init__(self, carve, library):
        self.folder = Path(tempfile.mkdtemp(prefix="carve-here-"))
        self.carve = str(Path(carve).resolve())
        self.env = dict(
            os.environ, XDG_STATE_HOME=str(self.folder / "state"), CARVE_RUN_DIR=str(self.folder / "run"),
            CARVE_LIMITER=str(Path(library).resolve()),
        )
        self.env.pop("KUBECONFIG", None)
        (self.folder / "burn.py").write_text(BURN)

    def up(self):
        log = open(self.folder / "up.log", "w")
        began = time.time()
        process = subprocess.Popen([self.carve, "up", "--listen", "127.0.0.1:0"], env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while True:
            lines = [line.split() for line in (self.folder / "up.log").read_text().splitlines()]
            found = [words[1] for words in lines if words and words[0] == "page"]
            if found:
                try:
                    urllib.request.urlopen(found[0] + "/", timeout=2).read()
                    self.url = found[0]
                    return process, time.time() - began
                except OSError:
                    pass
            if process.poll() is not None:
                sys.exit((self.folder / "up.log").read_text())
            time.sleep(0.005)

    def run(self, *words, **more):
        return subprocess.Popen([self.carve, *words], env=self.env, stdin=subprocess.DEVNULL, text=True, **more)

    def said(self, *words):
        done = subprocess.run([self.carve, *words], env=self.env, stdin=subprocess.DEVNULL, text=True, capture_output=True)
        return done.returncode, done.stdout, done.stderr

    def burn(self, seconds, *words):
        return self.run("run", "--mechanism", "limiter", *words, "--", sys.executable, str(self.folder / "burn.py"), str(seconds), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def gpu(self):
        with urllib.request.urlopen(self.url + "/api/v1/picture", timeout=5) as answer:
            nodes = json.load(answer)["picture"]["nodes"]
        return next(iter(nodes.values()))["gpus"][0]


def settings():
    asked = "mig.mode.current,compute_mode,power.limit,clocks.max.sm"
    return subprocess.run(["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()


def on_the_gpu():
    told = subprocess.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], capture_output=True, text=True).stdout
    return told.split()


def main():
    carve, library, *rest = sys.argv[1:]
    place, results = Place(carve, library), {}
    results["settings before"] = settings()
    up, results["page answers after, s"] = place.up()
    half = place.burn(600, "--memory", "40Gi", "--compute", "50")
    quarter = place.burn(600, "--memory", "30Gi", "--compute", "25")
    manifest = place.folder / "pod.yaml"
    command = json.dumps([sys.executable, str(place.folder / "burn.py"), "600"])
    manifest.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: tenth}\nspec:\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 5\n  containers:\n"
        f"  - {{name: main, image: none, command: {command}, resources: {{limits: {{carve.dev/gpu-memory: 10240, carve.dev/gpu-compute: 10}}}}}}\n"
    )
    print(place.said("apply", "-f", str(manifest)))
    begun = time.time()
    while time.time() - begun < 120:
        slices = place.gpu().get("slices", [])
        if len(slices) == 3 and all(one.get("computeUsed", 0) > 0 for one in slices):
            break
        time.sleep(0.5)
    time.sleep(5)
    seen = {}
    for _ in range(20):
        gpu = place.gpu()
        for one in gpu["slices"]:
            seen.setdefault((one["pod"], one["compute"]), []).append((one["computeUsed"], one["memoryUsed"], one.get("throttled", 0)))
        seen.setdefault(("GPU", 1), []).append((gpu["busy"], gpu["memoryUsed"], 0))
        time.sleep(1)
    for (pod, promised), values in seen.items():
        mean = [statistics.mean(value[field] for value in values) for field in range(3)]
        results[f"{pod.split('-')[0]} promised {promised:.0%}"] = {"used": round(mean[0], 3), "spread": round(statistics.pstdev(value[0] for value in values), 3), "MiB": round(mean[1]), "held back": round(mean[2], 3)}
    print(place.said("top", "--once")[1])
    print(place.said("get", "pods")[1])
    results["refused"] = place.said("run", "--memory", "10Gi", "--compute", "20", "--", "true")[2].strip()
    waiting = place.burn(3, "--wait", "--memory", "10Gi", "--compute", "20")
    time.sleep(2)
    assert waiting.poll() is None, "it did not wait"
    name = next(line.split()[0] for line in place.said("get", "pods")[1].splitlines() if line.startswith(f"run-python3") and str(quarter.pid) in line)
    began = time.time()
    print(place.said("delete", "pod", name))
    quarter.wait()
    results["a deleted command ends after, s"] = round(time.time() - began, 2)
    results["the one that waited"] = [line for line in waiting.communicate()[1].splitlines()][-1:]
    up.send_signal(signal.SIGKILL)
    up.wait()
    up, _ = place.up()
    time.sleep(4)
    results["found again after a kill"] = sorted(one["pod"].split("/")[1].rstrip("0123456789") for one in place.gpu().get("slices", []))
    print(place.said("cost", "--since", "1h", "--by", "workload")[1])
    half.send_signal(signal.SIGTERM)
    half.wait()
    up.send_signal(signal.SIGINT)
    results["ends with"] = up.wait()
    time.sleep(1)
    results["processes left on the GPU"] = len(on_the_gpu())
    results["settings after"] = settings()
    print(json.dumps(results, indent=1))
    if rest:
        Path(rest[0]).write_text(json.dumps(results, indent=1) + "\n")


main()
