// KeyRing: API keys, the tenant each one stands for, and the admin key. Comparing takes the same
// time wherever a guess goes wrong; keys appear in no log line and no error. Immutable, any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "serve/router.h"
#include "serve/server.h"

namespace refrain::serve {

struct Caller {
  std::string tenant;             // "" when no keys are set
  Hash128 salt{};                 // keeps the cache of tenants apart; zero without keys
  std::uint32_t max_waiting = 0;  // 0 = no own limit
  bool is_admin = false;          // came with the admin key: of no tenant
};

class KeyRing {
 public:
  KeyRing(std::vector<ApiKey> keys, std::string admin_key);

  // `authorization` is the header's value: "Bearer KEY", the word in any case, blanks around the
  // key ignored. kUnauthorized if a key is needed and this is none.
  Result<Caller> admit(std::string_view authorization, Access access) const;

 private:
  const std::vector<ApiKey> keys_;
  const std::string admin_key_;
  std::map<std::string, Hash128> salts_;  // tenant -> hash of its name and keys
};

// Equal content; the time depends on the lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace refrain::serve
