#!/usr/bin/env python3
"""Makes a small random GGUF model for tests; the same arguments give the same bytes.

    make_tiny_gguf.py --arch qwen3 --type Q4_0 out.gguf
    make_tiny_gguf.py --set DIR        # tiny.gguf, tiny-ARCH.gguf, tiny-TYPE.gguf and variants

What the weights are scaled for:
  * logits have a standard deviation of about 4, so the best token usually leads the second by 1
    or more and greedy decoding is no coin flip. A lead below 0.01 comes about once in 60 tokens:
    comparisons between different implementations must allow for that;
  * attention scores have a standard deviation of about 2, so every layer attends selectively and
    a wrong or misplaced key shows in the answer;
  * a layer adds more to the residual stream than the token embedding carries, so that the model
    does not repeat its last token although the output matrix is tied to the embedding;
  * readable tokens have larger output rows than raw bytes and control tokens, so generated text
    is mostly ASCII; the end token is as likely as a readable one.
"""
import argparse
import math
import os
import sys

import gguf
import numpy as np

import kquants
import tiny_vocabulary

ARCHITECTURES = ["llama", "qwen2", "qwen3", "gemma3"]
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")

# Turns in the manner of Gemma: no system role of its own, its text opens the first user turn.
TURN_TEMPLATE = (
    "{{ bos_token }}{% set ns = namespace(lead='') %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{% set ns.lead = message['content'] + '\\n\\n' %}"
    "{% else %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\\n' }}"
    "{{ ns.lead + message['content'] | trim }}{% set ns.lead = '' %}{{ '<end_of_turn>\\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}")


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", help="file to write")
    parser.add_argument("--set", metavar="DIR", help="write the whole set of test models")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--type", choices=TYPES, default="F32", help="of all matrices")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--layers", type=int, help="default 3; 6 for gemma3 (one global layer)")
    parser.add_argument("--dim", type=int, help="default 64, 256 for K-quants")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--head-dim", type=int, help="default dim / heads")
    parser.add_argument("--feed-forward", type=int, metavar="N", help="default 2 x dim")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--no-template", action="store_true")
    parser.add_argument("--template", metavar="FILE")
    parser.add_argument("--rope-scaling", choices=["linear", "yarn", "llama3"])
    parser.add_argument("--partial-rotary", type=int, metavar="N", help="rotated dims per head")
    parser.add_argument("--sliding-window", type=int, metavar="N", help="default 32 for gemma3")
    parser.add_argument("--vocab-pad", type=int, metavar="N", help="unused tokens up to N")
    parser.add_argument("--nan", choices=["all", "token"],
                        help="all: every logit is NaN; token: only in prompts that hold a `~`")
    parser.add_argument("--untied", action="store_true", help="an output matrix of its own")
    options = parser.parse_args(arguments)
    if (options.output is None) == (options.set is None):
        parser.error("give either an output file or --set DIR")
    return options


