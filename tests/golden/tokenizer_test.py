"""Token ids of our tokenizers against independent packages, on real vocabularies (O-30).

    tokenizer_test.py byte_pair|sentence_piece --program tokenize_texts --models FOLDER

The reference is built here from the GGUF file's own vocabulary; nothing is stored.
"""

import argparse
import pathlib
import struct
import subprocess
import sys

import tokenizer_corpus as corpus
from gguf_metadata import read_metadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


class Vocabulary:
    def __init__(self, path):
        metadata = read_metadata(path)
        self.tokens = metadata["tokenizer.ggml.tokens"]
        self.types = metadata["tokenizer.ggml.token_type"]
        self.scores = metadata.get("tokenizer.ggml.scores")
        self.merges = metadata.get("tokenizer.ggml.merges")
        self.path = path


def ours(program, vocabulary, requests, *options):
    """Ids and decoded bytes for (mode, bytes) requests."""
    lines = "".join(f"{mode} {text.hex()}\n" for mode, text in requests)
    done = subprocess.run([program, vocabulary.path, *options], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    for line in done.stdout.decode().splitlines():
        ids, decoded = line.split("\t")
        yield [int(i) for i in ids.split()], bytes.fromhex(decoded)


class Comparison:
    def __init__(self):
        self.checked = self.failed = 0

    def check(self, same, what, text, got, wanted):
        self.checked += 1
        if same:
            return
        self.failed += 1
        if self.failed <= 20:
            print(f"{what}: {text!r}\n  ours      {got}\n  reference {wanted}")


# The split patterns as the models' own tokenizer files give them.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3 % "{1,3}"],
    "qwen2": [LLAMA3 % ""],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}


def byte_pair_reference(vocabulary, pre):
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
    merges = [tuple(m.split(" ")) for m in vocabulary.merges]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(vocabulary.tokens)}, merges,
                                     ignore_merges=pre == "llama-bpe"))
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in SPLITS[pre]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    special = Tokenizer.from_str(tokenizer.to_str())
    special.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                for t, y in zip(vocabulary.tokens, vocabulary.types) if y == CONTROL])
    return tokenizer, special


def compare_byte_pair(program, models, comparison):
    vocabulary = Vocabulary(models / "SmolLM2-135M-Instruct.Q4_1.gguf")
    texts = list(corpus.texts())
    covered = covered_bytes(vocabulary)
    for pre in SPLITS:
        plain, special = byte_pair_reference(vocabulary, pre)
        requests = [("plain", t.encode()) for t in texts] + [("special", t.encode()) for t in texts]
        wanted = [e.ids for e in plain.encode_batch(texts)] + [e.ids for e in special.encode_batch(texts)]
        for (mode, text), (ids, decoded), reference in zip(
                requests, ours(program, vocabulary, requests, "--pre", pre), wanted, strict=True):
            comparison.check(ids == reference, f"ids, {pre}, {mode}", text.decode(), ids, reference)
            back = bytes(b for b in text if b in covered)
            comparison.check(decoded == back, f"round trip, {pre}, {mode}", text, decoded, back)
    requests = [("plain", t) for t in corpus.ill_formed()]
    for (_, text), (ids, decoded) in zip(requests, ours(program, vocabulary, requests), strict=True):
        back = bytes(b for b in text if b in covered)
        comparison.check(decoded == back, "round trip of ill-formed text", text, decoded, back)


def covered_bytes(vocabulary):
    """Bytes for which the vocabulary has a token; the reference leaves the others out as well."""
    from tokenizers.pre_tokenizers import ByteLevel
    known = set(vocabulary.tokens)
    covered = {b for b in range(128) if ByteLevel(False, use_regex=False).pre_tokenize_str(chr(b))[0][0] in known}
    # Bytes above 127: the alphabet leaves them where they are, or moves 80-A0 and AD to U+0122 and following.
    moved = [*range(0x80, 0xA1), 0xAD]
    for b in range(128, 256):
        character = chr(0x122 + moved.index(b)) if b in moved else chr(b)
        if character in known:
            covered.add(b)
    return covered


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field of a protocol buffer; the package `protobuf` is not needed for the few we write."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def sentence_piece_reference(vocabulary, add_dummy_prefix):
    """SentencePiece's ModelProto: pieces = 1, trainer_spec = 2, normalizer_spec = 3."""
    import sentencepiece
    model = bytearray()
    for token, score, kind in zip(vocabulary.tokens, vocabulary.scores, vocabulary.types):
        # Inside SentencePiece blanks are always "▁"; the GGUF file writes them out in user-defined tokens.
        token = token.replace(" ", "▁") if kind == USER_DEFINED else token
        kind = UNKNOWN if token == "<unk>" else int(kind)
        model += field(1, field(1, token) + field(2, float(score)) + field(3, kind))
    names = ["<unk>", "<bos>", "<eos>", "<pad>"]
    bpe, byte_fallback = field(3, 2), field(35, 1)
    ids = b"".join(field(40 + i, vocabulary.tokens.index(name)) for i, name in enumerate(names))
    pieces = b"".join(field(45 + i, name) for i, name in enumerate(names))
    model += field(2, bpe + byte_fallback + ids + pieces)
    escape_whitespaces = field(5, 1)
    model += field(3, field(1, "identity") + field(3, int(add_dummy_prefix)) + field(4, 0) + escape_whitespaces)
    return sentencepiece.SentencePieceProcessor(model_proto=bytes(model))


def compare_sentence_piece(program, models, comparison):
    vocabulary = Vocabulary(models / "gemma-3-270m-q4_k_m.gguf")
    texts = list(corpus.texts())
    requests = [("plain", t.encode()) for t in texts]
    for prefix in ("no", "yes"):
        reference = sentence_piece_reference(vocabulary, prefix == "yes")
        answers = ours(program, vocabulary, requests, "--space-prefix", prefix)
        for text, (ids, decoded) in zip(texts, answers, strict=True):
            wanted = reference.encode(text)
            comparison.check(ids == wanted, f"ids, prefix {prefix}", text, ids, wanted)
            # "▁" is how SentencePiece writes a blank: it comes back as one.
            back = text.replace("▁", " ").encode()
            comparison.check(decoded == back, f"round trip, prefix {prefix}", text, decoded, back)
    requests = [("plain", t) for t in corpus.ill_formed()]
    for (_, text), (ids, decoded) in zip(requests, ours(program, vocabulary, requests), strict=True):
        back = text.replace("▁".encode(), b" ")
        comparison.check(decoded == back, "round trip of ill-formed text", text, decoded, back)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("reference", choices=["byte_pair", "sentence_piece"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    comparison = Comparison()
    compare = compare_byte_pair if arguments.reference == "byte_pair" else compare_sentence_piece
    compare(arguments.program, arguments.models, comparison)
    print(f"{comparison.checked} comparisons, {comparison.failed} failed")
    return 1 if comparison.failed or comparison.checked < 3000 else 0


if __name__ == "__main__":
    sys.exit(main())
