"""What the agent tells of processes on a real GPU, beside what they did: four tenants of known load and memory, taking turns and over MPS.

    python3 bench/exporter/measure.py path/to/carve [SECONDS]

Needs root, nvcc, a writable cgroup2 and python's grpc. A cluster and a kubelet are played by this program: the agent is told of four pods, each with a share of the GPU,
whose containers are cgroups made here. Nothing about the GPU is changed; MPS runs with a pipe folder of its own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc

HERE = Path(__file__).resolve().parent
# Pod, percent of the time, MiB.
TENANTS = [("a", 90, 2048), ("b", 40, 1024), ("c", 10, 512), ("d", 0, 4096)]
KERNEL_MS = 5.0
NODE = "here"
LISTEN = "127.0.0.1:19411"


def container(pod):
    return (pod * 64)[:64]


def field(number, data):
    """A length-delimited field of a protobuf message."""
    def varint(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def play_kubelet(folder, uuid, pods):
    """Answers registrations, and says which pod has which share."""

    def resources(_request, _context):
        answer = b""
        for at, pod in enumerate(pods()):
            devices = field(1, "nvidia.com/gpu") + field(2, f"{uuid}::{at}")
            answer += field(1, field(1, pod) + field(2, "team") + field(3, field(1, "main") + field(2, devices)))
        return answer

    def serve(socket, service, methods):
        socket.parent.mkdir(parents=True, exist_ok=True)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
        server.add_insecure_port(f"unix://{socket}")
        server.start()
        return server

    return [
        serve(folder / "device-plugins/kubelet.sock", "v1beta1.Registration", {"Register": lambda *_: b""}),
        serve(folder / "pod-resources/kubelet.sock", "v1.PodResourcesLister", {"List": resources}),
    ]


def play_cluster(pods):
    """An API server that knows one node and these pods, and takes whatever it is told."""

    def pod_object(pod):
        status = {"name": "main", "containerID": f"containerd://{container(pod)}", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
        return {
            "metadata": {"name": pod, "namespace": "team", "uid": f"uid-{pod}"},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": "Running", "containerStatuses": [status]},
        }

    node = {"metadata": {"name": NODE, "uid": "1", "resourceVersion": "1", "labels": {}}, "status": {}}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, value, code=200):
            text = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            if "watch=" in self.path:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                time.sleep(280)
                return
            path = self.path.split("?")[0]
            meta = {"resourceVersion": "1"}
            if path == "/api/v1/nodes":
                self.answer({"kind": "NodeList", "apiVersion": "v1", "metadata": meta, "items": [node]})
            elif path == f"/api/v1/nodes/{NODE}":
                self.answer({"kind": "Node", "apiVersion": "v1", **node})
            elif path == "/api/v1/pods":
                self.answer({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": [pod_object(pod) for pod in pods()]})
            else:
                self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "nothing"}, 404)

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                self.answer({"kind": "Node", "apiVersion": "v1", **node} if "nodes" in self.path else json.loads(body), 200)
            except ValueError:
                self.answer({}, 200)

        do_PATCH = do_PUT = do_POST

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Page:
    """The agent's series at a moment."""

    def __init__(self):
        self.text = urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=10).read().decode()

    @staticmethod
    def fresh():
        """A page right after the agent has looked, which it does about once a second, and when that was."""
        busy = lambda page: page.sum("carve_gpu_busy_seconds_total")
        first = busy(Page())
        for _ in range(300):
            page, at = Page(), time.monotonic()
            if busy(page) != first:
                return page, at
            time.sleep(0.01)
        return page, at

    def sum(self, name, *words):
        lines = (line for line in self.text.splitlines() if line.startswith(name + "{") and all(word in line for word in words))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def of_pod(self, name, pod, *words):
        return self.sum(name, f'pod="{pod}"', *words)


