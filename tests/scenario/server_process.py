"""One `refrain` process under test: starts it on a free port, waits until it listens, ends it."""
import os
import re
import signal
import subprocess
import tempfile
import time


class Failed(Exception):
    """What a case expected did not happen."""


class Binary:
    """The program and where the models lie; makes command lines and environments."""

    def __init__(self, path, models, generated):
        self.path, self.models, self.generated = path, models, generated
        self.data_home = tempfile.TemporaryDirectory(prefix="refrain_data_")

    def model_path(self, name):
        """`smol`, `gemma`, the name of a generated model (`tiny`, `tiny-gemma3`), or a path."""
        known = {"smol": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma": "gemma-3-270m-q4_k_m.gguf"}
        if name in known:
            return os.path.join(self.models, known[name])
        if "/" in name:
            return name
        return os.path.join(self.generated, name + ".gguf")

    def environment(self):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("REFRAIN_")}
        # Tests run beside each other, and waiting threads of a busy machine cost more than they bring.
        # Calibrations that somebody has made on this machine are none of a test's.
        return kept | {"NO_COLOR": "1", "REFRAIN_THREADS": "1", "XDG_DATA_HOME": self.data_home.name}

    def run(self, arguments, stdin=b"", timeout_s=60):
        """A command that ends by itself: (exit code, stdout, stderr, seconds)."""
        started = time.monotonic()
        done = subprocess.run([self.path, *arguments], input=stdin, capture_output=True,
                              timeout=timeout_s, env=self.environment(), check=False)
        return (done.returncode, done.stdout.decode("utf-8", "replace"),
                done.stderr.decode("utf-8", "replace"), time.monotonic() - started)


class ServerProcess:
    """`refrain serve` on a port of its own choosing."""

    def __init__(self, binary, model, flags, start_timeout_s=60):
        self.model, self.flags = model, list(flags)
        # A file, not a pipe: nobody has to read it while the server runs.
        self.log = tempfile.NamedTemporaryFile("wb", prefix="refrain_log_")
        command = [binary.path, "serve", "--model", binary.model_path(model), "--port", "0",
                   *self.flags]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.log,
                                        env=binary.environment())
        try:
            self.port = self._wait_for_port(start_timeout_s)
        except Failed:
            self.kill()
            raise

    def stderr(self):
        with open(self.log.name, "rb") as log:
            return log.read().decode("utf-8", "replace")

    def _wait_for_port(self, timeout_s):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = re.search(r"listening on http://\S+:(\d+)", self.stderr())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise Failed(f"the server ended with {self.process.returncode}:\n{self.stderr()}")
            time.sleep(0.02)
        raise Failed(f"the server did not listen within {timeout_s} s:\n{self.stderr()}")

    def signal(self, name):
        self.process.send_signal(getattr(signal, "SIG" + name))

    def exit_code(self, timeout_s):
        """The exit code, or None if the process still runs after that time."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def running(self):
        return self.process.poll() is None

    def memory_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """Ends the server as an operator would; True if it went with exit code 0."""
        if self.running():
            self.signal("TERM")
        code = self.exit_code(40)
        self.kill()
        return code == 0

    def kill(self):
        """Ends the process for good; its log is kept until then."""
        if self.running():
            self.process.kill()
            self.process.wait()
