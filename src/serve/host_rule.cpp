// See host_rule.h.
#include "serve/host_rule.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "base/str.h"

namespace refrain::serve {
namespace {

std::vector<std::string> names_of(std::vector<std::string> hosts) {
  for (std::string& host : hosts) host = host_name(host);
  return hosts;
}

}  // namespace

std::string host_name(std::string_view host) {
  host = trim(host);
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    host = host.substr(1, end - 1);
  } else if (std::count(host.begin(), host.end(), ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  std::string name(host);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_ip_literal(std::string_view name) {
  const std::string text(name);
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1 || inet_pton(AF_INET6, text.c_str(), &v6) == 1;
}

bool is_loopback_name(std::string_view name) {
  return name == "localhost" || name == "::1" || (name.starts_with("127.") && is_ip_literal(name));
}

HostRule::HostRule(std::vector<std::string> allowed_hosts, std::string bound_host)
    : allowed_(names_of(std::move(allowed_hosts))),
      bound_(host_name(bound_host)),
      bound_to_loopback_(is_loopback_name(bound_)) {}

bool HostRule::allows(std::string_view host) const {
  const std::string name = host_name(host);
  if (name.empty()) return false;
  if (!allowed_.empty())
    return std::find(allowed_.begin(), allowed_.end(), "*") != allowed_.end() ||
           std::find(allowed_.begin(), allowed_.end(), name) != allowed_.end();
  if (is_loopback_name(name) || name == bound_) return true;
  return !bound_to_loopback_ && is_ip_literal(name);
}

}  // namespace refrain::serve
