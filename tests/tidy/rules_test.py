"""Each rule of rules.py refuses a bad sample and accepts a good one, so that it can fail."""

import os
import tempfile
import unittest

import rules
import tidy
from cpp_text import code_only, includes

# Written in parts, so that the rules do not find them in this file.
UNFINISHED = "TO" + "DO"
PRIVATE = "/ho" + "me/somebody/models"


def lines(rule, path, text):
    """Line numbers a rule complains about."""
    return [line for line, _ in rule(path, text)]


class CppText(unittest.TestCase):
    """Comments and literals are no code."""

    def test_comments_and_literals_are_blanked_in_place(self):
        text = 'int a = 1\'000; // abort()\nauto s = "exit(1)"; char c = \'"\'; /* x\ny */ f();\n'
        code = code_only(text)
        self.assertEqual(len(code), len(text))
        self.assertNotIn("abort", code)
        self.assertNotIn("exit", code)
        self.assertIn("1'000", code)
        self.assertIn("f();", code)

    def test_raw_strings_end_at_their_own_mark(self):
        code = code_only('auto s = R"x(abort() )" )x"; g();')
        self.assertNotIn("abort", code)
        self.assertIn("g();", code)

    def test_includes_in_comments_do_not_count(self):
        text = '// #include "a/b.h"\n#include "c/d.h"\n  # include <e>\n/* #include <f> */\n'
        self.assertEqual(list(includes(text)), [(2, '"', "c/d.h"), (3, "<", "e")])


class LayerArrows(unittest.TestCase):
    """Includes only go down."""

    def test_down_and_sideways_are_fine(self):
        text = '// x\n#include "base/ids.h"\n#include "kv/block_table.h"\n'
        self.assertEqual(lines(rules.layer_arrows, "src/kv/ledger.h", text), [])

    def test_up_is_refused(self):
        for low, high in zip(rules.LAYERS, rules.LAYERS[1:]):
            text = f'// x\n#include "{high}/x.h"\n'
            self.assertEqual(lines(rules.layer_arrows, f"src/{low}/x.cpp", text), [2])
            text = f'// x\n#include "{low}/x.h"\n'
            self.assertEqual(lines(rules.layer_arrows, f"src/{high}/x.cpp", text), [])

    def test_other_ways_to_write_an_include_are_refused(self):
        for target in ["ledger.h", "../kv/ledger.h", "elsewhere/x.h"]:
            text = f'#include "{target}"\n'
            self.assertEqual(lines(rules.layer_arrows, "src/kv/a.cpp", text), [1], target)

    def test_a_folder_outside_the_list_is_refused(self):
        self.assertEqual(lines(rules.layer_arrows, "src/misc/a.cpp", "// x\n"), [1])


class OwnedLibraries(unittest.TestCase):
    """Third-party headers stay with their owner."""

    def test_owner_and_system_headers_are_fine(self):
        text = ("#include <vector>\n#include <sys/mman.h>\n#include <immintrin.h>\n"
                '#include <ggml.h>\n#include "gguf.h"\n#include "model/a.h"\n')
        self.assertEqual(lines(rules.owned_libraries, "src/model/a.cpp", text), [])
        self.assertEqual(lines(rules.layer_arrows, "src/model/a.cpp", text), [])
        self.assertEqual(lines(rules.owned_libraries, "src/kv/a.cpp", text), [4, 5])

    def test_in_a_header_a_foreign_module_or_unknown_they_are_refused(self):
        for path, header in [("src/model/a.h", "ggml.h"), ("src/kv/a.cpp", "ggml-cpu.h"),
                             ("src/engine/a.cpp", "boost/asio.hpp"), ("src/kv/a.cpp", "absl/x.h"),
                             ("src/serve/a.h", "nlohmann/json.hpp"), ("src/kv/a.cpp", "curl/curl.h")]:
            text = f"// x\n#include <{header}>\n"
            self.assertEqual(lines(rules.owned_libraries, path, text), [2], (path, header))

    def test_tests_may_use_anything(self):
        text = "#include <gtest/gtest.h>\n#include <ggml.h>\n"
        self.assertEqual(lines(rules.owned_libraries, "tests/unit/kv/a.cpp", text), [])


