# Random small templates of the supported constructs, rendered by jinja2 and by us: same text, or
# an error in both. Seeded; a failure prints the template.
import argparse
import copy
import random
import sys
import warnings

from jinja_reference import NOW, environment, reference, run_cases, text_of

STRINGS = ["", "a", "Hello World", "  pad\n", "x,y,,z", "Éß☃日本", "it's \"q\"", "<b>&", "12", "-3.5", "aXbXc"]
FILTERS = ["trim", "upper", "lower", "length", "first", "last", "tojson", "string", "int", "float", "list",
           "reverse|list", "sort", "unique|list", "capitalize", "title", "default('d')", "default('d', true)",
           "join('-')", "replace('a', 'QQ')", "abs", "round(1)", "round", "min", "max", "sum", "dictsort", "items|list",
           "map('string')|list", "select|list", "reject('none')|list", "map('upper')|join(' ')", "tojson(indent=2)",
           "indent(2)", "indent(3, true)", "batch(2)|list", "map(attribute='k')|list", "selectattr('k')|list",
           "rejectattr('k', 'equalto', 1)|list", "sort(reverse=true)", "select('odd')|list", "count"]
METHODS = [".strip()", ".lstrip()", ".rstrip()", ".split()", ".split(',')", ".split('X', 1)", ".rsplit('X', 1)",
           ".upper()", ".lower()", ".title()", ".capitalize()", ".replace('a', '')", ".startswith('a')",
           ".endswith(('z', 'd'))", ".find('l')", ".count('l')", ".items()|list", ".keys()|list", ".values()|list",
           ".get('k')", ".get('zz', 5)", ".k", "['k']", "[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[::2]", "[5:1:-2]",
           "[-3:]", ".splitlines()", ".strip('ad ')", ".isdigit()", ".isupper()", ".nope", "[99]", ".rfind('l')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "iterable", "sequence",
         "boolean", "true", "false", "odd", "even", "divisibleby(2)", "equalto(1)", "in [1, 'a']", "eq 2", "callable",
         "gt 1", "sameas none", "upper", "lower", "not string", "ne 'a'"]


