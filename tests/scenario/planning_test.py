#!/usr/bin/env python3
"""`refrain plan` on the real binary: numbers by hand, model files whose weights are never read, wrong input.

    planning_test.py --binary build/release/refrain --models .deps/models --generated DIR
"""
import json
import os
import struct
import tempfile
import time
import unittest

from commands import binary, main, refrain

SEVEN_B = ["--params", "7B", "--layers", "32", "--kv-heads", "32", "--head-dim", "128", "--weights", "14GB",
           "--reserve", "10GB", "--memory", "80GB", "--context", "8k"]
GIB = 2**30


def changed(flags, **values):
    """`flags` with other values; None leaves one out."""
    pairs = dict(zip(flags[::2], flags[1::2])) | {"--" + name.replace("_", "-"): value for name, value in values.items()}
    return [word for name, value in pairs.items() if value is not None for word in (name, value)]


def plan(*flags):
    code, out, err = refrain("plan", *flags, "--json")
    if code != 0:
        raise AssertionError(f"exit code {code}: {err}")
    return json.loads(out)


def write_sparse_model(path, arch, layers, dim, heads, kv_heads, head_dim, feed_forward, vocabulary, context,
                       window=0):
    """A GGUF file of F16 matrices whose data is one hole: as large as the model, and nothing in it."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def number(key, value):
        return text(f"{arch}.{key}") + struct.pack("<II", 4, value)

    keys = [text("general.architecture") + struct.pack("<I", 8) + text(arch),
            number("block_count", layers), number("embedding_length", dim), number("feed_forward_length", feed_forward),
            number("context_length", context), number("attention.head_count", heads),
            number("attention.head_count_kv", kv_heads), number("attention.key_length", head_dim),
            number("attention.value_length", head_dim),
            text(f"{arch}.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    if window:
        keys.append(number("attention.sliding_window", window))
    tensors = [("token_embd.weight", [dim, vocabulary], 1), ("output_norm.weight", [dim], 0),
               ("output.weight", [dim, vocabulary], 1)]
    for i in range(layers):
        tensors += [(f"blk.{i}.{name}.weight", dims, kind) for name, dims, kind in (
            ("attn_norm", [dim], 0), ("attn_q", [dim, heads * head_dim], 1), ("attn_k", [dim, kv_heads * head_dim], 1),
            ("attn_v", [dim, kv_heads * head_dim], 1), ("attn_output", [heads * head_dim, dim], 1), ("ffn_norm", [dim], 0),
            ("ffn_gate", [dim, feed_forward], 1), ("ffn_up", [dim, feed_forward], 1), ("ffn_down", [feed_forward, dim], 1))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    offset, parameters = 0, 0
    for name, dims, kind in tensors:
        count = dims[0] * (dims[1] if len(dims) > 1 else 1)
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)
        offset = (offset + count * (2 if kind == 1 else 4) + 31) // 32 * 32
        parameters += count
    begin = (len(head) + 31) // 32 * 32
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(begin + offset)
    return parameters, offset


class ByHand(unittest.TestCase):
    def test_the_example_gives_14_and_56_sequences_B2(self):
        code, out, err = refrain("plan", *SEVEN_B)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("concurrency  14 sequences of 8192 tokens fit", out)
        self.assertIn("512 KiB of KV per token, 4 GiB for 8192 tokens (28.6 % of the weights)", out)
        self.assertIn("115 TFLOP to prefill 8192 tokens", out)
        code, out, _ = refrain("plan", *changed(SEVEN_B, kv_heads="8"))
        self.assertIn("concurrency  56 sequences of 8192 tokens fit", out)
        # GB and GiB are the same, 8k is 8192.
        self.assertEqual(refrain("plan", *changed(SEVEN_B, memory="80GiB", weights="14GiB", context="8192")),
                         refrain("plan", *SEVEN_B))

    def test_json_has_every_number_and_a_row_per_format_B1(self):
        told = plan(*SEVEN_B, "--round-tokens", "1k", "--bandwidth", "2TB/s", "--gflops", "300000", "--heads", "32")
        ledgers = told["ledgers"]
        self.assertEqual(ledgers["capacity"]["kv_bytes_per_token"], 2 * 32 * 32 * 128 * 2)
        self.assertEqual(ledgers["bandwidth"], {"read_bytes_empty": 14 * GIB, "read_bytes_full": 18 * GIB})
        self.assertEqual(ledgers["compute"]["prefill_flop"], 2 * 7e9 * 8192)
        self.assertEqual(ledgers["compute"]["attention_flop"], 32 * 32 * 2 * 256 * 8192 * 8193 / 2)
        self.assertEqual(ledgers["concurrency"]["kv_budget_bytes"], 56 * GIB)
        self.assertEqual(ledgers["concurrency"]["sequences"], 14)
        self.assertEqual(told["dialogue"]["rounds"], 8)
        self.assertEqual(told["dialogue"]["kv_bytes_per_round"], 512 * 2**20)
        self.assertAlmostEqual(told["speed"]["tpot_empty_ms"], 14 * GIB / 2e12 * 1e3)
        self.assertAlmostEqual(told["speed"]["tpot_full_ms"], 18 * GIB / 2e12 * 1e3)
        flop = ledgers["compute"]["prefill_flop"] + ledgers["compute"]["attention_flop"]
        self.assertAlmostEqual(told["speed"]["prefill_ms"], flop / 3e14 * 1e3)
        rows = {row["kv_format"]: row for row in told["formats"]}
        self.assertLessEqual({"f16", "q8"}, set(rows))
        self.assertEqual(rows["f16"]["sequences"], 14)
        self.assertEqual(rows["q8"]["kv_bytes_per_token"], 32 * 32 * (2 * 128 + 8))
        self.assertEqual(rows["q8"]["sequences"], 56 * GIB // (rows["q8"]["kv_bytes_per_token"] * 8192))
        # Choosing a format moves the ledgers to its row.
        self.assertEqual(plan(*SEVEN_B, "--kv-format", "q8")["ledgers"]["concurrency"]["sequences"], rows["q8"]["sequences"])

    def test_the_text_has_the_table_and_says_what_is_unknown(self):
        code, out, _ = refrain("plan", *SEVEN_B, "--round-tokens", "500")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^KV format +per token +per sequence +of weights +sequences +read at full +TPOT at full$")
        self.assertRegex(out, r"(?m)^f16 +512 KiB +4 GiB +28.6 % +14 +18 GiB +-$")
        self.assertRegex(out, r"(?m)^q8 +264 KiB +2.1 GiB +14.7 % +27 +")
        self.assertIn("per token unknown: give --bandwidth, or --measure", out)
        self.assertIn("each round of 500 tokens adds 250 MiB (1.74 % of the weights); 16 rounds fill 8192 tokens", out)
        code, out, _ = refrain("plan", "--layers", "2", "--kv-heads", "1", "--head-dim", "64", "--context", "100")
        self.assertEqual(code, 0)
        self.assertIn("concurrency  unknown", out)
        self.assertIn("budget       unknown: give --memory, or --kv-budget", out)
        told = plan("--layers", "2", "--kv-heads", "1", "--head-dim", "64", "--context", "100")
        self.assertIsNone(told["ledgers"]["concurrency"]["sequences"])
        self.assertIsNone(told["ledgers"]["compute"]["prefill_flop"])

    def test_windows_cap_what_is_read_B1(self):
        flags = ["--layers", "18", "--kv-heads", "1", "--heads", "4", "--head-dim", "256", "--context", "32k",
                 "--sliding-window", "512", "--global-period", "6", "--weights", "200MB"]
        told = plan(*flags)
        self.assertEqual(told["model"]["windowed_layers"], 15)
        self.assertEqual(told["ledgers"]["capacity"]["kv_bytes_per_sequence"], 603979776)
        self.assertEqual(told["formats"][0]["kv_read_bytes_full"], 108527616)
        self.assertIn("15 of 18 layers read no more than 512 tokens; all of them keep the whole context", refrain("plan", *flags)[1])

    def test_wrong_numbers_name_the_option_and_the_remedy(self):
        for flags, message, hint in (
                (changed(SEVEN_B, head_dim=None), "needs --head-dim", "--model"),
                (changed(SEVEN_B, layers=None), "needs --layers", "--model"),
                (changed(SEVEN_B, kv_heads=None), "needs --kv-heads", "--model"),
                (changed(SEVEN_B, context=None), "needs --context", ""),
                (changed(SEVEN_B, weights=None), "depends on the weights", "--weights"),
                (changed(SEVEN_B, memory="20GB"), "--memory 20 GiB is 4 GiB less than weights (14 GiB) and reserve (10 GiB)", "raise --memory"),
                (changed(SEVEN_B, memory="24GB"), "--memory 24 GiB", "raise --memory"),
                (changed(SEVEN_B, memory="25GB", kv_budget="4GB"), "3 GiB less than", "--memory"),
                (changed(SEVEN_B, memory="0"), "--memory: the value `0`", "--memory"),
                (changed(SEVEN_B, memory="80XB"), "--memory: the value `80XB` is not a size", "--memory"),
                (changed(SEVEN_B, memory="-80GB"), "--memory: the value", "--memory"),
                (changed(SEVEN_B, memory="99999999999TB"), "--memory: the value", "--memory"),
                (changed(SEVEN_B, params="7 billion"), "--params: the value `7 billion` is not a count such as 7B", "--params"),
                (changed(SEVEN_B, params="0"), "--params: the value `0` is not a count from 1", "--params"),
                (changed(SEVEN_B, params="nan"), "--params", ""),
                (changed(SEVEN_B, layers="0"), "--layers: the value `0` is not a whole number from 1 to 10000", "--layers"),
                (changed(SEVEN_B, layers="1.5"), "--layers", ""),
                (changed(SEVEN_B, head_dim="1025"), "--head-dim: the value `1025` is not a whole number from 1 to 1024", ""),
                (changed(SEVEN_B, context="0"), "--context", ""),
                (changed(SEVEN_B, context="99999999999999999999"), "--context", ""),
                (changed(SEVEN_B, heads="33"), "--heads 33 is no multiple of --kv-heads 32", ""),
                (changed(SEVEN_B, bandwidth="27"), "--bandwidth: the value `27` is not a rate such as 27GB/s", ""),
                (changed(SEVEN_B, bandwidth="27Gb/s"), "is not a rate such as", ""),
                (changed(SEVEN_B, bandwidth="0GB/s"), "is not a rate from 1", ""),
                (changed(SEVEN_B, gflops="-3"), "--gflops", ""),
                (changed(SEVEN_B, gflops="inf"), "--gflops", ""),
                (changed(SEVEN_B, global_period="6"), "--global-period says nothing without a window", "--sliding-window"),
                (changed(SEVEN_B, round_tokens="9000"), "one round of 9000 tokens is longer than the context of 8192", "--round-tokens"),
                (changed(SEVEN_B, kv_format="q3"), "--kv-format", ""),
                (changed(SEVEN_B, block_size="20"), "a multiple of 16", ""),
                (changed(SEVEN_B, model="tiny"), "--model and --params contradict each other", "not both"),
                (changed(SEVEN_B, layers="10000", kv_heads="65536", head_dim="1024", context="1000000000", memory=None), "more than can be counted", "--context"),
        ):
            with self.subTest(flags=flags):
                code, out, err = refrain("plan", *flags)
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn("error: ", err)
                self.assertIn(message, err)
                self.assertIn(hint, err)

    def test_the_largest_numbers_allowed_do_not_wrap_around(self):
        told = plan("--layers", "10000", "--kv-heads", "65536", "--head-dim", "1024", "--context", "100", "--weights",
                    "8000TB", "--kv-budget", "8000TB", "--params", "1000000T", "--heads", "65536")
        per_token = 2 * 10000 * 65536 * 1024 * 2
        self.assertEqual(told["ledgers"]["capacity"]["kv_bytes_per_sequence"], 100 * per_token)
        self.assertEqual(told["ledgers"]["concurrency"]["sequences"], (8000 * 2**40 // (16 * per_token)) // 7)


class Files(unittest.TestCase):
    def test_a_model_file_gives_its_own_numbers_and_the_default_model_is_used_B1(self):
        told = plan("--model", "tiny", "--memory", "1GiB", "--context", "1000")
        self.assertEqual(told["model"]["name"], "tiny")
        self.assertEqual(told["ledgers"]["capacity"]["kv_bytes_per_token"], 384)
        budget = GIB - told["model"]["weight_bytes"]
        self.assertEqual(told["ledgers"]["concurrency"]["kv_budget_bytes"], budget)
        self.assertEqual(told["ledgers"]["concurrency"]["sequences"], budget // (16 * 384) // 63)
        self.assertEqual(told["ledgers"]["concurrency"]["budget_from"], "what --memory leaves")
        code, out, err = refrain("plan", environment={"REFRAIN_MODEL_DIR": binary().models})
        self.assertEqual((code, err), (0, ""))
        self.assertIn("SmolLM2-135M-Instruct.Q4_1: 30 layers, 3 key and value heads of 64, 135 M parameters", out)
        self.assertIn("22.5 KiB of KV per token, 180 MiB for 8192 tokens", out)
        self.assertIn("auto, as `refrain serve` would take here now", out)

    def test_errors_of_files_and_of_contexts_they_do_not_have(self):
        code, out, err = refrain("plan", "--model", "tiny", "--context", "1M")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("--context 1048576 is more than the", err)
        code, _, err = refrain("plan", "--model", "nowhere")
        self.assertEqual(code, 1)
        self.assertIn("error: ", err)
        code, _, err = refrain("plan", "--model", "tiny", "--memory", "1k")
        self.assertEqual(code, 2)
        self.assertIn("--memory 1 KiB is", err)
        code, out, _ = refrain("plan", "--model", "tiny", "--kv-budget", "64KiB", "--context", "1000")
        self.assertEqual(code, 0)
        self.assertIn("0 sequences of 1000 tokens fit", out)
        self.assertIn("10 blocks, 160 tokens", out)

    def test_files_of_any_size_are_planned_without_reading_their_weights_B1(self):
        # Published shapes; the files are holes, so that reading weights would show as time and memory.
        shapes = (
            ("llama2-7b", dict(arch="llama", layers=32, dim=4096, heads=32, kv_heads=32, head_dim=128, feed_forward=11008,
                               vocabulary=32000, context=4096), 524288, 6738415616),
            ("llama31-8b", dict(arch="llama", layers=32, dim=4096, heads=32, kv_heads=8, head_dim=128, feed_forward=14336,
                                vocabulary=128256, context=131072), 131072, 8030261248),
            ("llama31-70b", dict(arch="llama", layers=80, dim=8192, heads=64, kv_heads=8, head_dim=128, feed_forward=28672,
                                 vocabulary=128256, context=131072), 327680, 70553706496),
            ("mistral-7b", dict(arch="llama", layers=32, dim=4096, heads=32, kv_heads=8, head_dim=128, feed_forward=14336,
                                vocabulary=32000, context=32768, window=4096), 131072, 7241732096))
        with tempfile.TemporaryDirectory() as folder:
            for name, shape, per_token, parameters in shapes:
                with self.subTest(name=name):
                    path = os.path.join(folder, name + ".gguf")
                    counted, weight_bytes = write_sparse_model(path, **shape)
                    self.assertEqual(counted, parameters, "the file is not that model")
                    began = time.monotonic()
                    told = plan("--model", path, "--memory", "256GiB", "--reserve", "10GiB")
                    self.assertLess(time.monotonic() - began, 10)
                    self.assertLess(os.stat(path).st_blocks * 512, 2**20, "the holes were filled")
                    self.assertEqual(told["model"]["parameters"], parameters)
                    self.assertEqual(told["model"]["weight_bytes"], weight_bytes)
                    self.assertEqual(told["context_tokens"], shape["context"])
                    self.assertEqual(told["ledgers"]["capacity"]["kv_bytes_per_token"], per_token)
                    self.assertEqual(told["ledgers"]["concurrency"]["sequences"],
                                     (246 * GIB - weight_bytes) // (per_token * shape["context"]))
                    # Here the model may have no place at all, and the rest of its plan is told all the same.
                    self.assertEqual(plan("--model", path)["ledgers"]["capacity"], told["ledgers"]["capacity"])
                    # The embedding is a table of which a token reads one row.
                    embedding = shape["dim"] * shape["vocabulary"] * 2
                    self.assertEqual(told["ledgers"]["bandwidth"]["read_bytes_empty"], weight_bytes - embedding)
                    read = per_token * min(shape["context"], shape.get("window", shape["context"]))
                    self.assertEqual(told["formats"][0]["kv_read_bytes_full"], read)

    def test_malformed_files_are_refused_or_planned_but_never_a_crash(self):
        folder = os.path.join(binary().generated, "bad")
        refused = 0
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".gguf"):
                continue
            with self.subTest(name=name):
                code, out, err = refrain("plan", "--model", os.path.join(folder, name), "--json")
                if code == 0:  # what is broken is no part of a plan: the vocabulary, the template
                    self.assertRegex(name, "token|vocab|merge|scores|template")
                    self.assertGreater(json.loads(out)["ledgers"]["capacity"]["kv_bytes_per_token"], 0)
                else:
                    self.assertIn(code, (1, 2))
                    self.assertIn("error: ", err)
                    refused += 1
        self.assertGreater(refused, 50)

    def test_measuring_gives_both_speeds_unless_they_are_given(self):
        told = plan("--model", "tiny", "--measure", "--threads", "1", "--gflops", "100")
        self.assertEqual((told["speed"]["flop_per_s"], told["speed"]["flop_from"]), (1e11, "--gflops"))
        self.assertGreater(told["speed"]["read_bytes_per_s"], 1e8)
        self.assertEqual(told["speed"]["bandwidth_from"], "measured with 1 thread")
        told = plan("--model", "tiny", "--measure", "--threads", "1", "--bandwidth", "10GB/s")
        self.assertEqual(told["speed"]["read_bytes_per_s"], 1e10)
        for speed in ("flop_per_s", "attention_flop_per_s", "prefill_ms", "tpot_full_ms"):
            self.assertGreater(told["speed"][speed], 0)


if __name__ == "__main__":
    main(__doc__)
