// Reading whole small files, and where model files are looked for. Main thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace refrain::cli {

// Value of an environment variable, "" if unset. Passed in, so that tests have their own.
using Environment = std::function<std::string(const std::string& name)>;
Environment process_environment();

// The whole file. kNotFound (missing, a folder, not readable) or kTooLarge.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// ${XDG_DATA_HOME:-~/.local/share}/refrain/`name`; "" if neither variable is set.
std::string data_folder(const Environment& environment, const std::string& name);

// Puts `text` where a file is or shall be, and makes its folder. Another process never sees half a
// file. False: it cannot be written, and what was there still is.
bool replace_file(const std::string& path, std::string_view text);

// Where the default model and models named without a path are looked for, in order:
// $REFRAIN_MODEL_DIR, ${XDG_DATA_HOME:-~/.local/share}/refrain/models, and .deps/models of the
// checkout that the binary was built in.
std::vector<std::string> model_folders(const Environment& environment,
                                       const std::string& binary_path);
// Path of the running program.
std::string binary_path();

// `wanted` is a path, the name of a file in a model folder (".gguf" may be left out), or "" for the
// default model. kNotFound lists the places.
Result<std::string> find_model(const std::string& wanted, const std::vector<std::string>& folders);

inline constexpr std::string_view kDefaultModelFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

}  // namespace refrain::cli
