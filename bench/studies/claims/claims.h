// SPDX-License-Identifier: Apache-2.0
// Claims: each sentence of the README, the docs and the papers that has a figure, with the command that
// measures it and what is expected. They are in claims.json, which is built into the program. `bonsai-bench experiment
// claims --out=DIR` judges them by the results of experiments in DIR.
#ifndef BONSAI_BENCH_STUDIES_CLAIMS_CLAIMS_H_
#define BONSAI_BENCH_STUDIES_CLAIMS_CLAIMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::bench {

// A figure in the result of an experiment.
struct ClaimedFigure {
  std::string experiment;
  std::vector<std::string> columns = {};        // their sum counts
  std::map<std::string, std::string> row = {};  // the texts of cells that the row has; empty: `of` chooses
  std::string of = "last";                      // of the rows with a figure: first, last, least, most or median
  std::string low = {}, high = {};              // columns with the bounds of its confidence interval; empty: none
};

enum class ClaimKind : uint8_t {
  kTimed,     // by the clock: a noisy machine says nothing about it
  kCounted,   // the same on any machine
  kModelled,  // in virtual time, on modelled devices
};

struct Claim {
  enum class Bound : uint8_t { kAtLeast, kAtMost, kAbout };

  std::string says;
  std::string from = {};     // a file of the tree, or a paper (docs/design.md, section 7)
  std::string quote = {};    // the words of that text
  std::string command = {};  // that measures it
  std::optional<ClaimedFigure> figure = {};
  std::optional<ClaimedFigure> over = {};  // the claim is about the quotient
  std::string test = {};                   // that shows it in place of an experiment
  std::string why = {};                    // it cannot be measured
  Bound bound = Bound::kAtLeast;
  double expected = 0;
  double within = .25;      // of kAbout, as a share of what is expected
  std::string origin = {};  // of a published figure that is expected
  ClaimKind kind = ClaimKind::kTimed;
  bool full_size = false;  // it is about as much data as --scale=paper has
};

// A sentence with a figure that promises nothing about speed, space or costs: a setting, a limit, an example.
struct NotClaimed {
  std::string from, quote, why;
};

struct Claims {
  std::map<std::string, std::vector<std::string>> papers;  // the numbers of their texts, where a checkout has them
  std::vector<Claim> claims = {};
  std::vector<NotClaimed> others = {};
};

// Reads claims in the form of claims.json. Requires: `text` has that form; a test holds the file to it.
[[nodiscard]] Claims read_claims(std::string_view text);
// Those of this build. Thread-safety: any thread.
[[nodiscard]] const Claims& claims();

enum class Outcome : uint8_t {
  kHolds,
  kFails,
  kOpen,           // the bound is within the confidence interval
  kModelledHolds,  // by a model in virtual time, which is no measurement
  kModelledFails,
  kNoisy,        // the machine was in use: not judged
  kLessData,     // the claim is about more data than was measured: not judged
  kNotMeasured,  // no result is there
  kByTest,       // a test shows it
  kUnmeasured,   // it cannot be measured; the claim says why
};
inline constexpr size_t kOutcomes = 10;
[[nodiscard]] std::string_view outcome_name(Outcome outcome);

struct Judged {
  const Claim* claim = nullptr;
  Outcome outcome = Outcome::kNotMeasured;
  std::optional<double> measured = {}, low = {}, high = {};  // the interval is absent where one measurement was taken
  std::string reason = {};                                   // of kNoisy, kNotMeasured and kUnmeasured
  std::string commit = {};                                   // of the result
};

// The result of an experiment in the form of NAME.json, or null.
using ResultOf = std::function<const nlohmann::ordered_json*(const std::string& experiment)>;
[[nodiscard]] Judged judge(const Claim& claim, const ResultOf& result_of);

// A figure of a result; absent if the result has no such row, or no figure there. A column that does not exist is
// `*fault`, in words.
struct FoundFigure {
  std::optional<double> value = {}, low = {}, high = {};
  std::string fault = {};
};
[[nodiscard]] FoundFigure find_figure(const nlohmann::ordered_json& result, const ClaimedFigure& figure);

// Judges all claims by the results in `directory`. Writes claims.json and claims.csv there. Errors: IoError.
Status judge_claims(const std::string& directory, std::vector<Judged>* judged);

// "at least 1.4", "2 within 5 %".
[[nodiscard]] std::string expectation_text(const Claim& claim);
// How many claims have which outcome: "36 hold, 4 fail, ...".
[[nodiscard]] std::string tally(const std::vector<Judged>& judged);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_CLAIMS_CLAIMS_H_
