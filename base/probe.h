// SPDX-License-Identifier: Apache-2.0
// Probes: names of branches that are rarely taken. A test that should reach them checks afterwards which were hit.
//
//   namespace { base::Probe late_answer{"sim.late_answer"}; }
//   ...
//   late_answer.hit();
//
// Thread-safety: any thread. Cost of hit(): one relaxed increment of a shared word; for rare branches only.
#ifndef BONSAI_BASE_PROBE_H_
#define BONSAI_BASE_PROBE_H_

#include <atomic>
#include <cstdint>

namespace bonsai::base {

class Probe {
 public:
  // Registers itself. Requires: static storage duration, `name` too.
  explicit Probe(const char* name) : name_(name), next_(first_.exchange(this)) {}
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  void hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  [[nodiscard]] const char* name() const { return name_; }

  // Calls visit(probe) for every probe of the program. Requires: main() has begun.
  template <class Visit>
  static void each(Visit visit) {
    for (const Probe* probe = first_.load(); probe != nullptr; probe = probe->next_) visit(*probe);
  }

 private:
  static inline constinit std::atomic<Probe*> first_{nullptr};

  const char* name_;
  Probe* next_;
  std::atomic<uint64_t> hits_{0};
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_PROBE_H_
