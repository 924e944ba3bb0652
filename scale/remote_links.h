// SPDX-License-Identifier: Apache-2.0
// The links to the nodes whose targets one caller names: one for each fabric, made when a target first needs it.
//
// The deployment's secret (rdma/credentials.h) is read when the first link is made. The options name its file; without
// that, BONSAI_SECRET_FILE of the environment does. Without either, nodes are reached without a secret.
//
// Thread-safety: traffic() from any thread; the rest by one owner.
#ifndef BONSAI_SCALE_REMOTE_LINKS_H_
#define BONSAI_SCALE_REMOTE_LINKS_H_

#include <map>
#include <memory>
#include <string>

#include "bonsai/status.h"
#include "rdma/credentials.h"
#include "scale/remote_link.h"
#include "scale/target_name.h"

namespace bonsai::scale {

inline constexpr const char* kSecretFileVariable = "BONSAI_SECRET_FILE";

// The deployment's secret: of that file, or if it is "" of the one that the variable names. *has_secret: there is one.
// Errors: those of Secret::load().
Status load_secret(const std::string& file, rdma::Secret* secret, bool* has_secret);

class RemoteLinks {
 public:
  // `limit_ms`, `workers` and `member_ms` as LinkOptions.
  RemoteLinks(std::string secret_file, uint64_t limit_ms, size_t workers, uint64_t member_ms = 0)
      : secret_file_(std::move(secret_file)), limit_ms_(limit_ms), member_ms_(member_ms), workers_(workers) {}

  // Requires: the name is remote. The link lives as long as this object. Errors: those of open_fabric() and of
  // Secret::load(), IoError and InvalidArgument, and of RemoteLink::make().
  Status link_of(const TargetName& name, RemoteLink** link);

  // Those of all targets.
  [[nodiscard]] Leases& leases() const { return *leases_; }
  // RemoteLink::traffic() of all links, since they were made.
  [[nodiscard]] rdma::Traffic traffic() const;

 private:
  const std::string secret_file_;
  const uint64_t limit_ms_, member_ms_;
  const size_t workers_;
  bool secret_loaded_ = false, has_secret_ = false;
  rdma::Secret secret_;
  const std::unique_ptr<Leases> leases_ = std::make_unique<Leases>();
  std::map<std::string, std::unique_ptr<RemoteLink>> links_;  // by scheme
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_LINKS_H_
