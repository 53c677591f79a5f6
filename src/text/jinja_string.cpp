// String operations with origins. Pure functions, any thread.
#include "text/jinja_string.h"

#include <algorithm>

namespace refrain::text::jinja {
namespace {

bool belongs(std::string_view chars, std::string_view character) {
  for (std::size_t at = 0; at < chars.size();) {
    const std::size_t length = character_at(chars, at).length;
    if (chars.substr(at, length) == character) return true;
    at += length;
  }
  return false;
}

bool strippable(std::string_view bytes, std::size_t at, std::size_t length,
                const std::string_view* chars) {
  if (chars == nullptr) return is_space(character_at(bytes, at).code_point);
  return belongs(*chars, bytes.substr(at, length));
}

std::size_t character_before(std::string_view bytes, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(bytes[at]) & 0xC0U) == 0x80U) --at;
  return at + character_at(bytes, at).length == end ? at : end - 1;
}

std::vector<Text> split_spaces(const Text& text, std::int64_t limit) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> out;
  std::size_t at = 0;
  while (true) {
    while (at < bytes.size() && is_space(character_at(bytes, at).code_point)) {
      at += character_at(bytes, at).length;
    }
    if (at >= bytes.size()) return out;
    if (limit >= 0 && static_cast<std::int64_t>(out.size()) >= limit) {
      out.push_back(strip(text.slice(at, bytes.size()), Side::kRight));
      return out;
    }
    std::size_t end = at;
    while (end < bytes.size() && !is_space(character_at(bytes, end).code_point)) {
      end += character_at(bytes, end).length;
    }
    out.push_back(text.slice(at, end));
    at = end;
  }
}

std::vector<Text> split_spaces_from_right(const Text& text, std::int64_t limit) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> out;
  std::size_t end = bytes.size();
  const auto space_before = [&](std::size_t at) {
    return is_space(character_at(bytes, character_before(bytes, at)).code_point);
  };
  while (true) {
    while (end > 0 && space_before(end)) end = character_before(bytes, end);
    if (end == 0) break;
    if (static_cast<std::int64_t>(out.size()) >= limit) {
      out.push_back(strip(text.slice(0, end), Side::kLeft));
      break;
    }
    std::size_t at = end;
    while (at > 0 && !space_before(at)) at = character_before(bytes, at);
    out.push_back(text.slice(at, end));
    end = at;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// Appends one character in another case, all of it with the character's origin.
void append_case(Text& out, const Text& text, std::size_t at, LetterCase letter_case) {
  const Character c = character_at(text.bytes(), at);
  out.append(map_case(c.code_point, letter_case), text.origin_at(at));
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) ||
         map_case(c, LetterCase::kLower) != map_case(c, LetterCase::kUpper);
}

}  // namespace

Text strip(const Text& text, Side side, const std::string_view* chars) {
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const std::size_t length = character_at(bytes, begin).length;
    if (!strippable(bytes, begin, length, chars)) break;
    begin += length;
  }
  while (side != Side::kLeft && end > begin) {
    const std::size_t at = character_before(bytes, end);
    if (!strippable(bytes, at, end - at, chars)) break;
    end = at;
  }
  return text.slice(begin, end);
}

std::vector<Text> split(const Text& text, const std::string_view* separator, std::int64_t limit,
                        Side side) {
  if (separator == nullptr) {
    const bool from_right = side == Side::kRight && limit >= 0;
    return from_right ? split_spaces_from_right(text, limit) : split_spaces(text, limit);
  }
  const std::string_view bytes = text.bytes();
  std::vector<Text> out;
  if (side == Side::kRight && limit >= 0) {
    std::size_t end = bytes.size();
    while (static_cast<std::int64_t>(out.size()) < limit && end >= separator->size()) {
      const std::size_t found = bytes.rfind(*separator, end - separator->size());
      if (found == std::string_view::npos) break;
      out.push_back(text.slice(found + separator->size(), end));
      end = found;
    }
    out.push_back(text.slice(0, end));
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::size_t begin = 0;
  while (limit < 0 || static_cast<std::int64_t>(out.size()) < limit) {
    const std::size_t found = bytes.find(*separator, begin);
    if (found == std::string_view::npos) break;
    out.push_back(text.slice(begin, found));
    begin = found + separator->size();
  }
  out.push_back(text.slice(begin, bytes.size()));
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character c = character_at(bytes, at);
    std::size_t next = at + c.length;
    if (is_line_break(c.code_point)) {
      if (c.code_point == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      out.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) out.push_back(text.slice(begin, bytes.size()));
  return out;
}

Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t limit,
             std::size_t max_bytes) {
  const std::string_view bytes = text.bytes();
  Text out;
  std::size_t begin = 0;
  std::size_t search = 0;
  for (std::int64_t done = 0; limit < 0 || done < limit; ++done) {
    if (out.size() > max_bytes) return out;
    std::size_t found = search;
    if (!old.empty()) {
      found = bytes.find(old, search);
      if (found == std::string_view::npos) break;
    } else if (search > bytes.size()) {
      break;
    }
    out.append(text, begin, found);
    out.append(with);
    begin = found + old.size();
    search = begin;
    if (old.empty()) search += found < bytes.size() ? character_at(bytes, found).length : 1;
  }
  out.append(text, std::min(begin, bytes.size()), bytes.size());
  return out;
}

Text change_case(const Text& text, LetterCase letter_case) {
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    append_case(out, text, at, letter_case);
    at += character_at(text.bytes(), at).length;
  }
  return out;
}

Text title(const Text& text) {
  Text out;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text.bytes(), at);
    append_case(out, text, at, inside ? LetterCase::kLower : LetterCase::kTitle);
    inside = is_cased(c.code_point);
    at += c.length;
  }
  return out;
}

Text title_words(const Text& text) {
  Text out;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text.bytes(), at);
    append_case(out, text, at, inside ? LetterCase::kLower : LetterCase::kUpper);
    const bool opens =
        c.code_point < 0x80 &&
        std::string_view("-({[<").find(static_cast<char>(c.code_point)) != std::string_view::npos;
    inside = !is_space(c.code_point) && !opens;
    at += c.length;
  }
  return out;
}

Text capitalize(const Text& text) {
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    append_case(out, text, at, at == 0 ? LetterCase::kTitle : LetterCase::kLower);
    at += character_at(text.bytes(), at).length;
  }
  return out;
}

}  // namespace refrain::text::jinja
