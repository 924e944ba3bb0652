// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of a configuration of the put protocol's model, with a crash at every state, and judges each
// history, and what each crash recovers, by the linearizability of the whole.
#ifndef BONSAI_INDEX_TESTING_EXPLORER_H_
#define BONSAI_INDEX_TESTING_EXPLORER_H_

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "index/testing/put_model.h"

namespace bonsai::index::model {

class Explorer {
 public:
  struct Result {
    std::string wrong;    // empty: nothing; else what, and the steps that lead there
    uint64_t states = 0;  // distinct ones
    bool whole = false;   // all states were visited, unless something was wrong
  };

  // Visits at most `states_max` states, the first found first. Not thread-safe.
  static Result explore(const Config& config, uint32_t left_out, uint64_t states_max);

 private:
  struct Step {
    size_t thread;
    const char* note;
  };

  Explorer(const Config& config, uint32_t left_out, uint64_t states_max)
      : model_(config, left_out), states_max_(states_max) {}

  [[nodiscard]] State lead(const Config& config);
  bool visit(const State& s);
  bool judge(const State& s, bool final);
  bool explains(const State& s, const Byte* end);
  bool search(const State& s, uint32_t done, Byte* values, const Byte* end);
  bool fail(const std::string& what);
  [[nodiscard]] std::string trace(const State& s) const;

  PutModel model_;
  const uint64_t states_max_;
  Result result_;
  std::unordered_set<uint64_t> visited_, judged_, searched_;  // by hash: 2^-64 per pair that one is taken for another
  std::vector<Step> path_;
};

}  // namespace bonsai::index::model

#endif  // BONSAI_INDEX_TESTING_EXPLORER_H_
