// SPDX-License-Identifier: Apache-2.0
// What operators see of replicated targets.
#include "bonsai/groups.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "scale/target.h"
#include "scale/target_name.h"
#include "store/db_impl.h"
#include "store/options.h"
#include "store/target_config.h"

namespace bonsai {
namespace {

Status look_at_groups(const std::string& path, const Options& options, std::vector<GroupInfo>* groups) {
  BONSAI_RETURN_IF_ERROR(store::check_bounds(options));
  std::vector<scale::TargetName> names;
  BONSAI_RETURN_IF_ERROR(scale::parse_target_names(path, &names));
  scale::Targets targets(store::target_config(options));
  for (scale::TargetName& name : names) BONSAI_RETURN_IF_ERROR(targets.add(std::move(name)));
  std::vector<GroupInfo> found;
  for (const auto& target : targets) BONSAI_RETURN_IF_ERROR(target->look_at_group(&found));
  *groups = std::move(found);
  return Status::OK();
}

const char* state_text(MemberState state) {
  switch (state) {
    case MemberState::kInSync:
      return "in sync";
    case MemberState::kAway:
      return "away   ";
    case MemberState::kJoining:
      return "joining";
    case MemberState::kOut:
      break;
  }
  return "out    ";
}

std::string member_text(const GroupInfo& group, const GroupMember& member, const std::string& role = "") {
  std::string text = std::string("  ") + state_text(member.state) + "  " + role + member.name;
  if (member.state == MemberState::kJoining) {
    const uint64_t percent = 100 * member.copied_bytes / std::max<uint64_t>(group.bytes, 1);
    text += ": " + std::to_string(member.copied_bytes) + " of " + std::to_string(group.bytes) + " bytes copied (" +
            std::to_string(percent) + " %)";
  }
  if (member.repaired_bytes != 0) text += ": " + std::to_string(member.repaired_bytes) + " damaged bytes were repaired";
  if (!member.failure.empty()) text += ": " + member.failure;
  return text + "\n";
}

std::string scrub_text(const GroupInfo& group) {
  std::string text = "  scrubbing: ";
  if (group.scrub_passes != 0) {
    text += std::to_string(group.scrub_passes) +
            (group.scrub_passes == 1 ? " pass, which ended " : " passes, the last ended ") +
            std::to_string(group.scrub_ended_s_ago) + " s ago; it left " + std::to_string(group.scrub_unsettled_bytes) +
            " bytes that differ, and nobody knows which are right, and missed " +
            std::to_string(group.scrub_missed_bytes) + " bytes; ";
  }
  return text + std::to_string(group.scrub_compared_bytes) + " of " + std::to_string(group.bytes) +
         " bytes are compared in this pass\n";
}

}  // namespace

// DB::Open and its like make all stores.
std::vector<GroupInfo> GetGroups(const DB& db) {
  std::vector<GroupInfo> groups;
  static_cast<void>(store::with_memory([&] {
    groups = static_cast<const store::DbImpl&>(db).tiers().targets->groups();
    return Status::OK();
  }));
  return groups;
}

Status GetGroups(const std::string& path, std::vector<GroupInfo>* groups, const Options& options) {
  return store::with_memory([&] { return look_at_groups(path, options, groups); });
}

Status ScrubGroups(DB& db) {
  return store::with_memory([&] { return static_cast<store::DbImpl&>(db).scrub_now(); });
}

std::string GroupText(const GroupInfo& group) {
  const auto in_sync = static_cast<uint64_t>(std::count_if(
      group.members.begin(), group.members.end(), [](const auto& each) { return each.state == MemberState::kInSync; }));
  // One that a member in sync may be left alone by needs the witness.
  const bool vouches = !group.witness || group.witness->state == MemberState::kInSync;
  const uint64_t spare = vouches ? in_sync - std::min(in_sync, group.needed) : 0;
  std::string text = group.name + "\n  " + std::to_string(in_sync) + " of " + std::to_string(group.members.size()) +
                     " members in sync, " + std::to_string(group.needed) + " needed: " +
                     (in_sync < group.needed ? "too few"
                      : spare == 0           ? "none may be lost"
                                             : std::to_string(spare) + " may be lost") +
                     "; epoch " + std::to_string(group.epoch) + ", page " + std::to_string(group.page) + "\n";
  for (const GroupMember& member : group.members) text += member_text(group, member);
  if (group.witness) text += member_text(group, *group.witness, "witness ");
  if (group.scrub_passes != 0 || group.scrub_compared_bytes != 0) text += scrub_text(group);
  return text;
}

}  // namespace bonsai
