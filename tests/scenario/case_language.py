"""The language of .case files: lines to statements. README.md describes it.

A statement is one line `KEYWORD REST`, going on over further lines while a bracket or a
triple-quoted text is open. `for`, `together` and `repeat` open a block that `end` closes.
"""
import dataclasses
import io
import tokenize

BLOCKS = {"for", "together", "repeat"}


class Malformed(Exception):
    pass


@dataclasses.dataclass
class Statement:
    line: int
    keyword: str
    rest: str
    block: list = None


def is_open(text):
    """Whether `text` ends inside brackets or a triple-quoted string."""
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except tokenize.TokenError:
        return True
    except (IndentationError, SyntaxError):
        return False
    return depth > 0


def logical_lines(text):
    """(line number, text) with continuation lines joined; comments and blank lines dropped."""
    pending, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not pending and (not line.strip() or line.strip().startswith("#")):
            continue
        began = began or number
        pending = pending + "\n" + line if pending else line.strip()
        if is_open(pending):
            continue
        yield began, pending.strip()
        pending, began = "", 0
    if pending:
        raise Malformed(f"line {began}: a bracket is not closed")


def parse(text):
    top = Statement(0, "case", "", [])
    stack = [top]
    for number, line in logical_lines(text):
        keyword, _, rest = line.partition(" ")
        if keyword == "end":
            if len(stack) == 1:
                raise Malformed(f"line {number}: `end` without a block")
            stack.pop()
            continue
        statement = Statement(number, keyword, rest.strip(), [] if keyword in BLOCKS else None)
        stack[-1].block.append(statement)
        if statement.block is not None:
            stack.append(statement)
    if len(stack) > 1:
        raise Malformed(f"line {stack[-1].line}: `{stack[-1].keyword}` without `end`")
    return top.block


def about(text):
    """The comment at the head of a case: its title."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return " ".join(lines)
