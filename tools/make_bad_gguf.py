#!/usr/bin/env python3
"""Makes malformed GGUF files from a small good one, for the tests of the model loader.

    make_bad_gguf.py --good tiny-Q4_0.gguf --output DIR

DIR/manifest.tsv has one line per file: name, expected error (data_loss: the file is damaged;
invalid: well-formed but contradictory; unsupported: sound, but not for us), and a text that the
message must contain. Every file must be refused with one clear message, within seconds and
without allocating what it claims to need.
"""
import argparse
import os
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
WIDTH = {U8: 1, I8: 1, U16: 2, I16: 2, U32: 4, I32: 4, F32: 4, BOOL: 1, U64: 8, I64: 8, F64: 8}


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return u64(len(data)) + data


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def skip_value(self, kind):
        if kind == STRING:
            self.take(self.u64())
        elif kind == ARRAY:
            element, count = self.u32(), self.u64()
            for _ in range(count):
                self.skip_value(element)
        else:
            self.take(WIDTH[kind])


class Tensor:
    def __init__(self, name, dims, kind, offset):
        self.name, self.dims, self.kind, self.offset = name, dims, kind, offset
        self.dim_count = None   # written instead of len(dims)

    def encode(self):
        count = len(self.dims) if self.dim_count is None else self.dim_count
        return text(self.name) + u32(count) + b"".join(map(u64, self.dims)) + u32(self.kind) + u64(self.offset)


class GgufImage:
    """A GGUF file in parts, each of which a case may falsify before write()."""

    def __init__(self, data):
        cursor = Cursor(data)
        self.magic, self.version = cursor.take(4), cursor.u32()
        tensor_count, key_count = cursor.u64(), cursor.u64()
        self.keys = []   # [name, type, encoded value]
        for _ in range(key_count):
            name, kind = cursor.take(cursor.u64()), cursor.u32()
            begin = cursor.at
            cursor.skip_value(kind)
            self.keys.append([name.decode(), kind, data[begin:cursor.at]])
        self.tensors = []
        for _ in range(tensor_count):
            name = cursor.take(cursor.u64()).decode()
            dims = [cursor.u64() for _ in range(cursor.u32())]
            kind = cursor.u32()
            self.tensors.append(Tensor(name, dims, kind, cursor.u64()))
        self.tensor_count, self.key_count = None, None   # written instead of the true counts
        self.data = data[cursor.at + -cursor.at % 32:]

    def set(self, name, kind, value):
        for entry in self.keys:
            if entry[0] == name:
                entry[1:] = [kind, value]
                return
        self.keys.append([name, kind, value])

    def remove(self, name):
        self.keys = [entry for entry in self.keys if entry[0] != name]

    def tensor(self, name):
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def key_offset(self, name):
        """Where the value of a key begins in the encoded file."""
        at = 24
        for key, _, value in self.keys:
            at += 8 + len(key.encode()) + 4
            if key == name:
                return at
            at += len(value)
        raise KeyError(name)

    def encode(self):
        head = self.magic + u32(self.version)
        head += u64(len(self.tensors) if self.tensor_count is None else self.tensor_count)
        head += u64(len(self.keys) if self.key_count is None else self.key_count)
        head += b"".join(text(name) + u32(kind) + value for name, kind, value in self.keys)
        head += b"".join(tensor.encode() for tensor in self.tensors)
        return head + bytes(-len(head) % 32) + self.data


CASES = []


def case(name, error, contains):
    """Registers a function that falsifies an image, or returns the bytes to write."""
    def register(function):
        CASES.append((name, error, contains, function))
        return function
    return register


# ---- the file as a whole
@case("empty", "data_loss", "GGUF")
def _(image): return b""

@case("cut-at-10-bytes", "data_loss", "byte")
def _(image): return image.encode()[:10]

@case("cut-in-metadata", "data_loss", "tokenizer.ggml.tokens")
def _(image): return image.encode()[:image.key_offset("tokenizer.ggml.tokens") + 500]