class Writer:
    """Writes templates; `depth` bounds the nesting."""

    def __init__(self, rng):
        self.rng = rng
        self.names = ["s", "n", "f", "b", "z", "l", "d", "u", "messages"]

    def pick(self, *choices):
        return self.rng.choice(choices)

    def string(self):
        text = self.rng.choice(STRINGS)
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"

    def literal(self):
        kind = self.rng.randrange(8)
        if kind < 3:
            return self.string()
        if kind < 5:
            return str(self.rng.randrange(-3, 12))
        return self.pick("1.5", "0.1", "2e3", "true", "false", "none", "[1, 2, 3]", "['b', 'A', 'a']", "(1, 'x')",
                         "{'k': 1, 'z': [none, true]}", "[{'k': 2}, {'k': 1}, {'q': 0}]", "[]", "{}", "3.0", "1e20", "-0.00001")

    def expression(self, depth):
        if depth <= 0:
            return self.pick(self.literal(), self.rng.choice(self.names))
        kind = self.rng.randrange(12)
        a = self.expression(depth - 1)
        if kind == 0:
            return f"({a}) {self.pick('+', '-', '*', '/', '//', '~', '~')} ({self.expression(depth - 1)})"
        if kind == 1:
            return f"({a}) {self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} ({self.expression(depth - 1)})"
        if kind == 2:
            return f"({a}) {self.pick('and', 'or')} ({self.expression(depth - 1)})"
        if kind == 3:
            return f"not ({a})" if self.rng.random() < 0.5 else f"-({a})"
        if kind == 4:
            other = f" else ({self.expression(depth - 1)})" if self.rng.random() < 0.7 else ""
            return f"({a} if {self.expression(depth - 1)}{other})"
        if kind in (5, 6):
            return f"({a})|{self.rng.choice(FILTERS)}"
        if kind in (7, 8):
            return f"({a}){self.rng.choice(METHODS)}"
        if kind == 9:
            return f"(({a}) is {self.rng.choice(TESTS)})"
        if kind == 10:
            return self.pick(f"[{a}, {self.expression(depth - 1)}]", f"{{'k': {a}}}", f"range({self.rng.randrange(5)})|list",
                             f"dict(k={a})", f"({a}, )")
        return self.rng.choice(self.names)

    def tag(self, inside):
        left = self.pick("{%", "{%", "{%-", "{%+")
        right = self.pick("%}", "%}", "-%}", "+%}")
        return f"{left} {inside} {right}"

    def space(self):
        return self.pick("", "", " ", "\n", "  \n  ", "\n\n\t", "text", "é")

    def body(self, depth):
        return "".join(self.space() + self.statement(depth) for _ in range(self.rng.randrange(1, 4))) + self.space()

    def statement(self, depth):
        kind = self.rng.randrange(11) if depth > 0 else self.rng.randrange(3)
        if kind < 3:
            left, right = self.pick(("{{", "}}"), ("{{-", "}}"), ("{{", "-}}"))
            return f"{left} {self.expression(2)} {right}"
        if kind == 3:
            middle = self.tag(f"elif {self.expression(1)}") + self.body(depth - 1) if self.rng.random() < 0.3 else ""
            other = self.tag("else") + self.body(depth - 1) if self.rng.random() < 0.5 else ""
            return self.tag(f"if {self.expression(2)}") + self.body(depth - 1) + middle + other + self.tag("endif")
        if kind in (4, 5):
            return self.loop(depth)
        if kind == 6:
            # Not a variable of the context: jinja2 hides such a one in the whole template that sets
            # it later at top level, we only from there on.
            name = self.pick("v", "w")
            if self.rng.random() < 0.3:
                # A name of its own: jinja2 hides a variable already inside the block that sets it.
                name = f"block{self.rng.randrange(10**6)}"
                chain = "|" + self.pick("upper", "trim") if self.rng.random() < 0.4 else ""
                return self.tag(f"set {name} {chain}") + self.body(depth - 1) + self.tag("endset") + "{{ " + name + " }}"
            return self.tag(f"set {name} = {self.expression(2)}") + "{{ " + name + " }}"
        if kind == 7:
            return self.macro(depth)
        if kind == 8:
            return (self.tag("set ns = namespace(c=0)") + self.tag(f"for i in range({self.rng.randrange(4)})")
                    + self.tag(f"set ns.c = ns.c + {self.rng.randrange(3)}") + self.tag("endfor") + "{{ ns.c }}")
        if kind == 9:
            return self.pick("{# note #}", "{#- note -#}", "{# note\n more #}\n", "{% raw %} {{ x }} {% endraw %}",
                             "{%- raw -%} {% x {% endraw -%} ")
        return self.tag(f"filter {self.pick('upper', 'trim', 'title')}") + self.body(depth - 1) + self.tag("endfilter")

    def loop(self, depth):
        test = f" if {self.expression(1)}" if self.rng.random() < 0.3 else ""
        over = self.pick("l", "s", "d", "messages", "range(4)", "[1, [2], 'c']", self.expression(1))
        inner = self.pick("{{ loop.index }}", "{{ loop.index0 }}/{{ loop.length }}", "{{ loop.first }}{{ loop.last }}",
                          "{{ loop.revindex }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.previtem }}|{{ loop.nextitem }}",
                          "{% if loop.index == 2 %}{% continue %}{% endif %}", "{% if loop.index0 == 2 %}{% break %}{% endif %}",
                          "{% set s = s ~ 'q' %}{{ s }}")
        other = self.tag("else") + self.space() if self.rng.random() < 0.3 else ""
        self.names.append("it")
        text = (self.tag(f"for it in {over}{test}") + self.space() + inner + "{{ it }}" + self.body(depth - 1) + other
                + self.tag("endfor"))
        self.names.pop()
        return text

    def macro(self, depth):
        name = f"m{self.rng.randrange(1000)}"
        self.names += ["p", "q"]
        body = self.body(depth - 1)
        del self.names[-2:]
        argument = self.expression(1)
        call = self.pick(f"{name}({argument})", f"{name}(q={argument})", f"{name}({argument}, 3)", f"{name}()")
        return self.tag(f"macro {name}(p, q='dq')") + body + self.tag("endmacro") + "{{ " + call + " }}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--render", required=True)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=1000)
    given = options.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)  # of the Python that jinja2 makes
    rng = random.Random(given.seed)
    env = environment()
    messages = [{"role": "user", "content": "Hi  there"}, {"role": "assistant", "content": "é\n"}]
    extra = {"s": "Hello a World", "n": 3, "f": 2.5, "b": True, "z": None, "l": [3, 1, 2], "d": {"k": "v", "A": 1}}
    cases = []
    for _ in range(given.count):
        cases.append({"template": Writer(rng).body(3), "bos": "<s>", "eos": "</s>",
                      "input": {"messages": messages, "extra": extra, "now": NOW}})
    answers = run_cases(given.render, cases)
    failures, texts = 0, 0
    for case, answer in zip(cases, answers):
        try:
            expected = reference(env, copy.deepcopy(case))  # a failing `indent` changes lists
        except Exception as error:
            expected = error
        if "cannot be sliced" in answer.get("error", ""):
            continue  # jinja2 fails too, but not for constants, which it folds
        if isinstance(expected, Exception):
            wrong = "error" not in answer
        else:
            wrong = "error" in answer or text_of(answer) != expected
            texts += not wrong
        if wrong:
            failures += 1
            if failures <= 10:
                print("template:", repr(case["template"]))
                print("expected:", repr(expected))
                print("got:     ", repr(answer.get("error") or text_of(answer)), "\n")
    print(f"{len(cases)} templates, {texts} equal texts, {failures} failures")
    assert texts > len(cases) // 10
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
