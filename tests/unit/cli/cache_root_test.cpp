// The root of cache keys: what changes the bits of a block changes it, and nothing else does.
// Requirements B3, A1.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>

#include "base/hash.h"
#include "cli/runtime.h"

namespace refrain::cli {
namespace {

std::string nothing(const std::string& /*name*/) {
  return {};
}

Compute made(model::KvFormat format, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {
      "serve",     "--model", REFRAIN_TEST_GENERATED "/tiny.gguf", "--max-context", "256",
      "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  const Result<CommandLine> line = parse_command_line(words);
  EXPECT_TRUE(line.ok());
  Result<Settings> settings = Settings::resolve(*line, nothing);
  EXPECT_TRUE(settings.ok());
  Console console(fileno(stdout), fileno(stderr), nothing);
  Result<LoadedModel> loaded = LoadedModel::load(*settings, console);
  EXPECT_TRUE(loaded.ok());
  Result<Compute> compute =
      Compute::create_with(format, std::move(loaded).value(), *settings, console);
  EXPECT_TRUE(compute.ok());
  return std::move(compute).value();
}

TEST(CacheRoot, DiffersByKvFormat) {
  std::set<std::string> roots;
  for (const kernels::KvFormatInfo& format : kernels::kv_formats()) {
    const Compute compute = made(format.format);
    EXPECT_EQ(compute.arena->format(), format.format);
    EXPECT_TRUE(roots.insert(to_hex(compute.cache_root())).second) << format.name;
  }
  EXPECT_EQ(roots.size(), kernels::kKvFormatCount);
}

// The format counts by itself, whatever the executor's name for its numbers says about it.
TEST(CacheRoot, DiffersByTheFormatThatOneExecutorIsAskedAbout) {
  const Compute compute = made(model::KvFormat::kF16);
  EXPECT_EQ(compute.cache_root(model::KvFormat::kF16), compute.cache_root());
  std::set<std::string> roots;
  for (const kernels::KvFormatInfo& format : kernels::kv_formats())
    roots.insert(to_hex(compute.cache_root(format.format)));
  EXPECT_EQ(roots.size(), kernels::kKvFormatCount);
}

// A restart finds what was kept: the same settings, or ones that change no bit, have the same root.
TEST(CacheRoot, IsTheSameForWhatChangesNoBit) {
  const Hash128 root = made(model::KvFormat::kQ8).cache_root();
  EXPECT_EQ(made(model::KvFormat::kQ8).cache_root(), root);
  EXPECT_EQ(made(model::KvFormat::kQ8, {"--kv-budget", "2MiB"}).cache_root(), root);
  EXPECT_NE(made(model::KvFormat::kF16, {"--kernels", "ggml"}).cache_root(),
            made(model::KvFormat::kF16).cache_root());
}

}  // namespace
}  // namespace refrain::cli
