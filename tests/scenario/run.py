#!/usr/bin/env python3
"""Runs .case files against the real binary; README.md describes their language.

    run.py --binary build/release/refrain --models .deps/models --generated DIR CASE...
"""
import argparse
import math
import pathlib
import re
import sys
import tempfile
import time
import traceback

import case_language
import http_client
import texts
from parallel_statements import ParallelStatements
from process_statements import ProcessStatements
from request_statements import RequestStatements
from server_process import Binary, Failed

class Case(ProcessStatements, RequestStatements, ParallelStatements):
    """One file: its names, processes and connections, and the statements that steer it."""

    def __init__(self, path, binary):
        self.path, self.binary = pathlib.Path(path), binary
        self.server = self.cold = None
        self.names = {"math": math, "re": re, **texts.HELPERS,
                      "G": {"temperature": 0, "seed": 1}, "many": [], "r": None,
                      "metric": self.metric, "metrics_text": self.metrics_text,
                      "ids": self.ids, "file": self.file, "memory": lambda: self.server.memory_bytes(),
                      "open_files": lambda: self.server.open_files(), "log": self.log, "idle_open": self.idle_open, "bad_models": self.bad_models,
                      "health": lambda: http_client.exchange(self.server.port, "GET", "/health"),
                      "get": lambda path: http_client.exchange(self.server.port, "GET", path,
                                                               headers=self.headers)}
        self.headers = {}
        self.background, self.idle, self.files = {}, [], []
        self.watching = None
        self.statement = None

    # ---- helpers that expressions may call
    def metrics_text(self):
        return http_client.exchange(self.server.port, "GET", "/metrics",
                                    headers=self.headers).body.decode("utf-8")

    def metric(self, name, **labels):
        """Value of `refrain:NAME` (sum over series whose labels match); 0 if there is none."""
        total = 0.0
        for line in self.metrics_text().splitlines():
            found = re.match(r"refrain:(\w+)(\{[^}]*\})? (\S+)$", line)
            if found and found.group(1) == name and all(
                    f'{key}="{value}"' in (found.group(2) or "") for key, value in labels.items()):
                total += float(found.group(3))
        return total

    def ids(self, text, **options):
        reply = http_client.exchange(self.server.port, "POST", "/tokenize",
                                     {"content": text, **options}, self.headers)
        if reply.status != 200:
            raise Failed(f"/tokenize answered {reply.status} {reply.body[:200]!r}")
        return reply.json["tokens"]

    def log(self):
        return self.server.stderr()

    def file(self, text):
        """Path of a temporary file with this text, gone after the case."""
        made = tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt")
        made.write(text)
        made.flush()
        self.files.append(made)
        return made.name

    def bad_models(self):
        """[(path, expected error, text of the message)] of the malformed files."""
        folder = pathlib.Path(self.binary.generated) / "bad"
        rows = [line.split("\t") for line in (folder / "manifest.tsv").read_text().splitlines()]
        return [(str(folder / name), kind, message) for name, kind, message in rows]

    def end_of_log(self):
        if self.server is None:
            return ""
        state = "runs" if self.server.running() else f"ended with {self.server.exit_code(1)}"
        return f"the server {state}: ...{self.server.stderr()[-1000:]}"

    def value(self, expression):
        return eval(expression, self.names)  # cases are code of this repository

    # ---- running
    def run(self):
        try:
            self.block(case_language.parse(self.path.read_text(encoding="utf-8")))
            # Every case ends with a clean exit: leaks, and what a sanitizer found, are told there.
            self.statement = None
            self.end_servers()
        finally:
            for process in (self.server, self.cold):
                if process is not None:
                    process.kill()

    def block(self, statements):
        for statement in statements:
            self.statement = statement
            self.step(statement)

    def step(self, statement):
        keyword = statement.keyword.replace("-", "_")
        method = getattr(self, "do_" + keyword, None)
        if method is None:
            raise case_language.Malformed(f"unknown statement `{statement.keyword}`")
        method(statement)

    # ---- statements: control and expectations
    def do_let(self, statement):
        name, _, expression = statement.rest.partition("=")
        self.names[name.strip()] = self.value(expression.strip())

    def do_for(self, statement):
        name, _, expression = statement.rest.partition(" in ")
        for item in self.value(expression):
            if "," in name:
                self.names.update(zip([part.strip() for part in name.split(",")], item))
            else:
                self.names[name.strip()] = item
            self.block(statement.block)

    def do_repeat(self, statement):
        for _ in range(int(self.value(statement.rest))):
            self.block(statement.block)

    def do_expect(self, statement):
        if not self.value(statement.rest):
            raise Failed(f"does not hold: {statement.rest}\n{self.situation()}")

    def do_until(self, statement):
        """until EXPRESSION within SECONDS"""
        expression, _, seconds = statement.rest.rpartition(" within ")
        deadline = time.monotonic() + float(seconds)
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise Failed(f"does not hold after {seconds} s: {expression}")
            time.sleep(0.05)

    def do_alive(self, _statement):
        """alive: the same process still answers /health and a chat (or a completion)."""
        if not self.server.running():
            raise Failed(f"the server is gone:\n{self.server.stderr()[-2000:]}")
        health = http_client.exchange(self.server.port, "GET", "/health", headers=self.headers)
        chat = self.send("/v1/chat/completions",
                         {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})
        if chat.status != 200 and "template" in str(chat.error):
            chat = self.send("/v1/completions", {"prompt": "hi", "max_tokens": 4})
        if health.status != 200 or chat.status != 200:
            raise Failed(f"/health {health.status}, request {chat.status} {chat.body[:300]!r}")

    def situation(self):
        reply = self.names.get("r")
        if reply is None:
            return ""
        return (f"last answer: status {reply.status}, {reply.seconds} s, finish {reply.finish!r}, "
                f"usage {reply.usage}\n{reply.body[:1500]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--generated", required=True)
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    binary = Binary(options.binary, options.models, options.generated)
    failed = 0
    for path in options.cases:
        case = Case(path, binary)
        started = time.monotonic()
        try:
            case.run()
            print(f"ok      {path} ({time.monotonic() - started:.1f} s)", flush=True)
        except (Failed, case_language.Malformed) as fault:
            failed += 1
            line = case.statement.line if case.statement else 0
            print(f"FAILED  {path}:{line}: {fault}", flush=True)
        except OSError as fault:
            failed += 1
            line = case.statement.line if case.statement else 0
            print(f"FAILED  {path}:{line}: the connection broke off: {fault!r}\n"
                  f"{case.end_of_log()}", flush=True)
        except Exception:  # a mistake in the case or the runner: with its trace
            failed += 1
            line = case.statement.line if case.statement else 0
            print(f"FAILED  {path}:{line}:\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
