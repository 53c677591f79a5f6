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
        name = self.words(name)[0]
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
        name = self.words(statement.rest)[0]
        thread, box, _ = self.background.pop(name)
        thread.join(120)
        if "reply" not in box:
            raise Failed(f"stream {name} broke off: {box.get('fault')!r}")
        self.names["r"] = self.names[name] = box["reply"]

    def do_watch(self, statement):
        """watch PATH...: asks for these pages again and again in the background."""
        port, headers, times, stop = self.server.port, self.headers, [], threading.Event()

        def look():
            while not stop.wait(0.1):
                for path in statement.rest.split():
                    try:
                        reply = http_client.exchange(port, "GET", path, headers=headers)
                        times.append(reply.seconds if reply.status == 200 else float("inf"))
                    except OSError:
                        times.append(float("inf"))

        thread = threading.Thread(target=look)
        thread.start()
        self.watching = (thread, times, stop)

    def do_unwatch(self, _statement):
        """unwatch: `watched` answers came, the slowest took `slowest` seconds (endless if one failed)."""
        thread, times, stop = self.watching
        stop.set()
        thread.join(120)
        self.names.update(watched=len(times), slowest=max(times, default=float("inf")))
