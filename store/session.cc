#include "store/session.h"

#include "base/check.h"
#include "base/key.h"

namespace bonsai::store {

namespace {
// An update may come to help with offloading.
constexpr size_t kStackBytes = size_t{256} << 10;
}  // namespace

SessionImpl::SessionImpl(DbImpl& db, size_t depth) : db_(db), depth_(depth) {
  BONSAI_CHECK(depth >= 1 && depth <= kSessionDepthMax);
  all_.updates.reserve(depth);
  all_.reads.reserve(depth);
}

void SessionImpl::make_room() {
  if (UnderWay() == depth_) Wait();
}

void SessionImpl::Get(std::string_view key, std::string* value, Status* status) {
  make_room();
  all_.reads.push_back({.key = key, .value = value, .status = status});
}

void SessionImpl::Put(std::string_view key, std::string_view value, Status* status) {
  make_room();
  all_.updates.push_back({.key = key, .value = value, .tombstone = false, .status = status, .large = {}});
}

void SessionImpl::Delete(std::string_view key, Status* status) {
  make_room();
  all_.updates.push_back({.key = key, .value = {}, .tombstone = true, .status = status, .large = {}});
}

void SessionImpl::carry_out(Group* group) {
  db_.update_many(group->updates);
  db_.read_many(ReadOptions(), group->reads);
  group->updates.clear();
  group->reads.clear();
}

void SessionImpl::carry_out_in_lanes(size_t lanes) {
  if (scheduler_ == nullptr) {
    scheduler_ = std::make_unique<base::Scheduler>(base::Scheduler::Options{.stack_bytes = kStackBytes});
  }
  if (lanes_.size() < lanes) lanes_.resize(lanes);
  if (all_.updates.empty()) {
    for (size_t i = 0; i < lanes; ++i) {
      const auto first = all_.reads.begin() + static_cast<ptrdiff_t>(i * all_.reads.size() / lanes);
      const auto last = all_.reads.begin() + static_cast<ptrdiff_t>((i + 1) * all_.reads.size() / lanes);
      lanes_[i].reads.assign(first, last);
    }
  } else {
    const auto lane_of = [&](std::string_view key) -> Group& { return lanes_[base::Key::of(key).hash() % lanes]; };
    for (const DbImpl::Update& update : all_.updates) lane_of(update.key).updates.push_back(update);
    for (const DbImpl::Read& read : all_.reads) lane_of(read.key).reads.push_back(read);
  }
  all_.updates.clear();
  all_.reads.clear();
  for (size_t i = 0; i < lanes; ++i) scheduler_->spawn([this, i] { carry_out(&lanes_[i]); }, "session lane");
  // A coroutine for which there was no memory has not run; its lane is carried out here.
  if (scheduler_->run().ok()) return;
  BONSAI_CHECK(scheduler_->live() == 0);
  for (size_t i = 0; i < lanes; ++i) carry_out(&lanes_[i]);
}

void SessionImpl::Wait() {
  const size_t lanes = (UnderWay() + kLaneOperations - 1) / kLaneOperations;
  if (lanes > 1 && db_.reads_wait()) return carry_out_in_lanes(lanes);
  carry_out(&all_);
}

}  // namespace bonsai::store
