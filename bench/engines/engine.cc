// SPDX-License-Identifier: Apache-2.0
#include "bench/engines/engine.h"

#include <algorithm>

namespace bonsai::bench {

void Engine::read_many(std::span<const std::string_view> keys, std::span<std::string> values,
                       std::span<Status> statuses) {
  for (size_t i = 0; i < keys.size(); ++i) statuses[i] = read(keys[i], &values[i]);
}

void Engine::write_many(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                        std::span<Status> statuses) {
  for (size_t i = 0; i < keys.size(); ++i) statuses[i] = insert(keys[i], values[i]);
}

Status Engine::read_modify_write(std::string_view key, std::string_view value, std::string* old) {
  if (Status status = read(key, old); !status.ok()) return status;
  return update(key, value);
}

Status Engine::scan(std::string_view, uint32_t, const ScanVisit&) {
  return Status::NotSupported("this engine has no ordered scan");
}

void Engine::scan_many(std::span<const ScanJob> jobs) {
  for (const ScanJob& job : jobs) *job.status = scan(job.from, job.limit, job.visit);
}

Status Engine::scan_rows(std::string_view from, uint32_t limit, const RowsVisit& visit) {
  return scan(from, limit, [&visit](std::string_view key, std::string_view value) {
    Rows row;
    row.keys = key.data();
    row.values = value.data();
    row.count = 1;
    row.key_bytes = static_cast<uint32_t>(key.size());
    row.value_bytes = static_cast<uint32_t>(value.size());
    return visit(row);
  });
}

const std::vector<EngineEntry>& engine_list() {
  static const std::vector<EngineEntry> kEngines = [] {
    std::vector<EngineEntry> all = Registered<EngineEntry>::all();
    std::sort(all.begin(), all.end(), [](const EngineEntry& a, const EngineEntry& b) {
      return a.group != b.group ? a.group < b.group : a.name < b.name;
    });
    return all;
  }();
  return kEngines;
}

const EngineEntry* find_engine(std::string_view name) {
  for (const EngineEntry& entry : engine_list()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace bonsai::bench
