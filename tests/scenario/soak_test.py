#!/usr/bin/env python3
"""The soak: thousands of mixed requests of 16 clients at a time, a third of which go away at a random
moment, against one server with little memory (O-15, O-16, O-21, O-39, O-43, O-44; A2, A10).

Every answer is judged. Afterwards nothing is held, the figures add up, memory has not grown, known
prefixes hit, known answers are unchanged, and the server ends as it should.

With --mix the same is done to a server for each KV format and eviction policy, whose requests mix the modes of
reuse and the policies of trimming, over a ledger half as large: what is approximate or cut comes and goes beside what
is exact, and chats are summarised between the requests. Every server checks its whole ledger when it ends (B3, B4,
A7, A10).

    soak_test.py --binary build/release/refrain --models .deps/models --generated DIR [--requests N] [--mix]
"""
import argparse
import collections
import concurrent.futures
import re
import sys
import tempfile
import time

import http_client
import soak_traffic
import texts
from server_process import Binary, Failed, ServerProcess
from soak_traffic import CHAT, STATUS_BUSY, TENANTS, TEXT, Traffic, Visit

CLIENTS = 16
# 1 MiB holds 2700 tokens: blocks are evicted all the time, and admission waits for memory as well as
# for a place.
FLAGS = ["--max-running", "8", "--max-queue", "48", "--kv-budget", "1MiB", "--max-context", "1024",
         "--step-tokens", "128", "--max-tokens", "256"]
# What may grow between the two measurements although nothing is kept: the allocator's pools, one per
# thread, each as large as its busiest moment so far (some 100 KiB). 300 bytes left by each request would show.
MOST_GROWTH_BYTES = 2 << 20

KV_FORMATS = ["f16", "q8", "q8/q4", "q4"]
POLICIES = ["lru", "lfu", "gdsf"]
REUSE_MODES = [None, "exact", "repair", "splice", {"mode": "repair", "max_divergence": 10}]
# Flags of trim policies, one list each; servers of the mix take them in turn. Seven of them meet each of the formats,
# eviction policies and modes of reuse at another server.
TRIMS = [[],
         ["--context-policy", "window", "--context-budget-tokens", "64"],
         ["--context-policy", "heavy_hitters", "--context-budget-tokens", "96"],
         ["--context-policy", "kvzip", "--context-budget-tokens", "96"],
         ["--context-policy", "prefix_importance", "--context-budget-tokens", "96"],
         ["--context-policy", "summary", "--context-budget-tokens", "200", "--context-recent-turns", "0"],
         ["--context-policy", "summary", "--context-budget-tokens", "200", "--context-split-turns", "1"]]
# What requests ask for; None leaves it to the server.
CONTEXTS = [None, "none", {"policy": "window", "budget_tokens": 64}, {"policy": "heavy_hitters", "budget_tokens": 96},
            {"policy": "kvzip", "budget_tokens": 96}, {"policy": "prefix_importance", "budget_tokens": 64}]
CHAT_CONTEXTS = [{"policy": "summary", "budget_tokens": 200, "recent_turns": 0},
                 {"policy": "summary", "budget_tokens": 200, "split_turns": 1}]
# What a mix must have done at least once, all servers together.
MUST_HAPPEN = {"moved": ("prompt_tokens_moved_total", {}), "repaired": ("prompt_tokens_repaired_total", {}),
               "cut": ("context_trims_total", {}), "summarised": ("context_summaries_total", {"result": "done"})}

# Known answers are those of exact and whole context, whatever else a server does.
G = {"temperature": 0, "seed": 1, "reuse": "exact", "context": "none"}
PROBES = [(TEXT, {"prompt": texts.lorem(200, seed=77), **G, "max_tokens": 24}),
          (TEXT, {"prompt": "one two three four five", **G, "max_tokens": 40, "ignore_eos": True}),
          (CHAT, {"messages": texts.user("hello", system=texts.lorem(90, seed=78)), **G,
                  "max_tokens": 20})]


def headers_of(tenant):
    return {"Authorization": f"Bearer key-of-{tenant}"}


class Figures:
    """One answer of /metrics."""

    def __init__(self, exposition):
        self.lines = [found.groups(default="") for found in
                      re.finditer(r"^refrain:(\w+)(\{[^}]*\})? (\S+)$", exposition, re.MULTILINE)]

    def __call__(self, name, **labels):
        return sum(float(value) for line, with_labels, value in self.lines if line == name and all(
            f'{key}="{wanted}"' in with_labels for key, wanted in labels.items()))

    def held(self):
        """What still runs, waits or is held, by name; empty when nothing is."""
        counts = {name: self(name) for name in ("num_requests_running", "num_requests_waiting")}
        counts |= {f"{state} blocks": self("kv_blocks", state=state) for state in ("pinned", "reserved")}
        return {name: count for name, count in counts.items() if count}


