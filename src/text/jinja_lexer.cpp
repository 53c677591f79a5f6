// The lexer: a scan over the normalised source, one method per state. One call, one thread.
#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>

#include "base/str.h"
#include "text/jinja_text.h"

namespace refrain::text::jinja {

Error syntax_error(std::uint32_t line, const std::string& what) {
  return Error{Code::kInvalidArgument, str_cat("chat template, line ", line, ": ", what),
               "the template uses Jinja2 syntax that is wrong or not supported", "chat_template"};
}

namespace {

constexpr std::array<std::string_view, 26> kOperators = {
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
    ")",  "[",  "]",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

// "\r\n" and "\r" become "\n"; one line break at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit_byte(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit_byte(c) || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize(source)) {}

  Result<std::vector<LexToken>> run() {
    while (at_ < text_.size()) RETURN_IF_ERROR(scan_root());
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  enum class Tag { kOutput, kBlock, kComment };

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  bool ahead(std::string_view what, std::size_t at) const {
    return text_.compare(at, what.size(), what) == 0;
  }
  void move_to(std::size_t to) {
    line_ += static_cast<std::uint32_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                   text_.begin() + static_cast<std::ptrdiff_t>(to),
                                                   '\n'));
    if (to > at_) line_starting_ = text_[to - 1] == '\n';
    at_ = to;
  }
  std::size_t skip_spaces(std::size_t at) const {
    while (at < text_.size()) {
      const Character c = character_at(text_, at);
      if (!is_space(c.code_point)) break;
      at += c.length;
    }
    return at;
  }

  // Text in front of a tag that begins at `tag`, cut as the tag's sign asks.
  std::string cut_data(std::size_t begin, std::size_t tag, char sign, bool is_output) const {
    std::string data = text_.substr(begin, tag - begin);
    if (sign == '-') {
      std::size_t end = 0;
      for (std::size_t at = 0; at < data.size();) {
        const Character c = character_at(data, at);
        at += c.length;
        if (!is_space(c.code_point)) end = at;
      }
      data.resize(end);
    } else if (sign != '+' && !is_output) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t line_begin = newline == std::string::npos ? 0 : newline + 1;
      const bool only_spaces = line_begin < data.size() && spaces_until_end(data, line_begin);
      if ((line_begin > 0 || line_starting_) && only_spaces) data.resize(line_begin);
    }
    return data;
  }
  static bool spaces_until_end(std::string_view data, std::size_t at) {
    while (at < data.size()) {
      const Character c = character_at(data, at);
      if (!is_space(c.code_point)) return false;
      at += c.length;
    }
    return true;
  }

