// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/clover_node.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::bench::rivals::clover {

bool CursorCache::usable(const Cursor& cursor) const {
  const std::optional<uint64_t> epoch = epochs_.recent();
  return epoch && *epoch < cursor.epoch + kEpochsCached;
}

bool CursorCache::find(uint64_t hash, Cursor* cursor) const {
  const Part& part = part_of(hash);
  const std::lock_guard lock(part.mutex);
  const auto known = part.cursors.find(hash);
  if (known == part.cursors.end() || !usable(known->second)) return false;
  *cursor = known->second;
  return true;
}

void CursorCache::put(uint64_t hash, const Cursor& cursor) {
  Part& part = part_of(hash);
  const std::lock_guard lock(part.mutex);
  const auto [known, is_new] = part.cursors.try_emplace(hash, cursor);
  if (!is_new) {
    if (!known->second.link.newer_than(cursor.link) || !usable(known->second)) known->second = cursor;
    return;
  }
  if (entries_max_ == SIZE_MAX) return;
  part.order.push_back(hash);
  while (part.order.size() > std::max<size_t>(entries_max_ / kParts, 1)) {
    part.cursors.erase(part.order.front());
    part.order.pop_front();
  }
}

void CursorCache::drop(uint64_t hash) {
  Part& part = part_of(hash);
  const std::lock_guard lock(part.mutex);
  part.cursors.erase(hash);
}

size_t CursorCache::bytes() const {
  size_t entries = 0;
  for (const Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    entries += part.cursors.size();
  }
  return entries * kEntryBytes;
}

bool ComputeNode::may_update() const {
  const std::lock_guard lock(mutex_);
  return reports_.size() < options_.reports_max;
}

void ComputeNode::add_report(const Report& report) {
  const std::lock_guard lock(mutex_);
  reports_.push_back(report);
}

std::vector<Report> ComputeNode::take_reports(size_t count_max) {
  const std::lock_guard lock(mutex_);
  const auto end = reports_.begin() + static_cast<std::ptrdiff_t>(std::min(count_max, reports_.size()));
  std::vector<Report> taken(reports_.begin(), end);
  reports_.erase(reports_.begin(), end);
  return taken;
}

Status Collector::make(Connection* connection, ComputeNode* node, std::unique_ptr<Collector>* collector) {
  std::unique_ptr<Collector> made(new Collector(connection, node));
  BONSAI_RETURN_IF_ERROR(
      MetadataCaller::make(connection, node->store().options().memory_nodes, &node->epochs(), &made->caller_));
  BONSAI_RETURN_IF_ERROR(Scratch::make(connection, kRoundMax * sizeof(uint64_t), &made->scratch_));
  *collector = std::move(made);
  return Status::OK();
}

Status Collector::collect(size_t* collected) {
  const std::vector<Report> reports = node_->take_reports(kRoundMax);
  *collected = reports.size();
  if (reports.empty()) return Status::OK();
  // A shortcut to a version is written before the version before it can be retired.
  BONSAI_RETURN_IF_ERROR(write_shortcuts(reports));
  return report(reports);
}

// One for each key, to its newest version.
Status Collector::write_shortcuts(const std::vector<Report>& reports) {
  std::map<uint64_t, Link> newest;
  for (const Report& one : reports) {
    const auto [known, is_new] = newest.try_emplace(one.shortcut, Link(one.newer));
    if (!is_new && Link(one.newer).newer_than(known->second)) known->second = Link(one.newer);
  }
  size_t at = 0;
  for (const auto& [shortcut, link] : newest) {
    const uint64_t word = link.word();
    const rdma::Slice from = scratch_->slice(at, sizeof word);
    std::memcpy(from.data(), &word, sizeof word);
    batch_.write(from, node_->store().shortcut_at(shortcut));
    at += sizeof word;
  }
  shortcuts_written_ += newest.size();
  return batch_.run();
}

Status Collector::report(const std::vector<Report>& reports) {
  for (size_t first = 0; first < reports.size(); first += kReportsPerCall) {
    ReportCall call;
    call.count = std::min(kReportsPerCall, reports.size() - first);
    std::copy_n(reports.begin() + static_cast<std::ptrdiff_t>(first), call.count, call.reports.begin());
    Answer answer;
    BONSAI_RETURN_IF_ERROR(caller_->call(call, &answer));
  }
  return Status::OK();
}

void Collector::pause() { base::sleep_us(20); }

}  // namespace bonsai::bench::rivals::clover
