// The command line: commands, flags, arguments and what is said about mistakes.
#include "cli/parse.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cli/help.h"

namespace refrain::cli {
namespace {

using Words = std::vector<std::string>;

CommandLine parsed(const Words& words) {
  const auto line = parse_command_line(words);
  EXPECT_TRUE(line.ok()) << line.error().message;
  return line.ok() ? *line : CommandLine{};
}

Error refused(const Words& words) {
  const auto line = parse_command_line(words);
  EXPECT_FALSE(line.ok()) << "was accepted";
  return line.ok() ? Error{} : line.error();
}

TEST(CommandLine, TakesFlagsInBothSpellingsAndByAlias) {
  EXPECT_EQ(parsed({"serve", "--port", "9000"}).flags["--port"], Words{"9000"});
  EXPECT_EQ(parsed({"serve", "--port=9000"}).flags["--port"], Words{"9000"});
  EXPECT_EQ(parsed({"serve", "--ctx-size", "512"}).flags["--max-context"], Words{"512"});
  EXPECT_EQ(parsed({"serve", "-c", "512"}).flags["--max-context"], Words{"512"});
}

TEST(CommandLine, LastOfARepeatedFlagCountsAndListsKeepAll) {
  EXPECT_EQ(parsed({"serve", "--port", "1", "--port", "2"}).flags["--port"], Words{"2"});
  EXPECT_EQ(parsed({"serve", "--api-key", "a", "--port", "1", "--api-key", "b"}).flags["--api-key"],
            (Words{"a", "b"}));
}

TEST(CommandLine, SwitchesHaveANegativeForm) {
  EXPECT_EQ(parsed({"serve", "--no-prefix-cache"}).flags["--prefix-cache"], Words{"false"});
  EXPECT_EQ(parsed({"serve", "--prefix-cache"}).flags["--prefix-cache"], Words{"true"});
  EXPECT_EQ(parsed({"serve", "--prefix-cache=off"}).flags["--prefix-cache"], Words{"off"});
  EXPECT_EQ(parsed({"serve", "--prefix-cache", "--no-prefix-cache"}).flags["--prefix-cache"],
            Words{"false"});
}

TEST(CommandLine, ArgumentsMayStandAnywhereAndBehindTwoDashesLookLikeFlags) {
  EXPECT_EQ(parsed({"run", "hello", "--temperature", "0", "world"}).arguments,
            (Words{"hello", "world"}));
  EXPECT_EQ(parsed({"run", "--temperature", "0", "--", "--help", "-x"}).arguments,
            (Words{"--help", "-x"}));
  EXPECT_EQ(parsed({"tokenize", "-"}).arguments, Words{"-"});
  EXPECT_EQ(parsed({"run", "--stop", "x", "hello"}).arguments, Words{"hello"});
}

TEST(CommandLine, TakesNegativeNumbersAsValues) {
  EXPECT_EQ(parsed({"run", "--temperature", "-1", "x"}).flags["--temperature"], Words{"-1"});
}

TEST(CommandLine, KnowsCommandsOfTwoWords) {
  EXPECT_EQ(parsed({"bench", "prefill", "--prompt-tokens", "16"}).command, "bench prefill");
  EXPECT_EQ(
      refused({"bench"}).hint,
      "one of: bench prefill, bench decode, bench kernels, bench serve, bench isolation, bench "
      "cache");
  EXPECT_EQ(
      refused({"bench", "prefil"}).hint,
      "one of: bench prefill, bench decode, bench kernels, bench serve, bench isolation, bench "
      "cache");
}

TEST(CommandLine, HelpIsFoundAnywhere) {
  for (const Words& words :
       {Words{"serve", "--help"}, Words{"serve", "-h"}, Words{"help", "serve"},
        Words{"serve", "--port", "1", "--help"}, Words{"serve", "--nonsense", "--help"}}) {
    const CommandLine line = parsed(words);
    EXPECT_TRUE(line.help);
    EXPECT_EQ(line.command, "serve");
  }
  EXPECT_TRUE(parsed({"--help"}).help);
  EXPECT_TRUE(parsed({"bench", "--help"}).help);
  EXPECT_TRUE(parsed({"--version"}).version);
}

TEST(CommandLine, SuggestsTheNearestCommandAndFlag) {
  EXPECT_EQ(refused({"sevre"}).hint, "did you mean `refrain serve`?");
  const Error error = refused({"serve", "--prot", "1"});
  EXPECT_EQ(error.message, "unknown option `--prot`");
  EXPECT_EQ(error.hint, "did you mean `--port`?");
  EXPECT_EQ(refused({"serve", "--xyzzyxyzzy"}).hint, "see `refrain serve --help`");
}

TEST(CommandLine, SaysWhichCommandsAFlagBelongsTo) {
  const Error error = refused({"run", "--port", "9000", "x"});
  EXPECT_EQ(error.message, "`--port` is no option of `refrain run`");
  EXPECT_EQ(error.hint, "it belongs to: serve");
}

TEST(CommandLine, RefusesAMissingValueAndAnArgumentTooMany) {
  EXPECT_NE(refused({"serve", "--port"}).message.find("--port"), std::string::npos);
  EXPECT_EQ(refused({"serve", "extra"}).message, "`refrain serve` takes no argument, got `extra`");
  EXPECT_EQ(refused({"--port", "1", "serve"}).message, "`--port` stands before the command");
}

TEST(CommandLine, SurvivesBytesThatAreNoText) {
  EXPECT_NE(refused({"serve", "--\xff\xfe"}).message.find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_FALSE(refused({std::string("\xff")}).message.empty());
}

TEST(Help, OfAServeFlagShowsAliasesValueAndDefault) {
  const std::string help = command_help("serve");
  EXPECT_NE(
      help.find("  --max-context, --ctx-size, -c N\n      longest prompt + answer of one request"),
      std::string::npos)
      << help;
  EXPECT_NE(help.find("  --prefix-cache, --no-prefix-cache\n"), std::string::npos);
  EXPECT_NE(help.find("  --cache-policy lru|lfu|gdsf\n"), std::string::npos);
  EXPECT_NE(help.find("  --temperature, --temp NUMBER\n"), std::string::npos);
  EXPECT_EQ(help.find("--system"), std::string::npos);
}

TEST(Help, LinesFitInATerminalOfHundredColumns) {
  for (const std::string& text :
       {program_help(), command_help("serve"), command_help("run"), command_help("bench")}) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

TEST(Help, ReferenceOfOptionsIsWhatTheTableSays) {
  std::ifstream file(REFRAIN_TEST_DATA "/../../docs/reference/options.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(page == options_document())
      << "run `refrain config docs > docs/reference/options.md`";
}

TEST(Help, OfTheSmallestCommandIsExactlyThis) {
  EXPECT_EQ(command_help("version"),
            "print the version\n"
            "\n"
            "usage: refrain version [OPTIONS]\n"
            "\n"
            "options\n"
            "  --json\n"
            "      write the result as JSON\n"
            "  --config TEXT\n"
            "      INI file with settings; flags and environment win over it\n"
            "  --log-level debug|info|warn|error|off\n"
            "      least important log lines to write to stderr (default info)\n"
            "  --help, -h\n"
            "      show this help\n");
}

}  // namespace
}  // namespace refrain::cli
