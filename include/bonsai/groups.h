// SPDX-License-Identifier: Apache-2.0
// For operators: the targets of a pool that several nodes hold ("a|b|c"), and their members.
#ifndef BONSAI_GROUPS_H_
#define BONSAI_GROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bonsai/options.h"
#include "bonsai/status.h"

namespace bonsai {

class DB;

// The page of a group, which its members keep, says who is in sync: who holds everything that was acknowledged.
enum class MemberState : uint8_t {
  kInSync = 0,   // the page names it, and it answers
  kAway = 1,     // the page names it, and it does not answer now: updates wait until a page without it is made
  kJoining = 2,  // it gets all updates, and is being brought up to date; no update waits for it long
  kOut = 3,      // the page does not name it. It is brought up to date when its node answers and a store is open
};

struct GroupMember {
  std::string name;
  MemberState state = MemberState::kOut;
  uint64_t copied_bytes = 0;  // while it joins: of GroupInfo::bytes
  std::string failure;        // while it is away or out: why it was not reached, or not taken, last; empty: not known
  uint64_t repaired_bytes =
      0;  // since the store was opened: damage that a reader or scrubbing met, repaired from others
};

struct GroupInfo {
  std::string name;     // without its query
  uint64_t needed = 0;  // so many members have each update at least: replicas_min
  uint64_t bytes = 0;   // of each member; 0: not known
  uint64_t epoch = 0;   // of the owner, or of the last one: it grows with each opening
  uint64_t page = 0;    // the version of the owner's newest page
  std::vector<GroupMember> members;
  // A node that keeps pages and no bytes: in sync while it answers, else out. Its copied_bytes and repaired_bytes are
  // 0.
  std::optional<GroupMember> witness = std::nullopt;

  // Scrubbing, by the owner of an open store: the members' bytes are compared.
  uint64_t scrub_bytes_per_s = 0;     // Options::scrub_bytes_per_s
  uint64_t scrub_compared_bytes = 0;  // of each member, by the pass in progress
  uint64_t scrub_passes = 0;          // that have ended since the store was opened
  uint64_t scrub_ended_s_ago = 0;     // when the last one did, in seconds
  // What the last one left: bytes that differ, where neither a check nor most members say which are right, so that
  // nothing was changed; and bytes not compared or not repaired, as they were written or not answered all the time.
  uint64_t scrub_unsettled_bytes = 0, scrub_missed_bytes = 0;
};

// What the owner of an open store knows. Empty: each of its targets is on one node. May wait while a page is written.
[[nodiscard]] std::vector<GroupInfo> GetGroups(const DB& db);

// What the nodes of a pool say, whoever has it open. Takes the pool from nobody and changes nothing; the nodes are
// asked one by one, reached through `options`. Of a name of one member alone: what its node says of the group. A target
// that does not exist, and one on one node, has no entry. Errors: as DB::Open (names, options, secret), Unavailable (no
// node of a target answers), Corruption (a record of an owner).
Status GetGroups(const std::string& path, std::vector<GroupInfo>* groups, const Options& options = Options());

// Compares all that the members of the store's groups hold, now and without pauses, and repairs what checks, or most of
// three members or more, say is damaged. Returns when all of it was compared; other calls go on meanwhile. What it
// found is in GetGroups(). OK without groups. Errors: Unavailable (fewer than two members of a group are in sync),
// NotSupported (in a forked child).
Status ScrubGroups(DB& db);

// A group as a few lines of text for an operator, the last of which ends in a line feed.
[[nodiscard]] std::string GroupText(const GroupInfo& group);

}  // namespace bonsai

#endif  // BONSAI_GROUPS_H_
