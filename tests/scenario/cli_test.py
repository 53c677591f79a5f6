#!/usr/bin/env python3
"""The commands of the real binary, on tiny models: what they write where, and their exit codes.

    cli_test.py --binary build/release/refrain --models .deps/models --generated DIR
"""
import json
import os
import pty
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from commands import binary, file_with, main, refrain
from server_process import ServerProcess

# REQUIREMENTS A8, as it stands.
REQUIRED_FILE = """[server]
max_tokens = 2048

[cache]
enabled = true
block_size = 16
max_blocks = 4096
policy = lru
suffix.enabled = true
normalize_input = true
min_match_blocks = 1
"""


class Run(unittest.TestCase):
    def test_the_answer_is_on_stdout_and_nothing_else_is(self):
        code, out, err = refrain("run", "hi", "--model", "tiny", "--temperature", "0", "--max-tokens", "8")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.endswith("\n") and len(out) > 1)

    def test_the_prompt_may_come_from_stdin_and_gives_the_same(self):
        flags = ["--model", "tiny", "--temperature", "0", "--max-tokens", "8"]
        self.assertEqual(refrain("run", *flags, "hi there"), refrain("run", *flags, stdin="hi there\n"))
        self.assertEqual(refrain("run", *flags, "hi there"), refrain("run", *flags, "-", stdin="hi there\n"))

    def test_json_tells_text_usage_and_timings(self):
        code, out, _ = refrain("run", "hi", "--model", "tiny", "--max-tokens", "5", "--json", "--ignore-eos")
        answer = json.loads(out)
        self.assertEqual(code, 0)
        self.assertEqual(answer["model"], "tiny")
        self.assertEqual(answer["finish_reason"], "length")
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 5)
        self.assertEqual(usage["prompt_tokens"], sum(usage[kind + "_tokens"] for kind in (
            "cached", "moved", "repaired", "computed")))
        self.assertGreater(answer["timings"]["ttft_ms"], 0)

    def test_raw_continues_text_and_needs_no_template(self):
        code, out, _ = refrain("run", "one two", "--raw", "--model", "tiny-no-template", "--max-tokens", "4")
        self.assertEqual(code, 0)
        self.assertTrue(out)
        code, out, err = refrain("run", "one two", "--model", "tiny-no-template")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("error: model `tiny-no-template` has no chat template", err)
        self.assertIn("hint: continue text with `refrain run --raw`", err)

    def test_the_same_seed_gives_the_same_answer(self):
        answers = {refrain("run", "hi", "--model", "tiny", "--seed", "5", "--max-tokens", "16")[1] for _ in range(2)}
        self.assertEqual(len(answers), 1)

    def test_a_prompt_that_does_not_fit_names_both_numbers(self):
        code, out, err = refrain("run", "word " * 500, "--model", "tiny", "--max-context", "64")
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, r"error: .*64")

    def test_a_reader_that_went_away_is_success(self):
        process = subprocess.Popen([binary().path, "run", "hi", "--model", "tiny", "--max-tokens", "1500",
                                    "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=binary().environment() | {"REFRAIN_MODEL_DIR": binary().generated})
        process.stdout.read(1)
        process.stdout.close()
        self.assertEqual(process.wait(30), 0)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()


class Tokenize(unittest.TestCase):
    def test_lines_are_id_and_piece_and_json_has_both(self):
        code, out, _ = refrain("tokenize", "one\ttwo", "--model", "tiny")
        self.assertEqual(code, 0)
        lines = [line.split("\t", 1) for line in out.splitlines()]
        self.assertEqual("".join(json.loads(piece) for _, piece in lines), "one\ttwo")
        answer = json.loads(refrain("tokenize", "one\ttwo", "--model", "tiny", "--json")[1])
        self.assertEqual([token["id"] for token in answer["tokens"]], [int(number) for number, _ in lines])
        self.assertEqual(answer["count"], len(lines))

    def test_stdin_is_taken_to_the_last_byte(self):
        answer = json.loads(refrain("tokenize", "--model", "tiny", "--json", stdin="a\n\n")[1])
        self.assertEqual("".join(token["piece"] for token in answer["tokens"]), "a\n\n")

    def test_markers_count_only_when_asked_for(self):
        plain = json.loads(refrain("tokenize", "<|im_end|>", "--model", "tiny", "--json")[1])
        special = json.loads(refrain("tokenize", "<|im_end|>", "--model", "tiny", "--json", "--parse-special")[1])
        self.assertGreater(plain["count"], 1)
        self.assertEqual(special["count"], 1)


class Config(unittest.TestCase):
    def test_the_required_file_is_accepted_as_it_stands_A8(self):
        with file_with(REQUIRED_FILE) as file:
            code, out, err = refrain("config", "show", "--json", "--config", file.name)
            self.assertEqual(code, 0)
            shown = json.loads(out)["settings"]
            self.assertEqual(shown["server.max_tokens"]["value"], 2048)
            self.assertEqual(shown["server.max_tokens"]["source"], "file")
            self.assertIs(shown["cache.enabled"]["value"], True)
            self.assertEqual(shown["cache.max_blocks"]["value"], 4096)
            self.assertIs(shown["cache.suffix.enabled"]["value"], True)
            self.assertEqual(shown["cache.reuse.mode"], shown["cache.reuse.mode"] | {
                "value": "repair", "source": "file", "origin": f"{file.name} line 9"})
            self.assertEqual(err, "")

    def test_the_required_file_serves_A8(self):
        with file_with(REQUIRED_FILE) as file:
            server = ServerProcess(binary(), "tiny", ["--config", file.name])
            try:
                self.assertIn("reuse      repair: approximate", server.stderr())
                self.assertTrue(server.stop())
            finally:
                server.kill()

    def test_flag_environment_file_default_in_this_order(self):
        with file_with("[server]\nport = 1\nhost = ::1\nidle_timeout = 9\n") as file:
            environment = {"REFRAIN_CONFIG": file.name, "REFRAIN_PORT": "2", "REFRAIN_HOST": "127.0.0.2"}
            shown = json.loads(refrain("config", "show", "--json", "--port", "3", environment=environment)[1])["settings"]
            self.assertEqual([(shown["server." + key]["value"], shown["server." + key]["source"])
                              for key in ("port", "host", "idle_timeout", "write_timeout")],
                             [(3, "flag"), ("127.0.0.2", "environment"), (9, "file"), (60, "default")])

    def test_a_malformed_file_is_a_usage_error_that_names_the_line(self):
        for text, words in (("[server]\nport\n", "line 2"), ("[cache]\npolcy = lru\n", "did you mean `cache.policy`?"),
                            ("[server]\nport = 99999\n", "(server.port)")):
            with file_with(text) as file:
                code, out, err = refrain("serve", "--config", file.name)
                self.assertEqual((code, out), (2, ""))
                self.assertIn("error: ", err)
                self.assertIn(words, err)

    def test_keys_are_never_shown(self):
        for flags in ([], ["--json"]):
            code, out, err = refrain("config", "show", "--api-key", "hush-hush", "--admin-key", "hush-too", *flags)
            self.assertEqual(code, 0)
            self.assertNotIn("hush", out + err)

    def test_pages_of_the_reference_go_to_stdout_and_unknown_ones_are_a_usage_error(self):
        for words, title in (([], "# Options\n"), (["options"], "# Options\n"), (["metrics"], "# Metrics\n")):
            code, out, err = refrain("config", "docs", *words)
            self.assertEqual((code, err), (0, ""))
            self.assertTrue(out.startswith(title))
        for words in (["metric"], ["metrics", "options"]):
            code, out, err = refrain("config", "docs", *words)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("hint: refrain config docs [options|metrics]", err)


class Usage(unittest.TestCase):
    def test_help_is_on_stdout_with_exit_code_0(self):
        for words in (["--help"], ["serve", "--help"], ["bench", "--help"], ["help", "run"]):
            code, out, err = refrain(*words)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("usage: refrain", out)

    def test_wrong_usage_is_exit_code_2_with_error_and_hint(self):
        for words in (["sevre"], ["serve", "--prot", "1"], ["serve", "extra"], ["bench"], ["serve", "--block-size", "17"],
                      ["eval", "perplexity", "--model", "tiny"], ["bench", "serve", "--url", "https://x"]):
            code, out, err = refrain(*words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertRegex(err, r"(?m)^error: .+\nhint: .+")

    def test_a_missing_model_says_where_it_was_looked_for(self):
        code, out, err = refrain("run", "hi", "--model", "nothing-like-it")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("nor one of that name in: " + binary().generated, err)
        code, _, err = refrain("run", "hi", "--model", "/nowhere/x.gguf")
        self.assertEqual(code, 1)
        self.assertIn("error: there is no model file `/nowhere/x.gguf`", err)

    def test_version(self):
        self.assertRegex(refrain("version")[1], r"^refrain \d+\.\d+\.\d+\n$")
        self.assertEqual(refrain("--version")[:2], refrain("version")[:2])

    def test_every_error_is_plain_text_without_colour_in_a_pipe(self):
        self.assertNotIn("\033", refrain("sevre")[2])


class Chat(unittest.TestCase):
    def test_lines_from_a_pipe_are_turns_of_one_conversation(self):
        code, out, err = refrain("chat", "--model", "tiny", "--temperature", "0", "--max-tokens", "6", "--stats",
                                 stdin="hi\n\nand now\n/reset\nhi\n/exit\nnever\n")
        self.assertEqual(code, 0)
        stats = [line for line in err.splitlines() if "prompt tokens" in line]
        self.assertEqual(len(stats), 3)
        first, second, third = (int(line.split()[0]) for line in stats)
        self.assertGreater(second, first)
        self.assertEqual(third, first)  # forgotten
        cached = int(stats[1].split("(")[1].split()[0])
        self.assertGreaterEqual(cached, first - 1)
        self.assertIn("(conversation forgotten)", err)
        self.assertEqual(out.count("\n") >= 3, True)

    def test_a_model_without_template_is_refused(self):
        code, _, err = refrain("chat", "--model", "tiny-no-template", stdin="hi\n")
        self.assertEqual(code, 1)
        self.assertIn("has no chat template", err)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        control, terminal = pty.openpty()
        process = subprocess.Popen([binary().path, "chat", "--model", "tiny", "--max-tokens", "1900", "--ignore-eos"],
                                   stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, start_new_session=True,
                                   env=binary().environment() | {"REFRAIN_MODEL_DIR": binary().generated})
        os.close(terminal)
        seen, error_text = [], []
        threads = [threading.Thread(target=drain, args=(control, seen)),
                   threading.Thread(target=drain, args=(process.stderr.fileno(), error_text))]
        for thread in threads:
            thread.start()
        try:
            wait_for(seen, b"> ")
            for attempt in range(5):  # on a busy machine an answer may end before the signal arrives
                os.write(control, b"hello %d\n" % attempt)
                wait_for(seen, b"hello %d\r\n" % attempt, more=20)
                process.send_signal(signal.SIGINT)
                time.sleep(0.3)
                if b"(stopped)" in b"".join(error_text):
                    break
            self.assertIn(b"(stopped)", b"".join(error_text))
            os.write(control, b"/help\n")
            wait_for(error_text, b"/reset")
            process.send_signal(signal.SIGINT)  # at the prompt: a reminder, no end
            wait_for(seen, b"Ctrl-D leaves")
            os.write(control, b"/exit\n")
            self.assertEqual(process.wait(10), 0)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            os.close(control) if not threads[0].is_alive() else None
            for thread in threads:
                thread.join(5)
            process.stderr.close()


def drain(descriptor, pieces):
    while True:
        try:
            data = os.read(descriptor, 4096)
        except OSError:
            return
        if not data:
            return
        pieces.append(data)


def wait_for(pieces, wanted, more=0):
    """Until `wanted` and `more` bytes behind it have been seen."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        text = b"".join(pieces)
        if wanted in text and len(text) - text.index(wanted) - len(wanted) >= more:
            return
        time.sleep(0.01)
    raise AssertionError(f"{wanted!r} did not come: {b''.join(pieces)!r}")


class Serve(unittest.TestCase):
    def test_start_up_tells_model_ledgers_budget_and_address(self):
        server = ServerProcess(binary(), "tiny", ["--kv-budget", "4MiB"])
        try:
            for words in ("model      tiny", "capacity", "bandwidth", "compute", "concurrency", "4 MiB",
                          "exact prefix reuse on", "listening on http://127.0.0.1:"):
                self.assertIn(words, server.stderr())
            self.assertTrue(server.stop())
        finally:
            server.kill()

    def test_a_taken_port_is_an_error_with_a_hint(self):
        server = ServerProcess(binary(), "tiny", [])
        try:
            code, _, err = refrain("serve", "--model", "tiny", "--port", str(server.port))
            self.assertEqual(code, 1)
            self.assertRegex(err, r"error: .*\nhint: .*--port")
        finally:
            server.stop()
            server.kill()

    def test_sigterm_while_loading_ends_at_once_with_0(self):
        # A pipe instead of a key file: start-up waits there for as long as we like.
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "keys")
        os.mkfifo(path)
        process = subprocess.Popen([binary().path, "serve", "--model", "tiny", "--port", "0", "--api-key-file", path],
                                   stderr=subprocess.PIPE, env=binary().environment() | {"REFRAIN_MODEL_DIR": binary().generated})
        writer = os.open(path, os.O_WRONLY)  # returns once the server has opened its end
        try:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(10), 0)
            self.assertIn(b"stopped while loading", process.stderr.read())
        finally:
            os.close(writer)
            if process.poll() is None:
                process.kill()
            process.stderr.close()
            os.remove(path)
            os.rmdir(folder)


if __name__ == "__main__":
    main(__doc__)