class QuietLibrary(unittest.TestCase):
    """The library neither prints nor ends the process nor throws."""

    def test_each_forbidden_call_is_refused(self):
        for code in ["exit(1);", "std::exit (1);", "_exit(0);", "abort();", "std::abort();",
                     "std::terminate();", 'printf("x");', "std::fprintf(stderr, s);", "puts(s);",
                     "std::cout << 1;", "std::cerr << 1;", "throw 1;"]:
            self.assertEqual(lines(rules.quiet_library, "src/kv/a.cpp", "// x\n" + code), [2], code)

    def test_words_that_only_look_like_it_are_fine(self):
        text = ('std::snprintf(t, 9, "%d", 1); // exit(1)\non_exit(1); request.abort_now(); '
                'auto s = "printf(";\nint exit_code = 0; grammar_abort(x);\n')
        self.assertEqual(lines(rules.quiet_library, "src/kv/a.cpp", text), [])

    def test_the_command_line_may_print_but_not_throw(self):
        self.assertEqual(lines(rules.quiet_library, "src/cli/a.cpp", "std::cout << 1;\n"), [])
        self.assertEqual(lines(rules.quiet_library, "src/cli/a.cpp", "throw 1;\n"), [1])
        self.assertEqual(lines(rules.quiet_library, "src/base/check.cpp", "std::abort();\n"), [])


class FileLength(unittest.TestCase):
    """Long files are split."""

    def test_limits(self):
        for count, failures, warnings in [(400, 0, 0), (401, 0, 1), (600, 0, 1), (601, 1, 0)]:
            text = "x\n" * count
            self.assertEqual(len(rules.file_length("src/kv/a.cpp", text)), failures, count)
            self.assertEqual(len(rules.file_length_warning("src/kv/a.cpp", text)), warnings, count)
        self.assertEqual(rules.file_length("tests/unit/kv/a.cpp", "x\n" * 900), [])


class Texts(unittest.TestCase):
    """Rules for every file."""

    def test_leftovers_are_refused(self):
        self.assertEqual(lines(rules.nothing_unfinished, "src/a.h", f"// x\n// {UNFINISHED}: y\n"), [2])
        self.assertEqual(lines(rules.nothing_unfinished, "src/a.h", f"int {UNFINISHED}S;\n"), [])

    def test_a_file_opens_with_a_comment(self):
        for path, bad, good in [("src/kv/a.h", "#pragma once\n", "// A.\n"),
                                ("src/kv/a.cpp", '#include "kv/b.h"\n', '#include "kv/a.h"\n'),
                                ("tools/a.py", "import os\n", '"""A."""\n'),
                                ("scripts/a.sh", "set -e\n", "#!/bin/sh\n"),
                                ("tests/x/CMakeLists.txt", "add_test()\n", "# A.\n")]:
            self.assertEqual(lines(rules.opens_with_a_comment, path, bad), [1], path)
            self.assertEqual(lines(rules.opens_with_a_comment, path, good), [], path)
        self.assertEqual(lines(rules.opens_with_a_comment, "docs/a.md", "# A\n"), [])

    def test_paths_of_one_machine_are_refused(self):
        self.assertEqual(lines(rules.no_private_paths, "docs/a.md", f"x\nsee {PRIVATE}\n"), [2])
        for good in ["/usr/lib/x", "$deps/work/x", "docs/work/a.md", "/var/lib/refrain", "~/models"]:
            self.assertEqual(lines(rules.no_private_paths, "docs/a.md", good), [], good)

    def test_lines_end_cleanly(self):
        for bad, line in [("a \nb\n", 1), ("a\nb\t\n", 2), ("a\r\n", 1), ("a\nb", 2)]:
            self.assertEqual(lines(rules.clean_lines, "src/kv/a.h", bad), [line], repr(bad))
        self.assertEqual(lines(rules.clean_lines, "src/kv/a.h", "a\n\nb\n"), [])


class WholeTree(unittest.TestCase):
    """The walk over a tree finds what a rule finds, and an empty tree is no success."""

    def test_a_bad_file_in_a_tree_fails_and_a_good_one_passes(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(tidy.main(root), 1)
            os.makedirs(os.path.join(root, "src", "kv"))
            path = os.path.join(root, "src", "kv", "a.h")
            with open(path, "w", encoding="utf-8") as file:
                file.write("// A.\n#pragma once\n")
            self.assertEqual(tidy.main(root), 0)
            with open(path, "a", encoding="utf-8") as file:
                file.write('#include "serve/server.h"\n')
            self.assertEqual(tidy.main(root), 1)

    def test_every_rule_is_used(self):
        public = {name for name, value in vars(rules).items()
                  if callable(value) and not name.startswith("_")
                  and getattr(value, "__module__", "") == "rules"}
        used = {rule.__name__ for rule in rules.FAILING + rules.WARNING}
        self.assertEqual(public, used)


if __name__ == "__main__":
    unittest.main()