class TinyModel:
    """Tensors and metadata of one model. Weight matrices are [rows, K] in numpy order."""

    def __init__(self, options):
        self.options = options
        self.arch = options.arch
        self.random = np.random.RandomState(options.seed)  # its stream is frozen by NumPy
        k_quant = options.type.endswith("_K")
        self.dim = options.dim or (256 if k_quant else 64)
        self.layers = options.layers or (6 if self.arch == "gemma3" else 3)
        self.head_dim = options.head_dim or self.dim // options.heads
        self.feed_forward = options.feed_forward or 2 * self.dim
        self.rotary = options.partial_rotary or self.head_dim
        self.rope_base = 1e6 if self.arch == "gemma3" else 1e4
        if self.arch == "gemma3":
            self.vocabulary = tiny_vocabulary.sentence_piece_vocabulary()
        else:
            self.vocabulary = tiny_vocabulary.byte_pair_vocabulary(
                "smollm" if self.arch == "llama" else "qwen2")
        if options.vocab_pad:
            self.vocabulary.pad_to(options.vocab_pad)

    def matrix(self, rows, columns, gain):
        """Unit-rms input gives outputs with standard deviation `gain`."""
        return (self.random.standard_normal((rows, columns)) * gain / math.sqrt(columns)).astype(
            np.float32)

    def norm(self, count, level=1.0):
        return (level * (1.0 + 0.1 * self.random.standard_normal(count))).astype(np.float32)

    def output_rows(self):
        """Token embedding or output matrix: readable tokens (and the end) get full-size rows."""
        vocabulary = self.vocabulary
        rows = self.matrix(len(vocabulary.tokens), self.dim, 4.0)
        end = vocabulary.ids.get("eot", vocabulary.ids["eos"])
        keep = np.array([i == end or vocabulary.is_plain(i) for i in range(len(rows))])
        rows[~keep] *= 0.3
        return rows

    def tensors(self):
        """Yields (name, float32 array, quantize)."""
        options = self.options
        embedding = self.output_rows()
        if options.nan == "token":
            embedding[self.vocabulary.tokens.index("~")] = np.nan
        yield "token_embd.weight", embedding, True
        # Size of the residual stream that the embedding starts: its rows have rms 4/sqrt(dim),
        # and Gemma multiplies them by sqrt(dim).
        stream = 4.0 if self.arch == "gemma3" else 4.0 / math.sqrt(self.dim)
        for layer in range(self.layers):
            yield from self.layer_tensors(f"blk.{layer}.", 2.5 * stream)
        output_norm = self.norm(self.dim)
        if options.nan == "all":
            output_norm[0] = np.nan
        yield "output_norm.weight", output_norm, False
        if options.untied or options.nan == "token":
            yield "output.weight", self.output_rows(), True
        if options.rope_scaling == "llama3":
            yield "rope_freqs.weight", self.llama3_factors(), False

    def layer_tensors(self, prefix, added):
        """`added`: rms of what attention and feed-forward each add to the stream."""
        options, gemma = self.options, self.arch == "gemma3"
        query_dim, kv_dim = options.heads * self.head_dim, options.kv_heads * self.head_dim
        normed_heads = self.arch in ("qwen3", "gemma3")
        # With QK norms a head's rms is the norm's weight; either way scores have a deviation near 2.
        sharpness = math.sqrt(2.0)
        yield prefix + "attn_norm.weight", self.norm(self.dim), False
        yield prefix + "attn_q.weight", self.matrix(query_dim, self.dim, sharpness), True
        yield prefix + "attn_k.weight", self.matrix(kv_dim, self.dim, sharpness), True
        yield prefix + "attn_v.weight", self.matrix(kv_dim, self.dim, 1.5), True
        if self.arch == "qwen2":
            for side, rows in (("q", query_dim), ("k", kv_dim), ("v", kv_dim)):
                bias = (0.3 * self.random.standard_normal(rows)).astype(np.float32)
                yield f"{prefix}attn_{side}.bias", bias, False
        if normed_heads:
            yield prefix + "attn_q_norm.weight", self.norm(self.head_dim, sharpness), False
            yield prefix + "attn_k_norm.weight", self.norm(self.head_dim, sharpness), False
        yield (prefix + "attn_output.weight",
               self.matrix(self.dim, query_dim, 1.0 if gemma else added), True)
        if gemma:  # the post norms set the size of what is added
            yield prefix + "post_attention_norm.weight", self.norm(self.dim, added), False
            yield prefix + "post_ffw_norm.weight", self.norm(self.dim, added), False
        yield prefix + "ffn_norm.weight", self.norm(self.dim), False
        yield prefix + "ffn_gate.weight", self.matrix(self.feed_forward, self.dim, 1.5), True
        yield prefix + "ffn_up.weight", self.matrix(self.feed_forward, self.dim, 1.5), True
        yield (prefix + "ffn_down.weight",
               self.matrix(self.dim, self.feed_forward, 1.0 if gemma else added), True)

    def llama3_factors(self):
        """Divisors per frequency as Llama 3.1 defines them: factor 8, low 1, high 4."""
        factor, low, high = 8.0, 1.0, 4.0
        original = self.options.context / 8
        frequency = self.rope_base ** -(np.arange(0, self.rotary, 2) / self.rotary)
        turns = original * frequency / (2 * math.pi)
        smooth = ((turns - low) / (high - low)).clip(0.0, 1.0)
        return (1.0 / ((1 - smooth) / factor + smooth)).astype(np.float32)

    def write(self, path):
        writer = gguf.GGUFWriter(path, self.arch)
        self.write_shape(writer)
        self.write_vocabulary(writer)
        for name, values, quantized in self.tensors():
            self.write_tensor(writer, name, values, quantized)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def write_tensor(self, writer, name, values, quantized):
        kind = self.options.type if quantized else "F32"
        raw_type = gguf.GGMLQuantizationType[kind]
        if kind in kquants.QUANTIZERS:
            values = kquants.QUANTIZERS[kind](values)
        elif kind == "F16":
            values = values.astype(np.float16)
        elif kind != "F32":
            values = gguf.quants.quantize(values, raw_type)
        writer.add_tensor(name, values, raw_dtype=raw_type)

    def write_shape(self, writer):
        options, arch = self.options, self.arch
        writer.add_name(f"tiny random {arch} {options.type}")
        writer.add_file_type(int(gguf.LlamaFileType[
            "ALL_F32" if options.type == "F32" else
            f"MOSTLY_{options.type}" + ("_M" if options.type in ("Q4_K", "Q5_K") else "")]))
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        writer.add_uint32(f"{arch}.context_length", options.context)
        writer.add_uint32(f"{arch}.embedding_length", self.dim)
        writer.add_uint32(f"{arch}.block_count", self.layers)
        writer.add_uint32(f"{arch}.feed_forward_length", self.feed_forward)
        writer.add_uint32(f"{arch}.attention.head_count", options.heads)
        writer.add_uint32(f"{arch}.attention.head_count_kv", options.kv_heads)
        writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-6)
        writer.add_float32(f"{arch}.rope.freq_base", self.rope_base)
        if arch in ("qwen3", "gemma3") or options.head_dim:
            writer.add_uint32(f"{arch}.attention.key_length", self.head_dim)
            writer.add_uint32(f"{arch}.attention.value_length", self.head_dim)
        if arch == "llama" or options.partial_rotary:
            writer.add_uint32(f"{arch}.rope.dimension_count", self.rotary)
        if arch == "llama":
            writer.add_uint32("llama.vocab_size", len(self.vocabulary.tokens))
        window = options.sliding_window or (32 if arch == "gemma3" else None)
        if window:
            writer.add_uint32(f"{arch}.attention.sliding_window", window)
        if options.rope_scaling in ("linear", "yarn"):
            writer.add_string(f"{arch}.rope.scaling.type", options.rope_scaling)
            writer.add_float32(f"{arch}.rope.scaling.factor", 4.0)
        if options.rope_scaling == "yarn":
            writer.add_uint32(f"{arch}.rope.scaling.original_context_length", options.context // 4)

    def write_vocabulary(self, writer):
        vocabulary = self.vocabulary
        writer.add_tokenizer_model(vocabulary.model)
        writer.add_tokenizer_pre(vocabulary.pre)
        writer.add_token_list(vocabulary.tokens)
        if vocabulary.scores is not None:
            writer.add_token_scores(vocabulary.scores)
        writer.add_token_types(vocabulary.types)
        if vocabulary.merges is not None:
            writer.add_token_merges(vocabulary.merges)
        for role, index in vocabulary.ids.items():
            writer.add_uint32(f"tokenizer.ggml.{role}_token_id", index)
        writer.add_add_bos_token(vocabulary.add_bos)
        writer.add_add_space_prefix(vocabulary.add_space_prefix)
        if self.options.template:
            with open(self.options.template, encoding="utf-8") as file:
                writer.add_chat_template(file.read())
        elif not self.options.no_template:
            writer.add_chat_template(TURN_TEMPLATE if self.arch == "gemma3" else CHATML_TEMPLATE)


# What `--set` writes: file name -> arguments.
def model_set():
    models = {"tiny": []}
    models.update({f"tiny-{arch}": ["--arch", arch] for arch in ARCHITECTURES})
    models.update({f"tiny-{kind}": ["--type", kind] for kind in TYPES})
    models.update({
        "tiny-linear": ["--rope-scaling", "linear"],
        "tiny-yarn": ["--arch", "qwen2", "--rope-scaling", "yarn"],
        "tiny-llama3": ["--rope-scaling", "llama3"],
        "tiny-partial": ["--partial-rotary", "8"],
        "tiny-head80": ["--head-dim", "80", "--arch", "qwen3"],
        "tiny-untied": ["--untied"],
        "tiny-mha": ["--kv-heads", "4"],
        "tiny-mqa": ["--kv-heads", "1"],
        "tiny-no-template": ["--no-template"],
        "tiny-nan": ["--nan", "all"],
        "tiny-nan-token": ["--nan", "token"],
        "tiny-short": ["--context", "128"],
    })
    return models


def write_set(folder):
    """Writes what is missing or older than these scripts, so that a second run costs nothing."""
    os.makedirs(folder, exist_ok=True)
    changed = max(os.path.getmtime(module.__file__)
                  for module in (kquants, tiny_vocabulary, sys.modules[__name__]))
    for name, arguments in model_set().items():
        path = os.path.join(folder, name + ".gguf")
        if os.path.exists(path) and os.path.getmtime(path) > changed:
            continue
        part = f"{path}.{os.getpid()}.part"
        TinyModel(parse_arguments([*arguments, part])).write(part)
        os.replace(part, path)  # never a half-written model under its final name


def main():
    options = parse_arguments()
    if options.set:
        write_set(options.set)
    else:
        TinyModel(options).write(options.output)


if __name__ == "__main__":
    main()
