"""Looks at C++ source as text: the code without comments and literals, and its includes."""

import re

# Order matters: what begins first wins. Raw strings and digit separators (1'000) included.
_TOKEN = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])(?:u8|u|U|L)?'(?:\\.|[^'\\\n])+'
    """,
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def _blank(match):
    """Spaces for every character, so that lines and columns stay where they are."""
    return re.sub(r"[^\n]", " ", match.group(0))


def code_only(text):
    """`text` with comments, strings and characters blanked out."""
    return _TOKEN.sub(_blank, text)


def includes(text):
    """Yields (line number, kind `<` or `"`, path) of each include that is not in a comment."""
    without_comments = re.sub(
        _TOKEN, lambda m: _blank(m) if m.group(0).startswith("/") else m.group(0), text
    )
    for match in _INCLUDE.finditer(without_comments):
        yield without_comments.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)
