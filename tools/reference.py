#!/usr/bin/env python3
"""Reference implementation of the supported models in NumPy: what the server's logits are compared
with. Reads the same GGUF file, dequantizes to FP32, has no KV cache, and recomputes everything for
every call. Written from the papers, independent of ggml's operators and of our own:

  Llama (Touvron et al. 2023), Qwen2 and Qwen3 (Qwen team 2024, 2025), Gemma 3 (Gemma team 2025),
  rotary embedding (Su et al. 2021), YaRN (Peng et al. 2023, and its authors' published code).

    reference.py logits MODEL.gguf --tokens 1,2,3 [--last 1] [--output FILE.npy]
    reference.py perplexity MODEL.gguf --tokens-file FILE [--window 512]

A tokens file holds token ids separated by white space or commas. Output is JSON.
"""
import argparse
import json
import math
import sys

import gguf
import numpy as np

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")


class GgufModel:
    """Metadata and tensors of a file. Matrices are [out, in]; dequantized on use, then kept."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        self.kept = {}
        self.architecture = self.value("general.architecture")
        if self.architecture not in ARCHITECTURES:
            raise SystemExit(f"error: architecture `{self.architecture}` is not one of {ARCHITECTURES}")

    def value(self, key, default=None):
        """A metadata value; keys that begin with a dot belong to the architecture."""
        field = self.reader.get_field(self.architecture + key if key.startswith(".") else key)
        return default if field is None else field.contents()

    def rows(self, name, indices):
        tensor = self.tensors[name]
        return dequantized(tensor.data[indices], tensor.tensor_type)

    def tensor(self, name):
        """The whole tensor in FP32, or None if the file lacks it."""
        if name not in self.tensors:
            return None
        if name not in self.kept:
            tensor = self.tensors[name]
            self.kept[name] = dequantized(tensor.data, tensor.tensor_type)
        return self.kept[name]


def dequantized(data, kind):
    return gguf.quants.dequantize(data, kind).astype(np.float32, copy=False)


def rms_norm(x, weight, epsilon):
    mean_square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    return (x / np.sqrt(mean_square + epsilon)).astype(np.float32) * weight


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


class Rotary:
    """Rotates pairs of a head's first `dimensions` values by position * frequency."""

    def __init__(self, dimensions, base, interleaved, scaling="none", factor=1.0, original=0,
                 divisors=None, beta_fast=32.0, beta_slow=1.0, magnitude=1.0):
        pairs = np.arange(dimensions // 2, dtype=np.float64)
        frequency = base ** (-2.0 * pairs / dimensions)
        self.magnitude = 1.0
        if scaling == "linear":
            frequency = frequency / factor
        elif scaling == "yarn":
            # Pairs that turn more than beta_fast times over the original context keep their
            # frequency, those that turn less than beta_slow times are interpolated.
            def pair_with(turns):
                return dimensions * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
            low = max(math.floor(pair_with(beta_fast)), 0)
            high = min(math.ceil(pair_with(beta_slow)), dimensions - 1)
            ramp = ((pairs - low) / max(high - low, 0.001)).clip(0, 1)
            frequency = frequency * (1 - ramp) + frequency / factor * ramp
            self.magnitude = magnitude * (0.1 * math.log(factor) + 1.0)
        if divisors is not None:
            frequency = frequency / divisors[:dimensions // 2]
        self.dimensions, self.frequency, self.interleaved = dimensions, frequency, interleaved

    def __call__(self, heads):
        """heads: [positions, heads, head_dim], positions from 0."""
        angle = np.arange(heads.shape[0])[:, None] * self.frequency
        cosine = (np.cos(angle) * self.magnitude).astype(np.float32)[:, None, :]
        sine = (np.sin(angle) * self.magnitude).astype(np.float32)[:, None, :]
        half = self.dimensions // 2
        if self.interleaved:
            first, second = slice(0, self.dimensions, 2), slice(1, self.dimensions, 2)
        else:
            first, second = slice(0, half), slice(half, self.dimensions)
        result = heads.copy()
        a, b = heads[..., first], heads[..., second]
        result[..., first] = a * cosine - b * sine
        result[..., second] = a * sine + b * cosine
        return result


def attention(query, key, value, scale, window):
    """[positions, heads, dim] each; causal; a position sees the last `window` keys (0: all)."""
    count, heads, _ = query.shape
    group = heads // key.shape[1]
    output = np.empty((count, heads, value.shape[2]), np.float32)
    distance = np.arange(count)[:, None] - np.arange(count)[None, :]
    hidden = distance < 0
    if window:
        hidden |= distance >= window
    for head in range(heads):
        scores = query[:, head] @ key[:, head // group].T * np.float32(scale)
        scores[hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        output[:, head] = weights @ value[:, head // group]
    return output


class Reference:
    def __init__(self, path):
        self.model = model = GgufModel(path)
        self.architecture = model.architecture
        self.gemma = self.architecture == "gemma3"
        self.layers = model.value(".block_count")
        self.dim = model.value(".embedding_length")
        self.heads = model.value(".attention.head_count")
        self.kv_heads = model.value(".attention.head_count_kv", self.heads)
        self.key_dim = model.value(".attention.key_length", self.dim // self.heads)
        self.value_dim = model.value(".attention.value_length", self.dim // self.heads)
        self.epsilon = model.value(".attention.layer_norm_rms_epsilon", 1e-5)
        self.window = model.value(".attention.sliding_window", 0)
        self.scale = 1.0 / math.sqrt(self.key_dim)
        self.vocabulary_size = len(model.tensors["token_embd.weight"].data)
        self.output_name = "output.weight" if "output.weight" in model.tensors else "token_embd.weight"
        self.rotary, self.local_rotary = self.make_rotary()

    def make_rotary(self):
        value = self.model.value
        dimensions = value(".rope.dimension_count", self.key_dim)
        base = value(".rope.freq_base", 10000.0)
        interleaved = self.architecture == "llama"
        scaling = value(".rope.scaling.type", "none")
        factor = value(".rope.scaling.factor", 1.0)
        original = value(".rope.scaling.original_context_length", value(".context_length"))
        rotary = Rotary(dimensions, base, interleaved, scaling, factor, original,
                        self.model.tensor("rope_freqs.weight"),
                        magnitude=value(".rope.scaling.attn_factor", 1.0))
        return rotary, Rotary(dimensions, 10000.0, interleaved) if self.gemma else rotary

    def is_local(self, layer):
        """Gemma 3: five local layers, then a global one. Elsewhere a window is for every layer."""
        return (layer + 1) % 6 != 0 if self.gemma else True

    def attend(self, x, layer):
        tensor = lambda role: self.model.tensor(f"blk.{layer}.{role}")
        count = len(x)

        def heads_of(side, head_count, head_dim):
            y = x @ tensor(f"attn_{side}.weight").T
            bias = tensor(f"attn_{side}.bias")
            if bias is not None:
                y = y + bias
            y = y.reshape(count, head_count, head_dim)
            norm = tensor(f"attn_{side}_norm.weight")
            return y if norm is None else rms_norm(y, norm, self.epsilon)

        local = self.is_local(layer)
        rotary = self.local_rotary if local and self.gemma else self.rotary
        query = rotary(heads_of("q", self.heads, self.key_dim))
        key = rotary(heads_of("k", self.kv_heads, self.key_dim))
        value = heads_of("v", self.kv_heads, self.value_dim)
        mixed = attention(query, key, value, self.scale, self.window if local else 0)
        return mixed.reshape(count, -1) @ tensor("attn_output.weight").T

    def feed_forward(self, x, layer):
        tensor = lambda role: self.model.tensor(f"blk.{layer}.{role}")
        activate = gelu if self.gemma else silu
        inner = activate(x @ tensor("ffn_gate.weight").T) * (x @ tensor("ffn_up.weight").T)
        return inner @ tensor("ffn_down.weight").T

    def hidden(self, tokens):
        """Final hidden states after the output norm, [tokens, dim]."""
        norm = lambda x, name: rms_norm(x, self.model.tensor(name), self.epsilon)
        x = self.model.rows("token_embd.weight", np.asarray(tokens))
        if self.gemma:
            x = x * np.float32(math.sqrt(self.dim))
        for layer in range(self.layers):
            prefix = f"blk.{layer}."
            attended = self.attend(norm(x, prefix + "attn_norm.weight"), layer)
            if self.gemma:
                attended = norm(attended, prefix + "post_attention_norm.weight")
            x = x + attended
            fed = self.feed_forward(norm(x, prefix + "ffn_norm.weight"), layer)
            if self.gemma:
                fed = norm(fed, prefix + "post_ffw_norm.weight")
            x = x + fed
        return norm(x, "output_norm.weight")

    def logits(self, tokens, last=None):
        """[rows, vocabulary] for all tokens, or for the last `last` of them."""
        hidden = self.hidden(tokens)
        if last is not None:
            hidden = hidden[-last:]
        step = 16384  # vocabularies are large: dequantize a part at a time
        parts = [hidden @ self.model.rows(self.output_name, slice(i, i + step)).T
                 for i in range(0, self.vocabulary_size, step)]
        logits = np.concatenate(parts, axis=1)
        cap = self.model.value(".final_logit_softcapping", 0.0)
        return np.float32(cap) * np.tanh(logits / np.float32(cap)) if cap else logits

    def perplexity(self, tokens, window=512, begin=()):
        """exp of the mean negative log-likelihood of `tokens`, read in pieces that each follow the
        tokens of `begin` and nothing else; of a piece without `begin` the first token is not
        scored. Returns it with the number of tokens scored."""
        total, scored = 0.0, 0
        for piece in self.windows(tokens, window, begin):
            context = max(len(begin), 1)
            logits = self.logits(piece)
            for row, target in zip(logits[context - 1:], piece[context:]):
                wide = row.astype(np.float64)
                total += float(wide.max() + np.log(np.exp(wide - wide.max()).sum()) - wide[target])
                scored += 1
        return math.exp(total / scored), scored

    @staticmethod
    def windows(tokens, window=512, begin=()):
        step = window - len(begin)
        pieces = [[*begin, *tokens[i:i + step]] for i in range(0, len(tokens), step)]
        return [piece for piece in pieces if len(piece) > 1]


def read_tokens(text):
    return [int(word) for word in text.replace(",", " ").split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["logits", "perplexity"])
    parser.add_argument("model")
    parser.add_argument("--tokens", help="token ids, separated by commas")
    parser.add_argument("--tokens-file")
    parser.add_argument("--last", type=int, help="logits of the last rows only")
    parser.add_argument("--output", help="write all logits to this .npy file")
    parser.add_argument("--window", type=int, default=512, help="tokens per perplexity window")
    options = parser.parse_args()
    if (options.tokens is None) == (options.tokens_file is None):
        parser.error("give --tokens or --tokens-file")
    if options.tokens is not None:
        tokens = read_tokens(options.tokens)
    else:
        with open(options.tokens_file, encoding="utf-8") as file:
            tokens = read_tokens(file.read())
    reference = Reference(options.model)
    if options.what == "perplexity":
        value, scored = reference.perplexity(tokens, options.window)
        json.dump({"perplexity": value, "scored_tokens": scored}, sys.stdout)
    else:
        logits = reference.logits(tokens, options.last)
        if options.output:
            np.save(options.output, logits)
        best = logits.argmax(axis=1)
        json.dump({"rows": len(logits), "top": best.tolist(),
                   "top_logits": logits.max(axis=1).tolist()}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
