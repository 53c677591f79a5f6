"""The rules of the source, one function each: (path, text) -> list of (line, message).

`path` is relative to the repository root, with forward slashes. A rule that does not concern a file
returns nothing. rules_test.py shows for each rule a sample that it refuses.
"""

import posixpath
import re

from cpp_text import code_only, includes

# Lowest first. A module may use those to its left, and itself.
LAYERS = ["base", "metrics", "text", "kernels", "kv", "model", "semantic", "capacity", "engine",
          "serve", "cli"]

# Start of an include path -> modules whose .cpp files may have it.
OWNERS = {
    "unicode/": {"text"},
    "nlohmann/": {"text", "engine", "serve", "cli"},
    "ggml": {"model"},
    "gguf.h": {"model"},
    "xgrammar/": {"engine"},
    "boost/": {"serve", "cli"},
    "prometheus/": {"metrics"},
    "CLI/": {"cli"},
    "spdlog/": {"base"},
    "fmt/": {"base"},
    "xxhash.h": {"base"},
    "sqlite3.h": {"semantic"},
    "faiss/": {"semantic"},
    "hiredis/": {"semantic"},
    "zstd.h": {"semantic", "model"},
}

# Headers of the system that are neither C++ (no dot, no slash) nor somebody's library.
SYSTEM = re.compile(
    r"[a-z_]+$|(sys|netinet|arpa|linux|net)/[a-z_]+\.h$|"
    r"(unistd|fcntl|pthread|sched|poll|netdb|signal|termios|dlfcn|cpuid|time|\w*intrin)\.h$")

# Not in the library: it may neither print nor end the process, and it throws nothing.
FORBIDDEN = re.compile(
    r"\b(?P<call>(?:std::)?(?:_?exit|_Exit|quick_exit|abort|terminate|v?f?printf|puts|putchar|perror))\s*\(|"
    r"\b(?P<stream>std::(?:cout|cerr|clog))\b|\b(?P<throw>throw)\b")
MAY_PRINT = re.compile(r"src/cli/|src/base/check\.cpp$")

LINES_WARN = 400
LINES_FAIL = 600

_UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b")  # so that it does not find itself
_PRIVATE_PATH = re.compile(r"""(?<![\w.$}"'/~-])/(?:home|root|work|Users|mnt)/[\w.]""")
_COMMENT_START = {
    ".h": ("//",), ".cpp": ("//",), ".py": ("#", '"""'), ".sh": ("#",), ".cmake": ("#",),
    ".txt": ("#",), "": ("#",),
}


def _module(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def _is_cpp(path):
    return path.endswith((".h", ".cpp"))


def _line(text, offset):
    return text.count("\n", 0, offset) + 1


def _owners(target):
    """Modules that may include `target`, or None if it is nobody's library."""
    return next((owners for start, owners in OWNERS.items() if target.startswith(start)), None)


def layer_arrows(path, text):
    """Includes in src/ only go down, and are written from the root."""
    module = _module(path)
    if module is None or not _is_cpp(path):
        return []
    if module not in LAYERS:
        return [(1, f"`{module}` is not in the list of layers")]
    found = []
    for line, kind, target in includes(text):
        if kind != '"' or _owners(target):
            continue
        other = target.split("/")[0]
        if "/" not in target or other not in LAYERS:
            found.append((line, f"`{target}` is not written as \"module/file.h\""))
        elif LAYERS.index(other) > LAYERS.index(module):
            found.append((line, f"`{module}` is below `{other}` and must not use `{target}`"))
    return found


def owned_libraries(path, text):
    """A library's headers stay in the .cpp files of the module that owns it."""
    module = _module(path)
    if module is None or not _is_cpp(path):
        return []
    found = []
    for line, kind, target in includes(text):
        owners = _owners(target)
        if owners is None and (kind == '"' or SYSTEM.match(target)):
            continue
        if owners is None:
            found.append((line, f"nobody owns `{target}`; a new library needs an owner and an ADR"))
        elif module not in owners:
            found.append((line, f"`{target}` belongs to {', '.join(sorted(owners))}"))
        elif not path.endswith(".cpp"):
            found.append((line, f"`{target}` in a header; keep it in .cpp files"))
    return found


def quiet_library(path, text):
    """No output, no end of the process and no throw outside cli/ and base/check.cpp."""
    if _module(path) is None or not _is_cpp(path):
        return []
    code = code_only(text)
    found = []
    for match in FORBIDDEN.finditer(code):
        if match.group("throw") is None and MAY_PRINT.match(path):
            continue
        what = match.group("call") or match.group("stream") or match.group("throw")
        found.append((_line(code, match.start()), f"`{what}` outside cli/ and base/check.cpp"
                      if what != "throw" else "we throw nothing"))
    return found


def file_length(path, text):
    """A source file of more than 600 lines lacks a noun."""
    lines = text.count("\n")
    if _module(path) is None or lines <= LINES_FAIL:
        return []
    return [(LINES_FAIL, f"{lines} lines; at most {LINES_FAIL}: split it into named nouns")]


def file_length_warning(path, text):
    """Above 400 lines is a sign."""
    lines = text.count("\n")
    if _module(path) is None or not LINES_WARN < lines <= LINES_FAIL:
        return []
    return [(LINES_WARN, f"{lines} lines; above {LINES_WARN} a noun may be missing")]


def nothing_unfinished(path, text):
    """No leftovers; what is open goes into an issue."""
    return [(_line(text, m.start()), f"`{m.group(1)}` left over") for m in _UNFINISHED.finditer(text)]


def opens_with_a_comment(path, text):
    """The first lines say what a file is. A .cpp may open with its own header, which says it."""
    name = posixpath.basename(path)
    extension = posixpath.splitext(name)[1]
    if extension == ".txt" and name != "CMakeLists.txt":
        return []
    if extension == "" and not text.startswith("#!"):
        return []
    starts = _COMMENT_START.get(extension)
    if starts is None or text.startswith(starts):
        return []
    own_header = f'#include "{path.removeprefix("src/").removesuffix(".cpp")}.h"\n'
    if extension == ".cpp" and text.startswith(own_header):
        return []
    if name == "CMakeLists.txt" and text.startswith("cmake_minimum_required"):
        return []
    return [(1, "begins without a comment that says what it is")]


def no_private_paths(path, text):
    """Nothing that exists on one machine only."""
    return [(_line(text, m.start()), f"`{m.group(0)}...` is a path of one machine")
            for m in _PRIVATE_PATH.finditer(text)]


def clean_lines(path, text):
    """No trailing blanks, no carriage returns, a line end at the end."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.endswith("\r"):
            found.append((number, "carriage return"))
        elif line != line.rstrip():
            found.append((number, "trailing blanks"))
    if text and not text.endswith("\n"):
        found.append((text.count("\n") + 1, "no line end at the end of the file"))
    return found


FAILING = [layer_arrows, owned_libraries, quiet_library, file_length, nothing_unfinished,
           opens_with_a_comment, no_private_paths, clean_lines]
WARNING = [file_length_warning]
