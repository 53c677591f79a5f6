// Option table, command line, environment and INI file. Requirement A8.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/settings.h"

namespace refrain::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string{} : found->second;
  };
}

// A settings file that lives as long as the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("refrain_settings_" + std::to_string(::getpid()) + "_" + std::to_string(++count) +
              ".ini"))
                .string();
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Result<Settings> resolve(const std::vector<std::string>& words, const Variables& variables = {}) {
  const Result<CommandLine> line = parse_command_line(words);
  if (!line.ok()) return line.error();
  return Settings::resolve(*line, environment_of(variables));
}

// REQUIREMENTS A8: this file is accepted as it stands.
constexpr const char* kRequiredFile =
    "[server]\n"
    "max_tokens = 2048\n"
    "\n"
    "[cache]\n"
    "enabled = true\n"
    "block_size = 16\n"
    "max_blocks = 4096\n"
    "policy = lru\n"
    "suffix.enabled = true\n"
    "normalize_input = true\n"
    "min_match_blocks = 1\n";

TEST(Settings, AcceptsTheRequiredConfigurationFileAsItStands_A8) {
  const TemporaryFile file(kRequiredFile);
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->integer("--max-tokens"), 2048);
  EXPECT_TRUE(settings->boolean("--prefix-cache"));
  EXPECT_EQ(settings->integer("--block-size"), 16);
  EXPECT_EQ(settings->integer("--max-blocks"), 4096);
  EXPECT_EQ(settings->text("--cache-policy"), "lru");
  EXPECT_TRUE(settings->boolean("--segment-reuse"));
  EXPECT_TRUE(settings->boolean("--normalize-input"));
  EXPECT_EQ(settings->integer("--min-match-blocks"), 1);
  EXPECT_EQ(settings->setting("--max-blocks").source, Source::kFile);
}

TEST(Settings, SuffixEnabledMeansReuseModeRepair_A8) {
  const TemporaryFile file(kRequiredFile);
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->text("--reuse"), "repair");
  EXPECT_EQ(settings->setting("--reuse").source, Source::kFile);
  EXPECT_EQ(settings->setting("--reuse").origin, file.path() + " line 9");
  EXPECT_EQ(settings->real("--max-divergence"), 0.05);
  EXPECT_EQ(resolve({"serve"})->text("--reuse"), "exact");
  EXPECT_EQ(resolve({"serve", "--segment-reuse"})->text("--reuse"), "repair");
  EXPECT_EQ(resolve({"serve"}, {{"REFRAIN_SEGMENT_REUSE", "yes"}})->text("--reuse"), "repair");
}

TEST(Settings, TheStrongerPlaceDecidesBetweenReuseAndItsOtherName) {
  const TemporaryFile on("[cache]\nsuffix.enabled = true\n");
  const TemporaryFile splice("[cache]\nreuse.mode = splice\nreuse.max_divergence = 0.2\n");
  const auto mode = [](const TemporaryFile& file, std::vector<std::string> words,
                       const Variables& variables = {}) {
    words.insert(words.begin(), {"serve", "--config", file.path()});
    const auto settings = resolve(words, variables);
    return settings.ok() ? settings->text("--reuse") : settings.error().message;
  };
  EXPECT_EQ(mode(on, {"--reuse", "exact"}), "exact");
  EXPECT_EQ(mode(on, {"--no-segment-reuse"}), "exact");
  EXPECT_EQ(mode(on, {}, {{"REFRAIN_REUSE", "splice"}}), "splice");
  EXPECT_EQ(mode(splice, {}), "splice");
  EXPECT_EQ(mode(splice, {"--segment-reuse"}), "repair");
  EXPECT_EQ(mode(splice, {"--reuse", "repair"}, {{"REFRAIN_SEGMENT_REUSE", "off"}}), "repair");
  EXPECT_EQ(mode(splice, {}, {{"REFRAIN_SEGMENT_REUSE", "off"}}), "exact");
}

