#!/usr/bin/env python3
"""The official `openai` package drives a real server: what its users do works as it is.

    openai_test.py --binary build/release/refrain --models .deps/models --generated build/release/generated
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import struct
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenario"))
import server_process  # noqa: E402
import texts  # noqa: E402

import openai  # noqa: E402

KEY = "client-test-key"
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city",
    "parameters": {"type": "object",
                   "properties": {"unit": {"enum": ["C", "F"]}, "rainy": {"type": "boolean"}},
                   "required": ["unit", "rainy"], "additionalProperties": False}}}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"},
                                           "size": {"enum": ["small", "large"]}},
          "required": ["ok", "size"], "additionalProperties": False}
HELLO = [{"role": "user", "content": "hello there"}]

SERVER = None
CLIENT = None


def metric(name):
    """Value of one counter or gauge without labels, from /metrics."""
    request = urllib.request.Request(f"http://127.0.0.1:{SERVER.port}/metrics",
                                     headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=10) as response:
        for line in response.read().decode().splitlines():
            if line.split(" ")[0] == f"refrain:{name}":
                return float(line.split(" ")[1])
    raise AssertionError(f"no metric {name}")


def wait_until(condition, seconds=10):
    """Polls a condition of another process; False if it never holds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Chat(unittest.TestCase):
    def chat(self, **fields):
        fields = {"model": "tiny", "messages": HELLO, "max_tokens": 12, "temperature": 0} | fields
        return CLIENT.chat.completions.create(**fields)

    def test_answer_has_text_usage_and_identity(self):
        answer = self.chat(extra_body={"ignore_eos": True})
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 12)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 12)
        self.assertIsNotNone(answer.usage.prompt_tokens_details.cached_tokens)

    def test_repeated_prompt_is_reused_and_answers_the_same(self):  # A2
        messages = [{"role": "user", "content": "a sentence that fills some blocks. " * 10}]
        first, second = self.chat(messages=messages), self.chat(messages=messages)
        self.assertEqual(first.choices[0].message.content, second.choices[0].message.content)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens,
                           second.usage.prompt_tokens - 20)

    def test_reuse_is_asked_for_in_extra_body(self):
        for reuse in ("exact", {"mode": "exact"}, {"mode": "repair", "max_divergence": 0.02}):
            answer = self.chat(extra_body={"reuse": reuse})
            *_, last = self.chat(extra_body={"reuse": reuse}, stream=True,
                                 stream_options={"include_usage": True})
            text = CLIENT.completions.create(model="tiny", prompt="hello", max_tokens=2,
                                             extra_body={"reuse": reuse})
            for usage in (answer.usage, last.usage, text.usage):
                told = usage.refrain["provenance"]
                self.assertEqual(set(told), {"exact", "moved", "repaired", "computed"})
                self.assertEqual(sum(told.values()), usage.prompt_tokens)
                self.assertEqual(usage.prompt_tokens_details.cached_tokens,
                                 told["exact"] + told["moved"])

    def test_stream_joins_to_the_whole_answer(self):  # O-17, O-19
        whole = self.chat(extra_body={"ignore_eos": True})
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True},
                                extra_body={"ignore_eos": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(len({(c.id, c.created, c.model) for c in chunks}), 1)
        self.assertEqual([c.usage is not None for c in chunks], [False] * (len(chunks) - 1) + [True])
        self.assertEqual(chunks[-1].usage.completion_tokens, 12)

    def test_stream_without_usage_never_has_empty_choices(self):  # O-19
        self.assertTrue(all(c.choices for c in self.chat(stream=True)))

    def test_several_choices_carry_their_index(self):
        answer = self.chat(n=3, temperature=1.5, seed=5, extra_body={"ignore_eos": True})
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        texts = ["", "", ""]
        for chunk in self.chat(n=3, temperature=1.5, seed=5, stream=True,
                               extra_body={"ignore_eos": True}):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual(texts, [c.message.content for c in answer.choices])

    def test_logprobs_have_one_item_per_token(self):  # O-45
        answer = self.chat(logprobs=True, top_logprobs=3, extra_body={"ignore_eos": True})
        items = answer.choices[0].logprobs.content
        self.assertEqual(len(items), 12)
        for item in items:
            self.assertLessEqual(item.logprob, 0)
            self.assertEqual(len(item.top_logprobs), 3)
            self.assertEqual(max(t.logprob for t in item.top_logprobs), item.logprob)  # greedy
        joined = b"".join(bytes(item.bytes) for item in items).decode("utf-8", "replace")
        self.assertTrue(joined.startswith(answer.choices[0].message.content.rstrip("\ufffd")))
        streamed = [item for c in self.chat(logprobs=True, top_logprobs=3, stream=True,
                                            extra_body={"ignore_eos": True})
                    for item in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
        self.assertEqual([i.token for i in streamed], [i.token for i in items])

    def test_forced_tool_call_is_valid_and_the_same_in_a_stream(self):  # O-22
        choice = {"type": "function", "function": {"name": "get_weather"}}
        answer = self.chat(tools=[WEATHER], tool_choice=choice, max_tokens=200)
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        self.assertIsNone(answer.choices[0].message.content)
        self.assertEqual(call.function.name, "get_weather")
        self.assertEqual(set(json.loads(call.function.arguments)), {"unit", "rainy"})
        name, arguments, ids = "", "", set()
        for chunk in self.chat(tools=[WEATHER], tool_choice=choice, max_tokens=200, stream=True):
            for delta in chunk.choices[0].delta.tool_calls or []:
                self.assertEqual(delta.index, 0)
                name += delta.function.name or ""
                arguments += delta.function.arguments or ""
                ids |= {delta.id} - {None}
            reason = chunk.choices[0].finish_reason
        self.assertEqual((name, arguments, reason),
                         ("get_weather", call.function.arguments, "tool_calls"))
        self.assertEqual(len(ids), 1)

    def test_call_and_result_can_be_sent_back_with_tools_on_auto(self):  # O-08, O-20
        call = {"id": "call_1", "type": "function",
                "function": {"name": "get_weather", "arguments": '{"unit": "C", "rainy": true}'}}
        answer = self.chat(tools=[WEATHER], tool_choice="auto", messages=HELLO + [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"}])
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length", "tool_calls"))

    def test_json_schema_is_obeyed(self):
        answer = self.chat(max_tokens=100, temperature=1, seed=3, response_format={
            "type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": SCHEMA}})
        value = json.loads(answer.choices[0].message.content)
        self.assertEqual(set(value), {"ok", "size"})
        self.assertIn(value["size"], ("small", "large"))

    def test_aborted_stream_stops_the_work(self):  # O-16, O-21
        aborted = CLIENT.chat.completions.create(
            model="tiny", messages=HELLO, max_tokens=900, stream=True,
            extra_body={"ignore_eos": True})
        next(iter(aborted))
        aborted.close()
        self.assertTrue(wait_until(lambda: metric("num_requests_running") == 0))
        before = metric("generation_tokens_total")
        self.chat(max_tokens=1)
        self.assertLessEqual(metric("generation_tokens_total"), before + 1)


class Errors(unittest.TestCase):
    def bad(self, **fields):
        with self.assertRaises(openai.BadRequestError) as caught:
            CLIENT.chat.completions.create(**({"model": "tiny", "messages": HELLO} | fields))
        return caught.exception

    def test_bad_request_names_the_field(self):  # O-24
        self.assertEqual(self.bad(temperature=-1).param, "temperature")
        self.assertEqual(self.bad(messages=[]).param, "messages")
        self.assertEqual(self.bad(top_logprobs=2).param, "top_logprobs")
        self.assertEqual(self.bad(stop=[""]).param, "stop")
        self.assertEqual(self.bad(extra_body={"reuse": {"mode": "all"}}).param, "reuse.mode")
        image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        self.assertEqual(self.bad(messages=image).param, "messages[0].content[0]")

    def test_prompt_too_long_says_so_before_any_stream(self):  # O-14
        long = [{"role": "user", "content": "word " * 9000}]
        for stream in (False, True):
            fault = self.bad(messages=long, stream=stream)
            self.assertEqual(fault.code, "context_length_exceeded")
            self.assertEqual(fault.type, "invalid_request_error")

    def test_unknown_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            CLIENT.chat.completions.create(model="gpt-x", messages=HELLO)
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_wrong_key_is_refused(self):  # O-23
        stranger = CLIENT.with_options(api_key="wrong")
        with self.assertRaises(openai.AuthenticationError):
            stranger.models.list()


class Others(unittest.TestCase):
    def test_models_can_be_listed_and_retrieved(self):
        listed = CLIENT.models.list().data
        self.assertEqual([m.id for m in listed], ["tiny"])
        self.assertIn(listed[0].refrain["exactness"], ("token", "bitwise"))
        self.assertEqual(CLIENT.models.retrieve("tiny").id, "tiny")

    def test_completion_echoes_and_scores_a_prompt(self):  # O-45
        answer = CLIENT.completions.create(model="tiny", prompt="hello there", max_tokens=0,
                                           echo=True, logprobs=2)
        choice = answer.choices[0]
        self.assertEqual(choice.text, "hello there")
        self.assertEqual("".join(choice.logprobs.tokens[-2:]), choice.text[
            choice.logprobs.text_offset[-2]:])
        self.assertEqual(len(choice.logprobs.tokens), answer.usage.prompt_tokens)
        self.assertIsNone(choice.logprobs.token_logprobs[0])
        self.assertEqual(answer.usage.completion_tokens, 0)

    def test_completion_takes_lists_of_prompts(self):
        answer = CLIENT.completions.create(model="tiny", prompt=["one", "two"], n=2, max_tokens=3,
                                           seed=1, extra_body={"ignore_eos": True})
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])
        self.assertEqual(answer.usage.completion_tokens, 12)

    def test_embeddings_are_normalised_and_equal_in_both_formats(self):
        plain = CLIENT.embeddings.create(model="tiny", input=["hello", "good bye"],
                                         encoding_format="float")
        self.assertEqual([d.index for d in plain.data], [0, 1])
        vector = plain.data[0].embedding
        self.assertAlmostEqual(sum(x * x for x in vector), 1.0, places=4)
        packed = CLIENT.embeddings.create(model="tiny", input="hello", encoding_format="base64")
        raw = packed.data[0].embedding
        if isinstance(raw, str):  # the package decodes it only when it asked for it by itself
            import base64
            data = base64.b64decode(raw)
            raw = struct.unpack(f"<{len(data) // 4}f", data)
        for one, other in zip(vector, raw):
            self.assertAlmostEqual(one, other, places=5)

    def test_the_guide_to_long_documents_works_as_it_is_written(self):  # B6
        guide = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "long-documents.md"
        (code,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder, "document.txt")
            document.write_text("\n\n".join(texts.lorem(70, seed=i) for i in range(9)), encoding="utf-8")
            # Nobody has calibrated the tiny model, so `repair` would compute everything.
            for old, new in (("http://127.0.0.1:8080/v1", f"http://127.0.0.1:{SERVER.port}/v1"), ('"none"', repr(KEY)),
                             ('"document.txt"', repr(str(document))), ('"mode": "repair"', '"mode": "splice"')):
                self.assertEqual(code.count(old), 1, old)
                code = code.replace(old, new)
            names, printed = {}, io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)  # noqa: S102  code of this repository
        self.assertEqual(printed.getvalue().count("'moved'"), 2)
        self.assertTrue(2 < len(names["passages"]) <= 5, names["passages"])
        # All of them behind one another, and in another order once more: only the seams are computed.
        names["ask"]("Who opened the window?", count=5)
        names["passages"][:] = names["passages"][1:] + names["passages"][:1]
        _, told = names["ask"]("Who opened the window?", count=5)
        self.assertGreater(told["moved"] + told["exact"], 0.8 * sum(told.values()))
        self.assertGreater(told["moved"], 0)


def main():
    global SERVER, CLIENT
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--generated", required=True)
    options, rest = parser.parse_known_args()
    binary = server_process.Binary(options.binary, options.models, options.generated)
    SERVER = server_process.ServerProcess(binary, "tiny", ["--api-key", KEY, "--alias", "tiny"])
    try:
        CLIENT = openai.OpenAI(api_key=KEY, base_url=f"http://127.0.0.1:{SERVER.port}/v1",
                               max_retries=0, timeout=60)
        result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
        if SERVER.process.poll() is not None:
            sys.exit(f"the server ended:\n{SERVER.stderr()}")
        if not SERVER.stop():
            sys.exit(f"the server did not end cleanly:\n{SERVER.stderr()[-4000:]}")
        if KEY in SERVER.stderr():
            sys.exit("the key stands in the log")
        sys.exit(0 if result.wasSuccessful() else 1)
    finally:
        SERVER.kill()


if __name__ == "__main__":
    main()
