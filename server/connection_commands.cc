// SPDX-License-Identifier: Apache-2.0
// Commands about the connection itself.
#include <algorithm>

#include "bonsai/c.h"
#include "server/commands.h"

namespace bonsai::server {
namespace {

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";
constexpr std::string_view kBadName = "ERR Client names cannot contain spaces, newlines or special characters.";
constexpr std::string_view kUser = "default";  // the only one

// Whether the client is authenticated from now on.
bool authenticate(const Call& call, std::string_view user, std::string_view password) {
  const bool right =
      call.state.password.has_value() ? user == kUser && call.state.password->is(password) : user == kUser;
  if (right) call.client.authenticated = true;
  if (!right) call.state.counters.wrong_passwords.fetch_add(1, std::memory_order_relaxed);
  return right;
}

bool is_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

void run_ping(const Call& call) {
  if (call.args.size() > 2) return call.executor.error(&call.client, wrong_number_of_arguments("ping"));
  call.executor.reply(&call.client,
                      [&](Reply& out) { call.args.size() == 2 ? out.bulk(call.args[1]) : out.simple("PONG"); });
}

void run_echo(const Call& call) {
  call.executor.reply(&call.client, [&](Reply& out) { out.bulk(call.args[1]); });
}

void run_select(const Call& call) {
  int64_t database = -1;
  if (!parse_integer(call.args[1], &database)) return call.executor.error(&call.client, kNoInteger);
  if (database != 0) return call.executor.error(&call.client, "ERR DB index is out of range");
  reply_ok(call);
}

void run_quit(const Call& call) {
  reply_ok(call);
  call.client.ending = true;
}

void run_reset(const Call& call) {
  call.executor.settle(&call.client);
  call.client.transaction = Transaction();
  call.client.protocol = 2;
  call.client.authenticated = false;
  call.client.name.clear();
  call.executor.reply(&call.client, [](Reply& out) { out.simple("RESET"); });
}

void run_auth(const Call& call) {
  if (call.args.size() > 3) return call.executor.error(&call.client, kSyntaxError);
  if (call.args.size() == 2 && !call.state.password.has_value()) {
    return call.executor.error(&call.client,
                               "ERR AUTH <password> called without any password configured for the default user. Are "
                               "you sure your configuration is correct?");
  }
  const std::string_view user = call.args.size() == 3 ? call.args[1] : kUser;
  if (!authenticate(call, user, call.args.back())) return call.executor.error(&call.client, kWrongPassword);
  reply_ok(call);
}

void run_hello(const Call& call) {
  Client& client = call.client;
  call.executor.settle(&client);
  int64_t protocol = client.protocol;
  if (call.args.size() > 1 && !parse_integer(call.args[1], &protocol)) {
    return call.executor.error(&client, "ERR Protocol version is not an integer or out of range");
  }
  if (protocol != 2 && protocol != 3) return call.executor.error(&client, "NOPROTO unsupported protocol version");
  std::string_view name = client.name;
  for (size_t i = 2; i < call.args.size();) {
    const size_t left = call.args.size() - i;
    if (same_word(call.args[i], "AUTH") && left >= 3) {
      if (!authenticate(call, call.args[i + 1], call.args[i + 2])) return call.executor.error(&client, kWrongPassword);
      i += 3;
    } else if (same_word(call.args[i], "SETNAME") && left >= 2) {
      name = call.args[i + 1];
      if (!is_name(name)) return call.executor.error(&client, kBadName);
      i += 2;
    } else {
      return call.executor.error(&client, "ERR Syntax error in HELLO option '" + std::string(call.args[i]) + "'");
    }
  }
  if (call.state.password.has_value() && !client.authenticated) {
    return call.executor.error(&client,
                               "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
                               "<proto> AUTH <user> <pass> option can be used to authenticate the client and select "
                               "the RESP protocol version at the same time");
  }
  client.protocol = static_cast<int>(protocol);
  client.name = std::string(name);
  call.executor.reply(&client, [&](Reply& out) {
    out.map(7);
    out.bulk("server"), out.bulk("bonsai");
    out.bulk("version"), out.bulk(BONSAI_VERSION_STRING);
    out.bulk("proto"), out.integer(protocol);
    out.bulk("id"), out.integer(static_cast<int64_t>(client.id));
    out.bulk("mode"), out.bulk("standalone");
    out.bulk("role"), out.bulk("master");
    out.bulk("modules"), out.array(0);
  });
}

void run_client(const Call& call) {
  Client& client = call.client;
  const std::string_view what = call.args[1];
  const size_t arguments = call.args.size();
  if (same_word(what, "ID") && arguments == 2) {
    return call.executor.reply(&client, [&](Reply& out) { out.integer(static_cast<int64_t>(client.id)); });
  }
  if (same_word(what, "GETNAME") && arguments == 2) {
    return call.executor.reply(&client, [&](Reply& out) { client.name.empty() ? out.null() : out.bulk(client.name); });
  }
  if (same_word(what, "SETNAME") && arguments == 3) {
    if (!is_name(call.args[2])) return call.executor.error(&client, kBadName);
    client.name = std::string(call.args[2]);
    return reply_ok(call);
  }
  if (same_word(what, "SETINFO") && arguments == 4) return reply_ok(call);
  if (same_word(what, "INFO") && arguments == 2) {
    const std::string line = "id=" + std::to_string(client.id) + " addr=" + client.address + " name=" + client.name +
                             " age=" + std::to_string((base::now_ns() - client.connected_ns) / base::kNsPerSecond) +
                             " db=0 qbuf=" + std::to_string(client.in.size()) +
                             " obl=" + std::to_string(client.unsent()) +
                             " cmd=client|info user=default resp=" + std::to_string(client.protocol) + "\n";
    return call.executor.reply(&client, [&](Reply& out) { out.text(line); });
  }
  call.executor.error(&client, unknown_subcommand(what, "CLIENT"));
}

}  // namespace bonsai::server
