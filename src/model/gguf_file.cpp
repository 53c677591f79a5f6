// Opens and maps a GGUF file, checks its header twice (our own check, then ggml's reader over the
// same bytes) and serves its values. Runs on the loading thread; afterwards immutable.
#include "model/gguf_file.h"

#include <fcntl.h>
#include <gguf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "base/str.h"
#include "model/gguf_check.h"
#include "model/gguf_values.h"

namespace refrain::model {
namespace {

// A file's bytes: a private read-only mapping, or a vector.
class FileBytes {
 public:
  FileBytes() = default;
  explicit FileBytes(std::vector<std::byte> owned) : owned_(std::move(owned)), view_(owned_) {}
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() {
    if (mapping_ != nullptr) ::munmap(mapping_, view_.size());
  }

  // Lets the system take the pages wholly inside `part` back until they are read again.
  void release(std::span<const std::byte> part) const {
    if (mapping_ == nullptr) return;
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
    const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
    // Advice: a failure costs memory, nothing else.
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }

  Result<void> map(const std::string& path) {
    // Non-blocking, so that a named pipe is refused instead of waited for.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return open_error(path, errno);
    const Result<void> result = map_descriptor(descriptor, path);
    ::close(descriptor);
    return result;
  }

  std::span<const std::byte> view() const { return view_; }

 private:
  static Error open_error(const std::string& path, int number) {
    const bool missing = number == ENOENT || number == ENOTDIR;
    return Error{
        missing ? Code::kNotFound : Code::kInvalidArgument,
        str_cat("cannot open model file `", to_valid_utf8(path), "`: ", std::strerror(number)),
        missing ? "check the path given with `--model`" : "check the file's permissions", "model"};
  }

  Result<void> map_descriptor(int descriptor, const std::string& path) {
    struct stat status{};
    if (::fstat(descriptor, &status) != 0) return open_error(path, errno);
    if (!S_ISREG(status.st_mode))
      return Error{Code::kInvalidArgument,
                   str_cat("`", to_valid_utf8(path), "` is not a regular file"),
                   "give the path of a GGUF file", "model"};
    if (status.st_size == 0) return {};  // nothing to map; the check refuses it
    const auto size = static_cast<std::size_t>(status.st_size);
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED)
      return Error{
          Code::kUnavailable,
          str_cat("cannot map `", to_valid_utf8(path), "` into memory: ", std::strerror(errno)),
          "the address space may be limited (`ulimit -v`)", "model"};
    mapping_ = mapping;
    view_ = {static_cast<const std::byte*>(mapping), size};
    return {};
  }

  std::vector<std::byte> owned_;
  void* mapping_ = nullptr;
  std::span<const std::byte> view_;
};

struct GgufContextDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};

// What ggml's reader makes of a file that our check accepted: it must see the same tensors at the
// same places, for its operators will run on them.
Result<void> ask_ggml(std::span<const std::byte> file, const GgufHeader& header,
                      const std::string& path) {
  const auto refused = [&](std::string_view what) {
    return Error{Code::kDataLoss, str_cat("`", path, "`: ggml's reader refuses the file: ", what),
                 "tensors must follow each other without gaps; convert the model again", "model"};
  };
  gguf_init_params params{};
  params.no_alloc = true;
  const std::unique_ptr<gguf_context, GgufContextDeleter> context(
      gguf_init_from_buffer(file.data(), file.size(), params));
  if (!context) return refused("see the log for its reason");
  if (gguf_get_n_kv(context.get()) != static_cast<std::int64_t>(header.keys.size()) ||
      gguf_get_n_tensors(context.get()) != static_cast<std::int64_t>(header.tensors.size()) ||
      gguf_get_data_offset(context.get()) != header.data_offset)
    return refused("it counts other keys or tensors");
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const TensorInfo& tensor = header.tensors[i];
    const auto id = static_cast<std::int64_t>(i);
    const std::int64_t* dims = gguf_get_tensor_ne(context.get(), id);
    if (tensor.name != gguf_get_tensor_name(context.get(), id) ||
        tensor.type != static_cast<int>(gguf_get_tensor_type(context.get(), id)) ||
        tensor.byte_count != gguf_get_tensor_size(context.get(), id) ||
        tensor.file_offset - header.data_offset != gguf_get_tensor_offset(context.get(), id) ||
        !std::equal(
            tensor.dims.begin(), tensor.dims.end(), dims,
            [](std::uint64_t a, std::int64_t b) { return a == static_cast<std::uint64_t>(b); }))
      return refused(str_cat("it reads tensor ", printable(tensor.name), " differently"));
  }
  return {};
}

}  // namespace

