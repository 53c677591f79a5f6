"""Texts on which tokenizers like to disagree: fixed ones by theme, and seeded random mixtures."""

import random

CODE = [
    "int main(void) {\n\treturn 0;\n}\n",
    "def f(x):\n    if x == 1:\n        return [i**2 for i in range(10)]\n\n\n# end\n",
    "SELECT * FROM t WHERE a>='x''y' AND b<>3.14159; -- comment",
    "<div class=\"a\"><h1>T</h1>\n<br/></div><table><tr><td>1</td></tr></table>",
    "for(;;){i+=1;j<<=2;k>>>=3}//\\\\\r\n#define X(a) a##_b",
    "https://example.org/a/b?c=d&e=%20f#g user@example.org",
    "{\"key\": [1, 2.5e-10, null, true], \"k\\u00e9y\": \"v\"}",
]
LANGUAGES = [
    "The quick brown fox jumps over the lazy dog. It's o'clock; we'll say they've DON'T I'm she'd 'tis",
    "Größe, Straße, façade, naïve, Žluťoučký kůň, Pchnąć w tę łódź jeża, İstanbul'da ığüşöç",
    "Съешь ещё этих мягких французских булок, да выпей чаю. Ελληνικά: Ξεσκεπάζω την ψυχοφθόρα",
    "日本語のテキストです。これはテストです!私は、東京に住んでいます。漢字カタカナひらがな",
    "中文文本，没有空格。简体字和繁體字混合使用。他说：“你好！”",
    "한국어 텍스트입니다. 한글은 아름답다. 각 자모: ㄱㄴㄷ ㅏㅑ",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ กำลังทดสอบ ๑๒๓",
    "العَرَبِيَّةُ لُغَةٌ جَمِيلَةٌ ١٢٣ مُحَمَّد",
    "עִבְרִית שָׁלוֹם हिन्दी में परीक्षण क्षत्रिय १२३ বাংলা தமிழ்",
    "e\u0301 a\u0308o\u0308 Z\u0351\u036b\u0343a\u0321\u0334l\u031fg\u0322o\u0321",
]
EMOJI = [
    "🦙🦙🦙🦙", "👩‍👩‍👧‍👦👨🏽‍🚀 🏳️‍🌈🇩🇪🇯🇵", "I ❤️ NY ☺︎ ✔️ 1️⃣2️⃣#️⃣", "🎉🎊\n🥳 🫠🫶🏿", "\U0001F1E6a\u200db\u200c\ufe0f",
]
BLANKS = [" " * n for n in (1, 2, 3, 4, 8, 16, 31, 32, 33, 50, 100)]
BLANKS += [" " * n + "test" for n in (1, 2, 3, 8, 50)]
BLANKS += ["test" + " " * n for n in (1, 2, 3, 8, 50)]
BLANKS += ["a" + " " * n + "b" for n in (1, 2, 3, 8, 50)]
BLANKS += ["\t" * n + "test" for n in (1, 2, 3, 6, 7, 31, 32, 33)]
BLANKS += ["\n" * n + "test" for n in (1, 2, 3, 6, 31, 32, 33)]
BLANKS += [
    "", "a\r\nb\r\n\r\nc\r", "\r\n \r\n  x", " \n \n \n a", "\n \t\n x", "a \t b", "\t \t \t a", "x\n\n  y\n   z",
    "a\u00a0b \u00a0 c\u00a0", "\u3000\u3000全角\u3000", "\u2028a\u2029b\u0085c", "\u2003\u2009x \u202f y\u205f",
    "\u200b zero \u200b\u200b\ufeff width", "\x0b\x0c \x1c\x1d\x1e\x1f x", "a\xa0 \n\xa0b",
]
ODD = [
    "▁", "▁▁", "a▁b", "▁ ▁", " ▁a ▁▁ b", "Ġ", "Ċ Ġx", "ＡＢ１２ ｆｕｌｌ　ｗｉｄｔｈ！", "a\x00b\x00\x00", "\x00", "\x01\x02\x03\x7f\x80",
    "½ ² ³ ① Ⅷ ⅻ ৴ 一二三 ٣ 1234567890 12 345 6789 1,234,567.89 3²3 12²345",
    "'s 'S 'Ll 'RE 'vE 'ſ '’s x's'll've 'd'x ''' 's' \"'t\"", "!!! ??? ... --- === $$$ +++ <<< ^^^ ~~~ ||| ```",
    "«»“”„‚‘’…—–‐·•§¶©®™°±×÷€£¥₿", "<|im_end|>", "<bos>x<eos>", "<start_of_turn>user\n<end_of_turn>", "[multimodal]",
    "<0x0A> <0xFF> <unk> <s> </s> <pad>", "<unused3> <|endoftext|>", "\U0010ffff\U000e0001\ufffd\ufffe\uffff\ud7ff\ue000",
    "ﬁ ﬂ ﬆ ŉ ǆ ß ẞ K Å Ω", "a" + "\u0301" * 40, "x\u0301\u0302 \u0301 \u0301",
]
RUNS = [c * n for n in (2, 3, 5, 64, 1000)
        for c in ("A", "_", "1", "漢", "=", "-", "e\u0301", "\n", "\t", ".", "!?", "ab", "🦙", "\r\n", "\u0301", "Ａ")]

