// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/status_macros.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr std::array<std::string_view, kOpKinds> kShareNames = {
    "readproportion", "updateproportion",          "insertproportion",
    "scanproportion", "readmodifywriteproportion", "deleteproportion"};
constexpr std::array<double, kOpKinds> kShareDefaults = {0.95, 0.05, 0, 0, 0, 0};

constexpr std::array<std::string_view, 8> kDistributionNames = {"uniform", "zipfian",     "latest",     "sequential",
                                                                "hotspot", "exponential", "plain_zipf", "trace"};

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
// Known to YCSB and not supported: a message says so.
const std::set<std::string_view> kNotObeyed = {"readallfields",   "writeallfields", "fieldlengthdistribution",
                                               "minfieldlength",  "dataintegrity",  "fieldlengthhistogram",
                                               "insertstart",     "insertcount",    "target",
                                               "maxexecutiontime"};
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

// Reads `name` when it is set, a number in [low, high].
Status read_double(const Properties& properties, const std::string& name, double low, double high,
                   const std::string& remedy, double* number) {
  const Property* property = properties.find(name);
  if (property == nullptr) return Status::OK();
  double parsed = 0;
  const char* end = property->value.data() + property->value.size();
  const auto [stop, error] = std::from_chars(property->value.data(), end, parsed);
  if (error != std::errc() || stop != end || !(parsed >= low && parsed <= high)) {
    return bad_value(name, *property, remedy);
  }
  *number = parsed;
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
    BONSAI_RETURN_IF_ERROR(read_double(
        properties, name, 0, 1e9, "give a share such as 0.95 (they are scaled to sum to 1)", &workload->shares[kind]));
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
  BONSAI_RETURN_IF_ERROR(read_number(properties, "fieldcount", 1, 1'000'000, &fields));
  BONSAI_RETURN_IF_ERROR(read_number(properties, "fieldlength", 0, kValueBytesMax, &field_bytes));
  if (fields * field_bytes > kValueBytesMax) {
    const Property* set =
        properties.find("fieldlength") ? properties.find("fieldlength") : properties.find("fieldcount");
    return Status::InvalidArgument(set->where + ": fieldcount x fieldlength = " + std::to_string(fields * field_bytes) +
                                   " bytes is above the store's 16 MiB per value; make one of them smaller");
  }
  workload->record_bytes = fields * field_bytes;
  return Status::OK();
}

Status read_distribution(const Properties& properties, Workload* workload) {
  size_t requests = static_cast<size_t>(workload->requests);
  BONSAI_RETURN_IF_ERROR(read_choice(properties, "requestdistribution",
                                     {kDistributionNames.begin(), kDistributionNames.end() - 1}, &requests));
  workload->requests = static_cast<Distribution>(requests);
  const std::string fraction = "give a fraction from 0 to 1, for example 0.2";
  BONSAI_RETURN_IF_ERROR(read_double(properties, "hotspotdatafraction", 0, 1, fraction, &workload->hotspot_data));
  BONSAI_RETURN_IF_ERROR(read_double(properties, "hotspotopnfraction", 0, 1, fraction, &workload->hotspot_requests));
  BONSAI_RETURN_IF_ERROR(read_double(properties, "exponential.percentile", 0.001, 99.999,
                                     "give a percentage from 0.001 to 99.999", &workload->exponential_percentile));
  BONSAI_RETURN_IF_ERROR(read_double(properties, "exponential.frac", 1e-9, 1e9, "give a fraction such as 0.857",
                                     &workload->exponential_frac));
  return read_double(properties, "plain_zipf_alpha", 0.01, 10, "give a skew from 0.01 to 10, for example 0.99",
                     &workload->plain_zipf_alpha);
}

Status read_scan_lengths(const Properties& properties, Workload* workload) {
  size_t zipfian = 0;
  BONSAI_RETURN_IF_ERROR(read_choice(properties, "scanlengthdistribution", {"uniform", "zipfian"}, &zipfian));
  workload->scan_lengths_zipfian = zipfian == 1;
  BONSAI_RETURN_IF_ERROR(read_number(properties, "minscanlength", 1, kScanLengthMax, &workload->scan_length_min));
  BONSAI_RETURN_IF_ERROR(
      read_number(properties, "maxscanlength", workload->scan_length_min, kScanLengthMax, &workload->scan_length_max));
  if (workload->scan_length_min <= workload->scan_length_max) return Status::OK();
  return Status::InvalidArgument("workload " + workload->name + ": minscanlength is above maxscanlength, which is " +
                                 std::to_string(workload->scan_length_max) + " when not set; set maxscanlength");
}

// Refuses unknown names, which are mostly misspelt; names with a dot belong to other programs.
Status check_names(const Properties& properties, std::vector<std::string>* notes) {
  static const std::set<std::string_view> kUsed = {"requestdistribution", "scanlengthdistribution",
                                                   "minscanlength",       "maxscanlength",
                                                   "insertorder",         "zeropadding",
                                                   "fieldcount",          "fieldlength",
                                                   "hotspotdatafraction", "hotspotopnfraction",
                                                   "plain_zipf_alpha"};
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
  return kDistributionNames[static_cast<size_t>(distribution)];
}

std::string Workload::distribution_text() const {
  std::string text(distribution_name(requests));
  if (requests != Distribution::kPlainZipf) return text;
  std::array<char, 32> alpha;
  const auto end = std::to_chars(alpha.data(), alpha.data() + alpha.size(), plain_zipf_alpha).ptr;
  return text + " " + std::string(alpha.data(), end);
}

Status read_count(const Properties& properties, const std::string& name, uint64_t low, uint64_t high,
                  uint64_t* number) {
  return read_number(properties, name, low, high, number);
}

Status make_workload(const std::string& name, const Properties& properties, Workload* workload,
                     std::vector<std::string>* notes) {
  Workload made;
  made.name = name;
  size_t ordered = 0;
  BONSAI_RETURN_IF_ERROR(check_names(properties, notes));
  BONSAI_RETURN_IF_ERROR(read_shares(properties, &made));
  BONSAI_RETURN_IF_ERROR(read_record_shape(properties, &made));
  BONSAI_RETURN_IF_ERROR(read_distribution(properties, &made));
  BONSAI_RETURN_IF_ERROR(read_choice(properties, "insertorder", {"hashed", "ordered"}, &ordered));
  BONSAI_RETURN_IF_ERROR(read_scan_lengths(properties, &made));
  BONSAI_RETURN_IF_ERROR(read_number(properties, "zeropadding", 1, kKeyBytesMax - 4, &made.zero_padding));
  made.hashed_inserts = ordered == 0;
  *workload = std::move(made);
  return Status::OK();
}

}  // namespace bonsai::bench
