// SPDX-License-Identifier: Apache-2.0
// bonsai-server: serves a pool to clients of Redis. See help_text().
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <signal.h>
#include <sodium.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/exit_code.h"
#include "admin/flag_parser.h"
#include "admin/log_sink.h"
#include "admin/metrics/service.h"
#include "admin/remedy.h"
#include "admin/run_main.h"
#include "admin/text.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bonsai/c.h"
#include "bonsai/testing.h"
#include "server/activation.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/service.h"
#include "server/state.h"
#include "server/sweeper.h"

DEFINE_string(pool, "",
              "PATH[,PATH...]|the pool, as of the program bonsai: files, devices, shm:// and rdma:// targets");
DEFINE_bool(create, false, "|make the pool first when there is none");
DEFINE_string(bytes, "1G", "SIZE|size of each target of a new pool, e.g. 64M, 1G");
DEFINE_string(log_bytes, "0", "SIZE|part of a new pool that is log; 0: a tenth");
DEFINE_string(durability, "durable", "durable|buffered|what OK means: durable, or durable within 10 ms");
DEFINE_string(domain, "auto", "auto|adr|eadr|which stores survive a crash: flushed lines (adr) or all (eadr)");
DEFINE_string(medium, "auto",
              "auto|shadow|shadow-without-flushes|emulator|how bytes are written; all but auto are for tests");
DEFINE_string(secret_file, "", "FILE|of remote targets: the secret of their nodes (default: $BONSAI_SECRET_FILE)");
DEFINE_bool(take_over, false, "|take a remote pool from its owner, also from one that is alive");
DEFINE_uint32(stall_ms, 1000, "N|how long an update waits for room in a full pool before it gets -OOM");
DEFINE_string(listen, "127.0.0.1:6379",
              "ADDRESS[,ADDRESS...]|HOST:PORT with a numeric host, [IPV6]:PORT, unix:PATH, or systemd: the sockets "
              "that a .socket unit has opened");
