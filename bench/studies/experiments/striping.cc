// SPDX-License-Identifier: Apache-2.0
// Scans of a memory node whose NVM is several modules, by the layout of data on the modules: a pool for each module and
// a volume over them, with layout none or software; or one pool over all modules, which the node's address translation
// interleaves (hardware striping). The store, its requests and their bytes are the product's; devices and NVM are a
// model in virtual time.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "bench/studies/cluster/trial.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/published/published.h"

namespace bonsai::bench {
namespace {

constexpr size_t kCoroutines = 4;  // of a thread
constexpr uint64_t kFullRecords = 18'750'000;
constexpr uint64_t kUnitBytes = 256;
// The scheme's repository prints MB/s and scans/s; their quotient is 7.4 KB a scan, here of 1
// to 740 records of 16 bytes, which take 20 bytes each.
constexpr uint64_t kLongScanMax = 740, kShortScanMax = 100;

enum class Layout { kNone, kSoftware, kHardware };
constexpr std::array kLayouts = {Layout::kNone, Layout::kSoftware, Layout::kHardware};
const char* name_of(Layout layout) { return std::array{"none", "software", "hardware"}[static_cast<size_t>(layout)]; }

rdma::SimDevice device_of(Layout layout, uint64_t unit_bytes) {
  rdma::SimDevice device = rdma::SimDevice::cx6();
  device.name = "CX-6 of 200 Gb/s";
  device.bytes_per_ns = 25;
  return device.with_optane(layout == Layout::kHardware ? unit_bytes : 0);
}

uint64_t records_of(const ExperimentPlan& plan) {
  return plan.asked.records.value_or(plan.is_trial() ? 2'000 : plan.scale == Scale::kSmall ? 200'000 : kFullRecords);
}
uint64_t scans_of(const ExperimentPlan& plan) {
  return plan.asked.operations.value_or(plan.is_trial() ? 500 : plan.scale == Scale::kSmall ? 10'000 : 50'000);
}

Workload scans_only(uint64_t records_max) {
  Workload workload = ycsb_workload('e');
  workload.shares = {0, 0, 0, 1};
  workload.scan_length_max = static_cast<uint32_t>(records_max);
  return workload;
}

// Makes and fills a store in this layout.
Status filled(const ExperimentPlan& plan, Layout layout, uint64_t unit_bytes, size_t threads,
              std::unique_ptr<Trial>* trial) {
  const rdma::SimDevice device = device_of(layout, unit_bytes);
  const SystemEntry* const bonsai = find_system("Bonsai");
  BONSAI_CHECK(bonsai != nullptr);
  plan.listener.on_phase(name_of(layout), "fill", records_of(plan));
  BONSAI_RETURN_IF_ERROR(Trial::make(*bonsai,
                                     {.device = device,
                                      .seed = plan.config.seed,
                                      .pools_per_node = layout == Layout::kHardware ? 1 : device.nvm_devices,
                                      .stripe_unit_bytes = layout == Layout::kSoftware ? unit_bytes : 0,
                                      .records = records_of(plan),
                                      .opens_at_once = true,
                                      .shape = {.threads = threads, .coroutines = kCoroutines}},
                                     trial));
  return (*trial)->fill(records_of(plan));
}

struct Measured {
  double mb_per_s, kops, requests;
};

Status scan(const ExperimentPlan& plan, Trial* trial, Layout layout, const std::string& what, uint64_t records_max,
            Measured* measured) {
  if (*plan.stop) return Status::Unavailable("interrupted");
  plan.listener.on_phase(name_of(layout), what, scans_of(plan));
  TrialResult result;
  BONSAI_RETURN_IF_ERROR(trial->run(scans_only(records_max), scans_of(plan), &result));
  const rdma::Traffic::Flow reads = result.traffic.of(rdma::Verb::kRead);
  *measured = {static_cast<double>(reads.bytes) * 1e3 / static_cast<double>(result.seconds_ns), result.mops() * 1e3,
               result.per_operation(reads.messages)};
  return Status::OK();
}

std::vector<std::string> labels_of(const ExperimentPlan& plan, uint64_t records_max) {
  return {
      "MODELLED: CX-6 of 200 Gb/s and six Optane modules of 6.6 GB/s and 305 ns, in virtual time: no "
      "statement about a real device. Requests and bytes are the product's own, and need no model.",
      std::to_string(records_of(plan)) + " records of 8 + 8 bytes" +
          (plan.scale == Scale::kPaper ? "" : " (18.75 M: --scale=paper)") + ", scans of 1 to " +
          std::to_string(records_max) + " from a Zipfian record on, " + std::to_string(kCoroutines) +
          " coroutines a thread, one memory node.",
      "none and software: a pool for each module, and a volume of that layout over them. hardware: one pool over all "
      "modules in units, and a READ goes on to the next module, as where the node maps them together."};
}

// ---- by threads

Status run_by_threads(const ExperimentPlan& plan, uint64_t records_max, ExperimentResult* result) {
  result->columns = {{"threads", "threads"}};
  for (const Layout layout : kLayouts) {
    result->columns.push_back({name_of(layout), "kop/s", true});
    result->columns.push_back({std::string(name_of(layout)) + ", read from NVM", "MB/s"});
    result->columns.push_back({std::string(name_of(layout)) + ", requests", "per scan"});
  }
  std::vector<unsigned> threads = {1, 2};
  if (!plan.is_trial()) {
    threads.clear();
    for (const auto& row : published_table("striping").rows) threads.push_back(static_cast<unsigned>(*row[0]));
  }
  for (const unsigned each : threads) result->rows.push_back({static_cast<double>(each)});
  for (const Layout layout : kLayouts) {
    std::unique_ptr<Trial> trial;
    BONSAI_RETURN_IF_ERROR(filled(plan, layout, kUnitBytes, threads.back(), &trial));
    for (size_t i = 0; i < threads.size(); ++i) {
      trial->change({.threads = threads[i], .coroutines = kCoroutines}, device_of(layout, kUnitBytes), 0);
      Measured measured{};
      BONSAI_RETURN_IF_ERROR(
          scan(plan, trial.get(), layout, std::to_string(threads[i]) + " threads", records_max, &measured));
      for (const double figure : {measured.kops, measured.mb_per_s, measured.requests}) {
        result->rows[i].emplace_back(figure);
      }
    }
  }
  result->labels = labels_of(plan, records_max);
  result->labels.push_back("Units of " + std::to_string(kUnitBytes) + " bytes, a block of these modules.");
  return Status::OK();
}

Status run_long(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_by_threads(plan, kLongScanMax, result));
  result->labels.emplace_back(
      "Records as long together as the scheme's bytes: its bandwidth over its rate is 7.4 KB a scan. Its requests are "
      "those of 20 ms; per scan they are .85, 21.8 and .85 with one thread, and do not fit its rates with more.");
  result->labels.emplace_back(
      "A scan of 256 records or more reads whole runs of the dnodes that it passes. Of the first it returns the end, "
      "of the last the beginning, so it reads more than its records; software splits what is read, needed or not.");
  return Status::OK();
}
Status run_short(const ExperimentPlan& plan, ExperimentResult* result) {
  return run_by_threads(plan, kShortScanMax, result);
}

// Rates in kop/s, as ours. Requests are those of 20 ms.
Reference theirs() {
  const PublishedTable& table = published_table("striping");
  Reference reference = {{"threads"}, {}, ReferenceKind::kPublished, origin_of(table)};
  std::vector<std::pair<std::string, double>> columns;  // of the table, and the factor to our unit
  for (const Layout layout : kLayouts) {
    const std::string name = name_of(layout);
    for (const char* ours : {"", ", read from NVM", ", requests in 20 ms"}) reference.columns.push_back(name + ours);
    columns.insert(columns.end(), {{name + ", 10 kop/s", 10}, {name + ", MB/s", 1}, {name + ", requests in 20 ms", 1}});
  }
  for (const auto& of_threads : table.rows) {
    Row row = {of_threads[0]};
    for (const auto& [column, factor] : columns) row.emplace_back(*table.at(*of_threads[0], column) * factor);
    reference.rows.push_back(row);
  }
  return reference;
}

// ---- by unit

constexpr std::array<uint64_t, 6> kUnits = {256, 512, 1'024, 4'096, 16'384, 65'536};
constexpr unsigned kUnitThreads = 12;

Status run_units(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"unit", "bytes"},
                     {"software", "kop/s", true},
                     {"software, requests", "per scan"},
                     {"hardware", "kop/s", true},
                     {"hardware, requests", "per scan"},
                     {"none", "kop/s", true},
                     {"none, requests", "per scan"}};
  const unsigned threads = plan.asked.threads.value_or(plan.is_trial() ? 2 : kUnitThreads);
  const auto measure_on = [&](Layout layout, uint64_t unit, Trial* trial, Row* row) {
    trial->change({.threads = threads, .coroutines = kCoroutines}, device_of(layout, unit), 0);
    Measured measured{};
    BONSAI_RETURN_IF_ERROR(scan(plan, trial, layout, std::to_string(unit), kLongScanMax, &measured));
    row->emplace_back(measured.kops);
    row->emplace_back(measured.requests);
    return Status::OK();
  };
  std::unique_ptr<Trial> hardware, none;
  BONSAI_RETURN_IF_ERROR(filled(plan, Layout::kHardware, kUnits[0], threads, &hardware));
  BONSAI_RETURN_IF_ERROR(filled(plan, Layout::kNone, 0, threads, &none));
  Row of_none;
  BONSAI_RETURN_IF_ERROR(measure_on(Layout::kNone, 0, none.get(), &of_none));
  for (const uint64_t unit : kUnits) {
    Row row = {static_cast<double>(unit)};
    std::unique_ptr<Trial> software;  // a pool keeps its unit
    BONSAI_RETURN_IF_ERROR(filled(plan, Layout::kSoftware, unit, threads, &software));
    BONSAI_RETURN_IF_ERROR(measure_on(Layout::kSoftware, unit, software.get(), &row));
    BONSAI_RETURN_IF_ERROR(measure_on(Layout::kHardware, unit, hardware.get(), &row));
    row.insert(row.end(), of_none.begin(), of_none.end());
    result->rows.push_back(row);
  }
  result->labels = labels_of(plan, kLongScanMax);
  result->labels.push_back(std::to_string(threads) + " threads. What has no unit (none) is the same in each row.");
  return Status::OK();
}

constexpr std::string_view kGroup = "striping";
constexpr std::string_view kSource = "Evaluation scheme of BonsaiKV, scalability tier: data striping";

}  // namespace

const Registered<Experiment> kStripingExperiments("striping", []() -> std::vector<Experiment> {
  return {{"striping-scans", "Scans by layout of NVM modules", kSource,
           "scans of 7.4 KB by threads: no, software and hardware striping", run_long, theirs, kGroup},
          {"striping-short", "Short scans by layout of NVM modules", kSource,
           "the same with YCSB E's scans of up to 100 records", run_short, no_reference, kGroup},
          {"striping-units", "Scans by the unit of striping", kSource,
           "software and hardware striping by units of 256 bytes to 64 KiB", run_units, no_reference, kGroup}};
});

}  // namespace bonsai::bench
