"""Logits of the server's executor against the NumPy reference in tools/reference.py.

    logits_test.py tiny|smollm2|gemma3|perplexity --program model_logits --tokenizer tokenize_texts
                   --models DIR --generated DIR

The tolerances are explained in docs/reference/accuracy.md. Every prompt runs in uneven chunks, so
that what is compared has been written to and read back from the KV arena.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from dequantize_gguf import dequantize  # noqa: E402
from reference import Reference  # noqa: E402

# Tolerances as shares of a row's standard deviation over the vocabulary: root mean square error of
# the median row, largest error of any logit. F32 products differ by the order of sums and the
# float16 KV arena only; the others also round the activations, to the weights' 16-bit format or to
# 8 bits.
EXACT, EIGHT_BITS = (0.006, 0.03), (0.2, 0.7)
TOLERANCE = {"F32": EXACT, "F16": (0.012, 0.05), "BF16": (0.05, 0.15), "Q4_0": EIGHT_BITS,
             "Q4_1": EIGHT_BITS, "Q5_0": EIGHT_BITS, "Q5_1": EIGHT_BITS, "Q8_0": EIGHT_BITS,
             "Q4_K": EIGHT_BITS, "Q5_K": EIGHT_BITS, "Q6_K": EIGHT_BITS}
REAL = (0.15, 1.0)
KV_8_BITS, KV_TOLERANCE = ("tiny-llama", "tiny-gemma3", "tiny-head80"), (0.06, 0.7)
AGREEMENT = 0.9               # least share of rows with the same best token
# Relative. Rounding the inputs of products to 8 bits scatters by about 0.1 %; without it (F32 weights)
# the executor and the reference agree to 0.01 %.
PERPLEXITY_TOLERANCE = {"smollm2": 0.002, "gemma3": 0.002, "unrounded": 0.0001}

TINY = [*(f"tiny-{kind}" for kind in TOLERANCE), "tiny-llama", "tiny-qwen2", "tiny-qwen3",
        "tiny-gemma3", "tiny-linear", "tiny-yarn", "tiny-llama3", "tiny-partial", "tiny-head80",
        "tiny-untied", "tiny-mha", "tiny-mqa"]

SMOLLM2, GEMMA3 = "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"
SMOLLM2_PROMPTS = [
    [504, 3575, 282, 4649, 314],  # The capital of France is
    [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 2, 198],
]
GEMMA3_PROMPTS = [
    [2, 818, 5279, 529, 7001, 563],  # <bos>The capital of France is
]


class Checker:
    def __init__(self):
        self.failures = 0

    def expect(self, condition, message):
        if not condition:
            self.failures += 1
            print("FAILED", message)


def executor_logits(program, model, prompts, vocabulary, kernels, kv_bits):
    lines = "".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts)
    done = subprocess.run([program, model, "logits", "--threads", "1", "--chunks", "3,1,17,64",
                           "--kernels", kernels, "--kv-bits", str(kv_bits)],
                          input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(-1, vocabulary)


def compare(check, name, got, expected, tolerance):
    """Every row: errors within tolerance, and the same best token unless its lead is smaller."""
    spread = expected.std(axis=1)
    difference = got - expected
    largest = np.abs(difference).max(axis=1) / spread
    mean_square = np.sqrt(np.square(difference).mean(axis=1)) / spread
    ordered = np.sort(expected, axis=1)
    lead = (ordered[:, -1] - ordered[:, -2]) / spread
    agree = got.argmax(axis=1) == expected.argmax(axis=1)
    print(f"{name}: {len(got)} rows, error rms {np.median(mean_square):.4f}, largest {largest.max():.4f} "
          f"of the logits' deviation, best token equal in {agree.sum()}")
    check.expect(np.isfinite(got).all(), f"{name}: not finite")
    check.expect(np.median(mean_square) <= tolerance[0], f"{name}: rms error {np.median(mean_square)}")
    check.expect(largest.max() <= tolerance[1], f"{name}: error {largest.max()}")
    # Two logits off by the tolerance each can swap tokens that are nearer than twice that.
    check.expect(agree[lead > 2 * tolerance[1]].all(), f"{name}: another best token")
    check.expect(agree.mean() >= AGREEMENT, f"{name}: best token equal in {agree.mean():.0%}")


def compare_model(check, options, path, name, prompts, tolerance, kv_bits=16):
    reference = Reference(str(path))
    expected = np.concatenate([reference.logits(p) for p in prompts])
    for kernels in ("cpu", "ggml"):
        got = executor_logits(options.program, str(path), prompts, reference.vocabulary_size, kernels,
                              kv_bits)
        compare(check, f"{name}, {kernels}", got, expected, tolerance)


def tiny(check, options):
    random = np.random.RandomState(3)
    for name in TINY:
        path = pathlib.Path(options.generated) / f"{name}.gguf"
        vocabulary = Reference(str(path)).vocabulary_size
        # Longer than a sliding window and than a block; one prompt longer than an attention split.
        lengths = [5, 90, 300] if name in ("tiny-llama", "tiny-gemma3") else [5, 90]
        prompts = [random.randint(0, vocabulary, length).tolist() for length in lengths]
        kind = name.removeprefix("tiny-")
        compare_model(check, options, path, name, prompts, TOLERANCE.get(kind, TOLERANCE["F32"]))
        if name in KV_8_BITS:
            compare_model(check, options, path, f"{name}, 8-bit KV", prompts, KV_TOLERANCE, kv_bits=8)


def smollm2(check, options):
    path = pathlib.Path(options.models) / SMOLLM2
    compare_model(check, options, path, "SmolLM2", SMOLLM2_PROMPTS, REAL)
    compare_model(check, options, path, "SmolLM2, 8-bit KV", SMOLLM2_PROMPTS, REAL, kv_bits=8)


def gemma3(check, options):
    path = pathlib.Path(options.models) / GEMMA3
    compare_model(check, options, path, "Gemma 3", GEMMA3_PROMPTS, REAL)


def tokens_of(options, path, text):
    """Ids of our tokenizer, which other golden tests hold against independent packages."""
    request = f"plain {text.encode().hex()}\n"
    done = subprocess.run([options.tokenizer, str(path)], input=request.encode(),
                          stdout=subprocess.PIPE, check=True)
    return [int(word) for word in done.stdout.decode().split("\t")[0].split()]


def executor_perplexity(options, path, windows):
    lines = "".join(" ".join(map(str, window)) + "\n" for window in windows)
    done = subprocess.run([options.program, str(path), "likelihood", "--threads", "1"],
                          input=lines.encode(), stdout=subprocess.PIPE, check=True)
    sums = [line.split() for line in done.stdout.decode().splitlines()]
    count = sum(int(line[1]) for line in sums)
    return math.exp(sum(float(line[0]) for line in sums) / count), count


def compare_perplexity(check, options, path, reference, tokens, begin, name):
    expected, scored = reference.perplexity(tokens, begin=begin)
    got, count = executor_perplexity(options, path, reference.windows(tokens, begin=begin))
    print(f"{name}: perplexity {got:.4f}, reference {expected:.4f}, {count} tokens")
    check.expect(count == scored, f"{count} tokens scored, the reference scored {scored}")
    check.expect(abs(got / expected - 1) <= PERPLEXITY_TOLERANCE[name], f"{name}: perplexity")


def prose_and_licence():
    root = pathlib.Path(__file__).resolve().parents[2]
    return "".join((root / name).read_text(encoding="utf-8")
                   for name in ("tests/data/prose.txt", "LICENSE"))


def perplexity(check, options):
    path = pathlib.Path(options.models) / SMOLLM2
    tokens, reference = tokens_of(options, path, prose_and_licence()), Reference(str(path))
    compare_perplexity(check, options, path, reference, tokens, [], "smollm2")
    with tempfile.TemporaryDirectory() as folder:
        unrounded = pathlib.Path(folder) / "f32.gguf"
        dequantize(str(path), str(unrounded))
        compare_perplexity(check, options, unrounded, reference, tokens[:1024], [], "unrounded")
    path = pathlib.Path(options.models) / GEMMA3
    tokens, reference = tokens_of(options, path, prose_and_licence()), Reference(str(path))
    # Gemma reads nothing sensible without its begin token in front.
    compare_perplexity(check, options, path, reference, tokens, [2], "gemma3")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["tiny", "smollm2", "gemma3", "perplexity"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--generated", required=True)
    parser.add_argument("--tokenizer", required=True)
    options = parser.parse_args()
    check = Checker()
    {"tiny": tiny, "smollm2": smollm2, "gemma3": gemma3, "perplexity": perplexity}[options.part](
        check, options)
    sys.exit(1 if check.failures else 0)


if __name__ == "__main__":
    main()
