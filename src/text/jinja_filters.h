// The tables of filters by family; find_filter() looks through all. Plain data.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "text/jinja_ast.h"

namespace refrain::text::jinja {

using FilterEntry = std::pair<std::string_view, FilterFunction>;
std::span<const FilterEntry> text_filters();       // trim, upper, replace, indent ...
std::span<const FilterEntry> value_filters();      // default, int, round, tojson ...
std::span<const FilterEntry> sequence_filters();   // join, first, sort, unique ...
std::span<const FilterEntry> selection_filters();  // map, select, reject ...

// Follows "a.b.0" from `item`, as `attribute=` arguments do; integers pick items.
Result<Value> follow(Interpreter& run, const Value& item, const Value& path);

}  // namespace refrain::text::jinja
