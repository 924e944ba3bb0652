// SPDX-License-Identifier: Apache-2.0
// The model of batches over successors that are not offloaded: whole configurations hold, and without any one rule some
// configuration fails.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <initializer_list>

#include "base/memory.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "index/testing/explorer.h"

namespace bonsai::index::model {
namespace {

using bonsai::testing::add_figure;
using bonsai::testing::budget;

constexpr uint64_t kSlower = BONSAI_SCALABLE_MEMORY != 0 ? 1 : 10;  // under a sanitizer

Byte bits(std::initializer_list<int> keys) {
  Byte mask = 0;
  for (const int key : keys) mask |= static_cast<Byte>(1 << key);
  return mask;
}
Operation put(int key) { return {Kind::kPut, bits({key})}; }
Operation get(int key) { return {Kind::kGet, bits({key})}; }
Operation batch(std::initializer_list<int> keys) { return {Kind::kBatch, bits(keys)}; }
Operation scan(std::initializer_list<int> keys) { return {Kind::kScan, bits(keys)}; }
Operation offload() { return {Kind::kOffload}; }
// Conditional ones: the keys must have their initial values, or that of an operation.
Operation put_if(int key, Byte expected = 0) { return {Kind::kPutIf, bits({key}), bits({key}), expected}; }
Operation batch_if(std::initializer_list<int> keys, std::initializer_list<int> required, Byte expected = 0) {
  return {Kind::kBatch, bits(keys), bits(required), expected};
}

using Until = Lead::Until;
constexpr std::array<Byte, kBnodes> kOneEach = {1, 1, 1, 1, 1, kKeys};

// A batch k1, k4 stands on k1 alone; puts of others, and a batch that had begun, have piled up two successors.
const Config kPutAbove = {"a put on a batch, two layers above it",
                          {{batch({1, 4})}, {put(2)}, {batch({0, 3})}, {put(1), get(4)}},
                          {{0, Until::kNodeStands}, {1, Until::kDone}, {2, Until::kNodeStands}}};
const Config kHelperAbove = {
    "a helper of a batch, two layers above it",
    {{batch({1, 4})}, {put(2)}, {batch({0, 3})}, {put(1)}},
    {{0, Until::kNodeStands}, {3, Until::kRecorded}, {1, Until::kDone}, {2, Until::kNodeStands}}};
const Config kStack = {
    "one batch of more keys than a bnode takes", {{batch({1, 2, 3})}, {offload()}, {get(3)}}, {}, kOneEach};
const Config kOffloads = {"offloads beside a stack",
                          {{batch({1, 2, 3})}, {offload(), offload()}, {offload()}},
                          {{0, Until::kNodeStands}},
                          kOneEach};
const Config kScans = {"scans of a batch over a successor", {{batch({1, 2})}, {scan({1, 2})}, {offload()}, {get(1)}}};
const Config kCross = {
    "two batches that help one another", {{batch({1, 2})}, {batch({1, 2})}, {get(2)}}, {}, {1, kKeys}};
const Config kPutBeside = {"a put on a batch's key, and its successor", {{batch({1, 2})}, {put(1)}, {offload()}}};
const Config kPutOnTop = {"a put on a batch's key", {{batch({1, 2})}, {put(1), get(2)}}, {}, {kKeys}};
constexpr std::array<Byte, kBnodes> kRoomy = {kKeys, kKeys};
const Config kCompeting = {
    "two conditional puts of a key, gets", {{put_if(1)}, {put_if(1)}, {get(1), get(1)}}, {}, kRoomy};
const Config kChain = {"a conditional put on another", {{put_if(1)}, {put_if(1, 1)}, {get(1)}}, {}, kRoomy};
const Config kOvertaking = {"a put beside a conditional one", {{put_if(1)}, {put(1), get(1)}}, {}, kRoomy};
const Config kChange = {
    "conditional puts, an offload, a scan", {{put_if(1)}, {offload()}, {put(1)}, {scan({1, 2})}}, {}, kRoomy};
const Config kChangeFull = {"conditional puts of new keys in full bnodes",
                            {{put_if(1)}, {put(2)}, {put_if(1)}, {offload()}}};
const Config kTransfers = {"two conditional batches of the same keys",
                           {{batch_if({1, 2}, {1, 2})}, {batch_if({1, 2}, {1, 2})}, {get(2)}},
                           {},
                           kRoomy};
const Config kRefusing = {"a conditional batch and a put of its second key",
                          {{batch_if({1, 2}, {2})}, {put(2), put(1)}, {offload()}},
                          {},
                          kRoomy};
const Config kChecks = {
    "two batches that check each other's key", {{batch_if({1}, {2})}, {batch_if({2}, {1})}, {get(1)}}, {}, kRoomy};
const Config kCheckAndPut = {"a check, and a put of its key", {{batch_if({1}, {2})}, {put(2), get(1)}}, {}, kRoomy};
const Config kStale = {"helpers of a conditional batch that judge at different times",
                       {{batch_if({1, 2}, {2}, 2)}, {put(2)}, {put(1)}},
                       {},
                       kRoomy};
const Config* const kConfigs[] = {&kPutOnTop,   &kPutAbove,  &kHelperAbove, &kStack,  &kOffloads,    &kScans,
                                  &kCross,      &kPutBeside, &kCompeting,   &kChain,  &kOvertaking,  &kChange,
                                  &kChangeFull, &kTransfers, &kRefusing,    &kChecks, &kCheckAndPut, &kStale};

struct Broken {
  const char* name;
  Rule rule;
  const Config* config;
};
#define BONSAI_RULE(rule, config) \
  Broken { #rule, rule, &(config) }
const Broken kBroken[] = {
    BONSAI_RULE(kSettledBelow, kPutAbove),     BONSAI_RULE(kSettledBelow, kHelperAbove),
    BONSAI_RULE(kLookBelow, kPutBeside),       BONSAI_RULE(kItemBelow, kHelperAbove),
    BONSAI_RULE(kCellAfterHead, kPutBeside),   BONSAI_RULE(kHelpBatch, kPutOnTop),
    BONSAI_RULE(kReadyLast, kScans),           BONSAI_RULE(kReadyAfterRecord, kScans),
    BONSAI_RULE(kPendingWaits, kOffloads),     BONSAI_RULE(kBegunStacks, kStack),
    BONSAI_RULE(kSettleAtOffload, kPutBeside), BONSAI_RULE(kJudgeEachPush, kCompeting),
    BONSAI_RULE(kHelpPending, kChain),         BONSAI_RULE(kPendingHidden, kCompeting),
    BONSAI_RULE(kPlaceFirst, kOvertaking),     BONSAI_RULE(kOvertaken, kOvertaking),
    BONSAI_RULE(kDecideFirst, kStale),         BONSAI_RULE(kPinChecks, kChecks),
};
#undef BONSAI_RULE

TEST(PutModel, EveryInterleavingOfEveryConfigurationHolds) {
  const auto states_max = budget<uint64_t>(100'000, 1'000'000, 100'000'000) / kSlower;
  for (const Config* config : kConfigs) {
    const Explorer::Result result = Explorer::explore(*config, 0, states_max);
    EXPECT_EQ(result.wrong, "") << config->name;
    std::printf("%s: %llu states%s\n", config->name, static_cast<unsigned long long>(result.states),
                result.whole ? "" : ", not all");
    add_figure("model_states", result.states);
  }
}

TEST(PutModel, EachRuleThatIsLeftOutMakesOneFail) {
  for (const Broken& broken : kBroken) {
    const Explorer::Result result = Explorer::explore(*broken.config, broken.rule, 3'000'000);
    EXPECT_NE(result.wrong, "") << broken.name << ": " << broken.config->name;
    std::printf("%s: after %llu states: %s\n", broken.name, static_cast<unsigned long long>(result.states),
                result.wrong.substr(0, result.wrong.find('\n')).c_str());
    add_figure("mutants", 1);
    add_figure("mutants_killed", result.wrong.empty() ? 0 : 1);
  }
}

}  // namespace
}  // namespace bonsai::index::model
