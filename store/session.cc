#include "store/session.h"

#include "base/check.h"

namespace bonsai::store {

SessionImpl::SessionImpl(DbImpl& db, size_t depth) : db_(db), depth_(depth) {
  BONSAI_CHECK(depth >= 1 && depth <= kSessionDepthMax);
  updates_.reserve(depth);
  reads_.reserve(depth);
}

void SessionImpl::make_room() {
  if (UnderWay() == depth_) Wait();
}

void SessionImpl::Get(std::string_view key, std::string* value, Status* status) {
  make_room();
  reads_.push_back({.key = key, .value = value, .status = status});
}

void SessionImpl::Put(std::string_view key, std::string_view value, Status* status) {
  make_room();
  updates_.push_back({.key = key, .value = value, .tombstone = false, .status = status, .large = {}});
}

void SessionImpl::Delete(std::string_view key, Status* status) {
  make_room();
  updates_.push_back({.key = key, .value = {}, .tombstone = true, .status = status, .large = {}});
}

void SessionImpl::Wait() {
  db_.update_many(updates_);
  db_.read_many(ReadOptions(), reads_);
  updates_.clear();
  reads_.clear();
}

}  // namespace bonsai::store
