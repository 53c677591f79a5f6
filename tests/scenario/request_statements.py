"""Statements of cases that send one request, well-behaved or not, and what is compared with a cold run."""
import re
import time

import case_language
import http_client
from server_process import Failed, ServerProcess

SAME_TOLERANCE_NATS = 0.02


class RequestStatements:
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
        path = self.words(path)[0]
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
