"""Statements of cases that do several things at the same time."""
import threading

import http_client
from server_process import Failed


class ParallelStatements:
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
