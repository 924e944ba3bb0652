// SPDX-License-Identifier: Apache-2.0
// A target whose bytes several nodes hold: a group of pools, its members. It survives the loss of as many of them as
// the page in force may miss (docs/nodes.md).
//
// Opening. exists() takes all members that can be reached, under one epoch that is above all that they know, and
// decides by their pages as of then whether they are enough (membership::may_open). open() brings all that it has
// reached up to date, whatever the page says of them, unless they are known to be equal; a member that its node does
// not have is made anew in its place. Then a page with these members is made durable on each, and only then is the
// target used.
//
// Creation. All members are made without names; they get those when the pool is whole, and then a second page. While
// the first page is the newest and a member is missing, the creation has not ended: what is there of it is removed.
//
// A witness is opened and made as a member is, and has a page and no bytes (membership/in_sync.h).
//
// A pool that is a member of a group is opened through the group, or alone for reading.
#ifndef BONSAI_SCALE_GROUP_TARGET_H_
#define BONSAI_SCALE_GROUP_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/nvm/product.h"
#include "bonsai/status.h"
#include "scale/remote_links.h"
#include "scale/remote_medium.h"
#include "scale/target.h"

namespace bonsai::scale {

class GroupTarget final : public Target {
 public:
  // Requires: `config` and `links` outlive it; the name is that of a group.
  GroupTarget(TargetName name, const TargetConfig& config, RemoteLinks* links);
  ~GroupTarget() override;

  // Errors also: Unavailable (too few members are reached to know that they hold everything; the message says which
  // are missing), InvalidArgument (a pool is no member of the group, or not the one that is named in its place; a node
  // has no such pool, and no member was made under that name).
  Status exists(bool discard_unfinished, bool* exists) override;
  // All members must be reached. Errors also: InvalidArgument (they have different sizes).
  Status create(uint64_t bytes) override;
  // Errors also, as open_read_only(): Corruption (members that were closed as equal are not, or members do not
  // both begin as a pool of this kind: a file was replaced).
  Status open(uint64_t grow_bytes) override;
  Status open_read_only() override;
  [[nodiscard]] uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] base::ProductMedium* product() override { return nullptr; }
  [[nodiscard]] base::HookedMedium* hooked() override { return medium_.get(); }
  [[nodiscard]] bool enlarged() const override { return bytes_before_ != 0; }
  void shrink_back() override;
  Status complete() override;
  Status remove() override;
  Status describe(std::string* text) override;
  Status start_scrubbing(uint64_t bytes_per_s, ScrubJudge judge) override;
  void stop_scrubbing() override;
  Status scrub_now() override { return link_->scrub_now(group_); }
  void add_group(std::vector<GroupInfo>* groups) const override;
  Status look_at_group(std::vector<GroupInfo>* groups) override;

 private:
  struct Member {
    TargetName name;
    Status status;                 // why it is not reached; NotFound: its node has no such pool
    uint64_t epoch = 0;            // the newest that its node knows
    VersionedPage page;            // as of when it was taken
    std::optional<size_t> number;  // on the link: it is this process's, or once the target is used, joins later
    bool is_named = false;         // by the newest page as in sync
    bool is_witness = false;
  };

  [[nodiscard]] membership::MemberSet taken() const;
  [[nodiscard]] membership::MemberSet taken_members() const;
  [[nodiscard]] std::vector<size_t> numbers(membership::MemberSet voters) const;
  [[nodiscard]] size_t members_count() const { return name_.members.size(); }
  [[nodiscard]] LinkTarget* target(size_t member) const { return link_->target(*members_[member].number); }
  Status look_for_members();
  Status take_members(bool discard_unfinished);
  Status check_members() const;
  Status settle_members();
  [[nodiscard]] Status too_few(membership::MemberSet in_sync) const;
  void give_back(size_t member);
  void give_all_back();
  Status make_member(size_t member, PoolOp op, uint64_t bytes);
  Status set_sizes(uint64_t grow_bytes);
  Status replace_lost();
  [[nodiscard]] bool are_known_equal() const;
  [[nodiscard]] Status check_equal() const;
  Status choose_source(const Member** source) const;
  [[nodiscard]] Status check_first_words(const Member& source) const;
  Status outvote_source(const Member& source) const;
  Status make_all_equal();
  Status write_page(membership::MemberSet in_sync, membership::MemberSet to);
  [[nodiscard]] bool is_unfinished() const;
  Status name_made();
  Status serve();
  void tell(const std::string& text) const;

  const TargetConfig& config_;
  RemoteLinks& links_;
  RemoteLink* link_ = nullptr;
  std::vector<Member> members_;     // and the witness, as the last
  VersionedPage newest_;            // the page that says who is in sync
  membership::MemberSet made_ = 0;  // members that have no names yet
  uint64_t epoch_ = 0;              // of all members
  uint64_t bytes_ = 0, bytes_before_ = 0;
  Group* group_ = nullptr;  // once it is used
  bool is_scrubbed_ = false;
  std::unique_ptr<RemoteMedium> medium_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_GROUP_TARGET_H_
