#!/usr/bin/env python3
"""The commands of the real binary, on tiny models: what they write where, and their exit codes.

    cli_test.py --binary build/release/refrain --models .deps/models --generated DIR
"""
import argparse
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import texts
from server_process import Binary, ServerProcess

BINARY = None  # set by main()

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


def refrain(*arguments, stdin="", environment=None):
    """(exit code, stdout, stderr)"""
    done = subprocess.run([BINARY.path, *arguments], input=stdin.encode(), capture_output=True,
                          env=BINARY.environment() | {"REFRAIN_MODEL_DIR": BINARY.generated}
                          | (environment or {}), timeout=120, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def file_with(text, suffix=".ini"):
    made = tempfile.NamedTemporaryFile("w", suffix=suffix)
    made.write(text)
    made.flush()
    return made


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
        process = subprocess.Popen([BINARY.path, "run", "hi", "--model", "tiny", "--max-tokens", "1500",
                                    "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=BINARY.environment() | {"REFRAIN_MODEL_DIR": BINARY.generated})
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
            server = ServerProcess(BINARY, "tiny", ["--config", file.name])
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
        self.assertIn("nor one of that name in: " + BINARY.generated, err)
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
        process = subprocess.Popen([BINARY.path, "chat", "--model", "tiny", "--max-tokens", "1900", "--ignore-eos"],
                                   stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, start_new_session=True,
                                   env=BINARY.environment() | {"REFRAIN_MODEL_DIR": BINARY.generated})
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


class Measuring(unittest.TestCase):
    def test_bench_prefill_and_decode_report_each_length(self):
        code, out, _ = refrain("bench", "prefill", "--model", "tiny", "--prompt-tokens", "16,300", "--json")
        report = json.loads(out)
        self.assertEqual(code, 0)
        self.assertEqual([row["prompt_tokens"] for row in report["results"]], [16, 300])
        self.assertTrue(all(row["tokens_per_s"] > 0 for row in report["results"]))
        self.assertEqual((report["model"], report["kv_format"], report["repetitions"]), ("tiny", "f16", 1))
        self.assertGreater(report["threads"], 0)
        code, out, _ = refrain("bench", "prefill", "--model", "tiny", "--prompt-tokens", "500", "--reused-percent", "80",
                               "--json")
        (row,) = json.loads(out)["results"]
        self.assertEqual(row["reused_tokens"], 400)
        self.assertTrue(0 < row["of_cold"] < 0.8, row)
        code, out, _ = refrain("bench", "decode", "--model", "tiny", "--depth", "0,100", "--decode-tokens", "4", "--json")
        self.assertEqual([row["depth"] for row in json.loads(out)["results"]], [0, 100])
        code, out, _ = refrain("bench", "decode", "--model", "tiny", "--depth", "0", "--decode-tokens", "4",
                               "--repetitions", "2", "--threads", "1")
        self.assertEqual(len(out.splitlines()), 3)
        self.assertTrue(out.startswith("tiny, "), out)
        self.assertIn("; 1 threads, KV format f16, 256 rows a step, median of 2, ", out)
        code, _, err = refrain("bench", "prefill", "--model", "tiny", "--prompt-tokens", "100000")
        self.assertEqual(code, 2)
        self.assertIn("longest context", err)

    def test_bench_kernels_compares_with_the_machine_and_with_ggml(self):
        flags = ["bench", "kernels", "--shapes", "256x64", "--rows", "1,16", "--attention-depth", "64", "--threads", "1",
                 "--repetitions", "1"]
        code, out, _ = refrain(*flags, "--json", "--kernels", "portable")
        report = json.loads(out)
        self.assertEqual((code, report["kernels"], report["threads"], report["repetitions"]), (0, "portable", 1, 1))
        self.assertTrue(all(peak > 0 for peak in report["peaks"].values()), report["peaks"])
        products = [row for row in report["results"] if row["kernel"] == "product"]
        self.assertEqual(len(products), 11 * 2)
        self.assertEqual({row["type"] for row in products}, {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0",
                                                             "q4_K", "q5_K", "q6_K"})
        for row in products:
            self.assertEqual(row["shape"], "256x64")
            self.assertGreater(row["ratio_to_ggml"], 0)
            self.assertLess(row["difference_from_ggml"], 0.02, row)  # both computed the same product
        for row in report["results"]:
            self.assertGreater(row["share_of_peak"], 0, row)
            self.assertIn(row["bound"], ("int8", "fp32", "read"))
            self.assertGreater(row["us"], 0)
        self.assertEqual([row["kernel"] for row in report["results"] if row["kernel"].startswith("attention")],
                         ["attention decode", "attention prefill"] * 8)
        self.assertEqual([row["kernel"] for row in report["results"][-3:]], ["quantize_row", "rms_norm", "glu"])
        code, out, err = refrain(*flags, "--parts", "products", "--types", "Q4_0,q4_k", "--shapes", "256x64,32x32",
                                 "--threads", "2")
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^\w+ kernels, 2 threads, median of 1; ggml built for ")
        self.assertRegex(lines[1], r"^peaks: int8 \d+ GOP/s, fp32 \d+ GOP/s .*, read [\d.]+ GB/s$")
        self.assertEqual(len(lines), 3 + 2 * 3)  # q4_K has no rows of 32
        for wrong in (["--types", "q9"], ["--shapes", "3x4"], ["--shapes", "256"], ["--rows", "0"], ["--parts", "all"],
                      ["--kernels", "ggml"]):
            code, out, err = refrain(*flags, *wrong)
            self.assertEqual((code, out), (2, ""), wrong)
            self.assertRegex(err, r"(?m)^error: .+\nhint: .+")

    def test_perplexity_does_not_depend_on_how_rows_are_cut(self):
        with file_with("The harbour was quiet when the first boat came in. " * 20, ".txt") as file:
            reports = [json.loads(refrain("eval", "perplexity", "--model", "tiny", "--file", file.name, "--window",
                                          "64", "--json", *more)[1]) for more in ([], ["--step-tokens", "7"])]
        self.assertEqual(reports[0]["mean_nll"], reports[1]["mean_nll"])
        self.assertGreater(reports[0]["tokens_scored"], 100)
        self.assertEqual(reports[0]["window_tokens"], 64)

    def test_eval_exact_compares_bits_and_says_what_it_covered(self):
        flags = ["eval", "exact", "--model", "tiny", "--trials", "6", "--seed", "3"]
        code, out, err = refrain(*flags)
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith("6 of 6 bitwise equal\n"), out)
        code, out, _ = refrain(*flags, "--json")
        report = json.loads(out)
        self.assertEqual((code, report["trials"], report["equal"], report["failures"]), (0, 6, 6, []))
        self.assertIn("f16", report["kv_formats"])
        self.assertGreater(report["coverage"]["rows_compared"], 100)
        self.assertGreater(report["coverage"]["cached_tokens"], 0)
        self.assertEqual(refrain(*flags, "--json")[1], out)  # the same trials every time

    def test_eval_reuse_measures_every_rung_and_finds_full_repair_exact(self):
        def text(seed):
            return " ".join(f"item {seed * i % 97} costs {i * i % 61} coins" for i in range(1, 9)) + "."

        lines = [{"system": "Answer.", "documents": [text(3), text(5), text(7)], "warm_orders": [[2, 0, 1]],
                  "question": "What costs most?"},
                 {"messages": [{"role": "user", "content": "Day one. " + text(11)}],
                  "edited_messages": [{"role": "user", "content": "Tuesday the second. " + text(11)}]}]
        with file_with("\n".join(map(json.dumps, lines)), ".jsonl") as file:
            for model, kv_format in (("tiny", "f16"), ("tiny", "q8"), ("tiny-gemma3", "f16"), ("tiny-no-template", "q8")):
                flags = ["eval", "reuse", "--model", model, "--kv-format", kv_format, "--answer-rows", "6"]
                code, out, err = refrain(*flags, "--data", file.name, "--json")
                self.assertEqual((code, err), (0, ""), model)
                report = json.loads(out)
                self.assertEqual((report["inexact_cases"], report["answer_rows"]), (0, 6))
                self.assertEqual([kind["kind"] for kind in report["kinds"]], ["recombined", "edited"])
                for kind in report["kinds"]:
                    self.assertGreater(kind["moved_tokens"], 64)
                    shares = [rung["repaired_share"] for rung in kind["rungs"]]
                    self.assertEqual((shares, shares[0], shares[-1]), (sorted(shares), 0, 1))
                    self.assertEqual(kind["rungs"][-1]["kl_mean"], 0)
                    self.assertEqual(kind["rungs"][-1]["top1_agreement"], 1)
                    self.assertGreater(kind["rungs"][0]["kl_mean"], 0)
                    self.assertGreater(kind["dropped"]["kl_mean"], 0)
                self.assertEqual((report["max_divergence"], "gate" in report["kinds"][0]), (None, False))
            code, out, _ = refrain(*flags, "--data", file.name)
            self.assertEqual(code, 0)
            self.assertIn("gate: not measured", out)
            self.assertIn("`refrain calibrate`", out)
            code, out, _ = refrain(*flags, "--data", file.name, "--mode", "splice")
            self.assertEqual(code, 0)
            self.assertIn("0 moved", out)
            self.assertNotIn("1 heads", out)
            code, out, err = refrain(*flags, "--data", file.name, "--kernels", "ggml")
            self.assertEqual((code, out), (1, ""))
            self.assertIn("error: case 1: the reference operators give no attention mass\nhint: ", err)
            code, out, err = refrain("eval", "reuse", "--model", "tiny-nan", "--data", file.name)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("NaN", err)
        with file_with('{"documents": ["x"]}', ".jsonl") as file:
            code, out, err = refrain("eval", "reuse", "--model", "tiny", "--data", file.name)
            self.assertEqual((code, out), (2, ""))
            self.assertIn('error: line 1: there is no "warm_orders"\nhint: ', err)

    def test_calibrate_makes_what_serve_judges_by(self):
        with file_with(texts.reuse_cases(3), ".jsonl") as data, tempfile.TemporaryDirectory() as folder:
            home = {"XDG_DATA_HOME": folder}
            flags = ["calibrate", "--model", "tiny", "--data", data.name, "--answer-rows", "4"]
            code, out, err = refrain(*flags, environment=home)
            self.assertEqual((code, err), (0, ""))
            for words in ("edited, rung 0 moved: ", "recombined, rung 3 more: ", "held back: 2 cases", "written to " + folder):
                self.assertIn(words, out)
            (path,) = pathlib.Path(folder).glob("refrain/calibration/*.json")
            kept = json.loads(path.read_text())
            self.assertEqual((kept["format"], kept["fitted_cases"]), ("refrain-calibration/1", 4))
            self.assertGreater(kept["nats_per_exposure"]["recombined"]["moved"], 0)
            run = ["run", "hi", "--model", "tiny", "--max-tokens", "2", "--reuse", "repair"]
            self.assertEqual(refrain(*run, "--calibration", str(path))[0], 0)
            missing = str(path) + ".missing"
            code, out, err = refrain(*run, "--calibration", missing)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"error: there is no calibration `{missing}`\nhint: make it with `refrain calibrate", err)
            code, out, err = refrain(*run, "--calibration", str(path), "--kv-format", "q8")
            self.assertEqual((code, out), (2, ""))
            self.assertIn("is that of another model, KV format or instruction set\nhint: run `refrain calibrate`", err)
            path.write_text(path.read_text()[:100])
            code, out, err = refrain(*run, environment=home)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("is not a calibration", err)
        with file_with(texts.reuse_cases(2), ".jsonl") as data:
            code, out, err = refrain("calibrate", "--model", "tiny", "--data", data.name, "--calibration", "/nowhere/x.json")
            self.assertEqual((code, out), (2, ""))
            self.assertIn("error: only 2 recombined cases with text that can be moved\nhint: give at least 3", err)

    def test_eval_reuse_measures_the_gate_and_answers_that_must_change(self):
        def user(content):
            return [{"role": "user", "content": content}]

        rows = " ".join(f"item {7 * i % 97} costs {i * i % 61} coins" for i in range(1, 9)) + "."
        lines = [{"kind": "changed", "warm": [user(f"Open. {rows} Tell.")], "target": user(f"Closed now. {rows} Is it?"),
                  "before": user(f"Open. {rows} Is it?"), "old_value": "Open", "new_value": "Closed now"},
                 {"kind": "copied", "warm": [user(f"First. {rows} Tell.")], "target": user(f"{rows} Repeat."),
                  "passage": rows}]
        calibrating = [{"messages": user(f"Day {i}. {rows} Tell."), "edited_messages": user(f"Number {i} then. {rows} Tell.")}
                       for i in range(3)]
        calibrating += [{"documents": [rows, f"{rows} And {i}."], "warm_orders": [[1, 0]], "question": "What?"}
                        for i in range(3)]
        with (file_with("\n".join(map(json.dumps, lines)), ".jsonl") as file,
              file_with("\n".join(map(json.dumps, calibrating)), ".jsonl") as others,
              tempfile.TemporaryDirectory() as folder):
            calibration = os.path.join(folder, "tiny.json")
            flags = ["--model", "tiny", "--answer-rows", "6", "--calibration", calibration]
            code, _, err = refrain("calibrate", *flags, "--data", others.name)
            self.assertEqual((code, err), (0, ""))
            flags = ["eval", "reuse", *flags, "--data", file.name]
            for allowed, refused in (("10", 0), ("0", 1)):
                with self.subTest(allowed=allowed):
                    code, out, err = refrain(*flags, "--max-divergence", allowed, "--json")
                    self.assertEqual((code, err), (0, ""))
                    report = json.loads(out)
                    self.assertEqual(report["max_divergence"], float(allowed))
                    self.assertEqual([kind["kind"] for kind in report["kinds"]], ["changed", "copied"])
                    for kind in report["kinds"]:
                        gate = kind["gate"]
                        self.assertEqual((gate["shares"]["refused"], "refusal_of_cold" in gate), (refused, bool(refused)))
                        self.assertEqual(gate["kl_mean"] == 0, bool(refused))  # a refused one is computed
                        self.assertEqual(kind["rungs"][-1]["kl_mean"], 0)
                        self.assertNotIn("dropped", kind)
                    changed, copied = report["kinds"]
                    if changed["counting_cases"]:
                        self.assertEqual(changed["rungs"][-1]["same_answer"], 1)
                    self.assertEqual(changed["rungs"][-1]["old_values"], 0)
                    self.assertEqual(copied["rungs"][-1]["copied_share"], copied["cold_copied_share"])
                    for one in report["cases"]:
                        self.assertEqual(one["rungs"][-1].get("answer"), one.get("cold_answer"))
                    code, out, _ = refrain(*flags, "--max-divergence", allowed)
                    self.assertEqual(code, 0)
                    self.assertIn("old value", out)
                    self.assertIn(f"gate: at most {allowed} nats", out)
                    self.assertIn(f"refusal {100 * refused} %", out)
        code, out, _ = refrain("eval", "reuse", "--print-cases", "--cases", "1", "--changed", "2", "--copied", "1")
        self.assertEqual(code, 0)
        self.assertEqual([json.loads(line)["kind"] for line in out.splitlines()],
                         ["recombined", "edited", "changed", "changed", "copied"])
        code, out, err = refrain("eval", "reuse", "--cases", "0", "--changed", "0", "--copied", "0")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("there is nothing to measure", err)

    def test_bench_serve_measures_a_running_server_in_every_workload(self):
        # Long enough for every workload: the tiny vocabulary needs three tokens a word.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        model = os.path.join(folder.name, "roomy.gguf")
        maker = os.path.join(os.path.dirname(__file__), "../../tools/make_tiny_gguf.py")
        subprocess.run([sys.executable, maker, "--context", "16384", model], check=True, stdout=subprocess.DEVNULL)
        server = ServerProcess(BINARY, model, ["--api-key", "k-1"])
        try:
            for workload in ("chat", "rag", "agent", "batch", "noisy"):
                code, out, err = refrain("bench", "serve", "--url", f"http://127.0.0.1:{server.port}/v1", "--workload",
                                         workload, "--requests", "6", "--concurrency", "2", "--output-tokens", "4",
                                         "--api-key", "k-1", "--json")
                self.assertEqual(code, 0, err)
                report = json.loads(out)
                self.assertEqual((report["model"], report["answered"], report["failed"]), ("roomy", 6, 0))
                self.assertGreater(report["ttft_ms"]["p99"], 0)
                self.assertGreater(report["prompt_tokens"], 0)
                self.assertGreaterEqual(report["cached_share"], 0.3 if workload in ("chat", "agent", "batch") else 0)
            code, _, err = refrain("bench", "serve", "--url", f"http://127.0.0.1:{server.port}", "--api-key", "wrong")
            self.assertEqual(code, 1)
            self.assertIn("--api-key", err)
            self.assertTrue(server.stop())
        finally:
            server.kill()
        code, _, err = refrain("bench", "serve", "--url", f"http://127.0.0.1:{server.port}")
        self.assertEqual(code, 1)
        self.assertIn("error: cannot connect", err)


class Serve(unittest.TestCase):
    def test_start_up_tells_model_ledgers_budget_and_address(self):
        server = ServerProcess(BINARY, "tiny", ["--kv-budget", "4MiB"])
        try:
            for words in ("model      tiny", "capacity", "bandwidth", "compute", "concurrency", "4 MiB",
                          "exact prefix reuse on", "listening on http://127.0.0.1:"):
                self.assertIn(words, server.stderr())
            self.assertTrue(server.stop())
        finally:
            server.kill()

    def test_a_taken_port_is_an_error_with_a_hint(self):
        server = ServerProcess(BINARY, "tiny", [])
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
        process = subprocess.Popen([BINARY.path, "serve", "--model", "tiny", "--port", "0", "--api-key-file", path],
                                   stderr=subprocess.PIPE, env=BINARY.environment() | {"REFRAIN_MODEL_DIR": BINARY.generated})
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


def main():
    global BINARY
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--generated", required=True)
    options, rest = parser.parse_known_args()
    BINARY = Binary(os.path.abspath(options.binary), options.models, os.path.abspath(options.generated))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
