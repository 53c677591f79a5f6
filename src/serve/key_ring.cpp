// See key_ring.h.
#include "serve/key_ring.h"

#include <algorithm>

#include "base/str.h"

namespace refrain::serve {
namespace {

constexpr std::string_view kScheme = "bearer";

// The key behind "Bearer", or "" if the header is not of that form.
std::string_view bearer_key(std::string_view authorization) {
  authorization = trim(authorization);
  if (authorization.size() <= kScheme.size() ||
      !equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme) ||
      (authorization[kScheme.size()] != ' ' && authorization[kScheme.size()] != '\t'))
    return {};
  return trim(authorization.substr(kScheme.size()));
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

KeyRing::KeyRing(std::vector<ApiKey> keys, std::string admin_key)
    : keys_(std::move(keys)), admin_key_(std::move(admin_key)) {
  std::map<std::string, std::vector<std::string>> keys_of;
  for (const ApiKey& key : keys_) keys_of[key.tenant].push_back(key.key);
  for (auto& [tenant, own] : keys_of) {
    // With the keys in it, nobody who only knows the tenant's name can compute the salt.
    std::sort(own.begin(), own.end());
    std::string material = "tenant";
    const auto append = [&](const std::string& part) {
      material += str_cat('\0', part.size(), ':', part);
    };
    append(tenant);
    for (const std::string& key : own) append(key);
    salts_[tenant] = hash_text(material);
  }
}

Result<Caller> KeyRing::admit(std::string_view authorization, Access access) const {
  if (access == Access::kOpen || keys_.empty()) return Caller{};
  const std::string_view presented = bearer_key(authorization);
  const ApiKey* match = nullptr;
  for (const ApiKey& key : keys_)  // all of them, so that the time tells nothing
    if (equal_in_constant_time(presented, key.key)) match = &key;
  const bool is_admin = !admin_key_.empty() && equal_in_constant_time(presented, admin_key_);
  if (!presented.empty() && match != nullptr)
    return Caller{.tenant = match->tenant,
                  .salt = salts_.at(match->tenant),
                  .max_waiting = match->max_waiting};
  if (!presented.empty() && is_admin && access == Access::kKeyOrAdmin)
    return Caller{.is_admin = true};
  const bool missing = trim(authorization).empty();
  return Error{Code::kUnauthorized,
               missing ? "no API key was sent" : "the API key is not valid for this call",
               "send the header `Authorization: Bearer KEY`"};
}

}  // namespace refrain::serve
