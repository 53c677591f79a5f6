#!/usr/bin/env python3
"""Measures what text at another place costs: Refrain in repair mode against llama-server.

    refrain calibrate --model FILE
    tools/compare_reuse.py --model FILE --llama-server PATH

The recombined cases of `refrain eval reuse --print-cases` go to both servers, one after the other,
as chat requests. Cold: the request alone, in a server that has not seen its documents. Warm: after
the requests that had the same documents in another order, in a server started anew. TTFT is the
time to the first piece of the answer; figures are medians over the cases. llama-server runs with
--cache-reuse 64, its own way to reuse moved text, and one slot.
"""
import argparse
import contextlib
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time

REFRAIN = "build/release/refrain"
START_SECONDS = 120
ANSWER_SECONDS = 600


def cases(options):
    """Those of the kind that is asked for, as `refrain eval reuse` would measure them."""
    command = [options.refrain, "eval", "reuse", "--print-cases", "--cases", str(options.cases),
               "--changed", "0", "--copied", "0", "--next-turns", "0", "--seed", str(options.seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {options.refrain} printed no cases: {done.stderr.strip()[-500:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [one for one in lines if one["kind"] == options.kind]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def commands(options):
    """By name: what starts each server at a port."""
    found = {"refrain": lambda port: [
        options.refrain, "serve", "--model", options.model, "--port", port, "--reuse", "repair",
        "--threads", options.threads, "--max-context", options.context]}
    if options.llama_server:
        found["llama-server"] = lambda port: [
            options.llama_server, "--model", options.model, "--port", port, "--cache-reuse", 64,
            "--threads", options.threads, "--ctx-size", options.context, "--parallel", 1]
    return found


@contextlib.contextmanager
def running(command_at):
    """Yields the port of a server that is ready; ends it afterwards."""
    port = free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(word) for word in command_at(port)], stdout=log, stderr=log)
        try:
            wait_until_ready(process, port, log)
            yield port
        finally:
            process.terminate()
            process.wait()


def wait_until_ready(process, port, log):
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    log.seek(0)
    sys.exit(f"error: a server did not start: {log.read()[-500:].decode(errors='replace')}")


def ask(port, messages):
    """Seconds to the first piece of the answer, and the last `usage` and `timings`."""
    body = {"messages": messages, "stream": True, "stream_options": {"include_usage": True},
            "max_tokens": 4, "temperature": 0, "cache_prompt": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    started = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(f"error: a server answered {response.status}: {response.read()[:500]!r}")
    first, told = None, {}
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[len(b"data: "):])
        choices = event.get("choices") or [{}]
        if first is None and (choices[0].get("delta", {}).get("content") or choices[0].get("finish_reason")):
            first = time.perf_counter() - started
        told |= {name: event[name] for name in ("usage", "timings") if event.get(name)}
    connection.close()
    if first is None:
        sys.exit("error: a stream ended without an answer")
    return first, told


def measure(command_at, all_cases, progress):
    """One entry a case: seconds, cold and warm, and what the server told of the warm request."""
    measured = []
    with running(command_at) as port:
        ask(port, [{"role": "user", "content": "Hello."}])  # what only a first request pays for
        for one in all_cases:
            progress("cold")
            measured.append({"cold_s": ask(port, one["target"])[0]})
    with running(command_at) as port:
        ask(port, [{"role": "user", "content": "Hello."}])
        for entry, one in zip(measured, all_cases):
            progress("warm")
            for messages in one["warm"]:
                ask(port, messages)
            entry["warm_s"], entry["told"] = ask(port, one["target"])
    return measured


def medians(measured):
    def middle(figure):
        return statistics.median(figure(entry) for entry in measured)
    return {"cold_s": middle(lambda e: e["cold_s"]), "warm_s": middle(lambda e: e["warm_s"]),
            "warm_of_cold": middle(lambda e: e["warm_s"] / e["cold_s"])}


def print_table(figures):
    print(f"{'':14}{'cold s':>10}{'warm s':>10}{'of cold':>10}")
    for name, one in figures.items():
        print(f"{name:14}{one['cold_s']:10.3f}{one['warm_s']:10.3f}{one['warm_of_cold']:10.3f}")
    if "llama-server" in figures:
        ratio = figures["llama-server"]["warm_s"] / figures["refrain"]["warm_s"]
        print(f"warm, Refrain is {ratio:.1f} times as fast")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--refrain", default=REFRAIN, help=f"binary (default {REFRAIN})")
    parser.add_argument("--llama-server", help="llama.cpp's server")
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--kind", choices=["recombined", "edited"], default="recombined")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=8192, help="longest prompt and answer")
    parser.add_argument("--json", action="store_true", help="figures of every case")
    options = parser.parse_args()

    all_cases = cases(options)
    if not all_cases:
        sys.exit("error: there are no cases")
    results = {}
    for name, command_at in commands(options).items():
        results[name] = measure(command_at, all_cases,
                                lambda what, name=name: print(f"{name}: {what}", file=sys.stderr))
    figures = {name: medians(measured) for name, measured in results.items()}
    if options.json:
        return print(json.dumps({"figures": figures, "cases": results}, indent=2))
    print_table(figures)


if __name__ == "__main__":
    main()
