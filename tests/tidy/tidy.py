"""Checks the source tree against rules.py: tidy.py ROOT. Exit 1 if a rule is broken."""

import os
import sys

import rules

# What we write by hand. Data, corpora and generated files have other rules.
FOLDERS = ["src", "tests", "tools", "scripts", "cmake", "docs", "bench", "web", ".ci"]
TOP_FILES = ["CMakeLists.txt", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
EXTENSIONS = {".h", ".cpp", ".py", ".sh", ".cmake", ".txt", ".md", ".case", ".case_slow", ".js",
              ".css", ".html", ".ini", ".service", ""}
SKIPPED_FOLDERS = {"corpus", "data", "vectors", "__pycache__", "generated", "node_modules"}


def source_files(root):
    """Yields paths relative to `root`, sorted."""
    for name in TOP_FILES:
        if os.path.isfile(os.path.join(root, name)):
            yield name
    for folder in FOLDERS:
        for place, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
            for name in sorted(names):
                if os.path.splitext(name)[1] in EXTENSIONS:
                    yield os.path.relpath(os.path.join(place, name), root).replace(os.sep, "/")


def check_file(path, text):
    """Returns (failures, warnings), each a list of printable lines."""
    def apply(checks):
        return [f"{path}:{line}: {check.__name__}: {message}"
                for check in checks for line, message in check(path, text)]
    return apply(rules.FAILING), apply(rules.WARNING)


def main(root):
    """Prints what is wrong; returns the exit status."""
    failures, warnings, count = [], [], 0
    for path in source_files(root):
        with open(os.path.join(root, path), encoding="utf-8", newline="") as file:
            try:
                text = file.read()
            except UnicodeDecodeError:
                failures.append(f"{path}:1: not UTF-8")
                continue
        count += 1
        more_failures, more_warnings = check_file(path, text)
        failures += more_failures
        warnings += more_warnings
    for line in warnings:
        print("warning:", line)
    for line in failures:
        print("error:", line)
    if count == 0:
        print(f"error: no source files below `{root}`")
    print(f"{count} files, {len(failures)} failures, {len(warnings)} warnings")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
