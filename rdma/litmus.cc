// SPDX-License-Identifier: Apache-2.0
#include "rdma/litmus.h"

#include <atomic>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::rdma {
namespace {

// Offsets in the scratch memory, more than a line apart.
constexpr uint64_t kCounterAt = 0;
constexpr uint64_t kSwapAt = 256;
constexpr uint64_t kLockAt = 512;
constexpr uint64_t kFlagAt = 1024;
constexpr uint64_t kDataAt = 2048;
constexpr uint64_t kBlockAt = 4096;
constexpr size_t kBlockBytes = 4096;
constexpr size_t kBlockWords = kBlockBytes / sizeof(uint64_t);
constexpr uint64_t kNeverHeld = ~uint64_t{0};  // the expected value of a CAS that must fail

// Both halves of a word hold the round, so that a torn word is noticed.
constexpr uint64_t word_of(uint64_t round) { return (round << 32) | (round & 0xffffffffU); }
constexpr bool is_torn(uint64_t word) { return (word >> 32) != (word & 0xffffffffU); }

// One worker with its connection and its own memory.
class Client {
 public:
  Status open(Fabric& fabric, const std::string& address, const Hello& own, uint64_t limit_ms) {
    limit_ms_ = limit_ms;
    BONSAI_RETURN_IF_ERROR(fabric.register_region(std::as_writable_bytes(std::span(words_)), Rights::none(), &region_));
    BONSAI_RETURN_IF_ERROR(fabric.make_worker(&worker_));
    return worker_->connect(address, own, limit_ms, &peer_);
  }

  [[nodiscard]] Peer& peer() { return *peer_; }
  [[nodiscard]] Slice slice(size_t word, size_t words = 1) const { return region_->slice(8 * word, 8 * words); }
  [[nodiscard]] uint64_t word(size_t index) const {
    return base::word_at(reinterpret_cast<const std::byte*>(&words_[index])).load(std::memory_order_relaxed);
  }
  void fill(size_t first, size_t count, uint64_t value) {
    BONSAI_CHECK(first + count <= words_.size());
    for (size_t i = first; i < first + count; ++i) words_[i] = value;
  }

  // Runs the list and empties it for the next. False after the first error, which status() keeps.
  bool run(WorkList* list) {
    if (status_.ok()) status_ = worker_->run(list, limit_ms_);
    if (list->pending()) {  // no answer within the limit: closing the peer ends it
      peer_.reset();
      static_cast<void>(worker_->poll());
    }
    if (status_.ok()) list->clear();
    return status_.ok();
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  uint64_t limit_ms_ = 0;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(kBlockWords + 8);
  std::unique_ptr<Region> region_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Peer> peer_;  // destroyed before its worker
  Status status_;
};

class Litmus {
 public:
  Litmus(const RemoteRegion& scratch, const LitmusOptions& options, LitmusReport* report)
      : scratch_(scratch), options_(options), r_(*report) {
    BONSAI_CHECK(scratch.bytes >= kLitmusBytes);
  }

  Status run(Fabric& fabric, const std::string& address, const Hello& own) {
    for (Client& client : clients_) BONSAI_RETURN_IF_ERROR(client.open(fabric, address, own, options_.limit_ms));
    BONSAI_RETURN_IF_ERROR(atomicity());
    BONSAI_RETURN_IF_ERROR(phase([this] { write_in_order(); }, [this] { read_in_order(); }));
    BONSAI_RETURN_IF_ERROR(phase([this] { write_blocks(); }, [this] { read_blocks(); }));
    return phase([this] { unlock_by_write(); }, [this] { fail_to_lock(); });
  }

 private:
  // Zeroes the scratch memory, then runs both bodies at once until the time is over.
  template <class First, class Second>
  Status phase(First first, Second second) {
    WorkList list;
    clients_[0].fill(0, kBlockWords, 0);
    for (uint64_t at = 0; at < kLitmusBytes; at += kBlockBytes) {
      list.write(clients_[0].peer(), clients_[0].slice(0, kBlockWords), scratch_.at(at));
    }
    if (!clients_[0].run(&list)) return clients_[0].status();
    end_ns_ = base::now_ns() + options_.phase_ms * base::kNsPerMs;
    {
      base::Thread other;
      BONSAI_RETURN_IF_ERROR(base::Thread::start("the fabric's check", second, &other));
      first();
    }
    for (const Client& client : clients_) BONSAI_RETURN_IF_ERROR(client.status());
    return Status::OK();
  }
  // Requires a minimum of rounds even on a slow machine: a test without rounds proves nothing.
  [[nodiscard]] bool over(uint64_t rounds) const { return rounds >= kLitmusRoundsMin && base::now_ns() >= end_ns_; }

  Status atomicity() {
    std::atomic<uint64_t> additions{0}, swaps{0};
    const auto body = [&](Client& client) {
      WorkList list;
      uint64_t seen = 0, added = 0, swapped = 0;
      for (uint64_t round = 0; !over(round); ++round) {
        list.faa(client.peer(), scratch_.at(kCounterAt), 1, client.slice(0));
        list.cas(client.peer(), scratch_.at(kSwapAt), seen, seen + 1, client.slice(1));
        if (!client.run(&list)) break;
        ++added;
        const uint64_t met = client.word(1);
        swapped += met == seen ? 1 : 0;
        seen = met == seen ? seen + 1 : met;
      }
      additions += added;
      swaps += swapped;
    };
    BONSAI_RETURN_IF_ERROR(phase([&] { body(clients_[0]); }, [&] { body(clients_[1]); }));
    WorkList list;
    list.read(clients_[0].peer(), scratch_.at(kCounterAt), clients_[0].slice(0));
    list.read(clients_[0].peer(), scratch_.at(kSwapAt), clients_[0].slice(1));
    if (!clients_[0].run(&list)) return clients_[0].status();
    r_.additions = additions;
    r_.swaps = swaps;
    r_.additions_lost = r_.additions - clients_[0].word(0);
    r_.swaps_lost = r_.swaps - clients_[0].word(1);
    return Status::OK();
  }