FIXED = CODE + LANGUAGES + EMOJI + BLANKS + ODD + RUNS

# Parts that random texts are made of; what is joined meets at unusual borders.
PIECES = [" ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u3000", "▁", "\x00", "'", "'s", "'LL",
          "a", "A", "é", "e\u0301", "ß", "Ω", "я", "漢", "字", "の", "한", "ก", "ี", "ع", "َ", "\u0301", "\u200d", "\ufe0f",
          "🦙", "👩", "🏽", "1", "22", "333", "½", "٣", "①", "!", "?", ".", ",", "$", "+", "<", ">", "=", "^", "~", "|", "`", "_",
          "-", "/", "\\", "(", ")", "{", "}", "\"", "#", "€", "—", "“", "the", "The", "ing", "tion", "function", "http", "<h1>",
          "</h1>", "<|im_end|>", "<eos>", "<0x41>", "\u2028", "\u0085", "ſ", "Ｈ", "２", "\u200b", "\ufeff", "\ue000"]


def random_texts(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.random()
        if kind < 0.6:
            yield "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 24)))
        elif kind < 0.8:  # few pieces, many times: runs and their borders
            few = rng.sample(PIECES, 3)
            yield "".join(rng.choice(few) * rng.randint(1, 6) for _ in range(rng.randint(1, 10)))
        else:
            # Letters of many scripts, and what lies between them; assigned long ago, so that
            # different versions of the Unicode tables agree.
            ranges = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea), (0x620, 0x66f),
                      (0x900, 0x970), (0xe00, 0xe5b), (0x1100, 0x11ff), (0x2000, 0x206f), (0x2190, 0x23ff), (0x3040, 0x30ff),
                      (0x4e00, 0x4fff), (0xac00, 0xacff), (0x1f300, 0x1f5ff), (0xff01, 0xff9d)]
            yield "".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 40)))


def texts(seed=20, count=3000):
    """All fixed texts, each also between letters, then `count` random ones."""
    yield from FIXED
    for text in FIXED:
        if len(text) < 200:
            yield "x" + text + "y"
            yield " " + text + " "
    yield from random_texts(seed, count)


def ill_formed():
    """Bytes that are no UTF-8: only the way there and back can be checked."""
    rng = random.Random(7)
    yield from [b"\xff\xfe", b"a\xc0\x80b", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe6\xbc", b"\xf0\x9f\xa6", b" \x80 \x80",
                "漢字".encode("gbk"), "Größe".encode("latin-1"), b"\xf0\x9f\xa6\x99"[:3] + b"x", b"\xc2" * 50, b"\x80" * 50]
    for _ in range(300):
        yield bytes(rng.randrange(256) for _ in range(rng.randint(1, 30)))
