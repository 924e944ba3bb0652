// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_links.h"

#include <cstdlib>

#include "base/check.h"
#include "base/status_macros.h"
#include "scale/fabrics.h"

namespace bonsai::scale {

Status load_secret(const std::string& file, rdma::Secret* secret, bool* has_secret) {
  const char* const variable = std::getenv(kSecretFileVariable);
  const std::string named = !file.empty() ? file : variable != nullptr ? variable : "";
  if (!named.empty()) BONSAI_RETURN_IF_ERROR(rdma::Secret::load(named, secret));
  *has_secret = !named.empty();
  return Status::OK();
}

Status RemoteLinks::link_of(const TargetName& name, RemoteLink** link) {
  BONSAI_CHECK(name.is_remote());
  std::unique_ptr<RemoteLink>& of_scheme = links_[name.scheme];
  if (of_scheme == nullptr) {
    if (!secret_loaded_) BONSAI_RETURN_IF_ERROR(load_secret(secret_file_, &secret_, &has_secret_));
    secret_loaded_ = true;
    std::shared_ptr<rdma::Fabric> fabric;
    BONSAI_RETURN_IF_ERROR(open_fabric(name.scheme, &fabric));
    const LinkOptions options{.secret = has_secret_ ? &secret_ : nullptr,
                              .limit_ms = limit_ms_,
                              .workers = workers_,
                              .member_ms = member_ms_,
                              .leases = leases_.get()};
    BONSAI_RETURN_IF_ERROR(RemoteLink::make(std::move(fabric), options, &of_scheme));
  }
  *link = of_scheme.get();
  return Status::OK();
}

rdma::Traffic RemoteLinks::traffic() const {
  rdma::Traffic all;
  for (const auto& [scheme, link] : links_) {
    if (link != nullptr) all += link->traffic();
  }
  return all;
}

}  // namespace bonsai::scale
