"""The traffic of the soak: every kind of request there is, in a random but repeatable order, and
for each what its answer must look like.

A `Visit` is one client: what it sends, when it goes away (if it does), and how to judge what it got.
"""
import dataclasses
import json
import random

import texts

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
TENANTS = ["red", "blue", "green"]
STATUS_BUSY = 429

COLOURS = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]},
                                            "count": {"type": "integer", "minimum": 1, "maximum": 9}},
           "required": ["colour", "count"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "paint", "parameters": COLOURS}}


class Wrong(Exception):
    """An answer is not what its request asked for."""


def must(condition, what, reply):
    if not condition:
        raise Wrong(f"{what}\nstatus {reply.status}, finish {reply.finish!r}, usage {reply.usage}\n"
                    f"{reply.body[:800]!r}")


@dataclasses.dataclass
class Leaving:
    """When a client goes away: right after sending, some seconds later, or after some events."""
    after_s: float = 0.0
    after_events: int = 0
    reset: bool = True  # a killed client; else it closes as one that lost interest


@dataclasses.dataclass
class Visit:
    kind: str
    path: str
    body: object
    tenant: str
    judge: object  # function(reply), raises Wrong
    leaving: Leaving = None


# ---- judges

def judge_refusal(status, param):
    def judge(reply):
        must(reply.status == status and reply.error and reply.error["message"], f"no {status}", reply)
        must(param is None or (reply.error["param"] or "").startswith(param), f"not `{param}`", reply)
    return judge


def judge_answer(body, more=lambda reply: None):
    count = body.get("n", 1)

    def judge(reply):
        must(reply.status == 200, "no 200", reply)
        must(reply.streamed == bool(body.get("stream")), "streamed or not", reply)
        must(not reply.streamed or reply.done, "the stream has no [DONE]", reply)
        for index in range(count):
            choice = reply.choice(index)
            must(choice and choice["finish_reason"] in ("stop", "length", "tool_calls"),
                 f"choice {index} did not finish", reply)
            for stop in body.get("stop", []):
                must(stop not in (reply.text_of(index) or ""), "a stop string got out", reply)
        usage = reply.usage
        must(usage and usage["prompt_tokens"] > 0, "no usage", reply)
        must(usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"],
             "more cached than sent", reply)
        must(usage["completion_tokens"] <= count * body["max_tokens"], "too many tokens", reply)
        more(reply)
    return judge


def judge_or_no_room(judge):
    """Of a chat whose system turn, which always stays, may be longer than the context that it asked to keep."""
    def judge_either(reply):
        if reply.status == 400:
            must(reply.error["param"] == "context.budget_tokens" and "system turn" in reply.error["message"],
                 "refused for another reason than its system turn", reply)
        else:
            judge(reply)
    return judge_either


def judge_json(reply):
    if reply.finish == "stop":
        must(texts.is_json(reply.text) and json.loads(reply.text)["colour"] in ("red", "blue"),
             "not of the schema", reply)


def judge_call(reply):
    must(not reply.text, "content beside a forced call", reply)
    if reply.finish == "tool_calls":
        call = reply.tool_calls[0]
        must(call["name"] == "paint" and json.loads(call["arguments"])["count"] in range(1, 10),
             "not a call of the tool", reply)


def judge_chat_logprobs(reply):
    items = (reply.logprobs or {}).get("content", [])  # a stream without text has none
    must(bool(items) or not reply.text, "no logprobs", reply)
    must(all(item["logprob"] <= 0 and len(item["top_logprobs"]) == 3 for item in items),
         "logprobs", reply)


def judge_echo(prompt):
    def judge(reply):
        must(reply.text.startswith(prompt), "no echo", reply)
        logprobs = reply.logprobs
        must(logprobs["token_logprobs"][0] is None, "the first token has a logprob", reply)
        must(len(logprobs["tokens"]) == len(logprobs["text_offset"]), "logprobs", reply)
    return judge


# ---- traffic