DEFINE_string(password_file, "", "FILE|its first line is the password that clients must give (AUTH)");
DEFINE_uint32(threads, 0, "N|threads that serve connections; 0: one per processor, four at most");
DEFINE_uint32(connections_max, 10'000, "N|further connections are refused");
DEFINE_string(request_bytes_max, "64M", "SIZE|a larger request ends its connection");
DEFINE_string(reply_bytes_max, "64M", "SIZE|a reply of many keys or values that would be larger is an error instead");
DEFINE_string(transaction_bytes_max, "64M", "SIZE|a transaction that queues, watches or writes more is refused");
DEFINE_uint32(watch_s, 60, "N|WATCH lasts so long at most; then EXEC does nothing, as if a key had been updated");
DEFINE_uint32(sweep_ms, 50, "N|pause between two steps of the removal of expired keys; 0: they are not removed");
DEFINE_uint32(snapshots_max, 64, "N|snapshots with a name (SNAPSHOT CREATE) at a time");
DEFINE_uint32(snapshot_s_max, 3'600,
              "N|they live so long at most: what is overwritten meanwhile stays, in memory or in the pool");
DEFINE_int64(slowlog_us, 10'000, "N|SLOWLOG lists commands that took so many microseconds; 0: all, -1: none");
DEFINE_uint32(slowlog_entries_max, 128, "N|commands that SLOWLOG keeps");
DEFINE_uint32(idle_s, 0, "N|close connections that send nothing for so long; 0: never");
DEFINE_string(metrics, "",
              "ADDRESS|serve metrics to Prometheus at PORT or 127.0.0.1:PORT, or at HOST:PORT to other machines");
DEFINE_uint32(slow_s, 60, "N|close connections that take none of their replies for so long; 0: never");

namespace bonsai::server {
namespace {

constexpr std::string_view kFlags[] = {"pool",
                                       "create",
                                       "bytes",
                                       "log_bytes",
                                       "durability",
                                       "domain",
                                       "medium",
                                       "secret_file",
                                       "take_over",
                                       "stall_ms",
                                       "listen",
                                       "password_file",
                                       "threads",
                                       "connections_max",
                                       "request_bytes_max",
                                       "reply_bytes_max",
                                       "transaction_bytes_max",
                                       "watch_s",
                                       "sweep_ms",
                                       "snapshots_max",
                                       "snapshot_s_max",
                                       "slowlog_us",
                                       "slowlog_entries_max",
                                       "metrics",
                                       "idle_s",
                                       "slow_s"};
constexpr uint32_t kThreadsByDefaultMax = 4;
constexpr int kExitLost = 5;
constexpr long kLookNs = 500'000'000;  // between two looks at the counters, for the log

std::string help_text() {
  std::string text =
      "bonsai-server: serves a pool to clients of Redis, over TCP and Unix sockets (RESP2 and RESP3)\n\n"
      "  bonsai-server --pool=PATH [--create] [FLAGS]\n"
      "  bonsai-server --version\n\n"
      "  bonsai-server --pool=/dev/shm/fruit.pool --create --bytes=64M &\n"
      "  redis-cli set apple red\n"
      "  redis-cli range - + LIMIT 10              # keys and values in key order\n\n"
      "A reply OK means that the update is durable. Updates that arrive together, of one connection or of many, share\n"
      "the fences that make them so: clients that pipeline are served several times faster. With\n"
      "--durability=buffered a crash may lose the updates of the last 10 ms, and INFO says so.\n\n"
      "  (umask 077; openssl rand -hex 32 >password)   # other machines need a password\n"
      "  bonsai-server --pool=/mnt/pmem/a --listen=192.0.2.7:6379,unix:/run/bonsai.sock --password_file=password\n\n"
      "Passwords and data cross the network as they are: use a network of your own, or a tunnel.\n"
      "The commands are listed by COMMAND DOCS, and in docs/server.md. A full pool answers -OOM and still takes\n"
      "DEL. It runs until SIGINT or SIGTERM, sends the replies of what it has done, and writes to standard error\n"
      "what happens.\n"
      "A server that lost its pool, because a device failed, its nodes are gone or another owner took it, ends.\n"
      "Exit code 0: stopped cleanly; 2: wrong usage; 3: it cannot serve; 4: the pool is damaged; 5: it lost its pool\n"
      "while it served, start it again.\n\n"
      "Flags:\n";
  for (const std::string_view flag : kFlags) text += admin::flag_help(flag);
  return text;
}

template <class Value, size_t kCount>
Status parse_choice(const char* flag, const std::string& text,
                    const std::array<std::pair<std::string_view, Value>, kCount>& choices, Value* value) {
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (text == name) return *value = choice, Status::OK();
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return Status::InvalidArgument("--" + std::string(flag) + " is '" + admin::escape(text) + "'; give one of: " + known);
}

struct Opening {
  Options options;
  TestOptions test;
};

Status opening_of_flags(Opening* opening) {
  constexpr std::array<std::pair<std::string_view, Durability>, 2> kDurabilities = {
      {{"durable", Durability::kDurable}, {"buffered", Durability::kBuffered}}};
  constexpr std::array<std::pair<std::string_view, PersistenceDomain>, 3> kDomains = {
      {{"auto", PersistenceDomain::kAuto}, {"adr", PersistenceDomain::kAdr}, {"eadr", PersistenceDomain::kEadr}}};
  constexpr std::array<std::pair<std::string_view, TestMedium>, 4> kMedia = {
      {{"auto", TestMedium::kNone},
       {"shadow", TestMedium::kShadow},
       {"shadow-without-flushes", TestMedium::kShadow},
       {"emulator", TestMedium::kEmulator}}};
  Options& options = opening->options;
  if (FLAGS_pool.empty()) {
    return Status::InvalidArgument("no pool was named; add --pool=PATH, e.g. --pool=/dev/shm/bonsai.pool --create");
  }
  BONSAI_RETURN_IF_ERROR(parse_choice("durability", FLAGS_durability, kDurabilities, &options.durability));
  BONSAI_RETURN_IF_ERROR(parse_choice("domain", FLAGS_domain, kDomains, &options.persistence_domain));
  BONSAI_RETURN_IF_ERROR(parse_choice("medium", FLAGS_medium, kMedia, &opening->test.medium));
  BONSAI_RETURN_IF_ERROR(admin::parse_size(FLAGS_bytes, "--bytes", &options.pool_bytes));
  BONSAI_RETURN_IF_ERROR(admin::parse_size(FLAGS_log_bytes, "--log_bytes", &options.log_bytes));
  opening->test.shadow_drops_flushes = FLAGS_medium == "shadow-without-flushes";
  options.create_if_missing = FLAGS_create;
  options.any_key_format = true;
  options.fabric_secret_file = FLAGS_secret_file;
  options.take_over = FLAGS_take_over;
  options.stall_ms_max = FLAGS_stall_ms;
  options.log_sink = admin::log_line;
  return Status::OK();
}

Status config_of_flags(Config* config) {
  const Status listen = parse_addresses(FLAGS_listen, &config->listen);
  if (!listen.ok()) return Status::InvalidArgument("--listen: " + std::string(listen.message()));
  BONSAI_RETURN_IF_ERROR(take_passed_sockets(&config->listen));
  BONSAI_RETURN_IF_ERROR(admin::parse_size(FLAGS_request_bytes_max, "--request_bytes_max", &config->request_bytes_max));
  BONSAI_RETURN_IF_ERROR(admin::parse_size(FLAGS_reply_bytes_max, "--reply_bytes_max", &config->reply_bytes_max));
  BONSAI_RETURN_IF_ERROR(
      admin::parse_size(FLAGS_transaction_bytes_max, "--transaction_bytes_max", &config->transaction_bytes_max));
  config->watch_s = FLAGS_watch_s;
  config->password_file = FLAGS_password_file;
  config->threads = FLAGS_threads != 0 ? FLAGS_threads : std::min(base::processors(), kThreadsByDefaultMax);
  config->connections_max = FLAGS_connections_max;
  config->idle_s = FLAGS_idle_s;
  config->slow_s = FLAGS_slow_s;
  config->snapshots_max = FLAGS_snapshots_max;
  config->snapshot_s_max = FLAGS_snapshot_s_max;
  config->slowlog_us = FLAGS_slowlog_us;
  config->slowlog_entries_max = FLAGS_slowlog_entries_max;
  config->buffered = FLAGS_durability == "buffered";
  return check(*config);
}

// Each connection takes a descriptor. What the system does not give is refused when connections come.
void raise_limit_of_descriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

// Whether the store still takes updates, and may answer. Writes nothing: no key is absent and present.
Status try_store(DB* db) {
  constexpr std::string_view kAnyKey = "anything";  // of 8 bytes, which each pool takes
  WriteBatch batch;
  batch.Require(kAnyKey, Condition::Absent());
  batch.Require(kAnyKey, Condition::Present());
  batch.Delete(kAnyKey);
  const Status status = db->Write(batch);
  return status.IsIoError() || status.IsUnavailable() ? status : Status::OK();
}

// Logs what has changed since the last look, until a signal requests the end, or the store is lost. That is for ever
// (bonsai/db.h), and shows in errors that clients get: after each look with some the store is tried. Errors: why it is
// lost.
Status watch(const State& state, const sigset_t& signals) {
  const std::array<std::pair<const std::atomic<uint64_t>*, const char*>, 4> watched = {
      {{&state.counters.refused, "connections refused: raise --connections_max or ulimit -n"},
       {&state.counters.wrong_passwords, "wrong passwords"},
       {&state.counters.closed_broken, "connections closed: what they sent is not the Redis protocol, or too large"},
       {&state.counters.closed_slow, "connections closed: they took none of their replies for --slow_s"}}};
  std::array<uint64_t, watched.size()> told{};
  uint64_t failures = 0;
  for (;;) {
    for (size_t i = 0; i < watched.size(); ++i) {
      const uint64_t now = watched[i].first->load();
      if (now != told[i]) LOG(WARNING) << now - told[i] << " " << watched[i].second;
      told[i] = now;
    }
    if (const uint64_t now = state.counters.store_failures.load(); now != failures) {
      failures = now;
      BONSAI_RETURN_IF_ERROR(try_store(state.db));
    }
    const timespec pause{0, kLookNs};
    const int signal = ::sigtimedwait(&signals, nullptr, &pause);
    if (signal <= 0) continue;
    LOG(INFO) << "stopping on " << (signal == SIGINT ? "SIGINT" : "SIGTERM");
    return Status::OK();
  }
}

// *lost: why the store is; OK: a signal came.
Status serve_until_signalled(DB* db, const Config& config, std::optional<Password> password, const sigset_t& signals,
                             Status* lost) {
  uint64_t first_cursor = 0;
  if (::sodium_init() < 0) return Status::IoError("libsodium cannot be initialised");
  ::randombytes_buf(&first_cursor, sizeof first_cursor);
  State state(db, config, std::move(password), (first_cursor >> 16) + 1);
  std::unique_ptr<Service> service;
  std::unique_ptr<Sweeper> sweeper;
  std::unique_ptr<metrics::Service> metrics;
  if (!FLAGS_metrics.empty()) BONSAI_RETURN_IF_ERROR(serve_metrics(state, FLAGS_metrics, &metrics));
  BONSAI_RETURN_IF_ERROR(Sweeper::start(&state, FLAGS_sweep_ms, &sweeper));
  BONSAI_RETURN_IF_ERROR(Service::start(&state, &service));
  std::string addresses;
  for (const std::string& each : service->addresses()) addresses += (addresses.empty() ? "" : ", ") + each;
  LOG(INFO) << "ready: serves " << FLAGS_pool << " at " << addresses << ", " << config.threads << " threads, "
            << FLAGS_durability << ", medium " << db->GetStats().medium
            << (state.password.has_value() ? ", with a password" : ", without a password")
            << (metrics != nullptr ? ", metrics at " + metrics->url() : "");
  tell_ready();
  *lost = watch(state, signals);
  tell_stopping();
  if (!lost->ok()) LOG(ERROR) << "stopping, because the pool is lost: " << lost->ToString();
  service->stop();
  return Status::OK();
}

// *lost: as above.
Status serve(Status* lost) {
  Opening opening;
  Config config;
  std::optional<Password> password;
  BONSAI_RETURN_IF_ERROR(opening_of_flags(&opening));
  BONSAI_RETURN_IF_ERROR(config_of_flags(&config));
  if (!config.password_file.empty()) BONSAI_RETURN_IF_ERROR(Password::load(config.password_file, &password));
  raise_limit_of_descriptors();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM}) sigaddset(&signals, each);
  if (::pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) return Status::IoError("signals cannot be blocked");
  std::unique_ptr<DB> db;
  const Status opened = OpenForTest(opening.options, opening.test, FLAGS_pool, &db);
  if (!opened.ok()) return admin::with_remedy(opened, FLAGS_pool);
  const Status served = serve_until_signalled(db.get(), config, std::move(password), signals, lost);
  const Status closed = db->Close();
  if (served.ok() && closed.ok()) LOG(INFO) << "stopped";
  return served.ok() ? closed : served;
}

int run(const std::vector<std::string>& arguments) {
  const auto fail = [](const Status& status) {
    std::fprintf(stderr, "bonsai-server: %s\n", status.ToString().c_str());
    return static_cast<int>(admin::exit_code(status));
  };
  if (!arguments.empty() && (arguments[0] == "version" || arguments[0] == "--version")) {
    std::printf("bonsai-server %s\n", BONSAI_VERSION_STRING);
    return 0;
  }
  bool help = false;
  const std::vector<std::string_view> known(std::begin(kFlags), std::end(kFlags));
  if (const Status status = admin::parse_flags(arguments, known, &help, nullptr); !status.ok()) return fail(status);
  if (help) {
    std::printf("%s", help_text().c_str());
    return 0;
  }
  Status lost;
  const Status status = serve(&lost);
  if (!lost.ok()) return fail(lost), kExitLost;
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace bonsai::server

int main(int argc, char** argv) {
  return bonsai::admin::run_main("bonsai-server", [argc, argv] {
    ::signal(SIGPIPE, SIG_IGN);  // the reader of the log may exit
    bonsai::admin::start_log(argv[0]);
    return bonsai::server::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
