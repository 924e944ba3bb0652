// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/cluster/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/engines/acknowledged_counter.h"
#include "bench/ycsb/drawer.h"

namespace bonsai::bench {

namespace {

rdma::SimDevice device_of(const SystemEntry& entry, const TrialOptions& options) {
  rdma::SimDevice device = options.device;
  device.list_cpu_ns = options.list_cpu_ns > 0 ? options.list_cpu_ns : entry.list_cpu_ns;
  return device;
}

RecordShape shape_of(const SystemEntry& entry, const TrialOptions& options) {
  // Narrow keys are numbers of records; these systems hash them.
  return {.key_form = options.key_form, .hashed = !entry.narrow};
}

// Half of the relative 95 % confidence interval of the mean duration of a part, by Student's t for nine degrees of
// freedom.
double spread_of(const std::vector<uint64_t>& part_ends_ns) {
  constexpr double kStudent = 2.262;
  if (part_ends_ns.size() != TrialResult::kParts + 1) return 0;
  const auto parts = static_cast<double>(TrialResult::kParts);
  const double mean = static_cast<double>(part_ends_ns.back() - part_ends_ns.front()) / parts;
  double squares = 0;
  for (size_t i = 0; i < TrialResult::kParts; ++i) {
    const double off = static_cast<double>(part_ends_ns[i + 1] - part_ends_ns[i]) - mean;
    squares += off * off;
  }
  return mean > 0 ? kStudent * std::sqrt(squares / (parts - 1) / parts) / mean : 0;
}

// The clients that fill a store: enough of them to fill groups, where a system groups requests.
constexpr rivals::Shape kFillers = {.threads = 1, .coroutines = 16};
// Duration of an insert of each of them, so that the background keeps up.
constexpr uint64_t kFillNs = 2'000;

}  // namespace

// The state that the clients of one run share. The counters cover the time from the beginning of one operation to that
// of the last one.
class Trial::Run {
 public:
  Run(const Trial& trial, const rivals::Shape& the_shape, const Workload* the_workload, uint64_t operations,
      bool is_measured)
      : shape(the_shape),
        workload(the_workload),
        measured(is_measured),
        counter(trial.stored_, operations),
        system_(*trial.system_),
        cluster_(*trial.cluster_),
        clients_(the_shape.clients()),
        operations_(operations),
        skipped_(operations / 10) {
    if (workload != nullptr) choosers = Choosers(*workload, trial.options_.records, operations);
  }

  // Counts the connection's traffic.
  void know(const rivals::Connection* connection) { busy_until_ns_.emplace(connection, 0); }
  // Waits for the other clients.
  void meet(const rivals::Connection* connection) {
    know(connection);
    for (++met_; met_ < clients_ && failed.ok();) base::sleep_us(1);
    if (measured) cluster_.set_instant(false);
  }
  // True when the client is to begin another operation.
  bool begin() {
    if (!failed.ok() || begun_ == operations_) return false;
    if (begun_ == skipped_) first_ = now();
    if (part_ends_ns_.size() <= TrialResult::kParts && begun_ >= next_part_) {
      part_ends_ns_.push_back(base::now_ns());
      next_part_ += (operations_ - skipped_ - 1) / TrialResult::kParts;
    }
    if (++begun_ == operations_) last_ = now();
    return true;
  }
  // Counts the end of an operation that began at `began_ns`.
  void note(uint64_t began_ns) {
    if (measured && begun_ > skipped_ && began_ns >= first_.ns) latency.record(base::now_ns() - began_ns);
  }
  // Occupies the connection's thread for this time, once it has done the work of its other coroutines.
  void compute(const rivals::Connection* connection, double ns) {
    if (ns == 0 || !measured) return;
    uint64_t& busy_until_ns = busy_until_ns_.at(connection);
    busy_until_ns = std::max(busy_until_ns, base::now_ns()) + static_cast<uint64_t>(ns);
    base::yield_until(busy_until_ns);
  }
  void fail(Status status) {
    if (failed.ok()) failed = std::move(status);
  }
  [[nodiscard]] uint64_t counted() const { return std::max<uint64_t>(operations_ - skipped_ - 1, 1); }
  [[nodiscard]] uint64_t passed_ns() const { return std::max<uint64_t>(last_.ns - first_.ns, 1); }
  [[nodiscard]] rdma::Traffic traffic() const { return last_.traffic - first_.traffic; }
  [[nodiscard]] double spread() const { return spread_of(part_ends_ns_); }
  [[nodiscard]] uint64_t server_busy_ns() const { return last_.server_busy_ns - first_.server_busy_ns; }
  [[nodiscard]] uint64_t copied_bytes() const { return last_.copied_bytes - first_.copied_bytes; }
  // The lists of the worker that posted most.
  [[nodiscard]] uint64_t shared_lists() const {
    uint64_t most = 0;
    for (size_t i = 0; i < last_.shared_lists.size(); ++i) {
      most = std::max(most, last_.shared_lists[i] - (i < first_.shared_lists.size() ? first_.shared_lists[i] : 0));
    }
    return most;
  }

