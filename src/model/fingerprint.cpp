// Samples per tensor, so that each layer's weights count, however small it is in the file.
#include "model/fingerprint.h"

#include <algorithm>
#include <cstring>

namespace refrain::model {
namespace {

constexpr std::uint64_t kSampleBytes = 4096;

// Begin, middle and end of a tensor; all of a small one.
Hash128 add_tensor(Hash128 hash, std::span<const std::byte> data) {
  if (data.size() <= 3 * kSampleBytes) return hash_chain(hash, data);
  hash = hash_chain(hash, data.first(kSampleBytes));
  hash = hash_chain(hash, data.subspan(data.size() / 2, kSampleBytes));
  return hash_chain(hash, data.last(kSampleBytes));
}

}  // namespace

Hash128 fingerprint_of(const GgufFile& file) {
  const std::uint64_t size = file.file_bytes();
  Hash128 hash = hash_chain(Hash128{}, std::as_bytes(std::span(&size, 1)));
  hash = hash_chain(hash, file.header());
  for (const TensorInfo& tensor : file.tensors()) hash = add_tensor(hash, file.tensor_data(tensor));
  return hash;
}

}  // namespace refrain::model
