// SPDX-License-Identifier: Apache-2.0
// What systemd, or another program that follows its protocol, does for the server: it opens the sockets, and is told
// when the server serves. Clients that connect while the server starts anew so wait, and are not refused.
#ifndef BONSAI_SERVER_ACTIVATION_H_
#define BONSAI_SERVER_ACTIVATION_H_

#include <vector>

#include "bonsai/status.h"
#include "server/config.h"

namespace bonsai::server {

// Puts the sockets that were passed to this process in the place of the address "systemd", whose ListeningSocket takes
// them over. Call it once, before threads start: it changes the environment, so that no other process takes them for
// its own. Errors: InvalidArgument (none was passed; some were passed, and "systemd" is no address; one is no listening
// stream socket of TCP or Unix), with the remedy.
Status take_passed_sockets(std::vector<Address>* addresses);

// Says to who has started the server that it serves, or that it stops. Nothing happens if nobody wants to know.
void tell_ready();
void tell_stopping();

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_ACTIVATION_H_
