// SPDX-License-Identifier: Apache-2.0
// Sessions of the C interface. Contract: bonsai/c.h.
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bonsai/session.h"
#include "store/c_types.h"

static_assert(BONSAI_SESSION_DEPTH_MAX == bonsai::kSessionDepthMax);

// Answers come into memory of the session and from there to the caller, when all that are in flight have ended.
struct bonsai_session_t {
 public:
  bonsai_session_t(std::unique_ptr<bonsai::Session> session, size_t depth)
      : session_(std::move(session)), slots_(depth) {}

  struct Slot {
    std::string value;  // keeps its capacity
    bonsai::Status status;
    char* buffer = nullptr;  // null: not a get, or one without room
    size_t buffer_bytes = 0;
    bool is_get = false;
    int lost = BONSAI_OK;  // why it was not carried out, when memory ran out
    bonsai_result_t* result = nullptr;
  };

  // Begins an operation by start(session, slot) -> Status. An error of start() ends it before the session gets it.
  template <typename Start>
  void begin(bonsai_result_t* result, Start&& start) noexcept {
    if (result != nullptr) *result = {BONSAI_IN_FLIGHT, 0};
    if (in_flight_ == slots_.size()) end_all();
    BONSAI_CHECK(in_flight_ < slots_.size());
    Slot& slot = slots_[in_flight_];
    slot.status = bonsai::Status::OK();
    slot.buffer = nullptr;
    slot.buffer_bytes = 0;
    slot.is_get = false;
    slot.lost = BONSAI_OK;
    slot.result = result;
    const size_t before = session_->InFlight();
    char* message = nullptr;
    const int code = bonsai::c::guarded(&message, [&] { return start(*session_, slot); });
    if (code == BONSAI_OK) {
      ++in_flight_;
      BONSAI_CHECK(session_->InFlight() <= in_flight_);
    } else {
      // An operation may end those before it. If memory ran out meanwhile, what these have done is unknown.
      if (session_->InFlight() < before) {
        for (Slot& begun : std::span(slots_).first(in_flight_)) begun.lost = code;
      }
      note_failure(code, message);
      if (result != nullptr) result->code = code;
    }
    std::free(message);
  }

  int wait(char** errptr) noexcept {
    end_all();
    const int code = std::exchange(failure_, BONSAI_OK);
    if (code != BONSAI_OK) bonsai::c::set_message(errptr, failure_text_);
    return code;
  }

  [[nodiscard]] size_t in_flight() const { return in_flight_; }

 private:
  static constexpr size_t kValueBytesKeptMax = size_t{64} << 10;  // of each slot

  // Keeps the first one since the last wait.
  void note_failure(int code, const char* message) noexcept {
    if (failure_ != BONSAI_OK) return;
    failure_ = code;
    static_cast<void>(bonsai::c::guarded(nullptr, [&] {
      failure_text_ = message == nullptr ? "" : message;
      return bonsai::Status::OK();
    }));
  }

  void end_all() noexcept {
    char* message = nullptr;
    const int waited = bonsai::c::guarded(&message, [&] {
      session_->Wait();
      return bonsai::Status::OK();
    });
    BONSAI_CHECK(in_flight_ <= slots_.size());
    for (Slot& slot : std::span(slots_).first(in_flight_)) {
      char* why = nullptr;
      const int lost = waited != BONSAI_OK ? waited : slot.lost;
      const int code = lost != BONSAI_OK ? lost : bonsai::c::guarded(&why, [&] { return return_answers(&slot); });
      if (slot.result != nullptr) slot.result->code = code;
      if (code != BONSAI_OK && code != BONSAI_NOT_FOUND && code != BONSAI_CONDITION_FAILED)
        note_failure(code, waited != BONSAI_OK ? message : why);
      std::free(why);
      if (slot.value.capacity() > kValueBytesKeptMax) std::string().swap(slot.value);
    }
    std::free(message);
    in_flight_ = 0;
  }

  static bonsai::Status return_answers(Slot* slot) {
    if (!slot->is_get || !slot->status.ok()) return slot->status;
    if (slot->result != nullptr) slot->result->value_bytes = slot->value.size();
    return bonsai::c::copy_into(slot->value, slot->buffer, slot->buffer_bytes);
  }

