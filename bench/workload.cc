#include "bench/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr std::array<std::string_view, kOpKinds> kShareNames = {
    "readproportion", "updateproportion",          "insertproportion",
    "scanproportion", "readmodifywriteproportion", "deleteproportion"};
constexpr std::array<double, kOpKinds> kShareDefaults = {0.95, 0.05, 0, 0, 0, 0};

// Known to YCSB and of no effect here: counts come from flags, the rest concerns its tables, clients and output.
const std::set<std::string_view> kIgnored = {"workload",
                                             "recordcount",
                                             "operationcount",
                                             "table",
                                             "fieldnameprefix",
                                             "threadcount",
                                             "db",
                                             "exporter",
                                             "exportfile",
                                             "measurementtype",
                                             "status.interval",
                                             "readallfieldsbyname",
                                             "core_workload_insertion_retry_limit",
                                             "core_workload_insertion_retry_interval"};
// Known to YCSB and not obeyed: the user is told.
const std::set<std::string_view> kNotObeyed = {"readallfields",    "writeallfields",      "fieldlengthdistribution",
                                               "minfieldlength",   "dataintegrity",       "fieldlengthhistogram",
                                               "insertstart",      "insertcount",         "target",
                                               "maxexecutiontime", "hotspotdatafraction", "hotspotopnfraction"};
// The values of kNotObeyed that mean what we do anyway.
bool is_our_way(const std::string& name, const std::string& value) {
  return (name == "readallfields" && value == "true") || (name == "writeallfields" && value == "true") ||
         (name == "fieldlengthdistribution" && value == "constant") || (name == "dataintegrity" && value == "true") ||
         (name == "insertstart" && value == "0");
}

Status bad_value(const std::string& name, const Property& property, const std::string& remedy) {
  return Status::InvalidArgument(property.where + ": " + name + "=" + property.value + ": " + remedy);
}

// Reads `name` when it is set, a whole number in [low, high].
template <class Int>
Status read_number(const Properties& properties, const std::string& name, uint64_t low, uint64_t high, Int* number) {
  const Property* property = properties.find(name);
  if (property == nullptr) return Status::OK();
  uint64_t parsed = 0;
  const char* end = property->value.data() + property->value.size();
  const auto [stop, error] = std::from_chars(property->value.data(), end, parsed);
  if (error != std::errc() || stop != end || parsed < low || parsed > high) {
    return bad_value(name, *property,
                     "give a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  *number = static_cast<Int>(parsed);
  return Status::OK();
}

// Reads `name` when it is set, one of `choices`; *choice is its place.
Status read_choice(const Properties& properties, const std::string& name, const std::vector<std::string>& choices,
                   size_t* choice) {
  const Property* property = properties.find(name);
  if (property == nullptr) return Status::OK();
  const auto found = std::find(choices.begin(), choices.end(), property->value);
  if (found == choices.end()) {
    std::string remedy = "give one of";
    for (const std::string& known : choices) remedy += " " + known;
    return bad_value(name, *property, remedy);
  }
  *choice = static_cast<size_t>(found - choices.begin());
  return Status::OK();
}

Status read_shares(const Properties& properties, Workload* workload) {
  double sum = 0;
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    const std::string name(kShareNames[kind]);
    workload->shares[kind] = kShareDefaults[kind];
    if (const Property* property = properties.find(name)) {
      double share = 0;
      const char* end = property->value.data() + property->value.size();
      const auto [stop, error] = std::from_chars(property->value.data(), end, share);
      if (error != std::errc() || stop != end || !(share >= 0 && share <= 1e9)) {
        return bad_value(name, *property, "give a share such as 0.95 (they are scaled to sum to 1)");
      }
      workload->shares[kind] = share;
    }
    sum += workload->shares[kind];
  }
  if (!(sum > 0)) {
    return Status::InvalidArgument("workload " + workload->name +
                                   ": all proportions are 0; set one, for example readproportion=1");
  }
  for (double& share : workload->shares) share /= sum;
  return Status::OK();
}

Status read_record_shape(const Properties& properties, Workload* workload) {
  uint64_t fields = 10;
  uint64_t field_bytes = 100;
  if (Status status = read_number(properties, "fieldcount", 1, 1'000'000, &fields); !status.ok()) return status;
  if (Status status = read_number(properties, "fieldlength", 0, kValueBytesMax, &field_bytes); !status.ok()) {
    return status;
  }
  if (fields * field_bytes > kValueBytesMax) {
    const Property* set =
        properties.find("fieldlength") ? properties.find("fieldlength") : properties.find("fieldcount");
    return Status::InvalidArgument(set->where + ": fieldcount x fieldlength = " + std::to_string(fields * field_bytes) +
                                   " bytes is above the store's 16 MiB per value; make one of them smaller");
  }
  workload->record_bytes = fields * field_bytes;
  return Status::OK();
}

// Refuses names that nobody knows, which are mostly misspelt ones; names with a dot belong to other programs.
Status check_names(const Properties& properties, std::vector<std::string>* notes) {
  static const std::set<std::string_view> kUsed = {"requestdistribution", "scanlengthdistribution",
                                                   "minscanlength",       "maxscanlength",
                                                   "insertorder",         "zeropadding",
                                                   "fieldcount",          "fieldlength"};
  for (const auto& [name, property] : properties.all()) {
    if (kUsed.count(name) || kIgnored.count(name)) continue;
    if (std::find(kShareNames.begin(), kShareNames.end(), name) != kShareNames.end()) continue;
    if (kNotObeyed.count(name)) {
      if (!is_our_way(name, property.value)) {
        notes->push_back(property.where + ": " + name + "=" + property.value + " is not obeyed by bonsai-bench");
      }
      continue;
    }
    if (name.find('.') != std::string::npos) continue;
    return Status::InvalidArgument(property.where + ": unknown property '" + name +
                                   "'; correct its spelling or remove the line (known: the core workload properties "
                                   "of YCSB, see conf/workloads/workloada)");
  }
  return Status::OK();
}

}  // namespace