TEST(Settings, ReuseAndItsOtherNameMustAgreeWhereBothStandInOnePlace) {
  const TemporaryFile file("[cache]\nreuse.mode = exact\nsuffix.enabled = true\n");
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.error().code, Code::kInvalidArgument);
  EXPECT_EQ(settings.error().message,
            file.path() + " line 3: --segment-reuse true means --reuse repair, but " + file.path() +
                " line 2 says exact");
  EXPECT_EQ(settings.error().hint, "leave out --segment-reuse (cache.suffix.enabled)");
  EXPECT_FALSE(resolve({"serve", "--segment-reuse", "--reuse", "splice"}).ok());
  EXPECT_FALSE(resolve({"serve", "--no-segment-reuse", "--reuse", "repair"}).ok());
  EXPECT_FALSE(
      resolve({"serve"}, {{"REFRAIN_SEGMENT_REUSE", "1"}, {"REFRAIN_REUSE", "exact"}}).ok());
  EXPECT_TRUE(resolve({"serve", "--segment-reuse", "--reuse", "repair"}).ok());
  EXPECT_TRUE(resolve({"serve", "--no-segment-reuse", "--reuse", "exact"}).ok());
}

TEST(Settings, RefusesModesAndDivergencesThatMeanNothing) {
  const auto fault = [](const std::string& flag, const std::string& value) {
    const auto settings = resolve({"serve", flag, value});
    return settings.ok() ? "accepted" : settings.error().message + "; " + settings.error().hint;
  };
  EXPECT_TRUE(fault("--reuse", "fast")
                  .starts_with(
                      "--reuse: the value `fast` is not one of: exact, repair, splice; --reuse: "));
  for (const std::string value : {"-0.01", "nan", "inf", "10.5", "1e9", "", "some", "0.05 nats"})
    EXPECT_TRUE(fault("--max-divergence", value)
                    .starts_with("--max-divergence: the value `" + value +
                                 "` is not a number from 0 to 10; --max-divergence: "))
        << value << ": " << fault("--max-divergence", value);
  for (const std::string value : {"0", "0.02", "1e-3", "10"})
    EXPECT_EQ(fault("--max-divergence", value), "accepted");
}

TEST(Settings, EveryKeyOfTheTableMayStandInOneFile_A8) {
  std::map<std::string, std::string> sections;
  std::size_t keys = 0;
  for (const OptionInfo& option : option_table()) {
    if (option.ini_key.empty()) continue;
    ++keys;
    const std::string key(option.ini_key);
    const std::size_t dot = key.find('.');
    const std::string value =
        option.kind == OptionKind::kList ? "a" : std::string(option.default_text);
    sections[key.substr(0, dot)] += key.substr(dot + 1) + " = " + value + "\n";
  }
  std::string text;
  for (const auto& [name, lines] : sections) text += "[" + name + "]\n" + lines;
  const TemporaryFile file(text);
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  std::size_t from_file = 0;
  for (const OptionInfo& option : option_table())
    from_file += settings->setting(option.flag).source == Source::kFile ? 1 : 0;
  EXPECT_EQ(from_file, keys);
}

TEST(Settings, AcceptsBothCachePolicies_A8) {
  for (const std::string policy : {"lru", "lfu", "gdsf"}) {
    const TemporaryFile file("[cache]\npolicy = " + policy + "\n");
    const auto settings = resolve({"serve", "--config", file.path()});
    ASSERT_TRUE(settings.ok());
    EXPECT_EQ(settings->text("--cache-policy"), policy);
  }
  EXPECT_FALSE(resolve({"serve", "--cache-policy", "fifo"}).ok());
}

