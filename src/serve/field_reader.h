// FieldReader: takes the members of a JSON object into variables, each with its type and range, and
// remembers the first fault with the member's full path ("stream_options.include_usage"). A member
// that is absent or null leaves its variable as it is. One owner, any thread.
//
//   FieldReader read(body, "");
//   read.number("temperature", 0, 100, &sampling.temperature);
//   read.boolean("stream", &stream);
//   if (read.failed()) return read.error();
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "serve/json.h"

namespace refrain::serve {

class FieldReader {
 public:
  // `path` is where the object stands in the body, "" for the body itself.
  FieldReader(const Json& object, std::string path);

  void number(std::string_view name, double lowest, double highest, double* target);
  void number(std::string_view name, double lowest, double highest, float* target);
  // The value as it stands, whole numbers only (10.0 counts); false when absent or faulty.
  bool integer(std::string_view name, std::int64_t lowest, std::int64_t highest,
               std::int64_t* target);
  template <typename Integer>
  bool integer_into(std::string_view name, std::int64_t lowest, std::int64_t highest,
                    Integer* target) {
    std::int64_t value = 0;
    if (!integer(name, lowest, highest, &value)) return false;
    *target = static_cast<Integer>(value);
    return true;
  }
  void boolean(std::string_view name, bool* target);
  bool text(std::string_view name, std::string* target);
  // A member that must be an object or an array; null when absent (or faulty: see failed()).
  const Json* object(std::string_view name);
  const Json* array(std::string_view name);
  // Any member that is present and not null.
  const Json* any(std::string_view name) const;

  // Full path of a member, for errors of the caller's own.
  std::string path_of(std::string_view name) const;
  void fail(std::string_view name, std::string message, std::string hint = "",
            Code code = Code::kInvalidArgument);
  void fail(Error error);
  bool failed() const { return failed_; }
  const Error& error() const { return error_; }

 private:
  const Json* typed(std::string_view name, std::string_view wanted, bool (*accepts)(const Json&));

  const Json& object_;
  const std::string path_;
  bool failed_ = false;
  Error error_{};
};

// The number as a whole one, or false: integers, and doubles without a fraction.
bool whole_number(const Json& json, std::int64_t* target);

// Token ids, each inside [0, vocabulary_size).
Result<TokenList> read_tokens(const Json& array, const std::string& path,
                              std::size_t vocabulary_size);

}  // namespace refrain::serve
