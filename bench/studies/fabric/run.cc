// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/results/machine.h"
#include "bench/studies/fabric/peer.h"
#include "bench/studies/fabric/perftest.h"
#include "bench/studies/fabric/probe.h"
#include "rdma/litmus.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kConnectMsMax = 20'000;
constexpr uint64_t kOnceMsMax = 60'000;
constexpr uint64_t kPerftestMsMax = 120'000;
constexpr uint64_t kPortBase = 18'600, kPorts = 1'000;  // of far sides that are started here
constexpr uint64_t kPerftestPortBase = 19'700, kPerftestPorts = 200;

// A folder that goes with the object.
class TemporaryFolder {
 public:
  Status make() {
    std::string name = (std::filesystem::temp_directory_path() / "bonsai-fabric.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return base::os_error("make", name, errno);
    path_ = name;
    return Status::OK();
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One provider under test: this end, its probe, and the far side unless that lives elsewhere.
class Subject {
 public:
  static Status open(const FabricProvider& provider, const FabricConfig& config, std::unique_ptr<Subject>* subject) {
    std::unique_ptr<Subject> made(new Subject(provider, config));
    const bool is_here = provider.far_side == FarSide::kSameThread;
    BONSAI_RETURN_IF_ERROR(is_here ? made->open_both_ends() : made->open_far(config.peer));
    BONSAI_RETURN_IF_ERROR(made->describe());
    *subject = std::move(made);
    return Status::OK();
  }
  ~Subject() { probe_.reset(); }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  [[nodiscard]] const FabricSubject& facts() const { return facts_; }
  Status measure(const FabricCell& cell, FabricSample* sample) { return probe_->measure(cell, cell_ns(), sample); }
  [[nodiscard]] bool has_perftest(const FabricCell& cell) const {
    return facts_.provider->far_side == FarSide::kNetwork && config_.perftest &&
           perftest_measures(cell, config_.blocks);
  }
  Status measure_perftest(const FabricCell& cell, const FabricSample& ours, double* figure);

 private:
  Subject(const FabricProvider& provider, const FabricConfig& config) : config_(config) {
    facts_.provider = &provider;
    choice_ = {.provider = &provider, .folder = {}, .device = config.device, .blocks = config.blocks};
  }
  Status open_both_ends();
  Status open_far(const std::optional<FabricAddress>& there);
  Status start_far_side(FabricAddress* address);
  Status describe();
  [[nodiscard]] uint64_t cell_ns() const {
    return config_.cell_ms != 0 ? config_.cell_ms * base::kNsPerMs : facts_.provider->cell_ns;
  }

  const FabricConfig& config_;
  FabricSubject facts_;
  FabricChoice choice_;
  FabricAddress address_;  // of the far side
  TemporaryFolder folder_;
  std::unique_ptr<base::ChildProcess> far_process_;
  std::unique_ptr<FabricEnd> far_end_, end_;
  std::unique_ptr<FabricPeer> far_;
  std::unique_ptr<FabricProbe> probe_;
  uint64_t perftests_ = 0;
};

// No packet is late, lost or torn here: the figure of interest is the number of round trips.
Status Subject::open_both_ends() {
  choice_.sim = std::make_shared<rdma::SimNetwork>(
      rdma::SimOptions{.late_chance = 0, .torn_chance = 0, .lost_chance = 0, .ghost_chance = 0});
  BONSAI_RETURN_IF_ERROR(FabricEnd::open(choice_, &far_end_));
  BONSAI_RETURN_IF_ERROR(FabricEnd::open(choice_, &end_));
  address_ = {choice_.provider, "", "far"};
  BONSAI_RETURN_IF_ERROR(FabricPeer::make(far_end_.get(), address_.name, &far_));
  FabricProbe::Context context{[this] { far_->step(0); }, [network = choice_.sim] { return network->now_ns(); }};
  return FabricProbe::connect(end_.get(), address_.name, std::move(context), kConnectMsMax, &probe_);
}

Status Subject::open_far(const std::optional<FabricAddress>& there) {
  if (there) {
    address_ = *there;
  } else if (choice_.provider->far_side == FarSide::kProcess) {
    BONSAI_RETURN_IF_ERROR(folder_.make());
    address_ = {choice_.provider, folder_.path(), "far"};
  }
  choice_.folder = address_.folder;
  BONSAI_RETURN_IF_ERROR(FabricEnd::open(choice_, &end_));
  if (!there) BONSAI_RETURN_IF_ERROR(start_far_side(&address_));
  return FabricProbe::connect(end_.get(), address_.name, {nullptr, base::now_ns}, kConnectMsMax, &probe_);
}

// Another process of this machine.
Status Subject::start_far_side(FabricAddress* address) {
  std::string serve = address->folder + "/" + address->name;
  if (choice_.provider->far_side == FarSide::kNetwork) {
    serve = end_->host() + ":" + std::to_string(kPortBase + static_cast<uint64_t>(::getpid()) % kPorts);
    *address = {choice_.provider, "", serve};
  }
  std::vector<std::string> words = {"/proc/self/exe", "fabric", "--serve=" + serve, "--once"};
  if (config_.blocks) words.emplace_back("--waits=block");
  if (!end_->device().empty()) words.push_back("--device=" + end_->device());
  return base::ChildProcess::start(words, {.out = "/dev/null"}, &far_process_);
}

Status Subject::describe() {
  const rdma::Capabilities& can = end_->fabric().capabilities();
  facts_.text = can.text;
  facts_.label = can.emulated ? facts_.provider->emulated_label : facts_.provider->label;
  if (far_ != nullptr) return Status::OK();  // the litmus tests would wait for a far side on this very thread
  return rdma::check_at_start_up(end_->fabric(), address_.name, {.node = 3}, probe_->far_memory(), {}, &facts_.litmus);
}

Status Subject::measure_perftest(const FabricCell& cell, const FabricSample& ours, double* figure) {
  PerftestOrder order;
  order.cell = cell;
  order.iterations = perftest_iterations(cell, ours.messages_per_s, cell_ns() / base::kNsPerMs);
  order.blocks = config_.blocks ? 1 : 0;
  order.port = kPerftestPortBase + (static_cast<uint64_t>(::getpid()) + perftests_++) % kPerftestPorts;
  BONSAI_RETURN_IF_ERROR(probe_->start_perftest(order));
  if (folder_.path().empty()) BONSAI_RETURN_IF_ERROR(folder_.make());
  const std::string printed = folder_.path() + "/perftest";
  std::unique_ptr<base::ChildProcess> client;
  BONSAI_RETURN_IF_ERROR(
      base::ChildProcess::start(perftest_command(order, end_->device(), address_.host()), {.out = printed}, &client));
  std::string output;
  BONSAI_RETURN_IF_ERROR(finish(client.get(), printed, kPerftestMsMax, &output));
  return parse_perftest(cell, output, figure);
}

// The providers to measure. Those that nobody asked for may be missing.
std::vector<const FabricProvider*> wanted_providers(const FabricConfig& config) {
  if (config.peer) return {config.peer->provider};
  if (!config.providers.empty()) return config.providers;
  std::vector<const FabricProvider*> all;
  for (const FabricProvider& each : fabric_providers()) all.push_back(&each);
  return all;
}

// The requested subjects, or by default those that exist here.
Status open_subjects(const FabricConfig& config, const std::atomic<bool>& stop, const RunListener& listener,
                     FabricFigures* figures, std::vector<std::unique_ptr<Subject>>* subjects) {
  const bool asked_for = config.peer || !config.providers.empty();
  for (const FabricProvider* provider : wanted_providers(config)) {
    if (stop) return Status::Unavailable("interrupted");
    listener.on_phase(std::string(provider->name), "opening, litmus tests", 0);
    std::unique_ptr<Subject> subject;
    const Status status = Subject::open(*provider, config, &subject);
    if (!status.ok() && (asked_for || provider->far_side != FarSide::kNetwork)) return status;
    if (!status.ok()) {
      figures->notes.push_back(std::string(provider->name) + " was left out: " + std::string(status.message()));
      continue;
    }
    figures->subjects.push_back(subject->facts());
    for (const FabricCell& cell : fabric_cells(config.grid)) figures->rows.push_back({provider, cell, {}, {}});
    subjects->push_back(std::move(subject));
  }
  return Status::OK();
}

}  // namespace

Status run_fabric_cells(const FabricConfig& config, const std::atomic<bool>& stop, const RunListener& listener,
                        FabricFigures* figures) {
  std::vector<std::unique_ptr<Subject>> subjects;
  BONSAI_RETURN_IF_ERROR(open_subjects(config, stop, listener, figures, &subjects));
  std::set<std::string> missing;  // programs of perftest that one end does not have
  for (unsigned run = 0; run < config.runs; ++run) {
    const std::string turn = ", run " + std::to_string(run + 1) + " of " + std::to_string(config.runs);
    for (FabricRow& row : figures->rows) {
      if (stop) return Status::Unavailable("interrupted");
      Subject& subject = **std::find_if(subjects.begin(), subjects.end(),
                                        [&](const auto& one) { return one->facts().provider == row.provider; });
      const std::string provider(row.provider->name);
      listener.on_phase(provider, row.cell.text() + turn, 0);
      FabricSample sample;
      BONSAI_RETURN_IF_ERROR(subject.measure(row.cell, &sample));
      row.samples.push_back(sample);
      const std::string program = perftest_program(row.cell);
      if (!subject.has_perftest(row.cell) || missing.contains(program)) continue;
      listener.on_phase(provider, row.cell.text() + turn + ", " + program, 0);
      double figure = 0;
      const Status status = subject.measure_perftest(row.cell, sample, &figure);
      if (status.ok()) {
        row.perftest.push_back(figure);
        continue;
      }
      if (status.IsNotFound() || status.IsNotSupported()) missing.insert(program);
      figures->notes.push_back(program + ", " + row.cell.text() + ": " + std::string(status.message()));
      listener.on_note(figures->notes.back());
    }
  }
  return Status::OK();
}

Status serve_fabric(const FabricAddress& address, const FabricConfig& config, bool once, const std::atomic<bool>& stop,
                    const RunListener& listener) {
  std::unique_ptr<FabricEnd> end;
  BONSAI_RETURN_IF_ERROR(FabricEnd::open(
      {.provider = address.provider, .folder = address.folder, .device = config.device, .blocks = config.blocks},
      &end));
  std::unique_ptr<FabricPeer> peer;
  BONSAI_RETURN_IF_ERROR(FabricPeer::make(end.get(), address.name, &peer));
  listener.on_note("serving " + end->fabric().capabilities().text);
  base::BoundedWait first("fabric.first_connection", kOnceMsMax);
  while (!stop) {
    peer->step(FabricPeer::kPatienceMs);
    if (!once) continue;
    if (peer->is_deserted()) return Status::OK();
    static_cast<void>(first.watch_ns());
    if (!peer->has_served() && first.expired()) {
      return Status::Unavailable("nobody came within " + std::to_string(kOnceMsMax / 1000) + " s");
    }
  }
  return Status::OK();
}

}  // namespace bonsai::bench
