// module: model
// Any bytes as a GGUF file: the header check, ggml's reader after it, every getter, shape and
// vocabulary. Whatever the bytes, the answer is a value or an Error with a message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/str.h"
#include "model/gguf_check.h"
#include "model/gguf_file.h"
#include "model/shape_reader.h"
#include "model/vocabulary_reader.h"

namespace {

using refrain::model::GgufFile;
using refrain::model::GgufHeader;

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename T>
void require_explained(const refrain::Result<T>& result) {
  if (result.ok()) return;
  const std::string& message = result.error().message;
  require(!message.empty() && message.size() < 2000 && refrain::is_valid_utf8(message));
  require(message.find('\n') == std::string::npos);
}

// What check_gguf() promises about a file that it accepts.
void require_sound(const GgufHeader& header, std::size_t file_bytes) {
  require(header.data_offset <= file_bytes && header.data_offset % header.alignment == 0);
  for (const auto& tensor : header.tensors) {
    require(tensor.byte_count > 0 && tensor.file_offset >= header.data_offset);
    require(tensor.byte_count <= file_bytes &&
            tensor.file_offset <= file_bytes - tensor.byte_count);
  }
}

void read_everything(const GgufFile& file, const GgufHeader& header) {
  for (const auto& key : header.keys) {
    require_explained(file.get_uint(key.name));
    require_explained(file.get_real(key.name));
    require_explained(file.get_bool(key.name));
    require_explained(file.get_text(key.name));
    require_explained(file.get_text_list(key.name));
    require_explained(file.get_real_list(key.name));
    require_explained(file.get_int_list(key.name));
  }
  for (const auto& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor);
    require(file.tensor_data(tensor).size() == tensor.byte_count);
  }
  const auto shape = refrain::model::read_shape(file);
  require_explained(shape);
  const auto rows = shape.ok() ? shape->vocabulary_size : 3;
  require_explained(refrain::model::read_vocabulary(file, rows));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(begin, begin + size);
  const auto header = refrain::model::check_gguf(bytes, "fuzz");
  require_explained(header);
  if (!header.ok()) return 0;
  require_sound(*header, size);
  const auto file = GgufFile::from_bytes(bytes, "fuzz");
  require_explained(file);
  if (file.ok()) read_everything(**file, *header);
  return 0;
}
