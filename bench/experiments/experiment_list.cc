// SPDX-License-Identifier: Apache-2.0
#include "bench/experiments/experiments.h"

namespace bonsai::bench {

const std::vector<Experiment>& experiment_list() {
  static const std::vector<Experiment> kExperiments = [] {
    std::vector<Experiment> all = {as_left(), index_technique(), recovery(), put_tails()};
    for (const std::vector<Experiment>& group : {speed(), pipelining(), offloading(), writes(), kiwi(), kiwi_goals(),
                                                 melt(), melt_tables(), rcuckoo(), striping(), synthesis()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return kExperiments;
}

}  // namespace bonsai::bench