std::string_view op_kind_name(OpKind kind) {
  static constexpr std::array<std::string_view, kOpKinds> kNames = {"read", "update", "insert",
                                                                    "scan", "rmw",    "delete"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view distribution_name(Distribution distribution) {
  static constexpr std::array<std::string_view, 4> kNames = {"uniform", "zipfian", "latest", "sequential"};
  return kNames[static_cast<size_t>(distribution)];
}

Status make_workload(const std::string& name, const Properties& properties, Workload* workload,
                     std::vector<std::string>* notes) {
  Workload made;
  made.name = name;
  size_t requests = static_cast<size_t>(made.requests);
  size_t zipfian_lengths = 0;
  size_t ordered = 0;
  Status status = check_names(properties, notes);
  if (status.ok()) status = read_shares(properties, &made);
  if (status.ok()) status = read_record_shape(properties, &made);
  if (status.ok()) {
    status = read_choice(properties, "requestdistribution", {"uniform", "zipfian", "latest", "sequential"}, &requests);
  }
  if (status.ok()) status = read_choice(properties, "insertorder", {"hashed", "ordered"}, &ordered);
  if (status.ok()) status = read_choice(properties, "scanlengthdistribution", {"uniform", "zipfian"}, &zipfian_lengths);
  if (status.ok()) status = read_number(properties, "minscanlength", 1, 1'000'000'000, &made.scan_length_min);
  if (status.ok()) {
    status = read_number(properties, "maxscanlength", made.scan_length_min, 1'000'000'000, &made.scan_length_max);
  }
  if (status.ok()) status = read_number(properties, "zeropadding", 1, kKeyBytesMax - 4, &made.zero_padding);
  if (!status.ok()) return status;
  if (made.scan_length_min > made.scan_length_max) {
    return Status::InvalidArgument("workload " + name + ": minscanlength is above maxscanlength, which is " +
                                   std::to_string(made.scan_length_max) + " when not set; set maxscanlength");
  }
  made.requests = static_cast<Distribution>(requests);
  made.scan_lengths_zipfian = zipfian_lengths == 1;
  made.hashed_inserts = ordered == 0;
  *workload = std::move(made);
  return Status::OK();
}

}  // namespace bonsai::bench
