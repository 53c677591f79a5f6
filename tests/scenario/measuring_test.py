#!/usr/bin/env python3
"""The commands that measure, on tiny models: bench, eval, calibrate.

    measuring_test.py --binary build/release/refrain --models .deps/models --generated DIR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import texts
from commands import binary, file_with, main, refrain
from server_process import ServerProcess


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
                         ["attention decode", "attention prefill"] * 16)
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
        self.assertEqual(report["kv_formats"], ["f16", "q8", "q8/q4", "q4"])
        self.assertGreater(report["coverage"]["rows_compared"], 100)
        self.assertGreater(report["coverage"]["cached_tokens"], 0)
        self.assertEqual(refrain(*flags, "--json")[1], out)  # the same trials every time

    def test_eval_kv_compares_formats_and_answers_with_f16(self):
        flags = ["eval", "kv", "--model", "tiny", "--context", "300", "--depth", "100", "--decode-tokens", "3", "--window",
                 "128"]
        with file_with('The first harbour\n\n{"prompt": "one two three"}\n'
                       '{"messages": [{"role": "user", "content": "hi"}]}\n', ".jsonl") as prompts:
            code, out, err = refrain(*flags, "--json", "--prompts", prompts.name, "--answer-rows", "5")
        self.assertEqual((code, err), (0, ""))
        report = json.loads(out)
        self.assertEqual((report["window_tokens"], report["context_tokens"], report["depth"]), (128, 300, 100))
        formats = report["formats"]
        self.assertEqual([one["format"] for one in formats], ["f16", "q8", "q8/q4", "q4"])
        for key in ("bytes_per_token", "bits_per_value"):
            self.assertEqual(sorted((one[key] for one in formats), reverse=True), [one[key] for one in formats])
        for where in ("windows", "context"):
            divergences = [one[where]["kl_mean"] for one in formats]
            self.assertEqual((divergences[0], formats[0][where]["same_top"]), (0, 1))
            self.assertEqual(sorted(divergences), divergences)
            self.assertLess(divergences[1], divergences[3])
        for one in formats:
            self.assertGreater(one["ms_per_token"], 0)
            self.assertEqual(len(one["prompts"]), 3)
            for answer in one["prompts"]:
                self.assertLessEqual(answer["common_prefix"], answer["rows"])
                self.assertEqual(answer["same_first"], answer["common_prefix"] > 0)
        self.assertTrue(all(answer["common_prefix"] == answer["rows"] for answer in formats[0]["prompts"]))
        # f16 is what the others are compared with, named or not; a text may be given.
        with file_with("The harbour was quiet when the first boat came in. " * 20, ".txt") as file:
            code, out, err = refrain(*flags, "--formats", "q8", "--data", file.name)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([line.split()[0] for line in out.splitlines()[2:]], ["f16", "q8"])
        # Where there is nothing to read yet; and a window is as long as asked for, or refused.
        code, out, err = refrain(*flags, "--depth", "0", "--formats", "q8", "--json")
        self.assertEqual((code, err, json.loads(out)["depth"]), (0, "", 0))
        no_longer = ": the model has no longer context"
        for wrong, words in ((["--window", "4096"], "a window of 4096 tokens is longer than the 2048 served"),
                             (["--window", "4096"], "hint: lower --window" + no_longer),
                             (["--window", "1024", "--kv-budget", "256KiB"], "hint: lower --window, or raise --kv-budget"),
                             (["--depth", "2047"], "hint: lower --depth" + no_longer),
                             (["--decode-tokens", "3000"], "decoding 3000 tokens is longer than the 2048"),
                             (["--formats", "q4/q8"], "keys never have fewer bits than values"),
                             (["--formats", "q5"], "--formats: `q5` is no KV format"),
                             (["--context", "1000000"], "longer than the"), (["--depth", "1,2"], "more than one depth")):
            code, out, err = refrain(*flags, *wrong)
            self.assertEqual((code, out), (2, ""), wrong)
            self.assertIn(words, err)
        for lines, words in (('{"prompt": 3}', "line 1 of the prompts: neither"), ("\n{x", "line 2 of the prompts: not a JSON"),
                             ("\n\n", "the file has no prompts")):
            with file_with(lines, ".jsonl") as prompts:
                code, out, err = refrain(*flags, "--prompts", prompts.name)
            self.assertEqual((code, out), (2, ""), lines)
            self.assertIn(words, err)

    def test_eval_trim_compares_policies_at_each_ratio_B4(self):
        policies = ["window", "heavy_hitters", "kvzip", "prefix_importance"]
        flags = ["eval", "trim", "--model", "tiny", "--cases", "2", "--pairs", "6", "--filler", "3", "--questions", "3",
                 "--trim-policies", ",".join(policies)]
        code, out, err = refrain(*flags, "--json")
        self.assertEqual((code, err), (0, ""))
        report = json.loads(out)
        self.assertEqual((report["model"], report["cases"], report["pairs"], report["filler_sentences"]), ("tiny", 2, 6, 3))
        full, *arms = report["arms"]
        self.assertEqual([(arm["policy"], arm["ratio"]) for arm in arms],
                         [(policy, ratio) for policy in policies for ratio in (2, 4, 8)])
        self.assertEqual((full["policy"], full["ratio"], full["kept_share"], full["kl_mean"], full["same_top"]),
                         ("full", 1, 1, 0, 1))
        blocks_of_16 = 2 * 16 / report["context_tokens"]
        for arm in arms:
            self.assertLessEqual(arm["kept_share"], 1 / arm["ratio"], arm)
            self.assertGreaterEqual(arm["kept_share"], 1 / arm["ratio"] - blocks_of_16, arm)
            self.assertGreater(arm["kl_mean"], 0, arm)  # rows went, and the answers felt it
            self.assertTrue(0 <= arm["right"] <= 1 and 0 <= arm["same_top"] <= 1, arm)
            self.assertEqual((arm["questions"], len(arm["right_by_quarter"])), (6, 4))
            self.assertTrue(arm["policy"] == "window" or arm["look_ms"] > 0.1, arm)
        # The same cases every time, others with another seed; a table for people.
        again, other = (json.loads(refrain(*flags, "--trim-policies", "window", "--ratios", "2", "--json", *more)[1])
                        for more in ([], ["--seed", "5"]))
        self.assertEqual(again["arms"][1]["kl_mean"], arms[0]["kl_mean"])
        self.assertNotEqual(other["arms"][1]["kl_mean"], arms[0]["kl_mean"])
        code, out, err = refrain(*flags, "--trim-policies", "window", "--ratios", "2")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([line.split()[0] for line in out.splitlines()], ["policy", "full", "window", "2"])
        # Logits that are no numbers agree with nothing.
        broken = ["tiny-nan" if word == "tiny" else word for word in flags]
        _, arm = json.loads(refrain(*broken, "--trim-policies", "window", "--ratios", "2", "--json")[1])["arms"]
        self.assertEqual((arm["kl_mean"], arm["same_top"], arm["right"]), (None, 0, 0))
        for wrong, words in ((["--trim-policies", "best"], "`best` is no policy\nhint: --trim-policies takes window, "),
                             (["--trim-policies", "none"], "`none` is no policy"),
                             (["--ratios", "1"], "--ratios"), (["--ratios", "2,x"], "--ratios"),
                             (["--kernels", "ggml"], "`heavy_hitters` needs attention"),
                             (["--pairs", "1", "--filler", "0"], "more --pairs"), (["--pairs", "0"], "--pairs"),
                             (["--answer-rows", "3"], "--answer-rows")):
            code, out, err = refrain(*flags, *wrong)
            self.assertEqual((code, out), (2, ""), wrong)
            self.assertRegex(err, r"(?m)^error: .+\nhint: .+")
            self.assertIn(words, err)

    def test_eval_reuse_measures_every_rung_and_finds_full_repair_exact(self):
        def text(seed):
            return " ".join(f"item {seed * i % 97} costs {i * i % 61} coins" for i in range(1, 9)) + "."

        lines = [{"system": "Answer.", "documents": [text(3), text(5), text(7)], "warm_orders": [[2, 0, 1]],
                  "question": "What costs most?"},
                 {"messages": [{"role": "user", "content": "Day one. " + text(11)}],
                  "edited_messages": [{"role": "user", "content": "Tuesday the second. " + text(11)}]}]
        with file_with("\n".join(map(json.dumps, lines)), ".jsonl") as file:
            for model, kv_format in (("tiny", "f16"), ("tiny", "q8"), ("tiny-gemma3", "f16"), ("tiny-no-template", "q8")):
                flags = ["eval", "reuse", "--model", model, "--kv-format", kv_format, "--kv-check", "off",
                         "--answer-rows", "6"]
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
            self.assertIn('error: --data: line 1: there is no "warm_orders"\nhint: ', err)

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
            self.assertEqual((kept["format"], kept["fitted_cases"]), ("refrain-calibration/2", 4))
            self.assertGreater(kept["nats_per_exposure"]["recombined"]["moved"], 0)
            run = ["run", "hi", "--model", "tiny", "--max-tokens", "2", "--reuse", "repair"]
            self.assertEqual(refrain(*run, "--calibration", str(path))[0], 0)
            missing = str(path) + ".missing"
            code, out, err = refrain(*run, "--calibration", missing)
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"error: there is no calibration `{missing}`\nhint: make it with `refrain calibrate", err)
            code, out, err = refrain(*run, "--calibration", str(path), "--kv-format", "q8", "--kv-check", "off")
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
                  "passage": rows},
                 {"kind": "next_turn", "warm": [user(f"Second. {rows} Tell.")], "first_turn": user(f"Third. {rows} Is it?"),
                  "target": [*user(f"Third. {rows} Is it?"), {"role": "assistant", "content": "It is."}, *user("Which?")]}]
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
                    self.assertEqual([kind["kind"] for kind in report["kinds"]], ["changed", "copied", "next_turn"])
                    for kind in report["kinds"]:
                        gate = kind["gate"]
                        self.assertEqual((gate["shares"]["refused"], "refusal_of_cold" in gate), (refused, bool(refused)))
                        self.assertEqual(gate["kl_mean"] == 0, bool(refused))  # a refused one is computed
                        self.assertEqual(kind["rungs"][-1]["kl_mean"], 0)
                        self.assertEqual("dropped" in kind, kind["kind"] == "next_turn")
                    changed, copied, next_turn = report["kinds"]
                    # Only what stands behind the first turn is computed, unless that was refused.
                    self.assertLess(next_turn["rungs"][-1]["ttft_of_cold"], 0.5)
                    if changed["counting_cases"]:
                        self.assertEqual(changed["rungs"][-1]["same_answer"], 1)
                    self.assertEqual(changed["rungs"][-1]["old_values"], 0)
                    self.assertEqual(copied["rungs"][-1]["copied_share"], copied["cold_copied_share"])
                    for one in report["cases"]:
                        self.assertEqual(one["rungs"][-1].get("answer"), one.get("cold_answer"))
                    # The gate alone: the same choice.
                    code, out, err = refrain(*flags, "--max-divergence", allowed, "--mode", "gate", "--json")
                    self.assertEqual((code, err), (0, ""))
                    alone = json.loads(out)
                    for one, other in zip(report["cases"], alone["cases"], strict=True):
                        self.assertEqual(other["rungs"], [])
                        for figure in ("rung", "refused", "left_alone", "kl_mean", "changed_token"):
                            self.assertEqual(one["gate"][figure], other["gate"][figure])
                    code, out, _ = refrain(*flags, "--max-divergence", allowed)
                    self.assertEqual(code, 0)
                    self.assertIn("old value", out)
                    self.assertIn(f"gate: at most {allowed} nats", out)
                    self.assertIn(f"refusal {100 * refused} %", out)
        # Too little to spare: the server would not look, and computes.
        few = {"messages": user(f"One. {rows} Tell."), "edited_messages": user(f"{rows[::-1] * 5} {rows} Tell.")}
        with tempfile.TemporaryDirectory() as folder, file_with(json.dumps(few), ".jsonl") as file, \
                file_with("\n".join(map(json.dumps, calibrating)), ".jsonl") as others:
            flags = ["--model", "tiny", "--answer-rows", "6", "--calibration", os.path.join(folder, "tiny.json")]
            code, out, err = refrain("eval", "reuse", *flags[:4], "--data", file.name, "--mode", "gate",
                                     environment={"XDG_DATA_HOME": folder})
            self.assertEqual((code, out), (1, ""))
            self.assertIn("error: there is no gate: this model and KV format are not calibrated\nhint: run", err)
            self.assertEqual(refrain("calibrate", *flags, "--data", others.name)[0], 0)
            code, out, err = refrain("eval", "reuse", *flags, "--data", file.name, "--max-divergence", "10", "--mode", "gate")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("in 100 % there was too little to spare", out)
        code, out, _ = refrain("eval", "reuse", "--print-cases", "--cases", "1", "--changed", "2", "--copied", "1",
                               "--next-turns", "1")
        self.assertEqual(code, 0)
        self.assertEqual([json.loads(line)["kind"] for line in out.splitlines()],
                         ["recombined", "edited", "changed", "changed", "copied", "next_turn"])
        code, out, err = refrain("eval", "reuse", "--cases", "0", "--changed", "0", "--copied", "0", "--next-turns", "0")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("there is nothing to measure", err)

    def test_bench_serve_measures_a_running_server_in_every_workload(self):
        # Long enough for every workload: the tiny vocabulary needs three tokens a word.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        model = os.path.join(folder.name, "roomy.gguf")
        maker = os.path.join(os.path.dirname(__file__), "../../tools/make_tiny_gguf.py")
        subprocess.run([sys.executable, maker, "--context", "16384", model], check=True, stdout=subprocess.DEVNULL)
        server = ServerProcess(binary(), model, ["--api-key", "k-1"])
        try:
            for workload in ("chat", "rag", "agent", "batch", "noisy"):
                code, out, err = refrain("bench", "serve", "--url", f"http://127.0.0.1:{server.port}/v1", "--workload",
                                         workload, "--requests", "6", "--concurrency", "2", "--output-tokens", "4",
                                         "--api-key", "k-1", "--json")
                self.assertEqual(code, 0, err)
                report = json.loads(out)
                self.assertEqual((report["model"], report["answered"], report["failed"]), ("roomy", 6, 0))
                # Text is timed when it comes, not when the answer is over.
                self.assertTrue(0 < report["ttft_ms"]["p99"] < report["total_ms"]["p99"], report)
                self.assertGreater(report["tpot_ms"]["p50"], 0)
                self.assertGreater(report["prompt_tokens"], 0)
                self.assertGreaterEqual(report["cached_share"], 0.3 if workload in ("chat", "agent", "batch") else 0)
            self.isolation(server.port)
            code, _, err = refrain("bench", "serve", "--url", f"http://127.0.0.1:{server.port}", "--api-key", "wrong")
            self.assertEqual(code, 1)
            self.assertIn("--api-key", err)
            self.assertTrue(server.stop())
        finally:
            server.kill()
        code, _, err = refrain("bench", "serve", "--url", f"http://127.0.0.1:{server.port}")
        self.assertEqual(code, 1)
        self.assertIn("error: cannot connect", err)

    def isolation(self, port):
        """B6: short requests without and beside long ones, and the other way round."""
        def measure(*flags):
            code, out, err = refrain("bench", "isolation", "--url", f"http://127.0.0.1:{port}", "--api-key", "k-1",
                                     "--short-prompt", "60", "--long-prompt", "3000", "--rate", "50", "--requests", "20",
                                     "--output-tokens", "4", "--json", *flags)
            self.assertEqual(code, 0, err)
            return json.loads(out), err

        # A run finds nothing of another one, or of itself, in the cache, however often the server is measured.
        phases = ("short_alone", "short_beside", "long_alone", "long_beside")
        report, err = measure()
        again, err_again = measure()
        self.assertNotEqual(report["seed"], again["seed"])
        self.assertEqual((err, err_again), ("", ""))
        for one in (report, again):
            self.assertLess(max(one[phase]["cached_share"] * one[phase]["prompt_tokens"] for phase in phases), 60)
            for phase in phases:
                self.assertEqual(one[phase]["failed"], 0)
                self.assertGreater(one[phase]["ttft_ms"]["p95"], 0)
            self.assertEqual(one["short_alone"]["answered"], 20)
            self.assertGreaterEqual(one["short_beside"]["answered"], 20)
            self.assertEqual(one["long_alone"]["answered"], 2)
            self.assertGreater(one["long_beside"]["prompt_tokens"], 20 * one["short_beside"]["prompt_tokens"])
            self.assertAlmostEqual(one["ttft_p95_ratio"], one["short_beside"]["ttft_ms"]["p95"]
                                   / one["short_alone"]["ttft_ms"]["p95"])
            self.assertGreater(one["long_speed_kept"], 0)
        # The seed of a run makes its texts again; where they are in the cache it says so.
        repeated, err = measure("--workload-seed", str(again["seed"]))
        self.assertEqual(repeated["seed"], again["seed"])
        self.assertEqual(repeated["short_alone"]["prompt_tokens"], again["short_alone"]["prompt_tokens"])
        self.assertGreater(repeated["short_alone"]["cached_share"], 0.8)
        self.assertIn("warning: prompts were found in the server's cache", err)

    def test_bench_cache_replays_a_trace_over_pools_and_policies(self):
        lines = [{"timestamp": i, "input_length": 1024, "output_length": 9, "hash_ids": ids}
                 for i, ids in enumerate([[1, 2], [1, 2], [3, 4], [5, 6], [1, 2], [1, 7]])]
        with file_with("\n".join(map(json.dumps, lines)), ".jsonl") as trace:
            code, out, err = refrain("bench", "cache", "--trace", trace.name, "--pools", "4,6", "--json")
            self.assertEqual((code, err), (0, ""))
            report = json.loads(out)
            self.assertEqual([(row["pool_blocks"], row["policy"]) for row in report["results"]],
                             [(pool, policy) for pool in (4, 6) for policy in ("lru", "lfu", "gdsf")])
            # Two, two and one block are found again where nothing is given up; least recently used loses two of them.
            self.assertEqual(report["unbounded"]["hit_blocks"], 5)
            self.assertEqual([row["hit_blocks"] for row in report["results"]], [3, 5, 5, 5, 5, 5])
            self.assertTrue(all(row["blocks"] == 12 for row in report["results"]))
            self.assertAlmostEqual(report["unbounded"]["block_hit_rate"], 5 / 12)
            code, out, err = refrain("bench", "cache", "--trace", trace.name, "--pools", "4", "--policies", "gdsf")
            self.assertEqual((code, err), (0, ""))
            self.assertEqual([line.split()[1] for line in out.splitlines()[2:]], ["gdsf", "unbounded"])
        for wrong, words in (([], "no trace given"), (["--trace", "/nowhere"], "/nowhere"),
                             (["--trace", __file__], "line 1 of the trace"),
                             (["--trace", __file__, "--policies", "fifo"], "`fifo` is no eviction policy")):
            code, out, err = refrain("bench", "cache", *wrong)
            self.assertNotEqual(code, 0)
            self.assertEqual(out, "")
            self.assertIn(words, err)

    def test_the_check_of_a_kv_format_is_made_once_for_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            def start():
                return refrain("run", "--model", "tiny", "--kv-format", "q4", "--max-tokens", "1", "hi",
                               environment={"XDG_DATA_HOME": folder})

            code, _, err = start()
            self.assertEqual(code, 2)
            (kept,) = pathlib.Path(folder, "refrain/kv-check").iterdir()
            made = json.loads(kept.read_text())
            self.assertEqual((made["model"], made["kv_format"], made["rows"] > 0), ("tiny", "q4", True))
            self.assertEqual(start()[::2], (code, err))
            # It is that file which is believed from then on ...
            kept.write_text(json.dumps({**made, "kl": 0, "agreeing": made["rows"]}))
            self.assertEqual(start()[0], 0)
            # ... unless it is damaged or that of something else.
            for damaged in ("", "{", json.dumps({**made, "subject": "0" * 32, "kl": 0}), json.dumps({**made, "kl": -1})):
                kept.write_text(damaged)
                self.assertEqual(start()[::2], (code, err))
                self.assertEqual(json.loads(kept.read_text()), made)
        # Nowhere to keep it is no error.
        self.assertEqual(refrain("run", "--model", "tiny", "--kv-format", "q4", "--max-tokens", "1", "hi",
                                 environment={"XDG_DATA_HOME": "/proc/nowhere"})[0], 2)


if __name__ == "__main__":
    main(__doc__)
