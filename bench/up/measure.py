"""What a newcomer meets: how soon carve up answers, and what its demo takes. Usage: measure.py target/release/carve"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

SETTLE = 30  # seconds until the demo runs
WATCH = 30  # seconds over which it is watched


def ask(url):
    return urllib.request.urlopen(url, timeout=1).read()


def until(look):
    while True:
        try:
            found = look()
            if found:
                return found
        except OSError:
            pass
        time.sleep(0.005)


def busy(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    address = "127.0.0.1:7533"
    with tempfile.TemporaryDirectory() as state:
        environment = dict(os.environ, XDG_STATE_HOME=state)
        start = time.time()
        up = subprocess.Popen([sys.argv[1], "up", "--listen", address], env=environment, stderr=subprocess.DEVNULL)
        try:
            until(lambda: ask(f"http://{address}/"))
            page = time.time() - start
            until(lambda: json.loads(ask(f"http://{address}/api/v1/picture"))["picture"]["nodes"])
            picture = time.time() - start
            time.sleep(SETTLE)
            before, since = busy(up.pid), time.time()
            time.sleep(WATCH)
            share = 100 * (busy(up.pid) - before) / (time.time() - since)
            peak = next(line for line in open(f"/proc/{up.pid}/status") if line.startswith("VmHWM"))
        finally:
            up.terminate()
            up.wait()
    print(f"page after {page:.3f} s, picture after {picture:.3f} s")
    print(f"{share:.2f} % of a core, {int(peak.split()[1]) / 1024:.1f} MiB at most")


if __name__ == "__main__":
    main()
