// SPDX-License-Identifier: Apache-2.0
// Remote flushes, and checks of credentials, that a test can drop or misplace, one bit each; rdma/testing/mutants says
// how. Every one must be caught.
#ifndef BONSAI_RDMA_TESTING_MUTANTS_H_
#define BONSAI_RDMA_TESTING_MUTANTS_H_

#include <cstdint>

#include "base/testing/mutants.h"

namespace bonsai::rdma {

using bonsai::testing::mutant;

enum Mutant : uint32_t {
  kAnswerNotAwaited = 1u << 0,   // persist() returns when its WRITEs are complete
  kAgentNeverFlushes = 1u << 1,  // the agent answers only
  kAgentAnswersFirst = 1u << 2,  // ... and flushes when the next request comes
  kAgentSkipsLast = 1u << 3,     // ... and leaves out the last range
  kNoRead = 1u << 4,             // nothing is read after the WRITEs
  kReadBefore = 1u << 5,         // ... but before them
  kNoFlush = 1u << 6,            // no FLUSH is posted
  kFlushSkipsLast = 1u << 7,     // ... for the last WRITE
  kReadForAdr = 1u << 8,         // read after write where writes rest in the caches
  kNonceNotChecked = 1u << 9,    // a proof does not name the listener's nonce
  kListenerNotNamed = 1u << 10,  // ... nor the address that the connecting node meant
  kChallengeKept = 1u << 11,     // a challenge is good for a second connection
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_MUTANTS_H_
