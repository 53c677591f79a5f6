"""HTTP for scenarios, on plain sockets so that a case can also cut, abort and misbehave."""
import json
import socket
import time

TIMEOUT_S = 120


class Reply:
    """One answer, whole or streamed. Absent things are None, so that expectations stay short."""

    def __init__(self):
        self.status, self.headers, self.body = None, {}, b""
        self.events, self.done, self.lines = [], False, []
        self.interim = 0  # answers of status 1xx before the real one
        self.streamed = False
        self.started = time.monotonic()
        self.ttft_s, self.seconds, self.gaps = None, None, []
        self._last_text = None

    @property
    def json(self):
        try:
            return json.loads(self.body.decode("utf-8"))
        except (ValueError, UnicodeDecodeError):
            return None

    @property
    def error(self):
        if self.streamed:
            return next((event["error"] for event in self.events if event.get("error")), None)
        return self.json.get("error") if isinstance(self.json, dict) else None

    def choice(self, index=0):
        """The choice as one object, also of a stream: text, finish_reason, message, logprobs."""
        if not self.streamed:
            found = [c for c in (self.json or {}).get("choices", []) if c.get("index") == index]
            return found[0] if found else None
        return self._joined_choice(index)

    def _joined_choice(self, index):
        joined = {"text": "", "finish_reason": None, "logprobs": None, "tool_calls": {}}
        for event in self.events:
            for choice in event.get("choices", []):
                if choice.get("index") != index:
                    continue
                delta = choice.get("delta", {})
                joined["text"] += choice.get("text") or delta.get("content") or ""
                joined["finish_reason"] = choice.get("finish_reason") or joined["finish_reason"]
                for call in delta.get("tool_calls") or []:
                    one = joined["tool_calls"].setdefault(
                        call["index"], {"id": None, "name": "", "arguments": ""})
                    one["id"] = call.get("id") or one["id"]
                    one["name"] += call.get("function", {}).get("name") or ""
                    one["arguments"] += call.get("function", {}).get("arguments") or ""
                if choice.get("logprobs"):
                    joined["logprobs"] = join_logprobs(joined["logprobs"], choice["logprobs"])
        return joined

    def text_of(self, index):
        choice = self.choice(index)
        if choice is None:
            return None
        if "text" in choice:
            return choice["text"]
        return (choice.get("message") or {}).get("content")

    @property
    def text(self):
        return self.text_of(0)

    @property
    def finish(self):
        choice = self.choice(0)
        return choice and choice.get("finish_reason")

    @property
    def logprobs(self):
        choice = self.choice(0)
        return choice and choice.get("logprobs")

    @property
    def tool_calls(self):
        """[{id, name, arguments}] of the first choice."""
        choice = self.choice(0) or {}
        if self.streamed:
            return [choice["tool_calls"][i] for i in sorted(choice.get("tool_calls", {}))]
        calls = (choice.get("message") or {}).get("tool_calls") or []
        return [{"id": call["id"], **call["function"]} for call in calls]

    @property
    def usage(self):
        if not self.streamed:
            return (self.json or {}).get("usage")
        found = [event["usage"] for event in self.events if event.get("usage")]
        return found[-1] if found else None

    @property
    def cached(self):
        return self.usage and self.usage["prompt_tokens_details"]["cached_tokens"]

    @property
    def prompt_tokens(self):
        return self.usage and self.usage["prompt_tokens"]

    @property
    def completion_tokens(self):
        return self.usage and self.usage["completion_tokens"]

    def take_line(self, line):
        """One line of an event stream."""
        self.lines.append(line)
        text = line.decode("utf-8")  # a stream must be UTF-8 line by line; the error ends the case
        if not text.startswith("data:"):
            return
        data = text[5:].strip()
        if data == "[DONE]":
            self.done = True
            return
        event = json.loads(data)
        self.events.append(event)
        if any(c.get("text") or c.get("delta", {}).get("content") for c in event.get("choices", [])):
            now = time.monotonic()
            if self.ttft_s is None:
                self.ttft_s = now - self.started
            if self._last_text is not None:
                self.gaps.append(now - self._last_text)
            self._last_text = now


def join_logprobs(before, piece):
    """Log probabilities of a stream: lists are joined key by key."""
    if before is None:
        return {key: list(value) if isinstance(value, list) else value for key, value in piece.items()}
    for key, value in piece.items():
        if isinstance(value, list):
            before[key] = (before.get(key) or []) + value
    return before


class Connection:
    """One TCP connection with a read buffer."""

    def __init__(self, port, timeout_s=TIMEOUT_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self, reset=False):
        if reset:  # as when a client process is killed
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def is_open(self):
        """False once the server has closed its side."""
        self.socket.setblocking(False)
        try:
            while data := self.socket.recv(65536):
                self.buffer += data
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self.socket.setblocking(True)
            self.socket.settimeout(TIMEOUT_S)

    def more(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return bool(data)

    def line(self):
        """Up to and without the line break; None at the end of the connection."""
        while b"\n" not in self.buffer:
            if not self.more():
                return None
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.rstrip(b"\r")

    def exactly(self, count):
        while len(self.buffer) < count:
            if not self.more():
                break
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_head(self, reply):
        """Status and headers; interim answers (1xx) are counted and passed over."""
        while (status := self.line()) is not None:
            reply.status, reply.headers = int(status.split()[1]), {}
            while line := self.line():
                name, _, value = line.decode("latin-1").partition(":")
                reply.headers[name.lower()] = value.strip()
            if reply.status >= 200:
                return True
            reply.interim += 1
        return False

    def body_pieces(self, reply):
        """The body as it comes, whatever its framing."""
        if reply.headers.get("transfer-encoding", "").lower() == "chunked":
            while (size := self.line()) is not None and (count := int(size.split(b";")[0], 16)):
                yield self.exactly(count)
                self.line()
            self.line()
        elif "content-length" in reply.headers:
            yield self.exactly(int(reply.headers["content-length"]))
        else:
            while self.more():
                data, self.buffer = self.buffer, b""
                yield data

    def read_reply(self, stop=lambda reply: False, head_only=False):
        """Reads one answer; `stop(reply)` after each event may end it early."""
        reply = Reply()
        if not self.read_head(reply) or head_only:
            return reply
        reply.streamed = reply.headers.get("content-type", "").startswith("text/event-stream")
        rest = b""
        for piece in self.body_pieces(reply):
            reply.body += piece
            if not reply.streamed:
                continue
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                reply.take_line(line.rstrip(b"\r"))
                if stop(reply):
                    return reply
        reply.seconds = time.monotonic() - reply.started
        return reply


def request_bytes(method, path, body, headers):
    head = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers}
    if body and "Content-Type" not in head:
        head["Content-Type"] = "application/json"
    lines = [f"{method} {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in head.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8") + body


def encode_body(value):
    """Objects become JSON; text and bytes go out as they are."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value).encode("utf-8")


def exchange(port, method, path, body=None, headers=None):
    """One request on a connection of its own."""
    connection = Connection(port)
    try:
        started = time.monotonic()
        connection.send(request_bytes(method, path, encode_body(body),
                                      {"Connection": "close", **(headers or {})}))
        reply = connection.read_reply(head_only=method == "HEAD")
        reply.seconds = time.monotonic() - started
        return reply
    finally:
        connection.close()
