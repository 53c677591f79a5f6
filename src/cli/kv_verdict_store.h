// What the check of KV formats found, kept in the data folder beside the calibrations, so that only
// the first start with a model and format pays for it. A verdict is that of one key: model file,
// rope, KV format, operators and the version of the check; what does not fit, is damaged or cannot
// be written is as good as none. Main thread.
//
//   KEY.json   {"format": "refrain-kv-check/1", "subject": KEY, "model": "..", "kv_format": "q8",
//               "rows": 256, "agreeing": 255, "kl": 0.21}
#pragma once

#include <optional>
#include <string>

#include "base/hash.h"
#include "cli/files.h"
#include "cli/kv_comparison.h"

namespace refrain::cli {

class KvVerdictStore {
 public:
  // ${XDG_DATA_HOME:-~/.local/share}/refrain/kv-check; without either nothing is kept.
  explicit KvVerdictStore(const Environment& environment);

  std::optional<KvScore> find(const Hash128& key) const;
  // Makes the folder; another process never sees half a file.
  void keep(const Hash128& key, const std::string& model, std::string_view kv_format,
            const KvScore& score) const;

 private:
  std::string path_of(const Hash128& key) const;
  std::string folder_;  // "" = none
};

}  // namespace refrain::cli