  const rivals::Shape shape;
  const Workload* const workload;  // null: the load
  const bool measured;
  AcknowledgedCounter counter;
  Choosers choosers;
  Status failed;
  Histogram latency;

 private:
  struct Moment {
    uint64_t ns = 0;
    rdma::Traffic traffic;                    // of all threads until then
    std::vector<uint64_t> shared_lists = {};  // by worker
    uint64_t server_busy_ns = 0, copied_bytes = 0;
  };
  [[nodiscard]] Moment now() const {
    Moment moment{base::now_ns(), system_.traffic(), system_.shared_lists(), system_.server_busy_ns(),
                  system_.copied_bytes()};
    for (const auto& [connection, ns] : busy_until_ns_) moment.traffic += connection->worker().traffic();
    return moment;
  }

  const System& system_;
  Cluster& cluster_;
  const size_t clients_;
  const uint64_t operations_, skipped_;
  std::map<const rivals::Connection*, uint64_t> busy_until_ns_;  // until when threads compute
  size_t met_ = 0;
  uint64_t begun_ = 0;
  uint64_t next_part_ = skipped_;
  std::vector<uint64_t> part_ends_ns_;
  Moment first_, last_;
};

// One client of a run.
class Trial::Client {
 public:
  Client(Trial* trial, Run* run, const rivals::Seat& seat)
      : trial_(*trial), run_(*run), seat_(seat), key_room_(trial->shape_.key_bytes_max()) {
    if (run->workload == nullptr) return;
    const DrawerPart part{trial->options_.records, static_cast<unsigned>(run->shape.clients()),
                          static_cast<unsigned>(seat.client)};
    drawer_.emplace(*run->workload, trial->shape_, part, base::splitmix64(trial->options_.seed ^ trial->runs_ << 32),
                    run->choosers);
  }

  Status act() {
    BONSAI_RETURN_IF_ERROR(trial_.system_->make_client(seat_, &client_));
    run_.meet(seat_.connection);
    while (run_.begin()) {
      const uint64_t began_ns = base::now_ns();
      if (!run_.measured) base::yield_until(began_ns + kFillNs);
      run_.compute(seat_.connection, processor_ns());
      BONSAI_RETURN_IF_ERROR(drawer_ ? request(drawer_->next()) : insert());
      run_.note(began_ns);
    }
    return Status::OK();
  }

 private:
  // Processor time of the thread: for an operation, and for the lists that it has posted meanwhile.
  double processor_ns() {
    const auto lists = static_cast<double>(trial_.system_->take_lists(seat_.connection));
    return trial_.operation_cpu_ns() + lists * trial_.device_.list_cpu_ns;
  }
  std::string_view key_of(uint64_t id) {
    if (!trial_.entry_.narrow) return encode_key(trial_.shape_, id, key_room_.data());
    const auto narrow = static_cast<uint32_t>(id + 1);
    std::memcpy(key_room_.data(), &narrow, sizeof narrow);
    return {key_room_.data(), sizeof narrow};
  }
  // A value of the id, one of many, never 0.
  std::string_view value_of(uint64_t id) {
    const uint64_t version = 1 + ++values_ % 255;
    const uint64_t value = check_of(id) | version;
    std::memcpy(value_room_.data(), &value, sizeof value);
    return {value_room_.data(), value_bytes()};
  }
  [[nodiscard]] size_t value_bytes() const { return trial_.entry_.narrow ? 4 : 8; }
  [[nodiscard]] static uint64_t check_of(uint64_t id) { return base::splitmix64(id) & ~uint64_t{0xff}; }
  [[nodiscard]] Status verify(uint64_t id, const std::string& value) const {
    uint64_t found = 0, wanted = check_of(id);
    std::memcpy(&found, value.data(), std::min(value.size(), sizeof found));
    if (trial_.entry_.narrow) wanted &= UINT32_MAX;
    if (value.size() == value_bytes() && (found & ~uint64_t{0xff}) == wanted) return Status::OK();
    return Status::Corruption("a read found a value of another record");
  }

