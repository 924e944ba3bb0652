// SPDX-License-Identifier: Apache-2.0
// bonsaid: serves a folder of pools to other nodes. See help_text().
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "admin/exit_code.h"
#include "admin/flag_parser.h"
#include "admin/log_sink.h"
#include "admin/metrics/service.h"
#include "admin/run_main.h"
#include "base/nvm/descriptor.h"
#include "base/status_macros.h"
#include "base/with_memory.h"
#include "bonsai/c.h"
#include "bonsaid/config.h"
#include "bonsaid/metrics.h"
#include "bonsaid/service.h"

DEFINE_string(config, "", "FILE|settings, as in conf/bonsaid.toml; flags win over it");
DEFINE_string(folder, "", "FOLDER|holds the pools: a file each, or a link to a DAX device; made if it is missing");
DEFINE_string(listen, "", "ADDRESS[,ADDRESS...]|shm://NAME for this machine, rdma://HOST:PORT for others");
DEFINE_string(domain, "", "adr|adr-direct|eadr|when written bytes survive a power cut of this node");
DEFINE_string(secret_file, "", "FILE|64 hexadecimal digits that owners must have, too (their BONSAI_SECRET_FILE)");
DEFINE_bool(open_to_all, false, "|serve other machines without a secret");
DEFINE_string(medium, "auto",
              "auto|shadow|shadow-without-flushes|emulator|how bytes are written; all but auto are for tests");
DEFINE_string(metrics, "",
              "ADDRESS|serve metrics to Prometheus at PORT or 127.0.0.1:PORT, or at HOST:PORT to other machines");
DEFINE_uint64(litmus_ms, 250, "N|how long each of the four tests of a fabric at the start takes");

