// Parses a chat template into its syntax tree. Syntax errors, unknown statements, filters and
// tests name the line. Pure function; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "text/jinja_ast.h"

namespace refrain::text::jinja {

inline constexpr std::size_t kMaxTemplateBytes = 1U << 20U;
inline constexpr std::uint32_t kMaxExpressionHeight = 160;  // e.g. a + b + c ... of 160 terms

// `max_depth`: statements and brackets nested in each other.
Result<Template> parse_template(std::string_view source, std::size_t max_depth);

// Known names; null if there is none.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

}  // namespace refrain::text::jinja
