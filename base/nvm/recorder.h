// SPDX-License-Identifier: Apache-2.0
// The recorder medium: remembers what a crash could leave, for the crash explorer.
//
// Its view can be mapped once more. Beside it the recorder keeps the durable image, and the stores that are not durable
// yet. The unit is an aligned 8-byte word.
//   ADR    Ordinary stores reach the medium in program order within a 64-byte line; lines are independent. A flush
//          followed by a fence of the *same thread* makes durable what the line held at the flush.
//          Non-temporal words reach it in any order, each by itself, until the fence of their thread.
//   eADR Ordinary stores survive in the one order in which they were made; flush does nothing. A fence makes durable
//          its thread's stores and all stores made before them. Non-temporal words as under ADR.
//
// Crash points: before each fence the hook runs, and each_crash_image() visits the legal images of that moment. Between
// two fences both the legal images and the acknowledged operations only grow, so this covers the whole interval.
//
// Mutants: a use of a site can be dropped. A dropped flush or fence does nothing; a dropped non-temporal copy becomes
// an ordinary copy. Dropped uses are counted all the same.
//
// Threads are those of `thread_of`, by default the operating system's; an explorer under a scheduler passes the running
// coroutine's number instead, so that fences belong to coroutines.
//
// Thread-safety: the five operations from any thread (one mutex). The hook runs without the mutex. All else: while no
// operation runs.
#ifndef BONSAI_BASE_NVM_RECORDER_H_
#define BONSAI_BASE_NVM_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/nvm/line_writer.h"
#include "base/nvm/medium.h"
#include "base/random.h"
#include "bonsai/options.h"

namespace bonsai::base {

enum class SiteUse : uint8_t { kFlush, kNtCopy, kFence };

struct SiteCount {
  const Site* site;
  SiteUse use;
  uint64_t calls;
};

// The counts of one call of each_crash_image.
struct CrashImages {
  uint64_t visited = 0;     // distinct images passed to `visit`
  uint64_t generated = 0;   // before duplicates were left out
  bool exhaustive = false;  // whether these are all legal images
};

class RecorderMedium final : public HookedMedium {
 public:
  using ThreadOf = std::function<uint64_t()>;
  using Visit = std::function<void(std::span<const std::byte> image)>;

  // Starts with `image` durable. Requires: its size is a multiple of 64; domain is kAdr or kEadr.
  RecorderMedium(std::span<const std::byte> image, PersistenceDomain domain, ThreadOf thread_of = {});
  ~RecorderMedium() override;

  // Runs before each fence that is not dropped, on the fencing thread, with the fence's site. Empty = none.
  void set_before_fence(std::function<void(const Site&)> hook) { before_fence_ = std::move(hook); }

  void drop(const Site& site, SiteUse use) { dropped_.push_back({&site, use}); }

  // Makes the n-th fence from now on, not counting dropped ones, fail: it returns false, and any part of the stores
  // that it should have made durable may survive a later crash. 0 = none.
  void fail_fence(uint64_t n) { fences_to_failure_ = n; }

  // All sites and their uses so far, by name.
  [[nodiscard]] std::vector<SiteCount> site_counts() const;

  // Visits distinct legal images of a crash at this moment: all of them when they are at most `images_max`, else none,
  // all, each line alone, each line missing and random ones, up to images_max in total (at least 2).
  // Guarantees: the same calls with an equal `random` visit the same images in the same order.
  // Requires: `visit` calls no operation of this medium; the span is valid during the visit only.
  CrashImages each_crash_image(uint64_t images_max, Random& random, const Visit& visit);

  // The image of a crash that loses everything that is not durable.
  [[nodiscard]] std::span<const std::byte> durable_image() const;

  // Words stored and not durable yet.
  [[nodiscard]] size_t pending_words() const;
  // The lines that hold them, at most; under eADR all ordinary stores count as one.
  [[nodiscard]] size_t pending_lines() const;

  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) override;
  void flush(const std::byte* dst, size_t n, const Site& site) override;
  bool fence(const Site& site) override;

 private:
  struct Store {
    size_t word;  // index in the image
    uint64_t value;
    uint64_t sequence;  // place in the order of all stores
    uint64_t thread;
  };
  // Stores of which a crash keeps a prefix (`ordered`) and any subset (`loose`). One group per dirty line; under eADR
  // the ordinary stores of all lines are one group more.
  struct Group {
    std::vector<Store> ordered;
    std::vector<Store> loose;
  };
  // A store that a crash keeps if it keeps more than `place` stores of the unit.
  struct Choosable {
    const Store* store;
    size_t unit, place;
  };
  using Changes = std::vector<std::pair<size_t, uint64_t>>;  // words and their values
  // The words that a thread's next fence will make durable.
  struct Pending {
    std::map<size_t, uint64_t> flushed_before;  // line: the sequence number up to which its flush covers it
    uint64_t stores_end = 0;                    // one past its last ordinary store, for eADR
    std::vector<size_t> loose_lines;
  };
  struct SiteKey {
    const Site* site;
    SiteUse use;
    bool operator==(const SiteKey&) const = default;
  };

  static constexpr size_t kWordsPerLine = kLineBytes / 8;
  static constexpr size_t kEveryLine = SIZE_MAX;  // the group of ordinary stores under eADR

  [[nodiscard]] uint64_t my_thread() const;
  [[nodiscard]] bool count_use(const Site& site, SiteUse use);  // false = dropped
  void store_words(std::byte* dst, const void* src, size_t n, bool loose);
  void store_word(size_t word, uint64_t value, bool loose, uint64_t thread);
  void settle_prefix(size_t group, uint64_t sequence_end);
  void settle_loose(size_t group, uint64_t thread);
  void apply(const Store& store);
  void changes_of(const std::vector<Choosable>& stores, const std::vector<size_t>& kept, Changes* changes);
  void visit_changed(Changes* changes, const Visit& visit);
  [[nodiscard]] uint64_t& durable_word(size_t word) {
    return durable_lines_[word / kWordsPerLine].words[word % kWordsPerLine];
  }

  const bool eadr_;
  const ThreadOf thread_of_;
  std::vector<Line> durable_lines_;
  mutable std::mutex mutex_;
  std::function<void(const Site&)> before_fence_;
  std::map<size_t, Group> groups_;  // by line; ordered, because the order of enumeration is part of determinism
  std::map<uint64_t, Pending> pending_;
  std::vector<uint64_t> durable_sequence_;  // per word: the store that wrote its durable value
  uint64_t next_sequence_ = 1;
  uint64_t fences_to_failure_ = 0;
  std::vector<SiteKey> dropped_;
  std::vector<std::pair<SiteKey, uint64_t>> counts_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_RECORDER_H_