class Traffic:
    """Makes visits. `probes` are [(path, body, text)]: greedy requests whose text must never change."""

    def __init__(self, seed, probes, reuse_modes=(), contexts=(), chat_contexts=()):
        self.random = random.Random(seed)
        # What requests may ask for as `reuse` and `context`, chats more than others; none: they leave it to the server.
        self.reuse_modes = reuse_modes
        self.contexts, self.chat_contexts = list(contexts), list(chat_contexts)
        self.probes = probes
        self.number = 0
        self.heads = [texts.lorem(140, seed=i) for i in range(6)]
        self.kinds = [self.chat] * 5 + [self.completion] * 5 + [self.several] * 2 + [
            self.stop, self.schema, self.call, self.chat_logprobs, self.echo, self.prompts,
            self.embedding, self.refused, self.refused, self.probe, self.probe]

    def visit(self):
        self.number += 1
        made = self.random.choice(self.kinds)()
        if self.reuse_modes and made.kind not in ("refused", "probe", "embedding"):
            made.body["reuse"] = self.random.choice(self.reuse_modes)
            context = self.random.choice(self.contexts + (self.chat_contexts if made.path == CHAT else []))
            if context is not None:
                made.body["context"] = context
            if made.path == CHAT and (made.body["messages"][0]["role"] == "system" or "tools" in made.body):
                made.judge = judge_or_no_room(made.judge)
        made.tenant = self.random.choice(TENANTS)
        if made.kind != "refused" and self.random.random() < 0.36:
            made.leaving = self.leaving(made.body)
        return made

    def leaving(self, body):
        moment = self.random.random()
        reset = self.random.random() < 0.7
        if moment < 0.2:
            return Leaving(reset=reset)
        if moment < 0.6 or not body.get("stream"):
            return Leaving(after_s=self.random.expovariate(1 / 0.04), reset=reset)
        return Leaving(after_events=self.random.randrange(1, 8), reset=reset)

    def text(self):
        """A prompt: half of them begin like others, half like none; where moved text counts, many hold two known
        passages at places of their own."""
        tail = texts.lorem(self.random.randrange(2, 60), seed=self.number)
        if self.reuse_modes and self.random.random() < 0.5:
            return " ".join([f"{self.number}", *(head[:350] for head in self.random.sample(self.heads, 2)), tail])
        if self.random.random() < 0.5:
            head = self.random.choice(self.heads)
            return head[:self.random.randrange(40, len(head))] + " " + tail
        return f"{self.number} {tail} {texts.lorem(self.random.randrange(1, 120), seed=-self.number)}"

    def messages(self):
        made = texts.user(self.text(), self.heads[0][:200] if self.random.random() < 0.3 else None)
        if self.random.random() < 0.3:
            made += [{"role": "assistant", "content": "Well."}, {"role": "user", "content": "go on"}]
        return made

    def common(self, most=24):
        body = {"max_tokens": self.random.randrange(0, most), "seed": self.random.randrange(1000),
                "temperature": self.random.choice([0, 0.7, 1.2])}
        if self.random.random() < 0.3:
            body["ignore_eos"] = True
        if self.random.random() < 0.5:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def chat(self):
        body = {"messages": self.messages(), **self.common()}
        return Visit("chat", CHAT, body, "", judge_answer(body))

    def completion(self):
        body = {"prompt": self.text(), **self.common(40)}
        return Visit("completion", TEXT, body, "", judge_answer(body))

    def several(self):
        body = {"messages": self.messages(), **self.common(12), "n": self.random.randrange(2, 5)}
        return Visit("several", CHAT, body, "", judge_answer(body))

    def stop(self):
        body = {"prompt": self.text(), **self.common(40), "ignore_eos": True,
                "stop": self.random.sample(["e", "th", " o", "\n", "ing", "zz"], 2)}
        return Visit("stop", TEXT, body, "", judge_answer(body))

    def schema(self):
        body = {"messages": self.messages(), **self.common(), "max_tokens": 60,
                "response_format": {"type": "json_schema",
                                    "json_schema": {"name": "paint", "schema": COLOURS}}}
        body.pop("ignore_eos", None)
        return Visit("schema", CHAT, body, "", judge_answer(body, judge_json))

    def call(self):
        body = {"messages": self.messages(), **self.common(60), "tools": [TOOL],
                "tool_choice": "required", "parallel_tool_calls": False}
        body.pop("ignore_eos", None)
        return Visit("call", CHAT, body, "", judge_answer(body, judge_call))

    def chat_logprobs(self):
        body = {"messages": self.messages(), **self.common(10), "logprobs": True, "top_logprobs": 3}
        body["max_tokens"] += 1
        return Visit("chat logprobs", CHAT, body, "", judge_answer(body, judge_chat_logprobs))

    def echo(self):
        prompt = self.text()
        body = {"prompt": prompt, **self.common(6), "echo": True, "logprobs": 2}
        body.pop("stream", None)
        body.pop("stream_options", None)
        return Visit("echo", TEXT, body, "", judge_answer(body, judge_echo(prompt)))

    def prompts(self):
        """Several prompts in one call, more than the server works on at once."""
        body = {"prompt": [f"{i} {self.number}" for i in range(self.random.randrange(2, 24))],
                **self.common(4)}
        return Visit("prompts", TEXT, body, "", judge_prompts(body))

    def embedding(self):
        def judge(reply):
            must(reply.status == 200 and len(reply.json["data"]) == 2, "no embeddings", reply)
        return Visit("embedding", "/v1/embeddings", {"input": [self.text(), "b"]}, "", judge)

    def probe(self):
        path, body, text = self.random.choice(self.probes)

        def judge(reply):
            must(reply.status == 200 and reply.text == text, f"the answer was {text!r}", reply)
        return Visit("probe", path, body, "", judge)

    def refused(self):
        path, body, status, param = self.random.choice([
            (CHAT, {"messages": []}, 400, "messages"),
            (CHAT, {"messages": texts.user("x"), "temperature": -1}, 400, "temperature"),
            (CHAT, {"messages": texts.user("x"), "model": "other"}, 404, "model"),
            (CHAT, {"messages": texts.user("x"), "tools": [TOOL], "tool_choice": "sometimes"}, 400,
             "tool_choice"),
            (CHAT, {"messages": texts.user("x"), "response_format": {
                "type": "json_schema", "json_schema": {"name": "a", "schema": {"type": 7}}}}, 400,
             "response_format"),
            (TEXT, {"prompt": [1, 2, 10 ** 6]}, 400, "prompt"),
            (TEXT, {"prompt": "x", "logit_bias": {"1000000": 1}}, 400, "logit_bias"),
            (TEXT, {"prompt": texts.lorem(3000)}, 400, "prompt"),
            (TEXT, {"prompt": "x", "n": 1000}, 400, "n"),
            (TEXT, "{\"prompt\": \"cut", 400, None),
            (TEXT, b"\xff\xfe", 400, None),
            ("/v1/nothing", {}, 404, None)])
        return Visit("refused", path, body, "", judge_refusal(status, param))


def judge_prompts(body):
    def judge(reply):
        must(reply.status == 200, "no 200", reply)
        for index in range(len(body["prompt"])):
            choice = reply.choice(index)
            must(choice and choice["finish_reason"], f"choice {index} did not finish", reply)
    return judge