class Soak:
    def __init__(self, binary, seed, flags=(), is_mixed=False):
        self.is_mixed = is_mixed
        keys = [word for tenant in TENANTS for word in ("--api-key", f"{tenant}=key-of-{tenant}")]
        self.server = ServerProcess(binary, "tiny", [*FLAGS, *flags, *keys])
        self.outcomes = collections.Counter()
        self.faults = []
        self.traffic = Traffic(seed, [(path, body, self.ask(path, body).text) for path, body in PROBES],
                               *((REUSE_MODES, CONTEXTS, CHAT_CONTEXTS) if is_mixed else ()))

    # ---- one request
    def ask(self, path, body, tenant=TENANTS[0], method="POST"):
        return http_client.exchange(self.server.port, method, path, body, headers_of(tenant))

    def figures(self):
        """All metrics of one moment: in a mix, idle work begins whenever nothing runs, so two scrapes may differ."""
        return Figures(self.ask("/metrics", None, method="GET").body.decode())

    def visit(self, visit: Visit):
        """One client from its first byte to its last."""
        try:
            if visit.leaving is not None:
                self.leave(visit)
                self.outcomes["left"] += 1
                return
            reply = self.ask(visit.path, visit.body, visit.tenant)
            self.outcomes[reply.status] += 1
            if reply.status != STATUS_BUSY:
                visit.judge(reply)
        except soak_traffic.Wrong as fault:
            self.faults.append(f"{visit.kind}: {fault}\n{str(visit.body)[:500]}")
        except Exception as fault:  # a broken connection, or an answer that is no HTTP or no JSON
            self.faults.append(f"{visit.kind}: {fault!r}\n{str(visit.body)[:500]}")

    def leave(self, visit):
        connection = http_client.Connection(self.server.port)
        try:
            connection.send(http_client.request_bytes(
                "POST", visit.path, http_client.encode_body(visit.body), headers_of(visit.tenant)))
            if visit.leaving.after_events:
                connection.read_reply(
                    stop=lambda reply: len(reply.events) >= visit.leaving.after_events)
            elif visit.leaving.after_s:
                time.sleep(visit.leaving.after_s)
        finally:
            connection.close(reset=visit.leaving.reset)

    # ---- all of them
    def send(self, count):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            for _ in clients.map(self.visit, [self.traffic.visit() for _ in range(count)]):
                if len(self.faults) >= 10:
                    break
        if self.faults:
            raise Failed(f"{len(self.faults)} faults, the first:\n" + "\n\n".join(self.faults[:3]))

    def until(self, what, holds, seconds=20):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise Failed(f"after {seconds} s still not: {what}\n{self.server.stderr()[-1000:]}")
            time.sleep(0.05)

    def settle(self, blocks, seconds=60):
        """The figures of a moment at which nothing runs, waits or is held, all that was received has ended, and every
        block is accounted for. In a mix, summaries are requested and idle work is done at any time, also while a page is
        written: the figures hold if nothing was received from then until the next page."""
        deadline = time.monotonic() + seconds
        while True:
            figures = self.figures()
            held, kept = figures.held(), figures("kv_blocks", state="evictable")
            free = figures("kv_blocks", state="free")
            received, ended = (figures(name) for name in ("requests_received_total", "request_success_total"))
            if (not held and free + kept == blocks and received == ended
                    and self.figures()("requests_received_total") == received):
                return figures
            if time.monotonic() > deadline:
                raise Failed(f"after {seconds} s {held} are held, {free} blocks are free and {kept} kept of {blocks}; "
                             f"{received} requests were received, {ended} ended")
            time.sleep(0.05)

    def check(self, what, holds):
        if not holds:
            raise Failed(what)

    def check_figures(self, figures, blocks):
        """What was counted adds up."""
        self.check("something is cached", figures("kv_blocks", state="evictable") > 0)
        self.check("blocks were evicted",
                   figures("prefix_cache_evicted_blocks_total") > (0 if self.is_mixed else blocks))
        self.check("many were aborted", figures("request_success_total", finished_reason="abort") > 0)
        self.check("no request ended by a fault", figures("request_success_total", finished_reason="error") == 0)
        self.check("hits <= queries", 0 < figures("prefix_cache_hits_total") <= figures("prefix_cache_queries_total"))
        self.check("cached + computed = prompt tokens", figures("prompt_tokens_total") == figures("prompt_tokens_by_source_total"))

    def check_service(self):
        """It still serves as at the beginning."""
        self.check("/health", self.ask("/health", None, method="GET").status == 200)
        for path, body, text in self.traffic.probes:
            for _ in range(2):
                reply = self.ask(path, body)
                self.check(f"{text!r} became {reply.text!r}", reply.text == text)
            # In the mix idle work computes approximate answers exactly meanwhile, and newcomers may go first (lfu).
            least = 0 if self.is_mixed else reply.prompt_tokens - 1
            self.check(f"cached {reply.cached} of {reply.prompt_tokens}", least <= reply.cached < reply.prompt_tokens)

    def check_summary(self):
        """Summaries give way to answers, so under load few get done; with nobody else there a chat gets its own, and goes
        on with it. One that says nothing, as random weights may, has failed: another chat then tries."""
        for attempt in range(10):
            turns = [(texts.lorem(60, seed=1000 + 10 * attempt + turn), "Well.") for turn in range(3)]
            asked = {**G, "context": CHAT_CONTEXTS[0], "max_tokens": 4, "messages": [
                {"role": role, "content": content}
                for turn in turns for role, content in zip(("user", "assistant"), turn)] + texts.user("And now?")}
            self.check("the chat was answered", self.ask(CHAT, asked).status == 200)
            self.settle(self.blocks)
            told = self.ask(CHAT, asked).usage["refrain"]["summary"]
            if told["replaced_turns"]:
                self.check(f"{told} goes on with all three turns replaced", told["replaced_turns"] == 3)
                return
        raise Failed("no chat was summarised although nobody else was there")

    def run(self, count):
        started = time.monotonic()
        self.blocks = blocks = self.figures()("kv_blocks")
        early = count // 2
        self.send(early)
        self.settle(blocks)
        files, before = self.server.open_files(), self.server.memory_bytes()
        self.send(count - early)
        if self.is_mixed:
            self.check_summary()
        figures = self.settle(blocks)
        grown = self.server.memory_bytes() - before
        ends = {reason: int(figures("request_success_total", finished_reason=reason))
                for reason in ("stop", "length", "abort", "rejected")}
        print(f"{count} requests in {time.monotonic() - started:.0f} s: {dict(self.outcomes)}, ended {ends}; "
              f"memory after {early}: {before >> 10} KiB, then {grown / 1024:+.0f} KiB", flush=True)
        self.happened = {what: int(figures(name, **labels)) for what, (name, labels) in MUST_HAPPEN.items()}
        if self.is_mixed:
            print(f"  prompt tokens moved and repaired, contexts cut, chats summarised: {self.happened}", flush=True)
        self.check_figures(figures, blocks)
        self.check(f"memory grew by {grown >> 10} KiB", grown < MOST_GROWTH_BYTES)
        self.until("no file is left open", lambda: self.server.open_files() <= files + 2, 5)
        self.check_service()
        self.check("it ends with 0 on SIGTERM", self.server.stop())