TEST(Settings, FlagBeatsEnvironmentBeatsFileBeatsDefault_A8) {
  const TemporaryFile file("[server]\nport = 1111\nhost = 1.1.1.1\ndrain_grace = 3\n");
  const Variables variables = {
      {"REFRAIN_PORT", "2222"}, {"REFRAIN_HOST", "2.2.2.2"}, {"REFRAIN_CONFIG", file.path()}};
  const auto settings = resolve({"serve", "--port", "3333"}, variables);
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->integer("--port"), 3333);
  EXPECT_EQ(settings->setting("--port").source, Source::kFlag);
  EXPECT_EQ(settings->text("--host"), "2.2.2.2");
  EXPECT_EQ(settings->setting("--host").origin, "REFRAIN_HOST");
  EXPECT_EQ(settings->integer("--drain-grace"), 3);
  EXPECT_EQ(settings->setting("--drain-grace").origin, file.path() + " line 4");
  EXPECT_EQ(settings->integer("--max-connections"), 2048);
  EXPECT_FALSE(settings->is_set("--max-connections"));
}

TEST(Settings, ConfigFlagBeatsConfigVariable) {
  const TemporaryFile one("[server]\nport = 1\n"), two("[server]\nport = 2\n");
  const auto settings =
      resolve({"serve", "--config", two.path()}, {{"REFRAIN_CONFIG", one.path()}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->integer("--port"), 2);
}

TEST(Settings, NamesAnUnknownKeyAndTheNearestKnownOne_A8) {
  const TemporaryFile file("[cache]\nblok_size = 16\n");
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.error().message,
            "`" + file.path() + "` line 2: unknown key `cache.blok_size`");
  EXPECT_EQ(settings.error().hint, "did you mean `cache.block_size`?");
  EXPECT_EQ(settings.error().field, "cache.blok_size");
}

TEST(Settings, NamesFileLineKeyAndAllowedValuesOfABadValue) {
  const TemporaryFile file("[cache]\npolicy = fifo\n");
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.error().message,
            file.path() + " line 2 (cache.policy): the value `fifo` is not one of: lru, lfu, gdsf");
}

TEST(Settings, RefusesTheSameKeyTwiceUnlessItIsAList) {
  const TemporaryFile twice("[server]\nport = 1\nport = 2\n");
  const auto refused = resolve({"serve", "--config", twice.path()});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("stands already in line 2"), std::string::npos);
  const TemporaryFile list("[server]\nallow_host = a\nallow_host = b\n");
  const auto taken = resolve({"serve", "--config", list.path()});
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->list("--allow-host"), (std::vector<std::string>{"a", "b"}));
}

TEST(Settings, ReportsAMissingConfigFile) {
  const auto settings = resolve({"serve", "--config", "/nowhere/refrain.ini"});
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.error().code, Code::kNotFound);
  EXPECT_NE(settings.error().message.find("/nowhere/refrain.ini"), std::string::npos);
}

TEST(Settings, ChecksRangesAndKinds) {
  const auto refused = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"serve"};
    all.insert(all.end(), words.begin(), words.end());
    const auto settings = resolve(all);
    return !settings.ok() && settings.error().code == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({"--port", "65536"}));
  EXPECT_TRUE(refused({"--port", "-1"}));
  EXPECT_TRUE(refused({"--port", "80x"}));
  EXPECT_TRUE(refused({"--port", "1.5"}));
  EXPECT_TRUE(refused({"--port", ""}));
  EXPECT_TRUE(refused({"--block-size", "20"}));
  EXPECT_TRUE(refused({"--block-size", "0"}));
  EXPECT_TRUE(refused({"--kv-budget", "much"}));
  EXPECT_TRUE(refused({"--kv-budget", "-4GiB"}));
  EXPECT_TRUE(refused({"--max-tokens", "0"}));
  EXPECT_TRUE(refused({"--api-key", ""}));
  EXPECT_FALSE(refused({"--port", "0"}));
  EXPECT_FALSE(refused({"--block-size", "64"}));
  EXPECT_FALSE(refused({"--kv-budget", "auto"}));
}

TEST(Settings, ReadsSizesInBinaryUnitsAndTokenCountsWithK) {
  const auto settings =
      resolve({"serve", "--kv-budget", "4GiB", "--max-body", "512KB", "--max-context", "8k"});
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->size("--kv-budget"), std::uint64_t{4} << 30U);
  EXPECT_EQ(settings->size("--max-body"), 512U << 10U);
  EXPECT_EQ(settings->integer("--max-context"), 8192);
}

