#!/usr/bin/env python3
"""Measures OpenVINO GenAI on a GGUF file; run by compare_peers.py with the Python of an environment
that has the PyPI package openvino-genai. Prints one JSON object: figure name -> tokens/s.

Every prompt starts with another token, since the library keeps the prefix of the last one. Decoding
is the time of a reply less the time of its first token, measured on a prompt of the same length.
"""
import json
import sys
import time

import numpy
import openvino
import openvino_genai

PROMPTS = [512, 4096]
DECODED = 32


def main(model, threads):
    pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=int(threads))
    first_token = iter(range(100, 10_000))

    def seconds(prompt_tokens, new_tokens):
        ids = (numpy.arange(prompt_tokens, dtype=numpy.int64) * 7919 % 20_000 + 300)[None, :]
        ids[0, 0] = next(first_token)
        inputs = openvino_genai.TokenizedInputs(
            openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        start = time.monotonic()
        pipeline.generate(inputs, max_new_tokens=new_tokens, ignore_eos=True)
        return time.monotonic() - start

    seconds(64, 2)
    figures = {}
    for tokens in PROMPTS:
        prefill = min(seconds(tokens, 1) for _ in range(2))
        figures[f"prefill {tokens}"] = tokens / prefill
        figures[f"decode at {tokens}"] = DECODED / (seconds(tokens, DECODED + 1) - prefill)
    del figures[f"decode at {PROMPTS[0]}"]
    prefill = min(seconds(8, 1) for _ in range(2))
    figures["decode at 0"] = DECODED / (seconds(8, DECODED + 1) - prefill)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
