// SPDX-License-Identifier: Apache-2.0
#include "server/activation.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/sockets.h"

namespace bonsai::server {
namespace {

bool is_placeholder(const Address& address) { return address.passed && address.descriptor < 0; }

Status address_of(int descriptor, Address* address) {
  if (sd_is_socket(descriptor, AF_UNSPEC, SOCK_STREAM, 1) <= 0 || !address_of_socket(descriptor, address)) {
    return Status::InvalidArgument("the descriptor " + std::to_string(descriptor) +
                                   " that was passed is no listening socket of TCP or Unix; in the .socket unit use " +
                                   "ListenStream= and Accept=no");
  }
  address->passed = true;
  address->descriptor = descriptor;
  return Status::OK();
}

}  // namespace

Status take_passed_sockets(std::vector<Address>* addresses) {
  const int count = std::max(sd_listen_fds(1), 0);
  const auto place = std::find_if(addresses->begin(), addresses->end(), is_placeholder);
  const bool wanted = place != addresses->end();
  if (wanted && count == 0) {
    return Status::InvalidArgument(
        "no socket was passed; --listen=systemd is for a .socket unit (conf/bonsai-server.socket), or for "
        "systemd-socket-activate");
  }
  if (!wanted && count != 0) {
    return Status::InvalidArgument(std::to_string(count) +
                                   " sockets were passed, and nothing would serve them; add --listen=systemd");
  }
  if (!wanted) return Status::OK();
  std::vector<Address> passed(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    BONSAI_RETURN_IF_ERROR(address_of(SD_LISTEN_FDS_START + i, &passed[static_cast<size_t>(i)]));
  }
  const auto behind = addresses->erase(place);
  addresses->insert(behind, std::make_move_iterator(passed.begin()), std::make_move_iterator(passed.end()));
  return Status::OK();
}

void tell_ready() { static_cast<void>(sd_notify(0, "READY=1")); }

void tell_stopping() { static_cast<void>(sd_notify(0, "STOPPING=1")); }

}  // namespace bonsai::server