namespace bonsai::bonsaid {
namespace {

constexpr long kLookNs = 100'000'000;  // between two checks of the owners, for the log

std::vector<std::string_view> known_flags() {
  std::vector<std::string_view> names = setting_names();
  names.insert(names.begin(), "config");
  return names;
}

std::string help_text() {
  std::string text =
      "bonsaid: serves a folder of pools to stores on other nodes, or in other processes of this one\n\n"
      "  bonsaid --folder=FOLDER --listen=ADDRESS[,ADDRESS...] --domain=DOMAIN [FLAGS]\n"
      "  bonsaid --config=FILE [FLAGS]\n"
      "  bonsaid --version\n\n"
      "A store names a pool POOL of it as a target: shm://NAME/POOL, or rdma://HOST:PORT/POOL. Bytes are moved by the\n"
      "owners' one-sided requests; bonsaid makes them durable and sees to it that a pool has one owner at a time. It\n"
      "runs until SIGINT or SIGTERM and writes to standard error what happens.\n\n"
      "  bonsaid --folder=/dev/shm/pools --listen=shm://laptop --domain=adr &\n"
      "  bonsai put --pool=shm://laptop/fruit --create --bytes=64M apple red\n"
      "  bonsai get --pool=shm://laptop/fruit apple\n\n"
      "  (umask 077; openssl rand -hex 32 >secret)       # the same file on all nodes\n"
      "  bonsaid --folder=/mnt/pmem --listen=rdma://192.0.2.7:7471 --domain=adr --secret_file=secret\n"
      "  BONSAI_SECRET_FILE=secret bonsai stat --pool=rdma://192.0.2.7:7471/fruit\n\n"
      "The domain is declared and never guessed: adr if written bytes rest in the processor's caches, from which "
      "bonsaid\n"
      "flushes them (right everywhere); adr-direct if devices write past the caches; eadr if caches survive a power "
      "cut.\n"
      "SIGHUP: reads the configuration again. The secret (secret_file, open_to_all) is in force for new connections,\n"
      "and the limit of open files is raised as far as it may be; everything else needs a restart.\n"
      "Exit code 0: stopped cleanly; 2: wrong usage; 3: it cannot serve, and the message has the reason.\n\n"
      "Flags:\n";
  for (const std::string_view flag : known_flags()) text += admin::flag_help(flag);
  return text;
}

// Reads the file first, then applies the given flags.
Status config_of_flags(Config* config) {
  if (!FLAGS_config.empty()) BONSAI_RETURN_IF_ERROR(read_config(FLAGS_config, config));
  for (const std::string_view name : setting_names()) {
    const std::string flag(name);
    std::string value;
    if (!admin::flag_given(flag.c_str()) || !gflags::GetCommandLineOption(flag.c_str(), &value)) continue;
    const Status status = set(name, value, config);
    if (!status.ok()) return Status::InvalidArgument("--" + flag + ": " + std::string(status.message()));
  }
  return check(*config);
}

// The folder's pools and their owners, in one line.
std::string state_text(const Config& config, const Services& services) {
  std::map<std::string, std::string> pools;
  std::error_code ignored;
  // An iterator of std::filesystem would end the program when memory runs out.
  for (const std::string& name : base::names_in(config.folder)) {
    if (!scale::is_pool_name(name) || std::filesystem::is_directory(config.folder + "/" + name, ignored)) continue;
    pools[name] = "free";
  }
  for (const auto& service : services) {
    for (const auto& [name, owned] : service->report().pools) {
      pools[name] = "owned over " + service->address().scheme + " by " + owned.owner;
    }
  }
  std::string text;
  for (const auto& [name, state] : pools) text += (text.empty() ? "" : ", ") + name + " (" + state + ")";
  return pools.empty() ? "no pools" : text;
}

// The signals that end the program, and the one that asks for reloading; only watch() receives them.
sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Raises the limit of descriptors to its maximum, because each owner takes some.
void raise_limit_of_descriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

// Null: the configuration has no secret.
Status load_secret(const Config& config, std::unique_ptr<rdma::Secret>* secret) {
  secret->reset();
  if (config.secret_file.empty()) return Status::OK();
  auto loaded = std::make_unique<rdma::Secret>();
  BONSAI_RETURN_IF_ERROR(rdma::Secret::load(config.secret_file, loaded.get()));
  *secret = std::move(loaded);
  return Status::OK();
}

// Reads flags, file and secret again. Takes over who may connect, and the limit of descriptors; says which other
// settings have changed. After an error everything stays as it was.
Status reload(const Config& running, const Services& services) {
  Config config;
  std::unique_ptr<rdma::Secret> secret;
  BONSAI_RETURN_IF_ERROR(config_of_flags(&config));
  BONSAI_RETURN_IF_ERROR(load_secret(config, &secret));
  for (const auto& service : services) service->admit_by(secret.get());
  raise_limit_of_descriptors();
  LOG(INFO) << "reloaded: " << (secret != nullptr ? "with the secret of " + config.secret_file : "without a secret");
  if (const std::string changed = fixed_settings_that_differ(running, config); !changed.empty()) {
    LOG(WARNING) << "changed, but in force only after a restart: " << changed;
  }
  return Status::OK();
}

uint64_t sum_of(const Services& services, uint64_t (Service::*count)() const) {
  uint64_t sum = 0;
  for (const auto& service : services) sum += (service.get()->*count)();
  return sum;
}

// What the log has been told.
struct Told {
  std::string state;
  uint64_t dropped = 0, unserved = 0;
};

void log_changes(const Config& config, const Services& services, Told* told) {
  if (std::string now = state_text(config, services); now != told->state) {
    LOG(INFO) << "pools: " << now;
    told->state = std::move(now);
  }
  for (const auto& service : services) {
    for (const std::string& note : service->take_notes()) LOG(WARNING) << service->address().text() << ": " << note;
  }
  if (const uint64_t now = sum_of(services, &Service::dropped); now != told->dropped) {
    LOG(WARNING) << now - told->dropped << " malformed requests were dropped; do all nodes run one version?";
    told->dropped = now;
  }
  if (const uint64_t now = sum_of(services, &Service::unserved); now != told->unserved) {
    LOG(WARNING) << now - told->unserved << " requests got no answer: " << base::out_of_memory().message();
    told->unserved = now;
  }
}

// Logs changes, and reloads, until a signal requests the end. What cannot be logged for lack of memory is logged later.
void watch(const Config& config, const Services& services) {
  const sigset_t signals = awaited_signals();
  Told told;
  for (;;) {
    static_cast<void>(base::with_memory([&] {
      log_changes(config, services, &told);
      return Status::OK();
    }));
    const timespec pause{0, kLookNs};
    const int signal = ::sigtimedwait(&signals, nullptr, &pause);
    if (signal == SIGHUP) {
      const Status status = base::with_memory([&] { return reload(config, services); });
      if (!status.ok()) LOG(ERROR) << "not reloaded, all stays as it was: " << status.ToString();
    } else if (signal > 0) {
      LOG(INFO) << "stopping on " << (signal == SIGINT ? "SIGINT" : "SIGTERM") << "; pools: " << told.state;
      return;
    }
  }
}

// Makes the folder itself and none above it: if a folder above is missing, a file system may not be mounted.
Status make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) == 0) {
    LOG(INFO) << "made the folder " << folder;
    return Status::OK();
  }
  if (errno == EEXIST) return Status::OK();
  return Status::IoError("the folder " + folder + " is not there and cannot be made: " + std::strerror(errno) +
                         "; make it, or give another --folder");
}

