// Files of the command line. Main thread.
#include "cli/files.h"

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/str.h"

namespace refrain::cli {
namespace fs = std::filesystem;

Environment process_environment() {
  return [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (fault || !fs::exists(status)) {
    return Error{Code::kNotFound, str_cat("there is no file `", path, "`"), "check the path"};
  }
  if (fs::is_directory(status)) {
    return Error{Code::kNotFound, str_cat("`", path, "` is a folder"), "name a file in it"};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{Code::kNotFound, str_cat("`", path, "` cannot be read"), "check its permissions"};
  }
  // Also right for pipes, whose size is not known beforehand.
  std::string text;
  std::string buffer(std::size_t{64} << 10U, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    text.append(buffer, 0, static_cast<std::size_t>(file.gcount()));
    if (text.size() > max_bytes) {
      return Error{Code::kTooLarge,
                   str_cat("`", path, "` is larger than ", format_bytes(max_bytes))};
    }
  }
  return text;
}

std::string binary_path() {
  std::error_code fault;
  const fs::path path = fs::read_symlink("/proc/self/exe", fault);
  return fault ? std::string{} : path.string();
}

std::string data_folder(const Environment& environment, const std::string& name) {
  std::string data = environment("XDG_DATA_HOME");
  if (const std::string home = environment("HOME"); data.empty() && !home.empty())
    data = home + "/.local/share";
  return data.empty() ? "" : str_cat(data, "/refrain/", name);
}

bool replace_file(const std::string& path, std::string_view text) {
  std::error_code fault;
  const fs::path to(path);
  if (to.has_parent_path()) fs::create_directories(to.parent_path(), fault);
  const std::string beside = str_cat(path, ".", ::getpid(), ".part");
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) fs::rename(beside, to, fault);
  if (file && !fault) return true;
  fs::remove(beside, fault);
  return false;
}

std::vector<std::string> model_folders(const Environment& environment, const std::string& binary) {
  std::vector<std::string> folders;
  if (const std::string own = environment("REFRAIN_MODEL_DIR"); !own.empty())
    folders.push_back(own);
  if (const std::string models = data_folder(environment, "models"); !models.empty())
    folders.push_back(models);
  // build/release/refrain -> ../../.deps/models
  if (!binary.empty()) {
    folders.push_back(
        (fs::path(binary).parent_path() / "../../.deps/models").lexically_normal().string());
  }
  return folders;
}

Result<std::string> find_model(const std::string& wanted, const std::vector<std::string>& folders) {
  std::error_code fault;
  const auto is_file = [&](const std::string& path) { return fs::is_regular_file(path, fault); };
  if (!wanted.empty() && is_file(wanted)) return wanted;
  if (!wanted.empty() && fs::is_directory(wanted, fault)) {
    return Error{Code::kNotFound, str_cat("model `", wanted, "` is a folder"),
                 "name the .gguf file in it", "--model"};
  }
  if (wanted.find('/') == std::string::npos) {
    const std::string name = wanted.empty() ? std::string(kDefaultModelFile) : wanted;
    for (const std::string& folder : folders) {
      for (const std::string& path :
           {str_cat(folder, "/", name), str_cat(folder, "/", name, ".gguf")}) {
        if (is_file(path)) return path;
      }
    }
  }
  std::string places;
  for (const std::string& folder : folders) places += str_cat(places.empty() ? "" : ", ", folder);
  if (wanted.empty()) {
    return Error{Code::kNotFound,
                 str_cat("the default model ", kDefaultModelFile, " is in none of: ", places),
                 "run scripts/setup.sh to get it, or give a GGUF file with --model", "--model"};
  }
  const bool is_path = wanted.find('/') != std::string::npos;
  return Error{
      Code::kNotFound,
      is_path ? str_cat("there is no model file `", wanted, "`")
              : str_cat("there is no model file `", wanted, "`, nor one of that name in: ", places),
      "give a GGUF file with --model, or leave --model out for the default model", "--model"};
}

}  // namespace refrain::cli
