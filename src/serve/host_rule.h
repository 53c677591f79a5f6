// HostRule: which Host headers are ours. A web page whose name suddenly resolves to 127.0.0.1 (DNS
// rebinding) still sends its own name, so unknown names are refused. Immutable, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace refrain::serve {

class HostRule {
 public:
  // `bound_host` is the address we listen on. With an empty list: loopback names and the bound
  // address; when listening on other than loopback, also any IP address (a literal address cannot
  // be rebound, and the machine may have several).
  HostRule(std::vector<std::string> allowed_hosts, std::string bound_host);

  // `host` is the header's value, "name[:port]" or "[v6][:port]".
  bool allows(std::string_view host) const;

 private:
  const std::vector<std::string> allowed_;  // lower case, without port
  const std::string bound_;
  const bool bound_to_loopback_;
};

// Name or address without port and brackets, lower case.
std::string host_name(std::string_view host);
bool is_loopback_name(std::string_view name);
bool is_ip_literal(std::string_view name);

}  // namespace refrain::serve
