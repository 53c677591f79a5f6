#!/usr/bin/env python3
"""Instructions that each step of a program executes on a fixed problem, against recorded counts.

    instruction_count_test.py PROGRAM COMPILER DATA SET... [--record]

PROGRAM is kernel_instructions or segment_instructions, COMPILER what built it ("GNU 12"), DATA the file
of its counts, SET its argument, one run each. Counts do not depend on how busy the machine is, so what
has become slower by doing more is seen on any machine. --record writes DATA anew; do so after a change
that is meant to change them, and say why in its commit. Exit code 77: not comparable here.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

TOLERANCE = 0.03
SKIPPED = 77


def counts_of(program, instruction_set):
    """{step: instructions}; None if the processor lacks the set."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
             "--toggle-collect=refrain_measured", "--dump-after=refrain_measured", program, instruction_set],
            capture_output=True, text=True, timeout=600, check=False)
        if done.returncode == 3:
            return None
        if done.returncode != 0:
            sys.exit(f"{program} {instruction_set}: exit code {done.returncode}\n{done.stderr}")
        names = done.stdout.splitlines()
        counts = [total_of(f"{folder}/out.{i + 1}") for i in range(len(names))]
        return dict(zip(names, counts, strict=True))


def total_of(path):
    """Instructions of one dump; each begins at zero."""
    with open(path, encoding="utf-8") as file:
        return int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.MULTILINE).group(1))


def complaints(recorded, counted):
    """A line for each step that differs."""
    found = [f"{name}: not recorded" for name in counted if name not in recorded]
    for name, before in recorded.items():
        now = counted.get(name)
        if now is None:
            found.append(f"{name}: recorded, but did not run")
        elif abs(now - before) > TOLERANCE * before:
            found.append(f"{name}: {now} instructions, recorded {before} ({now / before - 1:+.1%})")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("compiler")
    parser.add_argument("data")
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    counted = {name: counts_of(options.program, name) for name in options.sets}
    if options.record:
        if None in counted.values():
            sys.exit("record on a processor that has all sets")
        with open(options.data, "w", encoding="utf-8") as file:
            json.dump({"compiler": options.compiler, "instructions": counted}, file, indent=1)
            file.write("\n")
        print(f"recorded in {options.data}")
        return 0
    with open(options.data, encoding="utf-8") as file:
        recorded = json.load(file)
    if recorded["compiler"] != options.compiler:
        print(f"skipped: recorded with {recorded['compiler']}, built with {options.compiler}")
        return SKIPPED
    if None in counted.values():
        print("skipped: without AVX2 and FMA the portable kernels call another fmaf() as well")
        return SKIPPED
    failed = False
    for name, counts in counted.items():
        found = complaints(recorded["instructions"][name], counts)
        print(f"{name}: {len(counts)} counts, {len(found)} off by more than {TOLERANCE:.0%}")
        for line in found:
            print(f"  {name} {line}")
        failed = failed or bool(found)
    if failed:
        print("If that is meant: " + " ".join([sys.executable, os.path.abspath(__file__), options.program,
                                               f"'{options.compiler}'", options.data, *options.sets, "--record"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
