// TextDecoder: turns the bytes of sampled tokens into well-formed UTF-8 pieces for streaming. A
// code point split over tokens is held back until complete; at the end an incomplete one becomes
// one U+FFFD. The joined pieces equal the decoding of all bytes at once, however they were cut.
// One per choice, engine thread.
#pragma once

#include <string>
#include <string_view>

namespace refrain::text {

class TextDecoder {
 public:
  // Bytes of one more token; returns the text that is complete now (may be empty).
  std::string push(std::string_view bytes);
  // End of generation: what is still held back, ill-formed parts replaced by U+FFFD.
  std::string finish();
  // Bytes held back now (0-3).
  std::size_t pending_bytes() const { return pending_.size(); }

 private:
  std::string pending_;
};

}  // namespace refrain::text