TEST(Settings, NeverRepeatsASecretInAnErrorMessage) {
  const TemporaryFile file("[server]\napi_key =\n");
  const auto settings = resolve({"serve", "--config", file.path()});
  ASSERT_FALSE(settings.ok());
  const auto too_many = resolve({"serve", "--admin-key", "hush", "--port", "x"});
  ASSERT_FALSE(too_many.ok());
  EXPECT_EQ(too_many.error().message.find("hush"), std::string::npos);
}

TEST(Settings, SplitsListsInTheEnvironmentAtCommas) {
  const auto settings = resolve({"serve"}, {{"REFRAIN_API_KEY", "one, tenant=two"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->list("--api-key"), (std::vector<std::string>{"one", "tenant=two"}));
}

TEST(OptionTable, HasUniqueNamesAndAcceptsItsOwnDefaults) {
  std::set<std::string> names;
  for (const OptionInfo& option : option_table()) {
    EXPECT_TRUE(names.insert(std::string(option.flag)).second) << option.flag;
    if (!option.ini_key.empty()) {
      EXPECT_TRUE(names.insert(std::string(option.ini_key)).second) << option.ini_key;
      EXPECT_NE(option.ini_key.find('.'), std::string_view::npos) << option.ini_key;
    }
    EXPECT_TRUE(option.flag.starts_with("--")) << option.flag;
    EXPECT_FALSE(option.help.empty()) << option.flag;
    if (!option.stands_for.empty()) {
      const auto words = split(option.stands_for, ' ');
      ASSERT_EQ(words.size(), 3U) << option.flag;
      const OptionInfo* target = find_option(words[0]);
      ASSERT_NE(target, nullptr) << option.flag;
      EXPECT_EQ(option.kind, OptionKind::kBool) << option.flag;
      EXPECT_EQ(target->commands, option.commands) << option.flag;
      for (const std::string_view value : {words[1], words[2]})
        EXPECT_TRUE(check_value(*target, std::string(value), "table").ok()) << option.flag;
    }
    const bool has_value = option.kind == OptionKind::kInteger ||
                           option.kind == OptionKind::kReal || option.kind == OptionKind::kSize ||
                           option.kind == OptionKind::kCount || option.kind == OptionKind::kRate;
    if (has_value && option.default_text.empty()) {  // none, so that it has to be given
      EXPECT_TRUE(option.ini_key.empty()) << option.flag << ": `config show` wants a value";
    } else if (option.kind != OptionKind::kList) {
      EXPECT_TRUE(check_value(option, std::string(option.default_text), "default").ok())
          << option.flag;
    }
  }
}

TEST(OptionTable, NamesOnlyCommandsThatExist) {
  for (const OptionInfo& option : option_table()) {
    bool counts = option.commands == "*";
    for (const CommandInfo& command : command_table())
      counts = counts || counts_for(option, command.name);
    EXPECT_TRUE(counts) << option.flag << " counts for no command";
    std::string_view rest = option.commands;
    while (!rest.empty() && rest != "*") {
      const std::string_view name = rest.substr(0, rest.find(','));
      EXPECT_NE(find_command(name), nullptr) << option.flag << ": " << name;
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  }
}

TEST(TokenCounts, AreCommaSeparatedAndBounded) {
  const auto counts = parse_token_counts("512, 4k", "--prompt-tokens", 1, 10'000);
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(*counts, (std::vector<std::uint32_t>{512, 4096}));
  EXPECT_FALSE(parse_token_counts("512,", "--prompt-tokens", 1, 10'000).ok());
  EXPECT_FALSE(parse_token_counts("0", "--prompt-tokens", 1, 10'000).ok());
  EXPECT_FALSE(parse_token_counts("1e99", "--prompt-tokens", 1, 10'000).ok());
}

}  // namespace
}  // namespace refrain::cli
