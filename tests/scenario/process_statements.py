"""Statements of cases that start, signal and end processes."""
import re
import shlex

import http_client
from server_process import Failed, ServerProcess


class ProcessStatements:
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
                 for w in self.words(rest if bar else statement.rest)]
        data = http_client.encode_body(self.value(stdin)) if bar else b""
        code, out, err, seconds = self.binary.run(words, data, timeout_s=300)
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