def mix(binary, requests):
    """(name, flags, requests) of each server. Formats are calibrated first, so that repair is judged and not refused."""
    servers = [(kv_format, policy) for kv_format in KV_FORMATS for policy in POLICIES]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as cases:
        cases.write(texts.reuse_cases(3))
        cases.flush()
        for kv_format in KV_FORMATS:
            code, _, err, _ = binary.run(["calibrate", "--model", binary.model_path("tiny"), "--kv-format", kv_format,
                                          "--kv-check", "off", "--data", cases.name, "--answer-rows", "4"], timeout_s=120)
            if code:
                raise Failed(f"calibrate for {kv_format} ended with {code}:\n{err}")
    for number, (kv_format, policy) in enumerate(servers):
        flags = ["--kv-format", kv_format, "--kv-check", "off", "--cache-policy", policy, "--kv-budget", "512KiB",
                 "--reuse", ["exact", "repair", "splice"][number % 3], *TRIMS[number % len(TRIMS)]]
        yield f"{kv_format} {policy}: ", flags, -(-requests // len(servers))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--generated", required=True)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--mix", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    binary = Binary(options.binary, options.models, options.generated)
    happened = collections.Counter()
    servers = mix(binary, options.requests) if options.mix else [("", [], options.requests)]
    for number, (name, flags, count) in enumerate(servers):
        print(name, end="", flush=True)
        soak = Soak(binary, options.seed + number, flags, options.mix)
        try:
            soak.run(count)
            happened.update(soak.happened)
        except Failed as fault:
            print(f"FAILED  {fault}\n{soak.server.stderr()[-2000:]}", flush=True)
            return 1
        finally:
            soak.server.kill()
    if options.mix and not all(happened[what] for what in MUST_HAPPEN):
        print(f"FAILED  some of it never happened: {dict(happened)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
