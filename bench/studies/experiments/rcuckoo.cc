// SPDX-License-Identifier: Apache-2.0
// RCuckoo against RACE, as the draft of RCuckoo evaluates them: round trips, messages and bytes by how full the table
// is, searches, hash functions, locks. Clients run in virtual time on a model of devices. Round trips, messages and
// bytes are counted and need no model.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "bench/studies/cluster/filling.h"
#include "bench/studies/cluster/trial.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/published/published.h"

namespace bonsai::bench {
namespace {

using Search = rivals::rcuckoo::SearchOptions;
using Memory = FillOptions::Memory;
using Table = FillOptions::Table;

constexpr size_t kClients = 128;
constexpr double kInsertsA = .5, kInsertsB = .05;
constexpr double kEngineListNs = 900;  // of a client's processor for a list; fitted to RCuckoo's reads at light load

uint64_t entries(const ExperimentPlan& plan, uint64_t trial, uint64_t small, uint64_t paper) {
  return plan.asked.records.value_or(plan.is_trial() ? trial : plan.scale == Scale::kSmall ? small : paper);
}

rivals::Shape shape_of(size_t clients) {
  return clients <= 16 ? rivals::Shape{.threads = clients} : rivals::Shape{.compute_nodes = 8, .threads = clients / 8};
}

// The settings of the draft's simulation: each client knows what it has read of the table; A*; the locks of one message
// a list, whose READ covers the rows between them; new keys.
FillOptions draft(const ExperimentPlan& plan, uint64_t entries, size_t clients) {
  FillOptions options;
  options.entries = entries;
  options.shape = shape_of(clients);
  options.memory = Memory::kOwn;
  options.cuckoo.cache_bytes = entries / rivals::rcuckoo::kEntriesPerRow * rivals::rcuckoo::kRowBytes;
  options.cuckoo.table.rows_per_lock = 1;
  options.cuckoo.search = {.kind = Search::Kind::kAStar, .moves_max = 50};
  options.cuckoo.locks.messages_per_list = 1;
  options.cuckoo.locks.covering_reads = true;
  options.cuckoo.threshold_bytes = 512;
  options.cuckoo.keys_are_new = true;
  options.device.list_cpu_ns = kEngineListNs;
  options.seed = plan.config.seed;
  options.stop = plan.stop;
  return options;
}

Status measure_fill(const ExperimentPlan& plan, const std::string& what, const FillOptions& options, Filling* filling) {
  const bool race = options.table == Table::kRace;
  plan.listener.on_phase(race ? "RACE-like" : "RCuckoo-like", what, options.entries);
  return fill(options, filling);
}

FillOptions race_of(FillOptions options) {
  options.table = Table::kRace;
  return options;
}

std::optional<double> lists_of(const FillCosts& costs) {
  return costs.operations > 0 ? std::optional(costs.lists_as_draft()) : std::nullopt;
}

constexpr const char* kModelledRates =
    "Mop/s: MODELLED, CX-5: no statement about a real device. Round trips, messages and "
    "bytes are counts, and need no model.";

// The total cost of a run's operations, in the words of `synthesis-costs`.
std::string costs_label(const std::string& what, const FillOptions& options, const Filling& filling) {
  const FillWindow window = filling.until(100);
  const FillCosts costs = window.all();
  if (costs.operations == 0) return what + ": no operation.";
  TrialResult result;
  result.operations = costs.operations;
  result.traffic = costs.traffic;
  const Ceiling ceiling = ceiling_of(result, options.device, options.shape, 1);
  const auto us = [&](double percent) { return static_cast<double>(costs.latency.percentile(percent)) / 1e3; };
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(),
                "%s, %s: lists %.2f, messages %.2f, bytes %.0f an operation; p50 %.1f us, p99 %.1f us, %.2f Mop/s, "
                "ceiling %.2f Mop/s: %s (modelled); cache %llu bytes, memory %.0f bytes a record; class V.",
                options.table == Table::kRace ? "RACE-like" : "RCuckoo-like", what.c_str(), costs.lists(),
                costs.messages(), result.bytes(), us(50), us(99), window.mops(), ceiling.mops,
                std::string(ceiling.binds).c_str(), static_cast<unsigned long long>(filling.cache_bytes),
                filling.memory_bytes_per_record);
  return text.data();
}

std::string size_label(const ExperimentPlan& plan, uint64_t entries) {
  return "A table of " + std::to_string(entries) + " entries of 4 + 4 bytes." +
         (plan.scale == Scale::kPaper ? "" : " Larger: --scale=paper") +
         " RACE-like: 7 slots a bucket, a block of 64 bytes for each record, whose WRITE the draft does not count.";
}

// ---- throughput by clients

// Operations per round-trip time, and Mop/s of the model.
struct Throughput {
  std::optional<double> per_round_trip, mops;
};

Throughput throughput_of(const FillWindow& window, size_t clients) {
  const FillCosts all = window.all();
  if (all.operations == 0) return {};
  return {static_cast<double>(clients) / all.lists_as_draft(), window.mops()};
}

Status run_throughput(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"clients", "clients"}};
  for (const char* what : {"W", "A", "B", "C"}) {
    for (const char* system : {"RCuckoo-like", "RACE-like"}) {
      result->columns.push_back({std::string(what) + " " + system, "ops per round trip", true});
    }
  }
  for (const char* what : {"W", "A", "B", "C"}) {
    for (const char* system : {"RCuckoo", "RACE"}) {
      result->columns.push_back({std::string(what) + " " + system + ", theirs", "ops per round trip"});
    }
  }
  for (const char* what : {"W", "C"}) {
    for (const char* system : {"RCuckoo-like", "RACE-like"}) {
      result->columns.push_back({std::string(what) + " " + system + ", modelled", "Mop/s"});
    }
  }
  const uint64_t size = entries(plan, 8 * 128, 8 * 1'680, 8 * 131'072);
  std::vector<std::string> costs;  // with most clients
  for (const auto& theirs : published_table("rcuckoo-throughput").rows) {
    const auto clients = static_cast<size_t>(*theirs[0]);
    if (clients > (plan.is_trial() ? 4u : plan.asked.threads.value_or(kClients))) continue;
    if (plan.scale == Scale::kSmall && clients != 1 && clients != 8 && clients < 32) continue;
    std::array<Throughput, 8> ours;
    costs.clear();
    for (size_t i = 0; i < 3; ++i) {
      FillOptions options = draft(plan, size, clients);
      options.cuckoo.table.rows_per_lock = 4;
      options.insert_share = std::array{1., kInsertsA, kInsertsB}[i];
      options.full_percent = 90;
      options.reads_at_end = i == 0 ? size / 4 : 0;
      for (size_t system = 0; system < 2; ++system) {
        Filling filling;
        const FillOptions chosen = system == 0 ? options : race_of(options);
        const std::string what = std::string(1, "WAB"[i]) + ", " + std::to_string(clients);
        BONSAI_RETURN_IF_ERROR(measure_fill(plan, what, chosen, &filling));
        costs.push_back(costs_label(what + " clients", chosen, filling));
        ours[2 * i + system] = throughput_of(filling.until(100), clients);
        if (i == 0) ours[6 + system] = throughput_of(filling.reads_at_end, clients);
      }
    }
    Row row = {static_cast<double>(clients)};
    for (const Throughput& one : ours) row.push_back(one.per_round_trip);
    row.insert(row.end(), theirs.begin() + 1, theirs.end());
    for (const size_t i : {0, 1, 6, 7}) row.push_back(ours[i].mops);
    result->rows.push_back(row);
  }
  result->labels = {
      kModelledRates, size_label(plan, size),
      "W inserts only, A half of them, B one in twenty, from an empty table to 90 %; C reads then. 4 rows "
      "a lock. Theirs: tables of 1,680 rows. Theirs count only reads that succeed, so RACE's A and B "
      "would be about 51 and 62."};
  result->labels.insert(result->labels.end(), costs.begin(), costs.end());
  explain_empty_columns("nothing is published for these numbers of clients", result);
  return Status::OK();
}

