"""Running commands of the real binary from unittest files; main() reads where the binary is.

    measuring_test.py --binary build/release/refrain --models .deps/models --generated DIR
"""
import argparse
import os
import subprocess
import sys
import tempfile
import unittest

from server_process import Binary

_BINARY = None  # set by main()


def binary():
    return _BINARY


def refrain(*arguments, stdin="", environment=None):
    """(exit code, stdout, stderr)"""
    done = subprocess.run([_BINARY.path, *arguments], input=stdin.encode(), capture_output=True,
                          env=_BINARY.environment() | {"REFRAIN_MODEL_DIR": _BINARY.generated}
                          | (environment or {}), timeout=120, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def file_with(text, suffix=".ini"):
    made = tempfile.NamedTemporaryFile("w", suffix=suffix)
    made.write(text)
    made.flush()
    return made


def main(description):
    global _BINARY
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--generated", required=True)
    options, rest = parser.parse_known_args()
    _BINARY = Binary(os.path.abspath(options.binary), options.models, os.path.abspath(options.generated))
    unittest.main(argv=[sys.argv[0], *rest])