@case("cut-at-half", "data_loss", "outside the file")
def _(image):
    data = image.encode()
    return data[:len(data) - len(image.data) // 2]

@case("cut-last-byte", "data_loss", "outside the file")
def _(image): return image.encode()[:-1]

@case("not-gguf", "data_loss", "magic")
def _(image): image.magic = b"GGML"

@case("text-file", "data_loss", "magic")
def _(image): return b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"

@case("version-0", "unsupported", "version 0")
def _(image): image.version = 0

@case("version-1", "unsupported", "version 1")
def _(image): image.version = 1

@case("version-99", "unsupported", "version 99")
def _(image): image.version = 99

@case("big-endian", "unsupported", "big-endian")
def _(image): image.version = 0x03000000


# ---- counts and lengths
@case("key-count-2^63", "data_loss", "key count")
def _(image): image.key_count = 2 ** 63

@case("key-count-2^32", "data_loss", "key count")
def _(image): image.key_count = 2 ** 32

@case("key-count-one-more", "data_loss", "key")
def _(image): image.key_count = len(image.keys) + 1

@case("tensor-count-2^63", "data_loss", "tensor count")
def _(image): image.tensor_count = 2 ** 63

@case("tensor-count-one-more", "data_loss", "tensor")
def _(image): image.tensor_count = len(image.tensors) + 1

@case("no-tensors", "data_loss", "tensor")
def _(image): image.tensors, image.data = [], b""

@case("string-length-2^64-1", "data_loss", "general.name")
def _(image): image.set("general.name", STRING, u64(2 ** 64 - 1) + b"tiny")

@case("string-length-2^40", "data_loss", "general.name")
def _(image): image.set("general.name", STRING, u64(2 ** 40) + b"tiny")

@case("string-of-50-MiB", "data_loss", "general.description")
def _(image): image.set("general.description", STRING, u64(50 << 20) + bytes(50 << 20))

@case("key-length-2^64-1", "data_loss", "key")
def _(image):
    data = bytearray(image.encode())
    data[24:32] = u64(2 ** 64 - 1)
    return bytes(data)

@case("empty-key", "data_loss", "key")
def _(image): image.keys.append(["", U8, b"\x01"])

@case("value-type-13", "data_loss", "type 13")
def _(image): image.set("general.extra", 13, b"\x00" * 8)

@case("value-type-2^32-1", "data_loss", "type 4294967295")
def _(image): image.set("general.extra", 2 ** 32 - 1, b"")

@case("array-of-arrays", "data_loss", "array of arrays")
def _(image): image.set("general.extra", ARRAY, u32(ARRAY) + u64(1) + u32(U8) + u64(1) + b"\x01")

@case("array-of-type-99", "data_loss", "type 99")
def _(image): image.set("general.extra", ARRAY, u32(99) + u64(1) + b"\x01")

@case("array-count-2^61", "data_loss", "general.extra")
def _(image): image.set("general.extra", ARRAY, u32(U64) + u64(2 ** 61) + bytes(64))

@case("array-count-2^63-strings", "data_loss", "general.extra")
def _(image): image.set("general.extra", ARRAY, u32(STRING) + u64(2 ** 63))

@case("array-string-length-2^64-8", "data_loss", "general.extra")
def _(image): image.set("general.extra", ARRAY, u32(STRING) + u64(2) + u64(2 ** 64 - 8) + u64(0))

@case("bool-of-2", "data_loss", "tokenizer.ggml.add_bos_token")
def _(image): image.set("tokenizer.ggml.add_bos_token", BOOL, b"\x02")

@case("duplicate-key", "data_loss", "general.name")
def _(image): image.keys.append(["general.name", STRING, text("again")])

@case("duplicate-tensor", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.1.attn_k.weight").name = "blk.0.attn_k.weight"


# ---- alignment
@case("alignment-0", "data_loss", "general.alignment")
def _(image): image.set("general.alignment", U32, u32(0))

@case("alignment-3", "data_loss", "general.alignment")
def _(image): image.set("general.alignment", U32, u32(3))

@case("alignment-2^31", "data_loss", "general.alignment")
def _(image): image.set("general.alignment", U32, u32(2 ** 31))

@case("alignment-as-text", "data_loss", "general.alignment")
def _(image): image.set("general.alignment", STRING, text("32"))


# ---- tensors
@case("dimension-count-9", "data_loss", "9 dimensions")
def _(image): image.tensor("blk.0.attn_k.weight").dims = [2] * 9

@case("dimension-count-2^32-1", "data_loss", "dimensions")
def _(image): image.tensor("blk.0.attn_k.weight").dim_count = 2 ** 32 - 1

@case("dimension-count-0", "data_loss", "0 dimensions")
def _(image): image.tensor("blk.0.attn_k.weight").dims = []

@case("dimension-0", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.0.attn_k.weight").dims[1] = 0

@case("dimension-2^42+1", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.0.attn_k.weight").dims[1] = 2 ** 42 + 1

@case("dimension-2^63", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.0.attn_k.weight").dims = [64, 2 ** 63]

@case("dimension-product-wraps-to-0", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.0.attn_k.weight").dims = [2 ** 32, 2 ** 32]

@case("dimension-product-wraps-to-64", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.0.attn_k.weight").dims = [64, 2 ** 58 + 1]

@case("row-not-whole-blocks", "data_loss", "multiple of 32")
def _(image): image.tensor("blk.0.attn_k.weight").dims[0] = 63

@case("type-42", "unsupported", "Q2_0")
def _(image): image.tensor("blk.0.attn_k.weight").kind = 42

@case("type-Q2_K", "unsupported", "Q2_K")
def _(image): image.tensor("blk.0.attn_k.weight").kind = 10

@case("type-I32", "unsupported", "I32")
def _(image): image.tensor("output_norm.weight").kind = 26

@case("type-removed-4", "data_loss", "type 4")
def _(image): image.tensor("blk.0.attn_k.weight").kind = 4

@case("type-9999", "data_loss", "type 9999")
def _(image): image.tensor("blk.0.attn_k.weight").kind = 9999

@case("type-minus-1", "data_loss", "type 4294967295")
def _(image): image.tensor("blk.0.attn_k.weight").kind = 2 ** 32 - 1

@case("type-too-wide-for-its-place", "data_loss", "blk.0.attn_k.weight")
def _(image): image.tensor("blk.0.attn_k.weight").kind = 0

@case("offset-past-the-end", "data_loss", "outside the file")
def _(image): image.tensor("blk.0.attn_k.weight").offset = 2 ** 40

@case("offset-wraps", "data_loss", "outside the file")
def _(image): image.tensor("blk.0.attn_k.weight").offset = 2 ** 64 - 32

@case("offset-unaligned", "data_loss", "multiple of 32")
def _(image): image.tensor("blk.0.attn_k.weight").offset += 1

@case("offset-overlapping", "data_loss", "overlaps")
def _(image):
    image.tensor("blk.0.attn_k.weight").offset = image.tensor("blk.0.attn_q.weight").offset

@case("offset-overlapping-by-half", "data_loss", "overlaps")
def _(image): image.tensor("blk.0.attn_k.weight").offset -= 32

@case("tensor-name-of-64", "data_loss", "name")
def _(image): image.tensor("blk.0.attn_k.weight").name = "x" * 64

@case("tensor-name-empty", "data_loss", "name")
def _(image): image.tensor("blk.0.attn_k.weight").name = ""


# ---- a sound file whose numbers contradict each other
@case("architecture-missing", "invalid", "general.architecture")
def _(image): image.remove("general.architecture")

@case("architecture-unknown", "unsupported", "mamba")
def _(image): image.set("general.architecture", STRING, text("mamba"))

@case("attention-not-causal", "unsupported", "no context of it can be reused")
def _(image): image.set("llama.attention.causal", BOOL, b"\x00")

@case("architecture-invalid-utf8", "unsupported", "architecture")
def _(image): image.set("general.architecture", STRING, text(b"\xff\xfe\x00"))

@case("architecture-as-number", "invalid", "general.architecture")
def _(image): image.set("general.architecture", U32, u32(1))

@case("layers-missing", "invalid", "llama.block_count")
def _(image): image.remove("llama.block_count")

@case("layers-0", "invalid", "llama.block_count")
def _(image): image.set("llama.block_count", U32, u32(0))

@case("layers-2^32-1", "invalid", "llama.block_count")
def _(image): image.set("llama.block_count", U32, u32(2 ** 32 - 1))

@case("layers-negative", "invalid", "llama.block_count")
def _(image): image.set("llama.block_count", I32, struct.pack("<i", -3))

@case("layers-as-text", "invalid", "llama.block_count")
def _(image): image.set("llama.block_count", STRING, text("3"))

@case("layers-one-more", "data_loss", "blk.3.")
def _(image): image.set("llama.block_count", U32, u32(4))

@case("dim-0", "invalid", "llama.embedding_length")
def _(image): image.set("llama.embedding_length", U32, u32(0))

@case("dim-of-other-model", "data_loss", "token_embd.weight")
def _(image): image.set("llama.embedding_length", U32, u32(128))

@case("heads-0", "invalid", "llama.attention.head_count")
def _(image): image.set("llama.attention.head_count", U32, u32(0))

@case("heads-not-multiple-of-kv-heads", "invalid", "head_count_kv")
def _(image): image.set("llama.attention.head_count_kv", U32, u32(3))

@case("heads-do-not-divide-dim", "invalid", "head_count")
def _(image): image.set("llama.attention.head_count", U32, u32(6))

@case("kv-heads-more-than-heads", "invalid", "head_count_kv")
def _(image): image.set("llama.attention.head_count_kv", U32, u32(8))

@case("context-0", "invalid", "llama.context_length")
def _(image): image.set("llama.context_length", U32, u32(0))

@case("context-2^32-1", "invalid", "llama.context_length")
def _(image): image.set("llama.context_length", U32, u32(2 ** 32 - 1))

@case("epsilon-nan", "invalid", "layer_norm_rms_epsilon")
def _(image):
    image.set("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", float("nan")))

@case("epsilon-negative", "invalid", "layer_norm_rms_epsilon")
def _(image): image.set("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", -1.0))

@case("rope-base-0", "invalid", "llama.rope.freq_base")
def _(image): image.set("llama.rope.freq_base", F32, struct.pack("<f", 0.0))

@case("rope-base-infinite", "invalid", "llama.rope.freq_base")
def _(image): image.set("llama.rope.freq_base", F32, struct.pack("<f", float("inf")))

@case("rotary-more-than-head", "invalid", "llama.rope.dimension_count")
def _(image): image.set("llama.rope.dimension_count", U32, u32(18))

@case("rotary-odd", "invalid", "llama.rope.dimension_count")
def _(image): image.set("llama.rope.dimension_count", U32, u32(7))

@case("rope-scaling-unknown", "unsupported", "longrope")
def _(image): image.set("llama.rope.scaling.type", STRING, text("longrope"))

@case("rope-factor-0", "invalid", "llama.rope.scaling.factor")
def _(image):
    image.set("llama.rope.scaling.type", STRING, text("linear"))
    image.set("llama.rope.scaling.factor", F32, struct.pack("<f", 0.0))

@case("mixture-of-experts", "unsupported", "expert")
def _(image): image.set("llama.expert_count", U32, u32(8))

@case("tensor-missing", "data_loss", "blk.1.ffn_up.weight")
def _(image): image.tensor("blk.1.ffn_up.weight").name = "blk.1.ffn_other.weight"

@case("tensor-transposed", "data_loss", "blk.1.ffn_up.weight")
def _(image): image.tensor("blk.1.ffn_up.weight").dims.reverse()

@case("norm-quantized", "data_loss", "output_norm.weight")
def _(image): image.tensor("output_norm.weight").kind = 2

@case("split-file", "unsupported", "split")
def _(image): image.set("split.count", U16, struct.pack("<H", 3))


# ---- vocabulary
@case("vocabulary-missing", "invalid", "tokenizer.ggml.tokens")
def _(image): image.remove("tokenizer.ggml.tokens")

@case("vocabulary-shorter-than-embedding", "invalid", "tokenizer.ggml.tokens")
def _(image): image.set("tokenizer.ggml.tokens", ARRAY, u32(STRING) + u64(2) + text("a") + text("b"))

@case("vocabulary-of-numbers", "invalid", "tokenizer.ggml.tokens")
def _(image): image.set("tokenizer.ggml.tokens", ARRAY, u32(U32) + u64(2) + u32(1) + u32(2))

@case("tokenizer-unknown", "unsupported", "bert")
def _(image): image.set("tokenizer.ggml.model", STRING, text("bert"))

@case("token-types-too-few", "invalid", "tokenizer.ggml.token_type")
def _(image): image.set("tokenizer.ggml.token_type", ARRAY, u32(I32) + u64(2) + u32(1) + u32(1))

@case("token-type-77", "invalid", "tokenizer.ggml.token_type")
def _(image):
    value = bytearray(next(entry[2] for entry in image.keys
                           if entry[0] == "tokenizer.ggml.token_type"))
    value[-4:] = u32(77)
    image.set("tokenizer.ggml.token_type", ARRAY, bytes(value))

@case("merge-without-space", "invalid", "tokenizer.ggml.merges")
def _(image): image.set("tokenizer.ggml.merges", ARRAY, u32(STRING) + u64(1) + text("th"))

@case("merges-missing", "invalid", "tokenizer.ggml.merges")
def _(image): image.remove("tokenizer.ggml.merges")

@case("end-token-outside", "invalid", "tokenizer.ggml.eos_token_id")
def _(image): image.set("tokenizer.ggml.eos_token_id", U32, u32(10 ** 6))

@case("begin-token-negative", "invalid", "tokenizer.ggml.bos_token_id")
def _(image): image.set("tokenizer.ggml.bos_token_id", I32, struct.pack("<i", -1))

@case("scores-missing", "invalid", "tokenizer.ggml.scores")
def _(image):
    image.set("tokenizer.ggml.model", STRING, text("llama"))

@case("template-as-number", "invalid", "tokenizer.chat_template")
def _(image): image.set("tokenizer.chat_template", U32, u32(5))


def write_sparse(path, data):
    """Leaves out zero pages, so that the big case takes little disk."""
    page = 1 << 16
    with open(path, "wb") as file:
        for begin in range(0, len(data), page):
            chunk = data[begin:begin + page]
            if chunk.count(0) == len(chunk):
                file.seek(len(chunk), os.SEEK_CUR)
            else:
                file.write(chunk)
        file.truncate(len(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--good", required=True, help="a sound file, made by make_tiny_gguf.py")
    parser.add_argument("--output", required=True, metavar="DIR")
    options = parser.parse_args()
    manifest = os.path.join(options.output, "manifest.tsv")
    newest = max(os.path.getmtime(options.good), os.path.getmtime(__file__))
    if os.path.exists(manifest) and os.path.getmtime(manifest) > newest:
        return
    with open(options.good, "rb") as file:
        good = file.read()
    assert GgufImage(good).encode() == good, "reading and writing the good file must agree"
    os.makedirs(options.output, exist_ok=True)
    lines = []
    for name, error, contains, falsify in CASES:
        image = GgufImage(good)
        data = falsify(image)
        if data is None:
            data = image.encode()
        assert data != good, name
        write_sparse(os.path.join(options.output, name + ".gguf"), data)
        lines.append(f"{name}.gguf\t{error}\t{contains}\n")
    with open(manifest + ".part", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(manifest + ".part", manifest)


if __name__ == "__main__":
    main()