// ---- round trips, messages and bytes by fill

constexpr std::array<double, 9> kFills = {10, 20, 30, 40, 50, 60, 70, 80, 90};
uint64_t fill_entries(const ExperimentPlan& plan) { return entries(plan, 8 * 512, 8 * 13'440, 8 * 107'520); }
size_t fill_clients(const ExperimentPlan& plan) { return plan.asked.threads.value_or(plan.is_trial() ? 8 : kClients); }

// Counts from each fill for as long as the draft's simulation does.
FillOptions draft_by_fill(const ExperimentPlan& plan, uint64_t entries) {
  FillOptions options = draft(plan, entries, fill_clients(plan));
  options.full_percent = 93;
  options.answers_max = rivals::draft_answers_max(entries / rivals::rcuckoo::kEntriesPerRow);
  return options;
}

Status run_latency(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"fill", "%"},
                     {"inserts, RCuckoo-like", "round trips", true},
                     {"p99", "round trips"},
                     {"inserts, RCuckoo, theirs", "round trips", true},
                     {"p99, theirs", "round trips"},
                     {"every list counted", "round trips"},
                     {"pictures of a compute node", "round trips", true},
                     {"pictures always right", "round trips", true},
                     {"breadth first", "round trips"},
                     {"16 rows a lock", "round trips"},
                     {"inserts, RACE-like", "round trips", true},
                     {"p99, RACE-like", "round trips"},
                     {"inserts, RACE, theirs", "round trips"},
                     {"A, RCuckoo-like", "round trips"},
                     {"A, RACE-like", "round trips"},
                     {"inserts of A, RCuckoo-like", "round trips"}};
  const uint64_t size = fill_entries(plan);
  const FillOptions base = draft_by_fill(plan, size);
  Filling own, node, right, breadth, wide, race, mixed, race_mixed;
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "W", base, &own));
  FillOptions changed = base;
  changed.memory = Memory::kComputeNode;
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "W, pictures of a compute node", changed, &node));
  changed.memory = Memory::kOracle;
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "W, pictures always right", changed, &right));
  changed = base;
  changed.cuckoo.search = {};
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "W, breadth first", changed, &breadth));
  changed = base;
  changed.cuckoo.table.rows_per_lock = 16;
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "W, 16 rows a lock", changed, &wide));
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "W", race_of(base), &race));
  changed = base;
  changed.insert_share = kInsertsA;
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "A", changed, &mixed));
  BONSAI_RETURN_IF_ERROR(measure_fill(plan, "A", race_of(changed), &race_mixed));
  const auto p99 = [](const FillCosts& costs) {
    return costs.operations > 0 ? std::optional(static_cast<double>(costs.lists_percentile(99))) : std::nullopt;
  };
  const PublishedTable& theirs = published_table("rcuckoo-latency");
  for (size_t i = 0; i < kFills.size(); ++i) {
    const double fill = kFills[i];
    const FillCosts& inserts = own.beginning(fill).inserts;
    const auto of = [&](const Filling& filling) { return lists_of(filling.beginning(fill).inserts); };
    result->rows.push_back(
        {fill, lists_of(inserts), p99(inserts), theirs.at(fill, "RCuckoo"), theirs.at(fill, "RCuckoo, p99"),
         inserts.operations > 0 ? std::optional(inserts.lists()) : std::nullopt, of(node), of(right), of(breadth),
         of(wide), of(race), p99(race.beginning(fill).inserts), theirs.at(fill, "RACE"),
         lists_of(mixed.beginning(fill).all()), lists_of(race_mixed.beginning(fill).all()), of(mixed)});
  }
  result->labels = {
      size_label(plan, size),
      std::to_string(base.shape.clients()) +
          " clients on 8 compute nodes, one row a lock, 64 locks a message. From each fill on as long as their "
          "simulation looks, at most 5 % further. Round trips as the draft counts: what gives back the locks of a path "
          "that did not hold, and the request for the next path's, are one. Reads take 1 round trip (RCuckoo-like) and "
          "2 (RACE-like); theirs, too.",
      "RCuckoo-like: each client knows of the table what it has read itself; then those of a compute node "
      "share a picture of it; then all share one that is always right.",
      costs_label("W", base, own),
      costs_label("W", race_of(base), race),
      costs_label("A", changed, mixed),
      costs_label("A", race_of(changed), race_mixed)};
  return Status::OK();
}

