"""Vocabularies of the tiny test models: byte-level BPE and SentencePiece-style, both learnt from
the sample text below, so that ordinary English, code and a little of other scripts tokenise into
pieces instead of single bytes."""
import collections
import dataclasses
import re

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

SAMPLE = """
The harbour was quiet when the first boat came in. A man on the pier asked where the others were,
and the woman at the wheel said that they had stayed out for another hour because the water was calm.
What is the capital of France? The capital of France is Paris. What is the answer to the question?
You are a helpful assistant. Answer the question of the user with the text that is given below.
system user assistant tool model message content role name time date place number order status
The order was sent on Monday; the status of the order is open. Check the status of order 789.
one two three four five six seven eight nine ten 0 1 2 3 4 5 6 7 8 9 10 11 12 100 2026
int main(int argc, char** argv) { return argc > 1 ? 0 : 1; }   // a comment
for (size_t i = 0; i < count; ++i) { total += values[i]; }
def read_file(path):
    with open(path) as file:
        return file.read()
{"name": "value", "list": [1, 2, 3], "ok": true, "none": null}
She wrote the letter again, and again it came back. There is more than one way to read this story.
In the morning they walked along the river; in the evening they talked about the things they had seen.
"""
OTHER_SCRIPTS = "äöüßéèàñçø ЖдиТеперь 漢字仮名 こんにちは 안녕 مرحبا 😀👍"


@dataclasses.dataclass
class TinyVocabulary:
    model: str                    # tokenizer.ggml.model
    pre: str
    tokens: list
    types: list
    scores: list = None
    merges: list = None
    ids: dict = dataclasses.field(default_factory=dict)   # bos, eos, eot, unknown, padding
    add_bos: bool = False
    add_space_prefix: bool = False

    def pad_to(self, count):
        while len(self.tokens) < count:
            self.tokens.append(f"[UNUSED{len(self.tokens)}]")
            self.types.append(UNUSED)
            if self.scores is not None:
                self.scores.append(-1e6)

    def is_plain(self, index):
        """Whether the token is readable ASCII text on its own."""
        text = self.tokens[index].replace("Ġ", " ").replace("Ċ", "\n").replace("▁", " ")
        return self.types[index] == NORMAL and text.isascii()


def byte_symbols():
    """Byte -> printable character, the table of GPT-2: printable Latin-1 bytes stand for
    themselves, the other 68 are numbered from U+0100 in byte order."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in keep}
    others = [byte for byte in range(256) if byte not in table]
    table.update({byte: chr(0x100 + i) for i, byte in enumerate(others)})
    return table


def learn_merges(words, count):
    """Pairs in merge order from a Counter of symbol tuples. Ties go to the smaller pair, so the
    result does not depend on dictionary order."""
    words = dict(words)
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for symbols, times in words.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += times
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {_apply(symbols, best): times for symbols, times in words.items()}
    return merges


def _apply(symbols, pair):
    out = []
    i = 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return tuple(out)


def byte_pair_vocabulary(pre, merge_count=320):
    table = byte_symbols()
    chunks = re.findall(r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s+", SAMPLE)
    words = collections.Counter(tuple(table[b] for b in chunk.encode()) for chunk in chunks)
    merges = learn_merges(words, merge_count)
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = control + [table[byte] for byte in range(256)] + ["".join(pair) for pair in merges]
    tokens = list(dict.fromkeys(tokens))
    return TinyVocabulary(
        model="gpt2", pre=pre, tokens=tokens,
        types=[CONTROL] * len(control) + [NORMAL] * (len(tokens) - len(control)),
        merges=[" ".join(pair) for pair in merges],
        ids={"bos": 1, "eos": 2, "unknown": 0, "padding": 2})


def sentence_piece_vocabulary(merge_count=320):
    text = SAMPLE.replace(" ", "▁")
    words = collections.Counter(tuple(word) for word in re.findall(r"▁?[^▁\n]+|\n", text))
    merges = learn_merges(words, merge_count)
    pieces = ["".join(pair) for pair in merges] + ["▁▁", "▁▁▁▁", "\n\n"]
    characters = sorted(set(text) | set(map(chr, range(0x20, 0x7F))) - {" "})
    characters += [c for c in dict.fromkeys(OTHER_SCRIPTS.replace(" ", "")) if c not in characters]
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [CONTROL, CONTROL, CONTROL, UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    scores = [0.0] * len(tokens)
    seen = set(tokens)
    for piece in pieces + characters:  # merge order, then single characters
        if piece in seen:
            continue
        seen.add(piece)
        scores.append(-float(len(tokens)))
        tokens.append(piece)
        types.append(NORMAL)
    return TinyVocabulary(
        model="llama", pre="default", tokens=tokens, types=types, scores=scores,
        ids={"bos": 2, "eos": 1, "eot": 5, "unknown": 3, "padding": 0}, add_bos=True)