  Status insert() {
    const uint64_t number = run_.counter.take();
    const uint64_t id = trial_.shape_.id(number);
    BONSAI_RETURN_IF_ERROR(client_->insert(key_of(id), value_of(id)));
    run_.counter.acknowledge(number);
    return Status::OK();
  }
  [[nodiscard]] uint64_t id_of(const Request& request) const {
    const uint64_t end = run_.counter.end();
    switch (request.source) {
      case KeySource::kBehindNewest:
        return trial_.shape_.id(end - 1 - std::min(request.key, end - 1));
      case KeySource::kIfInserted:
        return trial_.shape_.id(request.key < end ? request.key : request.key % trial_.options_.records);
      default:
        return request.key;
    }
  }
  Status read(uint64_t id) {
    std::string value;
    BONSAI_RETURN_IF_ERROR(client_->get(key_of(id), &value));
    return verify(id, value);
  }
  Status request(const Request& request) {
    if (request.kind == OpKind::kInsert) return insert();
    const uint64_t id = id_of(request);
    switch (request.kind) {
      case OpKind::kRead:
        return read(id);
      case OpKind::kUpdate:
        return client_->update(key_of(id), value_of(id));
      case OpKind::kReadModifyWrite:
        BONSAI_RETURN_IF_ERROR(read(id));
        return client_->update(key_of(id), value_of(id));
      case OpKind::kScan: {
        std::vector<rivals::Client::Found> found;
        BONSAI_RETURN_IF_ERROR(client_->scan(key_of(id), request.scan_length, &found));
        return !found.empty() ? Status::OK() : Status::Corruption("a scan from a record on did not find it");
      }
      default:
        return Status::NotSupported("a request that no workload of YCSB has");
    }
  }