  const std::unique_ptr<bonsai::Session> session_;
  std::vector<Slot> slots_;
  size_t in_flight_ = 0;
  int failure_ = BONSAI_OK;  // the first one since the last wait
  std::string failure_text_;
};

using bonsai::Session;
using bonsai::Status;
using bonsai::c::guarded;
using bonsai::c::names_bytes;
using bonsai::c::null_bytes;
using Slot = bonsai_session_t::Slot;

extern "C" {

int bonsai_session_create(bonsai_t* db, size_t depth, bonsai_session_t** session, char** errptr) {
  *session = nullptr;
  return guarded(errptr, [&] {
    if (depth < 1 || depth > BONSAI_SESSION_DEPTH_MAX) {
      return Status::InvalidArgument("a session of depth " + std::to_string(depth) + "; 1 to " +
                                     std::to_string(BONSAI_SESSION_DEPTH_MAX) + " operations can be in flight");
    }
    std::unique_ptr<Session> made = db->db->NewSession(depth);
    if (made == nullptr) return Status::NoSpace("out of memory for a session; free some and call again");
    *session = new bonsai_session_t(std::move(made), depth);
    return Status::OK();
  });
}

void bonsai_session_destroy(bonsai_session_t* session) {
  if (session == nullptr) return;
  static_cast<void>(session->wait(nullptr));
  delete session;
}

void bonsai_session_get(bonsai_session_t* session, const char* key, size_t key_bytes, char* buffer, size_t buffer_bytes,
                        bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(key, key_bytes) || !names_bytes(buffer, buffer_bytes)) return null_bytes();
    slot.is_get = true;
    slot.buffer = buffer;
    slot.buffer_bytes = buffer_bytes;
    begun.Get({key, key_bytes}, &slot.value, &slot.status);
    return Status::OK();
  });
}

void bonsai_session_put(bonsai_session_t* session, const char* key, size_t key_bytes, const char* value,
                        size_t value_bytes, bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(key, key_bytes) || !names_bytes(value, value_bytes)) return null_bytes();
    begun.Put({key, key_bytes}, {value, value_bytes}, &slot.status);
    return Status::OK();
  });
}

void bonsai_session_delete(bonsai_session_t* session, const char* key, size_t key_bytes, bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    begun.Delete({key, key_bytes}, &slot.status);
    return Status::OK();
  });
}

void bonsai_session_put_if(bonsai_session_t* session, const bonsai_condition_t* condition, const char* key,
                           size_t key_bytes, const char* value, size_t value_bytes, bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(key, key_bytes) || !names_bytes(value, value_bytes)) return null_bytes();
    return bonsai::c::with_condition(condition, [&](const bonsai::Condition& holds) {
      begun.PutIf(holds, {key, key_bytes}, {value, value_bytes}, &slot.status);
      return Status::OK();
    });
  });
}

void bonsai_session_delete_if(bonsai_session_t* session, const bonsai_condition_t* condition, const char* key,
                              size_t key_bytes, bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    return bonsai::c::with_condition(condition, [&](const bonsai::Condition& holds) {
      begun.DeleteIf(holds, {key, key_bytes}, &slot.status);
      return Status::OK();
    });
  });
}

void bonsai_session_increment(bonsai_session_t* session, const char* key, size_t key_bytes, int64_t by, int64_t* sum,
                              bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    begun.Increment({key, key_bytes}, by, sum, &slot.status);
    return Status::OK();
  });
}

void bonsai_session_scan(bonsai_session_t* session, const bonsai_readoptions_t* options, const char* from,
                         size_t from_bytes, const char* end, size_t end_bytes, uint64_t limit,
                         bonsai_scan_visitor visitor, void* arg, bonsai_result_t* result) {
  session->begin(result, [&](Session& begun, Slot& slot) {
    if (!names_bytes(from, from_bytes) || !names_bytes(end, end_bytes)) return null_bytes();
    if (visitor == nullptr) return bonsai::c::null_visitor();
    begun.Scan(bonsai::c::scan_options(options, {end, end_bytes}, limit), {from, from_bytes},
               bonsai::c::scan_visitor(visitor, arg), &slot.status);
    return Status::OK();
  });
}

int bonsai_session_wait(bonsai_session_t* session, char** errptr) { return session->wait(errptr); }
size_t bonsai_session_in_flight(const bonsai_session_t* session) { return session->in_flight(); }

}  // extern "C"