Status run_messages(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"fill", "%"}};
  for (const char* what : {"W", "A"}) {
    for (const char* system : {"RCuckoo-like", "RACE-like"}) {
      result->columns.push_back({std::string(what) + ", " + system, "messages", true});
      result->columns.push_back({std::string(what) + ", " + system + ", wire", "bytes"});
    }
  }
  for (const char* system : {"RCuckoo", "RACE"}) {
    result->columns.push_back({std::string("W, ") + system + ", theirs", "messages"});
    result->columns.push_back({std::string("W, ") + system + ", wire, theirs", "bytes"});
  }
  const uint64_t size = fill_entries(plan);
  std::array<Filling, 4> fillings;
  std::vector<std::string> costs;
  for (size_t i = 0; i < fillings.size(); ++i) {
    FillOptions options = draft_by_fill(plan, size);
    options.insert_share = i < 2 ? 1 : kInsertsA;
    if (i % 2 != 0) options = race_of(options);
    BONSAI_RETURN_IF_ERROR(measure_fill(plan, i < 2 ? "W" : "A", options, &fillings[i]));
    costs.push_back(costs_label(i < 2 ? "W" : "A", options, fillings[i]));
  }
  const PublishedTable& theirs = published_table("rcuckoo-messages");
  for (size_t i = 0; i < kFills.size(); ++i) {
    Row row = {kFills[i]};
    for (const Filling& filling : fillings) {
      const FillCosts all = filling.beginning(kFills[i]).all();
      row.push_back(all.operations > 0 ? std::optional(all.messages()) : std::nullopt);
      row.push_back(all.operations > 0 ? std::optional(all.wire_bytes()) : std::nullopt);
    }
    // The draft counts requests and answers as messages.
    for (const char* system : {"RCuckoo", "RACE"}) {
      row.emplace_back(*theirs.at(kFills[i], std::string(system) + ", messages") / 2);
      row.push_back(theirs.at(kFills[i], std::string(system) + ", bytes"));
    }
    result->rows.push_back(row);
  }
  result->labels = {size_label(plan, size), std::to_string(fill_clients(plan)) +
                                                " clients, one row a lock, 64 locks a message. From each fill on as "
                                                "long as their simulation looks. Wire bytes: "
                                                "with the headers of requests and answers, and a READ's data in both, "
                                                "as the draft counts; rows of 72 bytes for "
                                                "64. Theirs: messages halved, as they count answers, too."};
  result->labels.insert(result->labels.end(), costs.begin(), costs.end());
  return Status::OK();
}