  void write_in_order() {
    Client& client = clients_[0];
    WorkList list;
    for (uint64_t round = 1; !over(round); ++round) {
      client.fill(0, 1, round);
      list.write(client.peer(), client.slice(0), scratch_.at(kDataAt));
      list.write(client.peer(), client.slice(0), scratch_.at(kFlagAt));
      if (!client.run(&list)) return;
    }
  }
  void read_in_order() {
    Client& client = clients_[1];
    WorkList list;
    for (uint64_t round = 0; !over(round); ++round) {
      list.read(client.peer(), scratch_.at(kFlagAt), client.slice(0));
      list.read(client.peer(), scratch_.at(kDataAt), client.slice(1));
      if (!client.run(&list)) return;
      ++(client.word(1) >= client.word(0) ? r_.reads_in_order : r_.reads_out_of_order);
    }
  }

  void write_blocks() {
    Client& client = clients_[0];
    WorkList list;
    for (uint64_t round = 1; !over(round); ++round) {
      client.fill(0, kBlockWords, word_of(round));
      list.write(client.peer(), client.slice(0, kBlockWords), scratch_.at(kBlockAt));
      if (!client.run(&list)) return;
    }
  }
  void read_blocks() {
    Client& client = clients_[1];
    WorkList list;
    for (uint64_t round = 0; !over(round); ++round) {
      list.read(client.peer(), scratch_.at(kBlockAt), client.slice(0, kBlockWords));
      if (!client.run(&list)) return;
      bool torn = false, newer_behind = false;
      for (size_t i = 0; i < kBlockWords; ++i) {
        r_.words_torn += is_torn(client.word(i)) ? 1 : 0;
        torn = torn || client.word(i) != client.word(0);
        newer_behind = newer_behind || (i > 0 && client.word(i) > client.word(i - 1));
      }
      ++r_.reads;
      r_.reads_torn += torn ? 1 : 0;
      r_.reads_newer_behind += newer_behind ? 1 : 0;
    }
  }

  void unlock_by_write() {
    Client& client = clients_[0];
    WorkList list;
    client.fill(2, 1, 0);
    for (uint64_t round = 0; !over(round); ++round) {
      list.cas(client.peer(), scratch_.at(kLockAt), 0, 1, client.slice(0));
      list.write(client.peer(), client.slice(2), scratch_.at(kLockAt));
      list.fence();
      list.read(client.peer(), scratch_.at(kLockAt), client.slice(1));
      if (!client.run(&list)) return;
      ++r_.unlocks;
      // The lock is held again although only this client ever takes it: noticed here, or by the next attempt.
      if (client.word(0) == 0 && client.word(1) == 0) continue;
      ++r_.unlocks_lost;
      list.cas(client.peer(), scratch_.at(kLockAt), 1, 0, client.slice(0));
      if (!client.run(&list)) return;
    }
  }
  void fail_to_lock() {
    Client& client = clients_[1];
    WorkList list;
    for (uint64_t round = 0; !over(round); ++round) {
      while (list.room()) list.cas(client.peer(), scratch_.at(kLockAt), kNeverHeld, 1, client.slice(0));
      if (!client.run(&list)) return;
    }
  }

  const RemoteRegion scratch_;
  const LitmusOptions options_;
  LitmusReport& r_;
  uint64_t end_ns_ = 0;
  Client clients_[2];
};

}  // namespace

Status LitmusReport::status() const {
  std::string broken;
  if (additions_lost != 0) broken += ", FAA is not atomic";
  if (swaps_lost != 0) broken += ", CAS is not atomic";
  if (reads_out_of_order != 0) broken += ", WRITEs of one list are seen out of order";
  if (words_torn != 0) broken += ", 8-byte words are torn";
  if (broken.empty()) return Status::OK();
  return Status::NotSupported("this fabric breaks what Bonsai relies on: " + broken.substr(2) + " (" + text() +
                              "); use another device or driver");
}

std::string LitmusReport::text() const {
  const auto of = [](uint64_t some, uint64_t all) { return std::to_string(some) + " of " + std::to_string(all); };
  return "lost additions " + of(additions_lost, additions) + ", lost swaps " + of(swaps_lost, swaps) +
         ", reads out of order " + of(reads_out_of_order, reads_in_order + reads_out_of_order) + ", torn words " +
         std::to_string(words_torn) + "; to be expected on some devices: torn reads " + of(reads_torn, reads) +
         " (newer after older " + std::to_string(reads_newer_behind) + "), unlocks by WRITE lost " +
         of(unlocks_lost, unlocks);
}

Status run_litmus(Fabric& fabric, const std::string& address, const Hello& own, const RemoteRegion& scratch,
                  const LitmusOptions& options, LitmusReport* report) {
  if (scratch.bytes < kLitmusBytes) {
    return Status::InvalidArgument("litmus tests need " + std::to_string(kLitmusBytes) + " bytes of scratch memory");
  }
  *report = {};
  return Litmus(scratch, options, report).run(fabric, address, own);
}

Status check_at_start_up(Fabric& fabric, const std::string& address, const Hello& own, const RemoteRegion& scratch,
                         const LitmusOptions& options, std::string* text) {
  LitmusReport report;
  BONSAI_RETURN_IF_ERROR(run_litmus(fabric, address, own, scratch, options, &report));
  *text = report.text();
  return report.status();
}

}  // namespace bonsai::rdma
