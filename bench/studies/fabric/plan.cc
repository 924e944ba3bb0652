// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::bench {
namespace {

constexpr rdma::Verb kMeasured[] = {rdma::Verb::kRead, rdma::Verb::kWrite, rdma::Verb::kCas, rdma::Verb::kFaa,
                                    rdma::Verb::kSend};

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string lower(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

}  // namespace

std::string FabricCell::text() const {
  std::string out = std::string(rdma::verb_name(verb)) + " " + std::to_string(bytes) + " B";
  if (batch > 1) out += ", batch " + std::to_string(batch);
  if (depth > 1) out += ", depth " + std::to_string(depth);
  return out;
}

std::vector<FabricCell> fabric_cells(const FabricGrid& grid) {
  BONSAI_CHECK(!grid.sizes.empty() && !grid.batches.empty() && !grid.depths.empty());
  const auto highest = [](const std::vector<uint64_t>& values) {
    return *std::max_element(values.begin(), values.end());
  };
  std::vector<FabricCell> cells;
  const auto add = [&cells](const FabricCell& cell) {
    if (cell.verb == rdma::Verb::kSend && cell.batch * cell.depth > kFabricSendsMax) return;
    if (std::find(cells.begin(), cells.end(), cell) == cells.end()) cells.push_back(cell);
  };
  for (const rdma::Verb verb : grid.verbs) {
    const std::vector<uint64_t> sizes = is_atomic(verb) ? std::vector<uint64_t>{8} : grid.sizes;
    for (const uint64_t bytes : sizes) add({verb, bytes, 1, 1});
    const uint64_t least = *std::min_element(sizes.begin(), sizes.end());
    for (const uint64_t batch : grid.batches) add({verb, least, batch, 1});
    for (const uint64_t depth : grid.depths) add({verb, least, 1, depth});
    add({verb, least, highest(grid.batches), highest(grid.depths)});
  }
  return cells;
}

Status parse_verbs(const std::string& flag, const std::string& list, std::vector<rdma::Verb>* verbs) {
  for (const std::string& word : words_of(list)) {
    const auto found = std::find_if(std::begin(kMeasured), std::end(kMeasured),
                                    [&](rdma::Verb verb) { return lower(rdma::verb_name(verb)) == lower(word); });
    if (found == std::end(kMeasured)) {
      return Status::InvalidArgument("--" + flag + "=" + list + ": '" + word +
                                     "' is no request; give some of read,write,cas,faa,send");
    }
    verbs->push_back(*found);
  }
  return Status::OK();
}

Status parse_counts(const std::string& flag, const std::string& list, uint64_t low, uint64_t high, uint64_t multiple_of,
                    std::vector<uint64_t>* counts) {
  for (const std::string& word : words_of(list)) {
    uint64_t count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || end != word.data() + word.size() || count < low || count > high ||
        count % multiple_of != 0) {
      const std::string kind = multiple_of > 1 ? "multiples of " + std::to_string(multiple_of) : "numbers";
      return Status::InvalidArgument("--" + flag + "=" + list + ": '" + word + "' is out of bounds; give " + kind +
                                     " from " + std::to_string(low) + " to " + std::to_string(high) +
                                     ", separated by commas");
    }
    counts->push_back(count);
  }
  return Status::OK();
}

Status parse_fabric_address(const std::string& flag, const std::string& text, FabricAddress* address) {
  const size_t slash = text.rfind('/'), colon = text.rfind(':');
  if (slash != std::string::npos && slash > 0 && slash + 1 < text.size()) {
    *address = {&fabric_provider(FarSide::kProcess), text.substr(0, slash), text.substr(slash + 1)};
    return Status::OK();
  }
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  if (slash == std::string::npos && colon != std::string::npos && colon > 0 &&
      std::from_chars(text.data() + colon + 1, end, port).ptr == end && port > 0) {
    *address = {&fabric_provider(FarSide::kNetwork), "", text};
    return Status::OK();
  }
  return Status::InvalidArgument("--" + flag + "=" + text +
                                 " is no address; give HOST:PORT of an RDMA network, or FOLDER/NAME for shm");
}

FabricSample median(const std::vector<FabricSample>& samples) {
  std::vector<double> p50, p99, rate, one_way;
  for (const FabricSample& sample : samples) {
    p50.push_back(sample.p50_us);
    p99.push_back(sample.p99_us);
    rate.push_back(sample.messages_per_s);
    if (sample.one_way_us) one_way.push_back(*sample.one_way_us);
  }
  FabricSample middle{median(p50), median(p99), median(rate), {}};
  if (!one_way.empty()) middle.one_way_us = median(one_way);
  return middle;
}

}  // namespace bonsai::bench