// ---- searches, hash functions, thresholds, locks

std::optional<double> p99_of(const Filling& filling) {
  const FillCosts costs = filling.until(100).inserts;
  return costs.operations > 0 ? std::optional(static_cast<double>(costs.lists_percentile(99))) : std::nullopt;
}

Status run_search(const ExperimentPlan& plan, ExperimentResult* result) {
  const PublishedTable& theirs = published_table("rcuckoo-search");
  result->columns = {{"locks per message", "locks"},
                     {"A*, dependent", "round trips", true},
                     {"breadth first, dependent", "round trips", true},
                     {"random, dependent", "round trips", true},
                     {"random, independent", "round trips", true},
                     {"A*, dependent, theirs", "round trips"},
                     {"random, dependent, theirs", "round trips"},
                     {"random, independent, theirs", "round trips"}};
  const uint64_t size = entries(plan, 8 * 128, 16'384, 16'384);
  std::vector<std::string> costs;  // with most locks a message
  for (size_t i = 0; i < theirs.rows.size(); ++i) {
    if (plan.is_trial() && i % 3 != 0) continue;
    Row row = {static_cast<double>(1 << i)};
    costs.clear();
    for (const auto& [kind, dependent] : {std::pair(Search::Kind::kAStar, true),
                                          {Search::Kind::kBreadthFirst, true},
                                          {Search::Kind::kRandom, true},
                                          {Search::Kind::kRandom, false}}) {
      FillOptions options = draft(plan, size, 1);
      options.cuckoo.search.kind = kind;
      options.cuckoo.search.moves_max = kind == Search::Kind::kBreadthFirst ? 4 : 50;
      options.cuckoo.table.dependent = dependent;
      options.cuckoo.locks.locks_per_message = uint64_t{1} << i;
      options.full_percent = 100;
      Filling filling;
      const std::string what = std::to_string(1 << i) + " locks per message";
      BONSAI_RETURN_IF_ERROR(measure_fill(plan, what, options, &filling));
      row.push_back(p99_of(filling));
      costs.push_back(costs_label(result->columns[row.size() - 1].name + ", " + what, options, filling));
    }
    row.insert(row.end(), theirs.rows[i].begin() + 1, theirs.rows[i].end());
    result->rows.push_back(row);
  }
  result->labels = {
      "99th percentile of round trips of an insert, one client, one row a lock, until a hundred inserts "
      "find no place; a table of " +
          std::to_string(size) + " entries.",
      "Theirs: the published code, one client, 16,384 entries; the draft's figure is of 120 clients, and "
      "its data are not published."};
  result->labels.insert(result->labels.end(), costs.begin(), costs.end());
  return Status::OK();
}

