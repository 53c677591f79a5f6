#!/usr/bin/env python3
"""Measures the context memory that running requests hold, per request, and prints ratios.

    tools/kv_memory.py --model FILE [--workload chat] [--concurrency 8] [--requests 64]

Serves the same traffic (`refrain bench serve`) three times: FP16 without reuse, FP16 with it, and with the
KV format that `--kv-format auto` chooses. While it runs, blocks that sequences hold and the number of
sequences are read from /metrics 20 times a second. Bytes per request are the mean of the one over the mean of
the other; a block that several hold counts once, one that is only cached does not count.
"""
import argparse
import json
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

SERVERS = {
    "f16, no reuse": ["--kv-format", "f16", "--no-prefix-cache"],
    "f16": ["--kv-format", "f16"],
    "auto": ["--kv-format", "auto"],
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def metrics(url):
    """Values by name and labels as they stand on the page."""
    page = urllib.request.urlopen(url + "/metrics", timeout=10).read().decode()
    return {name: float(value) for name, value in re.findall(r"^refrain:(\S+) (\S+)$", page, re.M)}


class Sampler(threading.Thread):
    """Reads the metrics until it is stopped."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.done, self.pinned, self.running = url, threading.Event(), [], []

    def run(self):
        while not self.done.wait(0.05):
            values = metrics(self.url)
            if values["num_requests_running"] > 0:
                self.pinned.append(values['kv_blocks{state="pinned"}'])
                self.running.append(values["num_requests_running"])


def measure(arguments, flags):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [arguments.refrain, "serve", "--model", arguments.model, "--port", str(port), *flags]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = []
    threading.Thread(target=lambda: lines.extend(server.stderr), daemon=True).start()
    try:
        for _ in range(600):
            try:
                values = metrics(url)
                break
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None:
                    raise SystemExit("the server ended: " + "".join(lines))
                time.sleep(0.1)
        states = ("free", "evictable", "pinned")
        blocks = sum(values[f'kv_blocks{{state="{state}"}}'] for state in states)
        block_bytes = values["kv_budget_bytes"] / blocks
        sampler = Sampler(url)
        sampler.start()
        bench = subprocess.run(
            [arguments.refrain, "bench", "serve", "--json", "--url", url, "--workload", arguments.workload,
             "--concurrency", str(arguments.concurrency), "--requests", str(arguments.requests)],
            check=True, stdout=subprocess.PIPE, text=True)
        sampler.done.set()
        sampler.join()
    finally:
        server.terminate()
        server.wait()
    line = next(text for text in lines if "KV format" in text)
    return {
        "format": re.search(r"KV format (\S+?),? ", line).group(1),
        "bytes_per_request": sum(sampler.pinned) * block_bytes / sum(sampler.running),
        "peak_bytes": max(sampler.pinned) * block_bytes,
        "samples": len(sampler.pinned),
        "bench": json.loads(bench.stdout),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--refrain", default="build/release/refrain", help="binary (default build/release/refrain)")
    parser.add_argument("--workload", default="chat")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {name: measure(arguments, flags) for name, flags in SERVERS.items()}
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    base = results["f16, no reuse"]
    print(f"{'server':16}{'KV format':>10}{'MiB a request':>15}{'against first':>15}{'peak MiB':>10}{'samples':>9}")
    for name, result in results.items():
        change = result["bytes_per_request"] / base["bytes_per_request"] - 1
        print(f"{name:16}{result['format']:>10}{result['bytes_per_request'] / 2**20:15.2f}{change:15.0%}"
              f"{result['peak_bytes'] / 2**20:10.1f}{result['samples']:9}")


if __name__ == "__main__":
    main()
