#!/usr/bin/env python3
"""Runs .case files against the real binary; README.md describes their language.

    run.py --binary build/release/refrain --models .deps/models --generated DIR CASE...
"""
import argparse
import math
import pathlib
import re
import shlex
import sys
import tempfile
import threading
import time
import traceback

import case_language
import http_client
import texts
from server_process import Binary, Failed, ServerProcess

SAME_TOLERANCE_NATS = 0.02


class Case:
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

    # ---- statements: processes
    def do_server(self, statement):
        """server MODEL [FLAGS]: ends the running server cleanly and starts another."""
        self.end_servers()
        model, *flags = self.words(statement.rest)
        self.server = ServerProcess(self.binary, model, flags)

    def words(self, text):
        """Words as a shell has them; `$(EXPRESSION)` stands for a value."""
        values = []

        def keep(found):
            values.append(str(self.value(found.group(1))))
            return f"\x01{len(values) - 1}"

        bare = re.sub(r"\$\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", keep, text)
        return [values[int(word[1:])] if word.startswith("\x01") else word
                for word in shlex.split(bare)]

    def end_servers(self):
        for process in (self.server, self.cold):
            if process is not None and process.running() and not process.stop():
                raise Failed(f"the server did not end cleanly:\n{process.stderr()[-2000:]}")
        self.server = self.cold = None

    def do_stop(self, _statement):
        self.end_servers()

    def do_refuses(self, statement):
        """refuses MODEL [FLAGS]: `serve` must end by itself with an error."""
        model, *flags = self.words(statement.rest)
        arguments = ["serve", "--model", self.binary.model_path(model), "--port", "0", *flags]
        code, out, err, seconds = self.binary.run(arguments)
        self.names.update(exit_code=code, stdout=out, stderr=err, seconds=seconds)
        if code not in (1, 2) or "error: " not in err:
            raise Failed(f"expected a refusal, got exit code {code}:\n{err}")

    def do_command(self, statement):
        """command [STDIN-EXPRESSION |] ARGUMENTS: runs `refrain ARGUMENTS`."""
        stdin, bar, rest = statement.rest.rpartition(" | ")
        words = [self.binary.model_path(w[2:]) if w.startswith("@@") else w
                 for w in shlex.split(rest if bar else statement.rest)]
        data = http_client.encode_body(self.value(stdin)) if bar else b""
        code, out, err, seconds = self.binary.run(words, data)
        self.names.update(exit_code=code, stdout=out, stderr=err, seconds=seconds)

    def do_signal(self, statement):
        self.server.signal(statement.rest)

    def do_exits(self, statement):
        """exits CODE within SECONDS"""
        code, _, seconds = statement.rest.partition(" within ")
        got = self.server.exit_code(float(seconds))
        if got != int(code):
            raise Failed(f"expected exit code {code} within {seconds} s, got {got}:\n"
                         f"{self.server.stderr()[-2000:]}")

    # ---- statements: requests
    def do_C(self, statement):
        self.request(statement, "/v1/chat/completions", stream=False)

    def do_P(self, statement):
        self.request(statement, "/v1/completions", stream=False)

    def do_CS(self, statement):
        self.request(statement, "/v1/chat/completions", stream=True)

    def do_PS(self, statement):
        self.request(statement, "/v1/completions", stream=True)

    def do_both(self, statement):
        """both C|P {...}: whole and streamed must tell the same; `r` is whole, `s` streamed."""
        keyword, _, rest = statement.rest.partition(" ")
        path = self.path_of(keyword)
        body = self.value(rest)
        whole = self.send(path, body)
        streamed = self.send(path, {**body, "stream": True,
                                    "stream_options": {"include_usage": True}})
        self.names.update(r=whole, s=streamed)
        if whole.status != streamed.status:
            raise Failed(f"whole answers {whole.status}, streamed {streamed.status}")
        if whole.status != 200:
            return
        count = len(whole.json["choices"])
        told = [[(reply.text_of(i) or "", reply.choice(i)["finish_reason"]) for i in range(count)]
                for reply in (whole, streamed)]
        if told[0] != told[1]:
            raise Failed(f"whole    {told[0]}\nstreamed {told[1]}")
        if not streamed.done:
            raise Failed("the stream did not end with [DONE]")

    def request(self, statement, path, stream):
        name, rest = self.split_name(statement.rest)
        body = self.value(rest)
        if stream:
            body = {**body, "stream": True}
        reply = self.send(path, body)
        self.names["r"] = reply
        if name:
            self.names[name] = reply

    @staticmethod
    def split_name(rest):
        """`as NAME ...` -> (NAME, ...)"""
        found = re.match(r"as (\w+)\s+(.*)", rest, re.DOTALL)
        return (found.group(1), found.group(2)) if found else (None, rest)

    @staticmethod
    def path_of(keyword):
        paths = {"C": "/v1/chat/completions", "P": "/v1/completions",
                 "E": "/v1/embeddings"}
        if keyword not in paths:
            raise case_language.Malformed(f"`{keyword}` is none of {', '.join(paths)}")
        return paths[keyword]

    def send(self, path, body, server=None):
        return http_client.exchange((server or self.server).port, "POST", path, body, self.headers)

    def do_call(self, statement):
        """call METHOD PATH [BODY-EXPRESSION]"""
        method, path, *body = statement.rest.split(" ", 2)
        self.names["r"] = http_client.exchange(self.server.port, method, path,
                                               self.value(body[0]) if body else None, self.headers)

    def do_raw(self, statement):
        """raw BYTES-EXPRESSION: sent as they are; the answer, if any, is `r`."""
        connection = http_client.Connection(self.server.port, 30)
        try:
            connection.send(self.value(statement.rest))
            connection.half_close()
            self.names["r"] = connection.read_reply()
        except (ConnectionResetError, BrokenPipeError):
            self.names["r"] = http_client.Reply()
        finally:
            connection.close()

    def do_headers(self, statement):
        """headers {...}: sent with every further request."""
        self.headers = self.value(statement.rest)

    def do_abort(self, statement):
        """abort after N chunks|N s C|P {...}: the client goes away; N chunks implies a stream."""
        found = re.match(r"after (.+?) (chunks|s) (\w+) (.*)", statement.rest, re.DOTALL)
        if not found:
            raise case_language.Malformed("abort after N chunks|s C|P {...}")
        amount, unit, keyword = self.value(found.group(1)), found.group(2), found.group(3)
        body = self.value(found.group(4))
        if unit == "chunks":
            body = {**body, "stream": True}
        connection = http_client.Connection(self.server.port)
        connection.send(http_client.request_bytes("POST", self.path_of(keyword),
                                                  http_client.encode_body(body), self.headers))
        if unit == "s":
            time.sleep(amount)
        elif amount > 0:
            connection.read_reply(stop=lambda reply: len(reply.events) >= amount)
        connection.close(reset=True)

    def do_half_close(self, statement):
        """half-close C|P {...}: the client closes its sending side and still reads the answer."""
        keyword, _, rest = statement.rest.partition(" ")
        connection = http_client.Connection(self.server.port)
        connection.send(http_client.request_bytes("POST", self.path_of(keyword),
                                                  http_client.encode_body(self.value(rest)),
                                                  self.headers))
        connection.half_close()
        self.names["r"] = connection.read_reply()
        connection.close()

    def do_same_as_cold(self, statement):
        """same-as-cold C|P {...}: warm and cold must agree in text and first-token logprobs."""
        keyword, _, rest = statement.rest.partition(" ")
        path, body = self.path_of(keyword), self.value(rest)
        body = {**body, **({"logprobs": True, "top_logprobs": 5} if keyword == "C"
                           else {"logprobs": 5})}
        warm = self.send(path, body)
        if self.cold is None:
            # With the cache off nothing passes from one request to the next.
            self.cold = ServerProcess(self.binary, self.server.model,
                                      [*self.server.flags, "--no-prefix-cache"])
        cold = self.send(path, body, self.cold)
        self.names["r"] = warm
        compare_with_cold(warm, cold)

    def do_idle(self, statement):
        """idle N [BYTES-EXPRESSION]: N connections that stay open and send no more than that."""
        count, _, rest = statement.rest.partition(" ")
        data = self.value(rest) if rest else b""
        for _ in range(int(self.value(count))):
            connection = http_client.Connection(self.server.port, 30)
            connection.send(data)
            self.idle.append(connection)

    def idle_open(self):
        """How many idle connections the server still keeps open (an answer may lie in them)."""
        return sum(connection.is_open() for connection in self.idle)

    def do_drop_idle(self, _statement):
        for connection in self.idle:
            connection.close()
        self.idle = []

    # ---- statements: at the same time
    def do_together(self, statement):
        """together ... end: the requests of the block run at once; `many` holds the answers."""
        replies = [None] * len(statement.block)
        bodies = []
        for each in statement.block:
            stream = each.keyword in ("CS", "PS")
            name, rest = self.split_name(each.rest)
            body = self.value(rest)
            bodies.append((self.path_of(each.keyword[0]), {**body, "stream": True} if stream
                           else body, name))
        self.names["many"] = replies
        self.run_threads(replies, [(path, body) for path, body, _ in bodies])
        for reply, (_, _, name) in zip(replies, bodies):
            if name:
                self.names[name] = reply

    def do_flood(self, statement):
        """flood C|P [BODY, BODY ...]: all at once; `many` holds the answers in order."""
        keyword, _, rest = statement.rest.partition(" ")
        bodies = self.value(rest)
        replies = [None] * len(bodies)
        self.names["many"] = replies
        self.run_threads(replies, [(self.path_of(keyword), body) for body in bodies])

    def run_threads(self, replies, requests):
        faults = []

        def ask(index, path, body):
            try:
                replies[index] = self.send(path, body)
            except OSError as fault:
                faults.append(fault)

        threads = [threading.Thread(target=ask, args=(i, path, body))
                   for i, (path, body) in enumerate(requests)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise Failed(f"{len(faults)} of {len(requests)} requests broke off: {faults[0]!r}")

    def do_start(self, statement):
        """start NAME C|P {...}: in the background as a stream; `finish NAME` waits for it."""
        name, keyword, rest = statement.rest.split(" ", 2)
        path, body = self.path_of(keyword), {**self.value(rest), "stream": True}
        port, headers, box = self.server.port, self.headers, {"events": 0}
        started = threading.Event()

        def ask():
            connection = http_client.Connection(port)
            try:
                connection.send(http_client.request_bytes(
                    "POST", path, http_client.encode_body(body), headers))

                def seen(_reply):
                    started.set()
                    return False

                box["reply"] = connection.read_reply(stop=seen)
            except (OSError, ValueError) as fault:
                box["fault"] = fault
            finally:
                started.set()
                connection.close()

        thread = threading.Thread(target=ask)
        thread.start()
        self.background[name] = (thread, box, started)

    def do_begun(self, statement):
        """begun NAME: waits until the stream has sent something."""
        if not self.background[statement.rest][2].wait(60):
            raise Failed(f"stream {statement.rest} sent nothing for 60 s")

    def do_finish(self, statement):
        thread, box, _ = self.background.pop(statement.rest)
        thread.join(120)
        if "reply" not in box:
            raise Failed(f"stream {statement.rest} broke off: {box.get('fault')!r}")
        self.names["r"] = self.names[statement.rest] = box["reply"]

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


def first_logprobs(reply):
    """{token: logprob} of the first generated token."""
    logprobs = reply.logprobs
    if "content" in logprobs:
        return {tuple(item["bytes"] or []): item["logprob"]
                for item in logprobs["content"][0]["top_logprobs"]}
    return dict(logprobs["top_logprobs"][0])


def compare_with_cold(warm, cold):
    if warm.status != 200 or cold.status != 200:
        raise Failed(f"warm {warm.status} {warm.body[:300]!r}\ncold {cold.status} {cold.body[:300]!r}")
    if (warm.text, warm.finish) != (cold.text, cold.finish):
        raise Failed(f"warm {warm.text!r} ({warm.finish})\ncold {cold.text!r} ({cold.finish})")
    if not warm.completion_tokens:
        return
    left, right = first_logprobs(warm), first_logprobs(cold)
    for token in left.keys() & right.keys():
        if abs(left[token] - right[token]) > SAME_TOLERANCE_NATS:
            raise Failed(f"logprob of {token!r}: warm {left[token]}, cold {right[token]}")
    if len(left.keys() & right.keys()) < min(len(left), 4):
        raise Failed(f"other tokens in front: warm {left}, cold {right}")


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
            print(f"FAILED  {path}:{case.statement.line}: the connection broke off: {fault!r}\n"
                  f"{case.end_of_log()}", flush=True)
        except Exception:  # a mistake in the case or the runner: with its trace
            failed += 1
            line = case.statement.line if case.statement else 0
            print(f"FAILED  {path}:{line}:\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
