#!/usr/bin/env python3
"""A large fleet through the real program: `scale.py target/release/carve [NODES SLICES CHANGES SECONDS LISTENERS]`, 1000 20000 200 60 1000 unless told.

Machines of eight GPUs; pods that have a part of one each; then so many changes a second, half of them pods that are deleted and half those that come in their place. A listener follows the stream and says how old its
news are; somebody asks for the whole picture every two seconds. At the end nothing is changed any more, and idle listeners come. With FRAMES=1 a browser looks on meanwhile (page-tests must be installed).
"""

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent


def busy(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid, field):
    return next(int(line.split()[1]) / 1024 for line in open(f"/proc/{pid}/status") if line.startswith(field))


class Door:
    """One connection that is kept."""

    def __init__(self, url):
        self.parts = urlsplit(url)
        self.connection = None

    def ask(self, method, path, body=None, kind="application/json"):
        for _ in range(2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.parts.hostname, self.parts.port, timeout=60)
            try:
                self.connection.request(method, self.parts.path + path, body=body, headers={"content-type": kind} if body else {})
                answer = self.connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                self.connection = None
        raise OSError("no answer")


class Listener(threading.Thread):
    """Follows the stream: how many bytes and news, how old each was."""

    def __init__(self, url):
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
        self.reset()

    def reset(self):
        self.bytes, self.frames, self.gaps, self.late, self.last = 0, 0, 0, [], time.time()
        self.longest = 0

    def run(self):
        self.connection.request("GET", "/api/v1/stream")
        answer = self.connection.getresponse()
        for line in answer:
            self.bytes += len(line)
            if line.startswith(b"event: gap"):
                self.gaps += 1
            if line.startswith(b"data: ") and b'"version"' in line[:5000] or line.startswith(b"data: {"):
                now = time.time()
                self.longest = max(self.longest, now - self.last)
                self.frames, self.last = self.frames + 1, now
                try:
                    self.late.append(now - json.loads(line[6:])["at"])
                except (ValueError, KeyError):
                    pass


