// SPDX-License-Identifier: Apache-2.0
// The sites of this room: one for each place of the code that flushes, copies past the cache or fences, so that a test
// that leaves one out leaves out that place only. docs/design.md, section 4.2, lists the event of each.
#ifndef BONSAI_PERSIST_SITES_H_
#define BONSAI_PERSIST_SITES_H_

#include "base/nvm/medium.h"

namespace bonsai::persist {

inline constexpr base::Site kSiteFill{"pool.fill"};
inline constexpr base::Site kSiteFirstSuperblock{"pool.first_superblock"};
inline constexpr base::Site kSiteFirstSuperblockFence{"pool.first_superblock.fence"};
inline constexpr base::Site kSiteMagic{"pool.magic"};
inline constexpr base::Site kSiteMagicFence{"pool.magic.fence"};
inline constexpr base::Site kSiteSuperblock{"pool.superblock"};
inline constexpr base::Site kSiteSuperblockFence{"pool.superblock.fence"};
inline constexpr base::Site kSiteGrow{"pool.grow"};
inline constexpr base::Site kSiteGrowFence{"pool.grow.fence"};
inline constexpr base::Site kSiteWipe{"pool.wipe"};
inline constexpr base::Site kSiteWipeFence{"pool.wipe.fence"};
inline constexpr base::Site kSiteWipeMark{"pool.wipe.mark"};
inline constexpr base::Site kSiteWipeMarkFence{"pool.wipe.mark.fence"};
inline constexpr base::Site kSiteState{"pool.state"};
inline constexpr base::Site kSiteStateFence{"pool.state.fence"};
inline constexpr base::Site kSiteExtentSlots{"extent.slots"};
inline constexpr base::Site kSiteExtentSlotsFence{"extent.slots.fence"};
inline constexpr base::Site kSiteExtent{"extent.claim"};
inline constexpr base::Site kSiteExtentFence{"extent.claim.fence"};
inline constexpr base::Site kSiteRecovered{"recovery.again"};
inline constexpr base::Site kSiteRecoveredEntry{"recovery.again.entry"};
inline constexpr base::Site kSiteRecoveredFence{"recovery.again.fence"};
inline constexpr base::Site kSiteExtentRepair{"extent.repair"};
inline constexpr base::Site kSiteExtentRepairFence{"extent.repair.fence"};
inline constexpr base::Site kSiteSegmentOpen{"segment.open"};
inline constexpr base::Site kSiteSegmentOpenFence{"segment.open.fence"};
inline constexpr base::Site kSiteSegmentEntry{"segment.entry"};
inline constexpr base::Site kSiteSegmentEntryFence{"segment.entry.fence"};
inline constexpr base::Site kSiteSegmentFlush{"segment.flush"};
inline constexpr base::Site kSiteSegmentFlushFence{"segment.flush.fence"};
inline constexpr base::Site kSiteSegmentSeal{"segment.seal"};
inline constexpr base::Site kSiteSegmentSealFence{"segment.seal.fence"};
inline constexpr base::Site kSiteLogAppend{"log.append"};
inline constexpr base::Site kSiteLogAppendFence{"log.append.fence"};
inline constexpr base::Site kSiteLogNote{"log.note"};
inline constexpr base::Site kSiteLogNoteEnds{"log.note_ends"};
inline constexpr base::Site kSiteLogNoteEndsFence{"log.note_ends.fence"};
inline constexpr base::Site kSiteShareOpenFence{"log.share.open.fence"};
inline constexpr base::Site kSiteShareEntryFence{"log.share.entry.fence"};
inline constexpr base::Site kSiteShare{"log.share"};
inline constexpr base::Site kSiteShareFence{"log.share.fence"};
inline constexpr base::Site kSiteShareSealFence{"log.share.seal.fence"};
inline constexpr base::Site kSiteLogTruncate{"log.truncate"};
inline constexpr base::Site kSiteLogTruncateFence{"log.truncate.fence"};
inline constexpr base::Site kSiteEpochFlush{"epoch.flush"};
inline constexpr base::Site kSiteEpochFlushFence{"epoch.flush.fence"};
inline constexpr base::Site kSiteEpochNote{"epoch.note"};
inline constexpr base::Site kSiteEpochNoteFence{"epoch.note.fence"};
inline constexpr base::Site kSiteEpochClose{"epoch.close"};
inline constexpr base::Site kSiteEpochCloseCopy{"epoch.close.copy"};
inline constexpr base::Site kSiteEpochCloseFence{"epoch.close.fence"};
inline constexpr base::Site kSiteLarge{"large.write"};
inline constexpr base::Site kSiteLargeTail{"large.tail"};
inline constexpr base::Site kSiteLargeFence{"large.write.fence"};
inline constexpr base::Site kSiteRun{"dnode.run"};
inline constexpr base::Site kSiteLongFences{"dnode.long_fences"};
inline constexpr base::Site kSiteRunFence{"dnode.run.fence"};
inline constexpr base::Site kSiteHeader{"dnode.header"};
inline constexpr base::Site kSiteHeaderFence{"dnode.header.fence"};
inline constexpr base::Site kSiteExtentNote{"extent.note"};
inline constexpr base::Site kSiteRetire{"dnode.retire"};
inline constexpr base::Site kSiteRetireFence{"dnode.retire.fence"};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SITES_H_