def driver_says():
    """Memory of each process as the driver tells it, in MiB."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    rows = (line.split(",") for line in subprocess.check_output(query, text=True).splitlines() if "," in line)
    return {int(pid): int(memory) for pid, memory in rows}


def start(program, pod, percent, mebibytes, rounds, length, environment):
    cgroup = Path(f"/sys/fs/cgroup/kubepods-pod{pod * 8}_{pod * 4}_{pod * 4}_{pod * 4}_{pod * 12}.slice/cri-containerd-{container(pod)}.scope")
    cgroup.mkdir(parents=True, exist_ok=True)

    def enter():
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    words = [str(program), str(mebibytes), str(percent), str(rounds), str(length)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=enter)
    assert process.stdout.readline() == "ready\n", f"{pod} does not start"
    return process


def measured(program, tenants, rounds, length, seconds, environment):
    """Runs these tenants for so long; what they did and what was told of it."""
    processes, since = {}, {}
    for pod, percent, mebibytes in tenants:
        processes[pod] = start(program, pod, percent, mebibytes, rounds, length, environment)
        since[pod] = time.monotonic()
    time.sleep(6)
    before, began = Page.fresh()
    time.sleep(seconds)
    after, ended = Page.fresh()
    seen = driver_says()
    rows = []
    for pod, percent, mebibytes in tenants:
        told = {kind: after.of_pod("carve_container_gpu_seconds_total", pod, f'attribution="{kind}"') - before.of_pod("carve_container_gpu_seconds_total", pod, f'attribution="{kind}"') for kind in ("measured", "limiter", "quota", "equal")}
        told = {kind: round(100 * value / (ended - began), 2) for kind, value in told.items() if value > 0}
        rows.append({
            "pod": pod, "wanted percent": percent, "held MiB": mebibytes, "told percent": told,
            "told MiB": round(after.of_pod("carve_container_memory_used_bytes", pod) / 2**20),
            "driver MiB": seen.get(processes[pod].pid),
        })
    delta = lambda name: after.sum(name) - before.sum(name)
    device = {
        "busy percent": round(100 * delta("carve_gpu_busy_seconds_total") / (ended - began), 2),
        "unattributed percent": round(100 * delta("carve_gpu_unattributed_seconds_total") / (ended - began), 2),
        "sum of containers percent": round(100 * delta("carve_container_gpu_seconds_total") / (ended - began), 2),
        "memory MiB": round(after.sum("carve_gpu_memory_used_bytes") / 2**20),
        "memory of containers MiB": round(after.sum("carve_container_memory_used_bytes") / 2**20),
        "memory of nobody MiB": round(after.sum("carve_gpu_memory_unattributed_bytes") / 2**20),
    }
    for row, (pod, process) in zip(rows, processes.items()):
        process.stdin.close()
        kernels = json.loads(process.stdout.readline())["kernels"]
        # Over all of its life, which is longer than what was watched and of the same kind.
        row["did percent"] = round(100 * kernels * length / 1000 / (time.monotonic() - since[pod]), 2)
        process.wait(30)
    return {"seconds": round(ended - began, 1), "tenants": rows, "device": device}


def main():
    carve, seconds = Path(sys.argv[1]).resolve(), float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    place = Path(tempfile.mkdtemp(prefix="carve-exporter-"))
    program = place / "duty"
    subprocess.check_call(["nvcc", "-O2", "-arch=native", "-o", str(program), str(HERE / "duty.cu")])
    alone = lambda rounds: json.loads(subprocess.check_output([str(program), "64", "-1", str(rounds)], text=True))["milliseconds"]
    rounds = int(100_000 * KERNEL_MS / alone(100_000))
    length = alone(rounds)
    uuid = subprocess.check_output(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], text=True).split()[0]
    there = []
    servers = play_kubelet(place, uuid, lambda: list(there))
    port = play_cluster(lambda: list(there))
    (place / "kubeconfig").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "c", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }))
    (place / "config.yaml").write_text("version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n")
    (place / "prices").write_text("* 7.912\n")
    words = [str(carve), "agent", "--without", "mig,labels,validation", "--node-name", NODE, "--kubeconfig", str(place / "kubeconfig"), "--listen", LISTEN,
             "--config-file", str(place / "config.yaml"), "--state-dir", str(place / "state"), "--prices", str(place / "prices"),
             "--kubelet-socket", str(place / "device-plugins/kubelet.sock"), "--pod-resources-socket", str(place / "pod-resources/kubelet.sock"),
             "--cdi-root", str(place / "cdi"), "--nvidia-cdi-hook-path", str(place / "bin/carve"), "--device-list-strategy", "envvar"]
    log = open(place / "agent.log", "w")
    agent = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=2)
                break
            except OSError:
                time.sleep(0.2)
        result = {"gpu": uuid, "kernel milliseconds": round(length, 4)}
        bare = dict(os.environ)
        there[:] = ["a"]
        for percent in (90, 40, 10):
            result[f"alone, {percent} %"] = measured(program, [("a", percent, 2048)], rounds, length, seconds / 2, bare)
        there[:] = [pod for pod, _, _ in TENANTS]
        result["taking turns"] = measured(program, TENANTS, rounds, length, seconds, bare)
        pipe = place / "mps"
        pipe.mkdir()
        over = dict(bare, CUDA_MPS_PIPE_DIRECTORY=str(pipe), CUDA_MPS_LOG_DIRECTORY=str(pipe))
        subprocess.check_call(["nvidia-cuda-mps-control", "-d"], env=over)
        try:
            result["over MPS"] = measured(program, TENANTS, rounds, length, seconds, over)
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=over)
        result["cost"] = json.loads(urllib.request.urlopen(f"http://{LISTEN}/api/v1/cost?by=pod", timeout=10).read())
        status = Path(f"/proc/{agent.pid}/status").read_text()
        result["agent KiB"] = {name: int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("VmRSS", "RssAnon")}
        print(json.dumps(result, indent=1))
    finally:
        agent.terminate()
        agent.wait(20)
        log.close()
        if "-v" in sys.argv:
            print((place / "agent.log").read_text()[-4000:], file=sys.stderr)
        [server.stop(0) for server in servers]
        shutil.rmtree(place, ignore_errors=True)


main()
