#!/usr/bin/env python3
"""O-30 through the server: what /tokenize gives equals the ids of independent packages, and
/detokenize gives the text back, on both real models.

    tokenize_endpoint_test.py --binary build/release/refrain --models FOLDER
"""

import argparse
import http.client
import json
import pathlib
import sys

import tokenizer_corpus as corpus
import tokenizer_test as reference

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "scenario"))
from server_process import Binary, ServerProcess  # noqa: E402  (the path comes first)


class Endpoint:
    """One kept connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path, body):
        self.connection.request("POST", path, json.dumps(body))
        reply = self.connection.getresponse()
        answer = json.loads(reply.read())
        if reply.status != 200:
            raise SystemExit(f"{path} answered {reply.status}: {answer}")
        return answer


def compare(binary, model, encode, decoded_text, comparison):
    server = ServerProcess(binary, model, ["--max-context", "512"])
    try:
        endpoint = Endpoint(server.port)
        for text in corpus.texts():
            ids = endpoint.post("/tokenize", {"content": text})["tokens"]
            wanted = encode(text)
            comparison.check(ids == wanted, f"ids, {model}", text, ids, wanted)
            back = endpoint.post("/detokenize", {"tokens": ids})["content"]
            comparison.check(back == decoded_text(text), f"round trip, {model}", text, back, text)
    finally:
        server.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    binary = Binary(arguments.binary, str(arguments.models), "")
    comparison = reference.Comparison()

    smol = reference.Vocabulary(arguments.models / "SmolLM2-135M-Instruct.Q4_1.gguf")
    plain, _ = reference.byte_pair_reference(smol, "smollm")
    covered = reference.covered_bytes(smol)
    compare(binary, "smol", lambda text: plain.encode(text).ids,
            lambda text: bytes(b for b in text.encode() if b in covered).decode("utf-8", "replace"), comparison)

    gemma = reference.Vocabulary(arguments.models / "gemma-3-270m-q4_k_m.gguf")
    pieces = reference.sentence_piece_reference(gemma, add_dummy_prefix=False)
    compare(binary, "gemma", pieces.encode, lambda text: text.replace("▁", " "), comparison)

    print(f"{comparison.checked} comparisons, {comparison.failed} failed")
    return 1 if comparison.failed or comparison.checked < 3000 else 0


if __name__ == "__main__":
    sys.exit(main())