Status serve(const Config& config) {
  raise_limit_of_descriptors();
  const sigset_t signals = awaited_signals();
  if (::pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) return Status::IoError("signals cannot be blocked");
  std::unique_ptr<rdma::Secret> secret;
  BONSAI_RETURN_IF_ERROR(load_secret(config, &secret));
  BONSAI_RETURN_IF_ERROR(make_folder(config.folder));
  Services services;
  const auto owners = std::make_shared<scale::PoolOwners>(config.folder);
  for (const Address& address : config.listen) {
    std::unique_ptr<Service>& service = services.emplace_back();
    const Status status = Service::start(config, address, secret.get(), owners, &service);
    if (!status.ok()) return status;
    LOG(INFO) << address.text() << ": " << service->text();
  }
  std::unique_ptr<metrics::Service> metrics;
  if (!config.metrics.empty()) {
    metrics::Sources sources = {std::make_shared<NodeMetrics>(config, services)};
    BONSAI_RETURN_IF_ERROR(metrics::Service::start(config.metrics, std::move(sources), &metrics));
  }
  LOG(INFO) << "ready: serves " << config.folder << ", domain " << rdma::domain_name(config.domain)
            << (config.secret_file.empty() ? ", without a secret" : ", with a secret")
            << (metrics != nullptr ? ", metrics at " + metrics->url() : "");
  watch(config, services);
  metrics.reset();
  services.clear();
  LOG(INFO) << "stopped";
  return Status::OK();
}

int run(const std::vector<std::string>& arguments) {
  const auto fail = [](const Status& status) {
    std::fprintf(stderr, "bonsaid: %s\n", status.ToString().c_str());
    return static_cast<int>(admin::exit_code(status));
  };
  if (!arguments.empty() && (arguments[0] == "version" || arguments[0] == "--version")) {
    std::printf("bonsaid %s\n", BONSAI_VERSION_STRING);
    return 0;
  }
  bool help = false;
  if (const Status status = admin::parse_flags(arguments, known_flags(), &help, nullptr); !status.ok()) {
    return fail(status);
  }
  if (help) {
    std::printf("%s", help_text().c_str());
    return 0;
  }
  Config config;
  Status status = config_of_flags(&config);
  if (status.ok()) status = serve(config);
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace bonsai::bonsaid

int main(int argc, char** argv) {
  return bonsai::admin::run_main("bonsaid", [argc, argv] {
    ::signal(SIGPIPE, SIG_IGN);  // the reader of the log may exit
    bonsai::admin::start_log(argv[0]);
    return bonsai::bonsaid::run(std::vector<std::string>(argv + 1, argv + argc));
  });
}
