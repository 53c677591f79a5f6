#!/usr/bin/env python3
"""Measures Refrain and other engines on one GGUF file, taking turns, and prints ratios.

    tools/compare_peers.py --model FILE --llama-bench PATH --ik-llama-bench PATH --openvino PYTHON

Any of the three may be left out. docs/performance.md says how to build them outside this repository
from PyPI's packages. Every round measures each engine once; a figure is the best of its rounds, for
other work on the machine only ever makes an engine slower. "x best" is Refrain's figure over the
best figure of the others in the same row, whatever K/V format that one keeps.
"""
import argparse
import json
import os
import subprocess
import sys

FIGURES = ["prefill 512", "prefill 4096", "decode at 0", "decode at 4096"]
DECODED = 32
REFRAIN = "build/release/refrain"
OPENVINO_BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "openvino_bench.py")


def output_of(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"error: {command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def refrain(options, kv_format):
    shared = ["--model", options.model, "--threads", options.threads, "--kv-format", kv_format,
              "--max-context", 4300, "--step-tokens", 512, "--json"]
    prefill = json.loads(output_of(
        [options.refrain, "bench", "prefill", "--prompt-tokens", "512,4096", *shared]))
    decode = json.loads(output_of(
        [options.refrain, "bench", "decode", "--depth", "0,4096", "--decode-tokens", DECODED,
         *shared]))
    figures = {f"prefill {r['prompt_tokens']}": r["tokens_per_s"] for r in prefill["results"]}
    figures |= {f"decode at {r['depth']}": r["tokens_per_s"] for r in decode["results"]}
    return figures


def llama_bench(options, program, kv_type, flash):
    """llama.cpp's own benchmark; ik_llama.cpp's is a fork of it. One repetition a round."""
    shared = [program, "-m", options.model, "-t", options.threads, "-r", 1, "-o", "json", "-fa",
              flash, "-ctk", kv_type, "-ctv", kv_type]
    figures = {}
    for tokens in (512, 4096):
        run = json.loads(output_of([*shared, "-p", tokens, "-n", 0]))
        figures[f"prefill {tokens}"] = run[0]["avg_ts"]
    figures["decode at 0"] = json.loads(
        output_of([*shared, "-p", 0, "-n", DECODED]))[0]["avg_ts"]
    figures["decode at 4096"] = decode_at_depth(shared, 4096)
    return figures


def decode_at_depth(shared, depth):
    """With -d where the program knows it, else with -gp, which decodes behind a prompt."""
    for words in (["-p", 0, "-n", DECODED, "-d", depth],
                  ["-p", 0, "-n", 0, "-gp", f"{depth},{DECODED}"]):
        done = subprocess.run([str(word) for word in [*shared, *words]], capture_output=True,
                              text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)[-1]["avg_ts"]
    sys.exit(f"error: {shared[0]} knows neither -d nor -gp: {done.stderr.strip()[-500:]}")


def engines(options):
    yield "Refrain f16", lambda: refrain(options, "f16")
    yield "Refrain q8", lambda: refrain(options, "q8")
    for name, program in (("llama.cpp", options.llama_bench),
                          ("ik_llama.cpp", options.ik_llama_bench)):
        if program:
            for kv_type in ("f16", "q8_0"):
                yield (f"{name} {kv_type}",
                       lambda p=program, k=kv_type: llama_bench(options, p, k, 1))
    if options.openvino:
        yield "OpenVINO GenAI", lambda: json.loads(output_of(
            [options.openvino, OPENVINO_BENCH, options.model, options.threads]))


def print_table(best):
    width = max(len(name) for name in best) + 2
    print("tokens/s".ljust(width) + "".join(figure.rjust(16) for figure in FIGURES))
    for name, figures in best.items():
        print(name.ljust(width) + "".join(f"{figures[f]:16.1f}" for f in FIGURES))
    others = [figures for name, figures in best.items() if not name.startswith("Refrain")]
    for name, figures in best.items():
        if others and name.startswith("Refrain"):
            ratios = [figures[f] / max(other[f] for other in others) for f in FIGURES]
            print(f"{name} x best".ljust(width) + "".join(f"{ratio:16.2f}" for ratio in ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--refrain", default=REFRAIN, help=f"binary (default {REFRAIN})")
    parser.add_argument("--llama-bench", help="llama.cpp's llama-bench")
    parser.add_argument("--ik-llama-bench", help="ik_llama.cpp's llama-bench")
    parser.add_argument("--openvino", help="Python that can import openvino_genai")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="figures of every round")
    options = parser.parse_args()

    rounds = {}
    for turn in range(options.rounds):
        for name, measure in engines(options):
            print(f"round {turn + 1} of {options.rounds}: {name}", file=sys.stderr)
            rounds.setdefault(name, []).append(measure())
    if options.json:
        return print(json.dumps(rounds, indent=2))
    print_table({name: {f: max(r[f] for r in measured) for f in FIGURES}
                 for name, measured in rounds.items()})


if __name__ == "__main__":
    main()
