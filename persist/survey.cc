// SPDX-License-Identifier: Apache-2.0
#include "persist/survey.h"

#include <algorithm>

namespace bonsai::persist {

using base::Fence;
using scale::Addr;

namespace {

class Surveyor {
 public:
  Surveyor(RunReader* reader, const Dnode& dnode, const Fence& lo, const Fence& hi, Survey* out)
      : reader_(*reader), dnode_(dnode), lo_(lo), hi_(hi), out_(*out) {}

  void run() {
    std::vector<RunView> runs;
    for (const RunDesc& run : dnode_.runs()) runs.push_back(reader_.run(run));
    out_.status = reader_.wait();
    if (!out_.status.ok()) return;
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) read(*run);  // the newest is the last
    auto& entries = out_.entries;
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
    const auto same_key = [](const Entry& a, const Entry& b) { return a.key == b.key; };
    entries.erase(std::unique(entries.begin(), entries.end(), same_key), entries.end());
  }

 private:
  void read(const RunView& view) {
    const Addr addr = Addr::of_bits(view.desc().addr);
    const size_t newer_lost = out_.lost.size();
    Fence at = dnode_.lo();  // all entries below are good
    bool damaged = false;
    for (uint32_t i = 0; i < view.count(); ++i) {
      Entry entry;
      const bool good = view.entry(i, &entry) && !(entry.key < at.key()) && dnode_.hi().above(entry.key);
      if (good) {
        if (damaged) lose(at, Fence(entry.key.bytes), addr);
        take(entry, newer_lost);
        at = Fence(std::string(entry.key.bytes) + '\0');
      }
      damaged = !good;
    }
    if (damaged) lose(at, dnode_.hi(), addr);
  }

  void lose(const Fence& lo, const Fence& hi, Addr where) {
    const Fence& from = std::max(lo, lo_);
    const Fence& to = std::min(hi, hi_);
    if (from < to) out_.lost.push_back({from, to, where});
  }

  void take(const Entry& entry, size_t newer_lost) {
    if (entry.key < lo_.key() || !hi_.above(entry.key)) return;
    const auto hides = [&](const Survey::Lost& lost) {
      return !(entry.key < lost.lo.key()) && lost.hi.above(entry.key);
    };
    if (std::none_of(out_.lost.begin(), out_.lost.begin() + static_cast<ptrdiff_t>(newer_lost), hides)) {
      out_.entries.push_back(entry);
    }
  }

  RunReader& reader_;
  const Dnode& dnode_;
  const Fence& lo_;
  const Fence& hi_;
  Survey& out_;
};

}  // namespace

Survey survey(RunReader* reader, const Dnode& dnode, const Fence& lo, const Fence& hi) {
  Survey found;
  Surveyor(reader, dnode, lo, hi, &found).run();
  return found;
}

}  // namespace bonsai::persist
