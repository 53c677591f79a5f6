// The vocabulary of a GGUF file, for support programs. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/gguf_file.h"
#include "model/vocabulary_reader.h"
#include "text/vocabulary.h"

namespace refrain::test_support {

inline Result<text::Vocabulary> read_vocabulary(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, model::GgufFile::open(path));
  const model::TensorInfo* embedding = file->find_tensor("token_embd.weight");
  if (embedding == nullptr) return Error{Code::kInvalidArgument, "the file has no token embedding"};
  return model::read_vocabulary(*file, static_cast<std::uint32_t>(embedding->dims[1]));
}

}  // namespace refrain::test_support