def main():
    carve = str(Path(sys.argv[1]).resolve())
    numbers = [int(word) for word in sys.argv[2:]]
    nodes, slices, changes, seconds, listeners = (numbers + [1000, 20000, 200, 60, 1000][len(numbers):])[:5]
    folder = Path(tempfile.mkdtemp(prefix="carve-scale-"))
    env = dict(os.environ, XDG_STATE_HOME=str(folder))
    log = open(folder / "log", "w")
    begun = time.time()
    up = subprocess.Popen([carve, "up", "--fleet", f"p4d.24xlarge={nodes}", "--empty", "--listen", "127.0.0.1:0"], env=env, stdout=log, stderr=log)
    try:
        url = None
        while not url:
            found = [line.split()[1] for line in (folder / "log").read_text().splitlines() if line.split()[:1] == ["page"]]
            url = found[0] if found else None
            time.sleep(0.02)
        page = Door(url)
        while True:
            status, body = page.ask("GET", "/api/v1/picture")
            if status == 200 and len(json.loads(body)["picture"]["nodes"]) == nodes:
                break
            time.sleep(0.2)
        print(f"{nodes} nodes with {8 * nodes} GPUs are there after {time.time() - begun:.1f} s, {memory(up.pid, 'VmRSS'):.0f} MiB", flush=True)
        before, since = busy(up.pid), time.time()
        time.sleep(10)
        print(f"empty: {100 * (busy(up.pid) - before) / (time.time() - since):.0f} % of a core", flush=True)
        server = json.load(open(folder / "carve/up/kubeconfig"))["clusters"][0]["cluster"]["server"]
        objects, begun = Door(server), time.time()
        for number in range(20):
            name = f"load-{number}"
            deployment = {
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {"replicas": slices // 20, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [
                    {"name": "main", "image": "i", "resources": {"limits": {"carve.dev/gpu-memory": "4000", "carve.dev/gpu-compute": "10"}}}]}}},
            }
            status, body = objects.ask("POST", "/apis/apps/v1/namespaces/default/deployments", json.dumps(deployment))
            assert status == 201, body
        while True:
            there = json.loads(page.ask("GET", "/api/v1/picture")[1])["summary"]["slices"]
            if there >= slices // 20 * 20:
                break
            if time.time() - begun > 900:
                sys.exit(f"only {there} slices after 900 s")
            time.sleep(2)
        print(f"{there} slices after {time.time() - begun:.1f} s, {memory(up.pid, 'VmRSS'):.0f} MiB", flush=True)
        time.sleep(10)
        listener = Listener(url)
        listener.start()
        time.sleep(3)
        listener.reset()
        before, since = busy(up.pid), time.time()
        time.sleep(10)
        took = time.time() - since
        print(f"calm: {100 * (busy(up.pid) - before) / took:.0f} % of a core, the stream has {listener.frames / took:.1f} frames and {listener.bytes / took / 1e6:.2f} MB a second, "
              f"{statistics.median(listener.late):.2f} s old, at most {max(listener.late):.2f}", flush=True)
        frames = None
        if os.environ.get("FRAMES"):
            frames = subprocess.Popen(["node", "frames.mjs", url, str(seconds)], stdout=subprocess.PIPE, text=True, cwd=HERE.parent.parent / "page-tests")
            time.sleep(8)
        listener.reset()
        names = [one["metadata"]["name"] for one in json.loads(objects.ask("GET", "/api/v1/namespaces/default/pods")[1])["items"]]
        before, since, asked, done, next_look = busy(up.pid), time.time(), [], 0, 0
        deletes = changes / 2
        pictures = []
        while time.time() - since < seconds:
            if time.time() >= next_look:
                start = time.time()
                page.ask("GET", "/api/v1/picture")
                pictures.append(time.time() - start)
                next_look = time.time() + 2
            if done < (time.time() - since) * deletes and names:
                start = time.time()
                status, _ = objects.ask("DELETE", f"/api/v1/namespaces/default/pods/{names.pop()}")
                asked.append(time.time() - start)
                done += status in (200, 202)
            else:
                time.sleep(0.001)
        took = time.time() - since
        asked.sort()
        print(f"{2 * done / took:.0f} changes a second for {took:.0f} s: {100 * (busy(up.pid) - before) / took:.0f} % of a core; a change is acknowledged after {1000 * asked[len(asked) // 2]:.1f} ms, p99 {1000 * asked[int(len(asked) * 0.99)]:.0f} ms; "
              f"the whole picture takes {1000 * statistics.median(pictures):.0f} ms, at most {1000 * max(pictures):.0f}", flush=True)
        print(f"  stream: {listener.frames / took:.1f} frames and {listener.bytes / took / 1e6:.2f} MB a second, {statistics.median(listener.late):.2f} s old, at most {max(listener.late):.2f}; {listener.gaps} gaps, never silent for more than {listener.longest:.2f} s", flush=True)
        print(f"  memory: {memory(up.pid, 'VmRSS'):.0f} MiB now, {memory(up.pid, 'VmHWM'):.0f} MiB at most", flush=True)
        if frames:
            print("  page: " + frames.communicate()[0].strip(), flush=True)
        begun = time.time()
        while json.loads(page.ask("GET", "/api/v1/picture")[1])["summary"]["slices"] < slices // 20 * 20 and time.time() - begun < 120:
            time.sleep(0.5)
        print(f"all {slices // 20 * 20} are there again {time.time() - begun:.1f} s after the last change", flush=True)
        listener.reset()
        before, since, rss = busy(up.pid), time.time(), memory(up.pid, "VmRSS")
        crowd = subprocess.Popen([sys.executable, "-c", CROWD, url, str(listeners)], stdout=subprocess.PIPE, text=True)
        crowd.stdout.readline()
        before, since = busy(up.pid), time.time()
        time.sleep(15)
        took, start = time.time() - since, time.time()
        page.ask("GET", "/api/v1/about")
        print(f"{listeners} listeners who do not read: {100 * (busy(up.pid) - before) / took:.0f} % of a core, {memory(up.pid, 'VmRSS') - rss:+.0f} MiB, an answer after {1000 * (time.time() - start):.0f} ms, "
              f"the one who reads is {statistics.median(listener.late):.2f} s behind, at most {max(listener.late):.2f}", flush=True)
        crowd.kill()
    finally:
        up.terminate()
        up.wait()


CROWD = """
import socket, sys, time
from urllib.parse import urlsplit
parts, crowd = urlsplit(sys.argv[1]), []
for _ in range(int(sys.argv[2])):
    one = socket.create_connection((parts.hostname, parts.port))
    one.sendall(f"GET /api/v1/stream HTTP/1.1\\r\\nhost: {parts.netloc}\\r\\n\\r\\n".encode())
    crowd.append(one)
print('there', flush=True)
time.sleep(600)
"""

main()
