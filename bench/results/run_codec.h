// SPDX-License-Identifier: Apache-2.0
// A RunResult as bytes, complete, for another process of this program. All other readers use results.json.
#ifndef BONSAI_BENCH_RESULTS_RUN_CODEC_H_
#define BONSAI_BENCH_RESULTS_RUN_CODEC_H_

#include <string>
#include <string_view>

#include "bench/results/results.h"

namespace bonsai::bench {

[[nodiscard]] std::string encode_run(const RunResult& run);

// False: the bytes are not those of encode_run().
[[nodiscard]] bool decode_run(std::string_view bytes, RunResult* run);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_RESULTS_RUN_CODEC_H_