  Trial& trial_;
  Run& run_;
  const rivals::Seat seat_;
  std::unique_ptr<rivals::Client> client_;
  std::optional<Drawer> drawer_;  // none: the load
  std::vector<char> key_room_;
  std::array<char, 8> value_room_{};
  uint64_t values_ = 0;
};

Trial::Trial(const SystemEntry& entry, const TrialOptions& options)
    : entry_(entry), options_(options), device_(device_of(entry, options)), shape_(shape_of(entry, options)) {}

Status Trial::make(const SystemEntry& entry, const TrialOptions& options, std::unique_ptr<Trial>* trial) {
  if (!entry.strings && options.key_form != KeyForm::kFixed8) {
    return Status::NotSupported(std::string(entry.name) + " stores keys of " + (entry.narrow ? "4" : "8") +
                                " bytes only");
  }
  std::unique_ptr<Trial> made(new Trial(entry, options));
  made->system_ = entry.make({.records_max = options.records + options.inserts_max,
                              .key_bytes_max = made->shape_.key_bytes_max(),
                              .memory_nodes = options.memory_nodes,
                              .compute_nodes = options.shape.compute_nodes,
                              .threads = options.shape.threads,
                              .cache_bytes = options.cache_bytes,
                              .pools_per_node = options.pools_per_node,
                              .stripe_unit_bytes = options.stripe_unit_bytes,
                              .nodes_are = options.nodes_are,
                              .fault_ns = options.fault_ns,
                              .runs_max = options.runs_max});
  BONSAI_RETURN_IF_ERROR(Cluster::make({.device = made->device_,
                                        .seed = options.seed,
                                        .memory_nodes = options.memory_nodes,
                                        .bytes = made->system_->bytes(),
                                        .fixed_bytes = made->system_->fixed_bytes(),
                                        .backoff_ns = options.backoff_ns,
                                        .switch_ns = made->system_->switch_ns()},
                                       &made->cluster_));
  BONSAI_RETURN_IF_ERROR(made->system_->make_empty(made->cluster_.get()));
  *trial = std::move(made);
  return Status::OK();
}

Status Trial::fill(uint64_t end) {
  system_->set_threads(kFillers.threads);
  Status status = end > stored_ ? act(nullptr, end - stored_, nullptr) : Status::OK();
  system_->set_threads(options_.shape.threads);
  return status;
}

Status Trial::load(uint64_t count, TrialResult* result) { return act(nullptr, count, result); }

void Trial::change(const rivals::Shape& shape, const rdma::SimDevice& device, double list_cpu_ns,
                   std::optional<double> operation_cpu_ns) {
  BONSAI_CHECK(shape.compute_nodes == options_.shape.compute_nodes);
  options_.shape = shape;
  options_.device = device;
  options_.list_cpu_ns = list_cpu_ns;
  options_.operation_cpu_ns = operation_cpu_ns;
  device_ = device_of(entry_, options_);
  system_->set_threads(shape.threads);
  cluster_->set_device(device_);
}

Status Trial::run(const Workload& workload, uint64_t operations, TrialResult* result) {
  BONSAI_CHECK(stored_ >= options_.records && operations > 0);
  if (workload.share(OpKind::kScan) > 0 && !entry_.scans) {
    return Status::NotSupported(std::string(entry_.name) + " has no order of keys, so no scans");
  }
  return act(&workload, operations, result);
}

Status Trial::act(const Workload* workload, uint64_t operations, TrialResult* result) {
  Run run(*this, result != nullptr ? options_.shape : kFillers, workload, operations, result != nullptr);
  ++runs_;
  system_->set_measured(result != nullptr);
  const bool instant = result == nullptr || options_.opens_at_once;
  const Cluster::Background background{system_->background_threads(),
                                       [&](const rivals::Seat& seat, const std::function<bool()>& stop) {
                                         run.know(seat.connection);
                                         return system_->background(seat, [&] {
                                           const bool stops = stop();
                                           if (stops) cluster_->set_instant(instant);
                                           return stops;
                                         });
                                       }};
  const auto body = [&](const rivals::Seat& seat) {
    Client client(this, &run, seat);
    if (Status status = client.act(); !status.ok()) run.fail(std::move(status));
  };
  cluster_->set_instant(instant);
  const Status ran = cluster_->run(run.shape, body, background);
  cluster_->set_instant(false);
  BONSAI_RETURN_IF_ERROR(ran);
  stored_ = run.counter.end();
  if (!run.failed.ok()) return Status::Unavailable(std::string(entry_.name) + ": " + run.failed.ToString());
  if (result == nullptr) return Status::OK();
  *result = {};
  result->operations = run.counted();
  result->seconds_ns = run.passed_ns();
  result->traffic = run.traffic();
  result->shared_lists = run.shared_lists();
  result->server_busy_ns = run.server_busy_ns();
  result->copied_bytes = run.copied_bytes();
  result->latency = run.latency;
  result->spread = run.spread();
  result->cache_bytes = system_->cache_bytes(options_.shape);
  result->memory_bytes_per_record = static_cast<double>(system_->used_bytes(*cluster_)) / static_cast<double>(stored_);
  return Status::OK();
}

Ceiling ceiling_of(const TrialResult& result, const rdma::SimDevice& device, const rivals::Shape& shape,
                   size_t memory_nodes, double operation_cpu_ns) {
  const auto of = [&](rdma::Verb verb) { return result.traffic.of(verb); };
  const auto each = [&](uint64_t n) { return result.per_operation(n); };
  const auto nodes = static_cast<double>(memory_nodes);
  const double threads = static_cast<double>(shape.compute_nodes * shape.threads);
  const double lists_ns = result.lists() * device.list_cpu_ns;
  const double processor_ns = lists_ns + operation_cpu_ns;
  const double waiting_ns = result.lists() * device.wire_ns + lists_ns + operation_cpu_ns;
  uint64_t atomics = 0;
  for (const rdma::Verb verb : {rdma::Verb::kCas, rdma::Verb::kFaa, rdma::Verb::kMaskedCas}) {
    atomics += of(verb).messages;
  }
  const rdma::Traffic::Flow reads = of(rdma::Verb::kRead), writes = of(rdma::Verb::kWrite),
                            sends = of(rdma::Verb::kSend);
  const double engine_ns = each(reads.messages) * device.read_ns + each(reads.bytes) * device.read_byte_ns +
                           each(writes.messages + sends.messages) * device.write_ns;
  const double out_bytes = each(reads.bytes) + each(reads.messages) * device.header_bytes;
  const double in_bytes =
      each(writes.bytes + sends.bytes) + each(writes.messages + sends.messages) * device.header_bytes;
  Ceiling least{1e9, "nothing"};
  const auto bound = [&least](double ns, double servers, std::string_view name) {
    if (ns > 0 && servers * 1e3 / ns < least.mops) least = {servers * 1e3 / ns, name};
  };
  bound(waiting_ns, static_cast<double>(shape.clients()), "round trips");
  bound(processor_ns, threads, "processors of threads");
  bound(each(result.shared_lists) * device.list_cpu_ns, static_cast<double>(shape.compute_nodes),
        "the worker that posts most");
  bound(each(result.server_busy_ns), 1, "the system's own servers");
  bound(engine_ns, nodes, "device of a memory node");
  bound(each(atomics) * device.atomic_ns, nodes, "atomic unit");
  bound(std::max(out_bytes, in_bytes) / device.bytes_per_ns, nodes, "link of a memory node");
  bound(engine_ns, static_cast<double>(shape.compute_nodes), "device of a compute node");
  return least;
}

Workload ycsb_workload(char letter) {
  Workload workload;
  workload.name = letter;
  workload.requests = Distribution::kZipfian;
  workload.scan_lengths_zipfian = false;
  workload.scan_length_max = 100;
  switch (letter) {
    case 'a':
      workload.shares = {.5, .5};
      break;
    case 'b':
      workload.shares = {.95, .05};
      break;
    case 'd':
      workload.shares = {.95, 0, .05};
      workload.requests = Distribution::kLatest;
      break;
    case 'e':
      workload.shares = {0, 0, .05, .95};
      break;
    default:
      BONSAI_CHECK(letter == 'c');
      workload.shares = {1};
  }
  return workload;
}

}  // namespace bonsai::bench
