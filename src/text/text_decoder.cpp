// TextDecoder: what is complete goes out, an unfinished code point waits. Engine thread.
#include "text/text_decoder.h"

#include <algorithm>
#include <utility>

#include "base/str.h"
#include "text/unicode.h"

namespace refrain::text {

//   pending_ + bytes:  [ complete or ill-formed: goes out ][ beginning of a code point: waits ]
std::string TextDecoder::push(std::string_view bytes) {
  std::string all = std::move(pending_);
  all += bytes;
  pending_.clear();
  for (std::size_t tail = std::min<std::size_t>(3, all.size()); tail > 0; --tail) {
    const std::string_view end = std::string_view(all).substr(all.size() - tail);
    if (incomplete_length(end) != tail) continue;
    pending_ = end;
    all.resize(all.size() - tail);
    break;
  }
  return to_valid_utf8(all);
}

std::string TextDecoder::finish() {
  return to_valid_utf8(std::exchange(pending_, {}));
}

}  // namespace refrain::text
