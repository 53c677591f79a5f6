// Result<T>: a value, or an Error that a client or the world caused.
// Plain values, any thread. We throw nothing; exceptions of libraries end in the wrapper that
// owns the library and become an Error there. Example:
//
//   Result<Config> load(const std::string& path) {
//     ASSIGN_OR_RETURN(std::string text, read_file(path));
//     if (text.empty()) return Error{Code::kInvalidArgument, "`" + path + "` is empty"};
//     return parse(text);
//   }
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace refrain {

// One table from Code to HTTP status and OpenAI error type stands in serve/error_shape.cpp.
enum class Code {
  kInvalidArgument,  // the request or file is wrong: 400, exit 2 on the command line
  kContextLength,    // prompt does not fit the context: 400 with code context_length_exceeded
  kUnauthorized,     // no or wrong key: 401
  kForbidden,        // key known, action not allowed: 403
  kNotFound,         // 404
  kTooLarge,         // body, header, schema over its limit: 413
  kUnsupported,      // well formed, but not built or not offered: 400 / exit 1
  kQueueFull,        // 429 with Retry-After
  kUnavailable,      // draining, loading: 503
  kDeadline,         // took longer than allowed: 408 / 504
  kCancelled,        // client went away
  kDataLoss,         // a file is damaged or cut short
  kInternal,         // a fault of ours or of a library that we could contain: 500
};

struct Error {
  Code code = Code::kInternal;
  std::string message;  // what is wrong, one sentence, no trailing dot
  std::string hint = {};   // what to do about it; may be empty
  std::string field = {};  // request field, option or file part at fault, e.g. "temperature"
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}          // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}      // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

// Result<void>: success or an Error. `return {};` means success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return error_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    CHECK(!ok(), "error() of a Result that succeeded");
    return std::get<1>(error_);
  }

 private:
  std::variant<std::monostate, Error> error_;
};

}  // namespace refrain

#define REFRAIN_CONCAT_INNER(a, b) a##b
#define REFRAIN_CONCAT(a, b) REFRAIN_CONCAT_INNER(a, b)

// Returns the error of `expression` (a Result of any type) from the current function.
#define RETURN_IF_ERROR(expression)                                      \
  do {                                                                   \
    auto refrain_status = (expression);                                  \
    if (!refrain_status.ok()) return ::refrain::Error(refrain_status.error()); \
  } while (false)

// Declares or assigns `target` from a Result, or returns its error.
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_IMPL(REFRAIN_CONCAT(refrain_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_IMPL(temporary, target, expression)              \
  auto temporary = (expression);                                          \
  if (!temporary.ok()) return ::refrain::Error(std::move(temporary).error()); \
  target = std::move(temporary).value()
