#include "bench/experiments.h"

namespace bonsai::bench {

const std::vector<Experiment>& experiment_list() {
  static const std::vector<Experiment> kExperiments = {
#ifdef BONSAI_BENCH_WITH_STORE
      index_technique(),
      recovery(),
#endif
  };
  return kExperiments;
}

}  // namespace bonsai::bench
