"""Texts and small makers that cases use in their expressions."""
import json
import math
import random
import re

WORDS = ("river morning letter window garden engine market winter village paper story bridge music "
         "number answer question walked opened found carried wrote asked heard stood quiet small late "
         "green second old the a of and to in with for from under over again because before").split()


def lorem(count, seed=1):
    """About `count` tokens of text, always the same."""
    generator = random.Random(seed)
    words, sentence = [], 0
    for _ in range(max(1, int(count * 0.85))):
        word = generator.choice(WORDS)
        words.append(word.capitalize() if sentence == 0 else word)
        sentence += 1
        if sentence > 5 + generator.randrange(8):
            words[-1] += "."
            sentence = 0
    return " ".join(words)


def noisy(text, seed):
    """The same text as people and programs paste it: blanks doubled, lines broken the other way, full width."""
    generator = random.Random(seed)
    words = []
    for word in text.split(" "):
        if generator.random() < 0.1:
            word = "".join(chr(ord(c) + 0xFEE0) if "!" < c < "~" else c for c in word)
        words.append(word + generator.choice(["", "", "", " ", "  ", "\u3000"]))
    return (" ".join(words).replace("\n", generator.choice(["\n", "\r\n", " \n", "\n\n"]))
            + generator.choice(["", "\n", " "]))


def user(text, system=None):
    """A conversation of one user message, behind a system message if given."""
    head = [{"role": "system", "content": system}] if system else []
    return head + [{"role": "user", "content": text}]


def reuse_cases(count, tokens=100):
    """A file for `refrain calibrate --data`: `count` cases of each kind, documents of about `tokens` tokens."""
    lines = []
    for i in range(count):
        documents = [lorem(tokens, seed=100 * i + k) for k in range(3)]
        lines.append({"system": "Answer.", "documents": documents, "warm_orders": [[2, 0, 1]],
                      "question": f"What is said about number {i}?"})
        # A small change in front of a long tail: else it counts as recombined, whatever it is called.
        head, old, tail = lorem(tokens, 100 * i + 50), lorem(6, 100 * i + 51), lorem(2 * tokens, 100 * i + 52)
        lines.append({"messages": user(f"{head} {old} {tail}"), "edited_messages": user(f"{head} Changed. {tail}")})
    return "\n".join(map(json.dumps, lines))


def is_json(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


def post(body, path="/v1/chat/completions", length=None, **headers):
    """Raw bytes of a POST with any body; `length` may lie."""
    size = len(body) if length is None else length
    head = {"Host": "127.0.0.1", "Connection": "close", "Content-Type": "application/json",
            "Content-Length": str(size), **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = [f"POST {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in head.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def common(left, right):
    """Length of the common beginning."""
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return count


def reports(printed, facts=6):
    """[(name, text)] of the reports that `refrain eval reuse --print-cases` writes, cut to `facts` sentences; the first one
    says when what it is about was opened, the last one by whom it was planned."""
    found = []
    for line in printed.splitlines():
        for document in json.loads(line)["target"][-1]["content"].split("\n\n")[:-1]:
            title, body = document.split("\n", 1)
            sentences = re.split(r"(?<=\.) ", body)
            planned = next(sentence for sentence in sentences if " was planned by " in sentence)
            found.append((title.split(": the ", 1)[1], title + "\n" + " ".join(sentences[:facts - 1] + [planned])))
    return found


def about_reports(found, i, swapped=False):
    """Messages: what two reports say of the first or the second one; two others for each `i`."""
    pair = found[2 * i:2 * i + 2]
    name = pair[i % 2][0]
    text = "\n\n".join(text for _, text in (reversed(pair) if swapped else pair))
    return user(f"{text}\n\nWhen was the {name} opened, and who planned it?",
                system="You answer questions about reports in one or two sentences.")


def report_cases(found, count):
    """A file for `refrain calibrate --data` of such questions: `count` cases of each kind, four reports for each."""
    lines = []
    for i in range(count):
        lines.append({"kind": "recombined", "warm": [about_reports(found, 2 * i, swapped=True)],
                      "target": about_reports(found, 2 * i)})
        asked = about_reports(found, 2 * i + 1)
        text = asked[-1]["content"]
        begin = text.index(". ") + 2
        edited = text[:begin] + "Nobody knows why." + text[text.index(".", begin) + 1:]
        lines.append({"messages": asked, "edited_messages": [asked[0], {"role": "user", "content": edited}]})
    return "\n".join(map(json.dumps, lines))


def divergences(exact, other):
    """KL in nats of two chat answers token by token, as far as both saw the same tokens before. What neither lists among
    its likeliest (`top_logprobs`) counts as one token, so no figure is too high."""
    found = []
    for left, right in zip(exact.logprobs["content"], other.logprobs["content"]):
        chances = [{tuple(item["bytes"] or item["token"]): math.exp(item["logprob"]) for item in row["top_logprobs"]}
                   for row in (left, right)]
        both = chances[0].keys() & chances[1].keys()
        pairs = [(chances[0][token], chances[1][token]) for token in both]
        pairs.append(tuple(max(1e-9, 1 - sum(chance[token] for token in both)) for chance in chances))
        found.append(sum(p * math.log(p / q) for p, q in pairs))
        if left["token"] != right["token"]:
            break
    return found


HELPERS = {"about_reports": about_reports, "common": common, "divergences": divergences, "lorem": lorem, "noisy": noisy, "report_cases": report_cases, "reports": reports, "reuse_cases": reuse_cases, "user": user, "is_json": is_json, "post": post, "dumps": json.dumps,
           "loads": json.loads}
