// The GGUF header check: one pass over the keys, one over the tensor records, then what only the
// whole shows (duplicates, overlaps). Runs on the loading thread.
#include "model/gguf_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/str.h"
#include "model/tensor_types.h"

namespace refrain::model {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

constexpr std::array<std::string_view, 13> kTypeNames = {
    "uint8",   "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
    "boolean", "string", "array",  "uint64", "int64",  "float64"};
constexpr std::array<std::size_t, 13> kTypeWidths = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Smallest encodings: a key of one letter with a one-byte value; a tensor of one dimension.
constexpr std::uint64_t kKeyBytesMin = 8 + 1 + 4 + 1;
constexpr std::uint64_t kTensorBytesMin = 8 + 1 + 4 + 8 + 4 + 8;

// product = a * b, or false if it does not fit.
bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, std::string_view path) : file_(file), path_(path) {}

  Result<GgufHeader> read() {
    RETURN_IF_ERROR(read_counts());
    for (std::uint64_t i = 0; i < key_count_; ++i) RETURN_IF_ERROR(read_key(i));
    RETURN_IF_ERROR(sort_keys());
    RETURN_IF_ERROR(read_alignment());
    for (std::uint64_t i = 0; i < tensor_count_; ++i) RETURN_IF_ERROR(read_tensor(i));
    RETURN_IF_ERROR(place_tensors());
    RETURN_IF_ERROR(check_names());
    RETURN_IF_ERROR(check_overlaps());
    return std::move(header_);
  }

 private:
  std::uint64_t left() const { return file_.size() - at_; }

  template <typename T>
  bool take(T& value) {
    if (left() < sizeof(T)) return false;
    std::memcpy(&value, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // The bytes of a string whose length has been checked against left().
  std::string_view take_text(std::uint64_t length) {
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + at_, length);
    at_ += length;
    return text;
  }

  Error damaged(std::string field, std::uint64_t offset, const std::string& what) const {
    return Error{Code::kDataLoss,
                 str_cat("`", path_, "`: ", field, " at byte ", offset, ": ", what),
                 "the file is damaged or incomplete; get it again and compare its checksum",
                 std::move(field)};
  }
  Error cut_short(std::string field, std::uint64_t offset) const {
    return damaged(std::move(field), offset,
                   str_cat("the file ends here, after ", file_.size(), " bytes"));
  }
  Error unsupported(std::string field, const std::string& what, std::string hint) const {
    return Error{Code::kUnsupported, str_cat("`", path_, "`: ", field, ": ", what), std::move(hint),
                 std::move(field)};
  }

  Result<void> read_counts() {
    std::array<char, 4> magic{};
    if (!take(magic) || std::memcmp(magic.data(), "GGUF", 4) != 0) {
      Error error = damaged("magic", 0, "does not begin with `GGUF`");
      error.hint = "this is no GGUF file, or one that was not downloaded completely";
      return error;
    }
    RETURN_IF_ERROR(read_version());
    if (!take(tensor_count_)) return cut_short("tensor count", at_);
    if (!take(key_count_)) return cut_short("key count", at_);
    if (key_count_ > GgufLimits::kKeys || key_count_ > left() / kKeyBytesMin)
      return damaged("key count", 16, str_cat(key_count_, " keys cannot be in this file"));
    if (tensor_count_ > GgufLimits::kTensors || tensor_count_ > left() / kTensorBytesMin)
      return damaged("tensor count", 8, str_cat(tensor_count_, " tensors cannot be in this file"));
    if (tensor_count_ == 0) return damaged("tensor count", 8, "there are no tensors");
    return {};
  }

  Result<void> read_version() {
    std::uint32_t& version = header_.version;
    if (!take(version)) return cut_short("version", at_);
    if (version == 2 || version == 3) return {};
    if (__builtin_bswap32(version) == 2 || __builtin_bswap32(version) == 3)
      return unsupported("version", "the file is big-endian", "convert it to little-endian");
    return unsupported("version", str_cat("GGUF version ", version, " is not supported"),
                       "versions 2 and 3 are; convert the model with current tools");
  }

  Result<void> read_key(std::uint64_t index) {
    const std::string ordinal = str_cat("key ", index);
    const std::uint64_t begin = at_;
    std::uint64_t length = 0;
    if (!take(length)) return cut_short(ordinal, begin);
    if (length == 0 || length > GgufLimits::kKeyBytes)
      return damaged(ordinal, begin, str_cat("a key name of ", length, " bytes"));
    if (length > left()) return cut_short(ordinal, begin);
    GgufKey key;
    key.name = take_text(length);
    const std::string field = printable(key.name);
    std::uint32_t type = 0;
    if (!take(type)) return cut_short(field, at_);
    if (type >= kTypeNames.size())
      return damaged(field, at_ - 4, str_cat("there is no value type ", type));
    key.type = key.element = static_cast<GgufType>(type);
    if (key.type == GgufType::kArray) {
      RETURN_IF_ERROR(read_array_head(key, field));
    }
    key.offset = at_;
    RETURN_IF_ERROR(skip_values(key, field));
    header_.keys.push_back(key);
    return {};
  }

  Result<void> read_array_head(GgufKey& key, const std::string& field) {
    std::uint32_t element = 0;
    if (!take(element) || !take(key.count)) return cut_short(field, at_);
    if (element == static_cast<std::uint32_t>(GgufType::kArray))
      return damaged(field, at_ - 12, "an array of arrays");
    if (element >= kTypeNames.size())
      return damaged(field, at_ - 12, str_cat("there is no element type ", element));
    key.element = static_cast<GgufType>(element);
    return {};
  }

  Result<void> skip_values(const GgufKey& key, const std::string& field) {
    if (key.element == GgufType::kString) return skip_strings(key, field);
    const std::size_t width = width_of(key.element);
    if (key.count > left() / width) {
      return damaged(field, at_,
                     str_cat(key.count, " values of ", name_of(key.element),
                             " do not fit into the ", left(), " bytes that follow"));
    }
    if (key.element == GgufType::kBool) {
      const auto values = file_.subspan(at_, key.count);
      if (std::any_of(values.begin(), values.end(), [](std::byte b) { return b > std::byte{1}; }))
        return damaged(field, at_, "a boolean that is neither 0 nor 1");
    }
    at_ += key.count * width;
    return {};
  }

  Result<void> skip_strings(const GgufKey& key, const std::string& field) {
    if (key.count > left() / sizeof(std::uint64_t)) {
      return damaged(
          field, at_,
          str_cat(key.count, " strings do not fit into the ", left(), " bytes that follow"));
    }
    for (std::uint64_t i = 0; i < key.count; ++i) {
      const std::uint64_t begin = at_;
      std::uint64_t length = 0;
      if (!take(length)) return cut_short(field, begin);
      if (length > GgufLimits::kStringBytes)
        return damaged(field, begin,
                       str_cat("a string of ", length, " bytes is over the limit of ",
                               GgufLimits::kStringBytes));
      if (length > left()) return cut_short(field, begin);
      at_ += length;
    }
    return {};
  }

  Result<void> sort_keys() {
    auto& keys = header_.keys;
    std::sort(keys.begin(), keys.end(), [](const GgufKey& a, const GgufKey& b) {
      return a.name != b.name ? a.name < b.name : a.offset < b.offset;
    });
    const auto twice = std::adjacent_find(
        keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice == keys.end()) return {};
    return damaged(printable(twice->name), std::next(twice)->offset, "this key is there twice");
  }

  Result<void> read_alignment() {
    constexpr std::string_view kName = "general.alignment";
    for (const GgufKey& key : header_.keys) {
      if (key.name != kName) continue;
      if (key.type != GgufType::kUint32)
        return damaged(std::string(kName), key.offset,
                       str_cat("must be uint32, is ", name_of(key.type)));
      std::uint32_t alignment = 0;
      std::memcpy(&alignment, file_.data() + key.offset, sizeof(alignment));
      if (!std::has_single_bit(alignment) || alignment > GgufLimits::kAlignment)
        return damaged(std::string(kName), key.offset,
                       str_cat(alignment, " is not a power of two up to ", GgufLimits::kAlignment));
      header_.alignment = alignment;
    }
    return {};
  }

  Result<void> read_tensor(std::uint64_t index) {
    const std::string ordinal = str_cat("tensor ", index);
    const std::uint64_t begin = at_;
    std::uint64_t length = 0;
    if (!take(length)) return cut_short(ordinal, begin);
    if (length == 0 || length > GgufLimits::kTensorNameBytes)
      return damaged(ordinal, begin, str_cat("a tensor name of ", length, " bytes"));
    if (length > left()) return cut_short(ordinal, begin);
    TensorInfo tensor;
    tensor.name = take_text(length);
    const std::string field = str_cat("tensor ", printable(tensor.name));
    RETURN_IF_ERROR(read_dimensions(tensor, field));
    std::uint32_t type = 0;
    if (!take(type)) return cut_short(field, at_);
    RETURN_IF_ERROR(measure_tensor(tensor, type, field));
    // For now the offset within the data; place_tensors() adds where the data begins.
    if (!take(tensor.file_offset)) return cut_short(field, at_);
    record_offsets_.push_back(begin);
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  Result<void> read_dimensions(TensorInfo& tensor, const std::string& field) {
    std::uint32_t count = 0;
    if (!take(count)) return cut_short(field, at_);
    if (count == 0 || count > GgufLimits::kDimensions)
      return damaged(field, at_ - 4, str_cat(count, " dimensions; 1 to 4 are possible"));
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!take(tensor.dims[i])) return cut_short(field, at_);
      if (tensor.dims[i] == 0) return damaged(field, at_ - 8, str_cat("dimension ", i, " is 0"));
    }
    return {};
  }

  // Type, and the bytes that the dimensions make of it.
  Result<void> measure_tensor(TensorInfo& tensor, std::uint32_t id, const std::string& field) {
    const std::uint64_t offset = at_ - 4;
    const TensorType* type = find_tensor_type(id);
    if (type == nullptr) return damaged(field, offset, str_cat("there is no tensor type ", id));
    if (!type->supported)
      return unsupported(field, str_cat("tensor type ", type->name, " is not supported"),
                         str_cat("supported types are ", supported_tensor_types()));
    if (tensor.dims[0] % type->block_values != 0)
      return damaged(field, offset,
                     str_cat("rows of ", tensor.dims[0], " values are no multiple of ",
                             type->block_values, ", the block of ", type->name));
    tensor.type = static_cast<int>(id);
    tensor.type_name = type->name;
    std::uint64_t bytes = 0;
    bool fits = multiply(tensor.dims[0] / type->block_values, type->block_bytes, bytes);
    for (std::size_t i = 1; fits && i < tensor.dims.size(); ++i)
      fits = multiply(bytes, tensor.dims[i], bytes);
    if (!fits || bytes > file_.size())
      return damaged(field, offset, str_cat("is larger than the file of ", file_.size(), " bytes"));
    tensor.byte_count = bytes;
    return {};
  }

  // Turns offsets within the data into offsets within the file.
  Result<void> place_tensors() {
    const std::uint64_t mask = header_.alignment - 1;
    header_.data_offset = (at_ + mask) & ~mask;
    if (header_.data_offset > file_.size()) return cut_short("tensor data", file_.size());
    const std::uint64_t data_bytes = file_.size() - header_.data_offset;
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
      TensorInfo& tensor = header_.tensors[i];
      const std::uint64_t begin = tensor.file_offset;
      const std::string field = str_cat("tensor ", printable(tensor.name));
      if ((begin & mask) != 0)
        return damaged(field, record_offsets_[i],
                       str_cat("its offset ", begin, " is no multiple of ", header_.alignment));
      if (begin > data_bytes || tensor.byte_count > data_bytes - begin)
        return damaged(field, record_offsets_[i],
                       str_cat("its data (", tensor.byte_count, " bytes at offset ", begin,
                               ") lies outside the file of ", file_.size(), " bytes"));
      tensor.file_offset = header_.data_offset + begin;
    }
    return {};
  }

  Result<void> check_names() {
    const auto twice =
        first_adjacent([](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; },
                       [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
    if (!twice) return {};
    const TensorInfo& tensor = header_.tensors[twice->second];
    return damaged(str_cat("tensor ", printable(tensor.name)), record_offsets_[twice->second],
                   "a tensor of this name is there twice");
  }

  Result<void> check_overlaps() {
    const auto pair = first_adjacent(
        [](const TensorInfo& a, const TensorInfo& b) { return a.file_offset < b.file_offset; },
        [](const TensorInfo& a, const TensorInfo& b) {
          return a.file_offset + a.byte_count > b.file_offset;
        });
    if (!pair) return {};
    return damaged(
        str_cat("tensor ", printable(header_.tensors[pair->second].name)),
        record_offsets_[pair->second],
        str_cat("its data overlaps that of ", printable(header_.tensors[pair->first].name)));
  }

  // Sorts the tensors' indices by `less` and returns the first neighbours that `clash`.
  template <typename Less, typename Clash>
  std::optional<std::pair<std::size_t, std::size_t>> first_adjacent(Less less, Clash clash) const {
    std::vector<std::size_t> order(header_.tensors.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const TensorInfo& left_tensor = header_.tensors[a];
      const TensorInfo& right_tensor = header_.tensors[b];
      if (less(left_tensor, right_tensor)) return true;
      return !less(right_tensor, left_tensor) && a < b;  // file order among equals
    });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (clash(header_.tensors[order[i - 1]], header_.tensors[order[i]]))
        return std::pair{order[i - 1], order[i]};
    return std::nullopt;
  }

  std::span<const std::byte> file_;
  std::string_view path_;
  std::uint64_t at_ = 0;  // never beyond file_.size()
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
  GgufHeader header_;
  std::vector<std::uint64_t> record_offsets_;  // per tensor, for messages
};

}  // namespace

std::string_view name_of(GgufType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypeNames.size() ? kTypeNames[index] : "?";
}

std::size_t width_of(GgufType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypeWidths.size() ? kTypeWidths[index] : 0;
}

Result<GgufHeader> check_gguf(std::span<const std::byte> file, std::string_view path) {
  return HeaderReader(file, path).read();
}

std::string printable(std::string_view name) {
  constexpr std::size_t kBytesMax = 96;
  std::string text = to_valid_utf8(name.substr(0, kBytesMax));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  if (name.size() > kBytesMax) text += "...";
  return text;
}

}  // namespace refrain::model