Status run_hashing(const ExperimentPlan& plan, ExperimentResult* result) {
  const PublishedTable& theirs = published_table("rcuckoo-hashing");
  result->columns = {{"f", ""}, {"full, 512 rows", "%", true}, {"full, 12,500 rows", "%", true}};
  std::vector<uint64_t> rows = {512, 12'500};
  if (plan.scale == Scale::kPaper) {
    rows.push_back(131'072);
    result->columns.push_back({"full, 131,072 rows", "%", true});
  }
  if (plan.is_trial()) rows = {128, 512};
  std::string costs;  // of the largest table with independent hash functions
  result->columns.push_back({"full, theirs", "%", true});
  for (size_t i = 0; i <= theirs.rows.size(); ++i) {
    const bool independent = i == theirs.rows.size();
    const double factor = 1.7 + .2 * static_cast<double>(i);
    result->columns[0].words.push_back(independent ? "independent" : std::to_string(factor).substr(0, 3));
    Row row = {static_cast<double>(i)};
    for (const uint64_t table : rows) {
      FillOptions options = draft(plan, table * rivals::rcuckoo::kEntriesPerRow, 1);
      options.cuckoo.search = {};
      options.cuckoo.table.factor = factor;
      options.cuckoo.table.dependent = !independent;
      options.full_percent = 100;
      options.failures_max = 1;
      Filling filling;
      BONSAI_RETURN_IF_ERROR(measure_fill(plan, "f = " + result->columns[0].words.back(), options, &filling));
      row.emplace_back(filling.ended_at_percent);
      costs = costs_label("f = " + result->columns[0].words.back() + ", one client", options, filling);
    }
    row.push_back(independent ? std::nullopt : theirs.rows[i][1]);
    result->rows.push_back(row);
  }
  result->labels = {
      "How full the table is when an insert first finds no path: breadth first, four moves. Theirs match "
      "tables of about 4,000 entries; a run of 10 M entries in the published data has 51.5 % at 2.3.",
      "One table each. Other hash functions are not compared: what they hash is the same.", costs};
  if (plan.is_trial()) result->labels.emplace_back("TRIAL: 128 and 512 rows in place of those of the columns.");
  return Status::OK();
}

Status run_threshold(const ExperimentPlan& plan, ExperimentResult* result) {
  const PublishedTable& theirs = published_table("rcuckoo-threshold");
  result->columns = {{"threshold", "bytes"}, {"messages", "per get", true}, {"payload", "bytes per get"},
                     {"lists", "per get"},   {"rate, modelled", "Mop/s"},   {"rate, theirs", "Mop/s"}};
  const uint64_t size = entries(plan, 8 * 128, 8 * 1'680, 8 * 107'520);
  std::string costs;  // with the largest threshold
  for (size_t i = 0; i < theirs.rows.size(); ++i) {
    if (plan.is_trial() && i % 3 != 0) continue;
    FillOptions options = draft(plan, size, plan.is_trial() ? 8 : 40);
    options.cuckoo.threshold_bytes = size_t{64} << i;
    options.full_percent = 80;
    options.reads_at_end = size / 4;
    Filling filling;
    BONSAI_RETURN_IF_ERROR(measure_fill(plan, std::to_string(64 << i) + " bytes", options, &filling));
    const FillCosts& reads = filling.reads_at_end.reads;
    costs = costs_label("filling, threshold of " + std::to_string(64 << i) + " bytes", options, filling);
    result->rows.push_back({static_cast<double>(64 << i), reads.messages(),
                            static_cast<double>(reads.traffic.bytes()) / static_cast<double>(reads.operations),
                            reads.lists(), filling.reads_at_end.mops(), theirs.rows[i][1]});
  }
  result->labels = {kModelledRates, size_label(plan, size),
                    "Reads of 40 clients from a table that is 80 % full. Rows have 72 bytes here and 73 there, so 64 "
                    "bytes never cover two of them.",
                    costs};
  return Status::OK();
}

Status run_locks(const ExperimentPlan& plan, ExperimentResult* result) {
  const PublishedTable& theirs = published_table("rcuckoo-locks");
  constexpr std::array<uint64_t, 2> kLocksPerMessage = {1, 64};
  result->columns = {{"rows per lock", "rows"},
                     {"1 lock per message", "round trips", true},
                     {"64 locks per message", "round trips", true},
                     {"1 lock per message, theirs", "round trips"},
                     {"64 locks per message, theirs", "round trips"}};
  const uint64_t size = entries(plan, 8 * 128, 4'096, 4'096);
  std::vector<std::string> costs;  // with most rows a lock
  for (size_t i = 0; i < theirs.rows.size(); ++i) {
    if (plan.is_trial() && i % 3 != 0) continue;
    Row row = {static_cast<double>(1 << i)};
    costs.clear();
    for (const uint64_t locks : kLocksPerMessage) {
      FillOptions options = draft(plan, size, 8);
      options.cuckoo.table.rows_per_lock = uint64_t{1} << i;
      options.cuckoo.locks.locks_per_message = locks;
      options.full_percent = 100;
      Filling filling;
      const std::string what = std::to_string(1 << i) + " rows per lock";
      BONSAI_RETURN_IF_ERROR(measure_fill(plan, what, options, &filling));
      row.push_back(p99_of(filling));
      costs.push_back(costs_label(what + ", " + std::to_string(locks) + " locks per message", options, filling));
    }
    row.insert(row.end(), theirs.rows[i].begin() + 1, theirs.rows[i].end());
    result->rows.push_back(row);
  }
  result->labels = {
      "99th percentile of round trips of an insert, 8 clients, A*, until a hundred inserts find no place; "
      "a table of " +
      std::to_string(size) + " entries. With many rows a lock all clients wait for the same one."};
  result->labels.insert(result->labels.end(), costs.begin(), costs.end());
  return Status::OK();
}

Reference without_reference() { return {}; }

}  // namespace

const Registered<Experiment> kRcuckooExperiments("rcuckoo", []() -> std::vector<Experiment> {
  constexpr std::string_view kSource = "RCuckoo against RACE, draft";
  constexpr std::string_view kGroup = "rcuckoo";
  return {{"rcuckoo-throughput", "RCuckoo-like and RACE-like by clients", kSource,
           "operations per round-trip time, inserts and reads, 1 to 128 clients", run_throughput, without_reference,
           kGroup},
          {"rcuckoo-latency", "Round trips by how full the table is", kSource,
           "round trips of inserts, 10 to 90 % full, by what clients know of the table", run_latency, without_reference,
           kGroup},
          {"rcuckoo-messages", "Messages and bytes by how full the table is", kSource,
           "messages and wire bytes of inserts and of half reads", run_messages, without_reference, kGroup},
          {"rcuckoo-search", "Searches by locks per message", kSource,
           "99th percentile of round trips, A*, breadth first and random, both hash functions", run_search,
           without_reference, kGroup},
          {"rcuckoo-hashing", "How full the table gets by its hash functions", kSource,
           "first insert without a place by how far apart rows are", run_hashing, without_reference, kGroup},
          {"rcuckoo-threshold", "Reads by the threshold of one message", kSource,
           "messages, bytes and modelled rates of reads", run_threshold, without_reference, kGroup},
          {"rcuckoo-locks", "Round trips by rows per lock", kSource,
           "99th percentile of round trips, 1 to 512 rows a lock", run_locks, without_reference, kGroup}};
});

}  // namespace bonsai::bench