struct GgufFile::Impl {
  explicit Impl(std::string file_path) : path(std::move(file_path)) {}
  Impl(std::string file_path, std::vector<std::byte> owned)
      : path(std::move(file_path)), bytes(std::move(owned)) {}

  GgufValues values() const { return {bytes.view(), header, path}; }

  std::string path;
  FileBytes bytes;
  GgufHeader header;
  std::unordered_map<std::string_view, const TensorInfo*> tensors_by_name;
};

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

Result<std::unique_ptr<GgufFile>> GgufFile::check(std::unique_ptr<Impl> impl) {
  const std::string name = to_valid_utf8(impl->path);
  ASSIGN_OR_RETURN(impl->header, check_gguf(impl->bytes.view(), name));
  RETURN_IF_ERROR(ask_ggml(impl->bytes.view(), impl->header, name));
  for (const TensorInfo& tensor : impl->header.tensors)
    impl->tensors_by_name.emplace(tensor.name, &tensor);
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(impl)));
}

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  auto impl = std::make_unique<Impl>(path);
  RETURN_IF_ERROR(impl->bytes.map(path));
  return check(std::move(impl));
}

Result<std::unique_ptr<GgufFile>> GgufFile::from_bytes(std::vector<std::byte> bytes,
                                                       const std::string& name) {
  return check(std::make_unique<Impl>(name, std::move(bytes)));
}

Result<std::optional<std::uint64_t>> GgufFile::get_uint(std::string_view key) const {
  return impl_->values().get_uint(key);
}
Result<std::optional<double>> GgufFile::get_real(std::string_view key) const {
  return impl_->values().get_real(key);
}
Result<std::optional<bool>> GgufFile::get_bool(std::string_view key) const {
  return impl_->values().get_bool(key);
}
Result<std::optional<std::string>> GgufFile::get_text(std::string_view key) const {
  return impl_->values().get_text(key);
}
Result<std::optional<std::vector<std::string>>> GgufFile::get_text_list(
    std::string_view key) const {
  return impl_->values().get_text_list(key);
}
Result<std::optional<std::vector<float>>> GgufFile::get_real_list(std::string_view key) const {
  return impl_->values().get_real_list(key);
}
Result<std::optional<std::vector<std::int64_t>>> GgufFile::get_int_list(
    std::string_view key) const {
  return impl_->values().get_int_list(key);
}

std::span<const TensorInfo> GgufFile::tensors() const {
  return impl_->header.tensors;
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto at = impl_->tensors_by_name.find(name);
  return at == impl_->tensors_by_name.end() ? nullptr : at->second;
}

void GgufFile::release(std::span<const std::byte> data) const {
  impl_->bytes.release(data);
}

std::span<const std::byte> GgufFile::tensor_data(const TensorInfo& tensor) const {
  return impl_->bytes.view().subspan(tensor.file_offset, tensor.byte_count);
}

const std::string& GgufFile::path() const {
  return impl_->path;
}
std::uint64_t GgufFile::file_bytes() const {
  return impl_->bytes.view().size();
}
std::uint64_t GgufFile::header_bytes() const {
  return impl_->header.data_offset;
}
std::span<const std::byte> GgufFile::header() const {
  return impl_->bytes.view().first(impl_->header.data_offset);
}

}  // namespace refrain::model