  // Data up to the next tag, then the tag.
  Result<void> scan_root() {
    std::size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        add(TokenKind::kData, text_.substr(at_));
        move_to(text_.size());
        return {};
      }
      const char next = text_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const Tag kind = text_[tag + 1] == '{'   ? Tag::kOutput
                     : text_[tag + 1] == '%' ? Tag::kBlock
                                             : Tag::kComment;
    std::size_t after = tag + 2;
    char sign = ' ';
    if (after < text_.size() && (text_[after] == '-' || text_[after] == '+')) sign = text_[after++];
    std::string data = cut_data(at_, tag, sign, kind == Tag::kOutput);
    if (!data.empty()) add(TokenKind::kData, std::move(data));
    move_to(after);
    if (kind == Tag::kComment) return scan_comment();
    if (kind == Tag::kBlock && is_raw_begin()) return scan_raw();
    add(kind == Tag::kBlock ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, "");
    return scan_tag(kind);
  }

  // Just behind an end mark without sign: a block or comment swallows one line break.
  std::size_t after_end(std::size_t end, char sign) const {
    if (sign == '-') return skip_spaces(end);
    if (sign != '+' && end < text_.size() && text_[end] == '\n') return end + 1;
    return end;
  }

  Result<void> scan_comment() {
    const std::uint32_t began = line_;
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) return syntax_error(began, "a comment `{#` without `#}`");
    const char sign = end > at_ ? text_[end - 1] : ' ';
    move_to(after_end(end + 2, sign));
    return {};
  }

  bool is_raw_begin() const {
    const std::size_t word = skip_spaces(at_);
    if (!ahead("raw", word)) return false;
    const std::size_t end = skip_spaces(word + 3);
    return ahead("%}", end) || ahead("-%}", end);
  }

  Result<void> scan_raw() {
    const std::uint32_t began = line_;
    std::size_t begin = text_.find("%}", at_) + 2;
    if (text_[begin - 3] == '-') begin = skip_spaces(begin);
    move_to(begin);
    for (std::size_t tag = begin; (tag = text_.find("{%", tag)) != std::string::npos; ++tag) {
      std::size_t word = tag + 2;
      char sign = ' ';
      if (word < text_.size() && (text_[word] == '-' || text_[word] == '+')) sign = text_[word++];
      word = skip_spaces(word);
      if (!ahead("endraw", word)) continue;
      std::size_t end = skip_spaces(word + 6);
      char end_sign = ' ';
      if (end < text_.size() && (text_[end] == '-' || text_[end] == '+')) end_sign = text_[end++];
      if (!ahead("%}", end)) continue;
      std::string data = cut_data(begin, tag, sign, false);
      if (!data.empty()) add(TokenKind::kData, std::move(data));
      move_to(after_end(end + 2, end_sign));
      return {};
    }
    return syntax_error(began, "`{% raw %}` without `{% endraw %}`");
  }

  // Tokens of an expression or statement up to its end mark.
  Result<void> scan_tag(Tag kind) {
    const std::uint32_t began = line_;
    const std::string_view end = kind == Tag::kBlock ? "%}" : "}}";
    std::string open;  // brackets that are still open
    while (true) {
      move_to(skip_spaces(at_));
      if (at_ >= text_.size()) {
        return syntax_error(began, kind == Tag::kBlock ? "`{%` without `%}`" : "`{{` without `}}`");
      }
      if (open.empty()) {
        const char c = text_[at_];
        const bool sign = c == '-' || (c == '+' && kind == Tag::kBlock);
        if (ahead(end, at_) || (sign && ahead(end, at_ + 1))) {
          add(kind == Tag::kBlock ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, "");
          const std::size_t behind = at_ + (sign ? 3 : 2);
          const char mark = sign ? c : kind == Tag::kBlock ? ' ' : '+';
          move_to(after_end(behind, mark));
          return {};
        }
      }
      RETURN_IF_ERROR(scan_token(open));
    }
  }

  Result<void> scan_token(std::string& open) {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return scan_string(c);
    if (is_digit_byte(c)) return scan_number();
    if (is_name_byte(c)) {
      std::size_t end = at_;
      while (end < text_.size() && is_name_byte(text_[end])) ++end;
      add(TokenKind::kName, text_.substr(at_, end - at_));
      move_to(end);
      return {};
    }
    for (const std::string_view known : kOperators) {
      if (!ahead(known, at_)) continue;
      RETURN_IF_ERROR(balance(open, c));
      add(TokenKind::kOperator, std::string(known));
      move_to(at_ + known.size());
      return {};
    }
    return syntax_error(
        line_, str_cat("unexpected character `", to_valid_utf8(text_.substr(at_, 1)), "`"));
  }

  Result<void> balance(std::string& open, char c) const {
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if (c != ')' && c != ']' && c != '}') return {};
    const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open.empty() || open.back() != wanted) {
      return syntax_error(line_, str_cat("`", c, "` without `", wanted, "`"));
    }
    open.pop_back();
    return {};
  }

  Result<void> scan_number() {
    std::size_t end = at_;
    const auto digits = [&](auto accept) {
      while (end < text_.size() &&
             (accept(text_[end]) ||
              (text_[end] == '_' && end + 1 < text_.size() && accept(text_[end + 1])))) {
        ++end;
      }
    };
    const auto is_word = [](char c) { return is_name_byte(c) && c != '_'; };
    bool is_float = false;
    if (text_[at_] == '0' && at_ + 1 < text_.size() &&
        std::string_view("xXoObB").find(text_[at_ + 1]) != std::string_view::npos) {
      end += 2;
      digits(is_word);
    } else {
      digits(is_digit_byte);
      const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
      if (!after_dot && end + 1 < text_.size() && text_[end] == '.' &&
          is_digit_byte(text_[end + 1])) {
        is_float = true;
        ++end;
        digits(is_digit_byte);
      }
      std::size_t exponent = end;
      if (!after_dot && exponent < text_.size() &&
          (text_[exponent] == 'e' || text_[exponent] == 'E')) {
        ++exponent;
        if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-'))
          ++exponent;
        if (exponent < text_.size() && is_digit_byte(text_[exponent])) {
          is_float = true;
          end = exponent;
          digits(is_digit_byte);
        }
      }
    }
    std::string number = text_.substr(at_, end - at_);
    std::erase(number, '_');
    add(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(number));
    move_to(end);
    return {};
  }

  Result<void> scan_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return syntax_error(line_, "a string without its closing quote");
    ASSIGN_OR_RETURN(std::string decoded, unescape(text_.substr(at_ + 1, end - at_ - 1)));
    add(TokenKind::kString, std::move(decoded));
    move_to(end + 1);
    return {};
  }

  // The escapes of Python's string literals but \N{...}; unknown ones stay as they are.
  Result<std::string> unescape(const std::string& raw) const {
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 >= raw.size()) {
        out.push_back(raw[i]);
        continue;
      }
      const char c = raw[++i];
      static constexpr std::string_view kFrom = "ntrabfv\\'\"";
      static constexpr std::string_view kTo = "\n\t\r\a\b\f\v\\'\"";
      const std::size_t simple = kFrom.find(c);
      if (simple != std::string_view::npos) {
        out.push_back(kTo[simple]);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        ASSIGN_OR_RETURN(const char32_t code, hexadecimal(raw, i + 1, length));
        append_utf8(out, code);
        i += length;
      } else if (c >= '0' && c <= '7') {
        char32_t code = 0;
        std::size_t used = 0;
        while (used < 3 && i + used < raw.size() && raw[i + used] >= '0' && raw[i + used] <= '7') {
          code = code * 8 + static_cast<char32_t>(raw[i + used++] - '0');
        }
        append_utf8(out, code);
        i += used - 1;
      } else if (c == 'N') {
        return syntax_error(line_, "the escape `\\N` is not supported");
      } else if (c != '\n') {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  Result<char32_t> hexadecimal(const std::string& raw, std::size_t at, std::size_t length) const {
    char32_t code = 0;
    for (std::size_t i = at; i < at + length; ++i) {
      const char c = i < raw.size() ? raw[i] : ' ';
      const bool lower = c >= 'a' && c <= 'f';
      const bool upper = c >= 'A' && c <= 'F';
      if (!lower && !upper && !is_digit_byte(c))
        return syntax_error(line_, "a cut hexadecimal escape");
      const int digit = lower ? c - 'a' + 10 : upper ? c - 'A' + 10 : c - '0';
      code = (code << 4U) | static_cast<char32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return syntax_error(line_, "an escape that is no Unicode character");
    }
    return code;
  }

  std::string text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool line_starting_ = true;  // the tag before this text ended with a line break
  std::vector<LexToken> tokens_;
};

}  // namespace

Result<std::vector<LexToken>> lex(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace refrain::text::jinja
