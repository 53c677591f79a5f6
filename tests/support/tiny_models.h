// Tiny models of the fixture, loaded once, and random prompts for them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "model/model.h"

namespace refrain::test {

// `name`: of a file that tools/make_tiny_gguf.py has made, such as "tiny-llama".
inline const model::Model& model_of(const std::string& name) {
  static std::map<std::string, std::unique_ptr<model::Model>> loaded;
  std::unique_ptr<model::Model>& model = loaded[name];
  if (model == nullptr) {
    auto result =
        model::Model::load({.path = std::string(REFRAIN_TEST_GENERATED) + "/" + name + ".gguf"});
    CHECK(result.ok(), result.error().message);
    model = std::move(result).value();
  }
  return *model;
}

inline TokenList random_tokens(const model::Model& model, std::uint32_t count, std::uint64_t seed) {
  Rng rng(seed);
  TokenList tokens;
  tokens.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i)
    tokens.push_back(TokenId{static_cast<std::int32_t>(rng.below(model.shape().vocabulary_size))});
  return tokens;
}

}  // namespace refrain::test
