// The session behind bonsai::Session: keeps what was begun, and carries it out in groups: updates first, then reads, so
// that reads see the updates that were begun before them.
#ifndef BONSAI_STORE_SESSION_H_
#define BONSAI_STORE_SESSION_H_

#include <vector>

#include "bonsai/session.h"
#include "store/db_impl.h"

namespace bonsai::store {

class SessionImpl final : public Session {
 public:
  // Requires: 1 <= depth <= kSessionDepthMax; the DB outlives the session.
  SessionImpl(DbImpl& db, size_t depth);
  ~SessionImpl() override { SessionImpl::Wait(); }

  void Get(std::string_view key, std::string* value, Status* status) override;
  void Put(std::string_view key, std::string_view value, Status* status) override;
  void Delete(std::string_view key, Status* status) override;
  void Wait() override;
  [[nodiscard]] size_t UnderWay() const override { return updates_.size() + reads_.size(); }

 private:
  void make_room();

  DbImpl& db_;
  const size_t depth_;
  std::vector<DbImpl::Update> updates_;
  std::vector<DbImpl::Read> reads_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_SESSION_H_
