# The reference: Python's jinja2 set up as chat templates are usually run. Shared by the golden
# tests of templates.
import datetime
import json
import subprocess

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1_790_000_000  # 2026-09-21 14:13:20 UTC


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model wrote; its text is rendered as it stands."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render", lineno=line)
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Refusal(Exception):
    pass


def raise_exception(message):
    raise Refusal(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(text):
    day = datetime.datetime.fromtimestamp(NOW - NOW % 86400, datetime.timezone.utc)
    return day.strftime(text)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def reference(env, case):
    """Text of the case, or an exception (a Refusal if the template refused)."""
    given = case["input"]
    variables = dict(messages=given["messages"], tools=given.get("tools"), documents=None,
                     add_generation_prompt=given.get("add_generation_prompt", True),
                     **given.get("extra", {}))
    for key in ("bos", "eos"):
        if case.get(key):
            variables[key + "_token"] = case[key]
    return env.from_string(case["template"]).render(**variables)


def run_cases(program, cases):
    """Answers of render_main, one per case."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    assert len(answers) == len(cases), (len(answers), len(cases))
    return answers


def text_of(answer):
    return "".join(text for text, _ in answer["parts"])
