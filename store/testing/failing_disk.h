// SPDX-License-Identifier: Apache-2.0
// A store over a plain file whose n-th write-back fails.
//
// The disk is modelled as the kernel treats it: a write-back that fails may have written any of its pages, and counts
// them as clean afterwards, so that no later one writes them until they are stored to again.
#ifndef BONSAI_STORE_TESTING_FAILING_DISK_H_
#define BONSAI_STORE_TESTING_FAILING_DISK_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/nvm/file.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "store/db_impl.h"
#include "store/tiers.h"

namespace bonsai::testing {

inline constexpr uint64_t kPoolBytes = uint64_t{256} << 10;
inline constexpr size_t kPageBytes = 4096;

// The disk under msync(). One at a time, as FileMedium has no other way.
class Disk {
 public:
  Disk(std::vector<std::byte> content, uint64_t seed) : disk_(std::move(content)), random_(seed) { current = this; }
  ~Disk() { current = nullptr; }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void attach(const std::byte* view) { view_ = view; }
  // After the page's bytes have been stored to.
  void written(const std::byte* dst, size_t n) {
    for (size_t page = (dst - view_) / kPageBytes; page * kPageBytes < dst - view_ + n; ++page) dirty_[page] = true;
  }
  // Lets the file be opened anew, as by another process after this one: it finds the bytes in memory, and no error.
  void reopen() { failed_.store(false); }
  void fail_sync(uint64_t n) {
    const std::lock_guard lock(mutex_);
    syncs_to_failure_ = n;
  }
  [[nodiscard]] bool has_failed() const { return failed_.load(); }

  static int sync(void* address, size_t bytes, int flags) { return current->write_back(address, bytes, flags); }

  // The content after a power cut: the kernel may have written any page that is still dirty. A store's background
  // threads may write back meanwhile: the cut falls before or after each write-back.
  std::vector<std::byte> crash() {
    const std::lock_guard lock(mutex_);
    for (size_t at = 0; at < disk_.size(); at += kPageBytes) {
      if (random_.chance(1, 2)) write_page(at);
    }
    return disk_;
  }

 private:
  int write_back(void* address, size_t bytes, int flags) {
    EXPECT_EQ(flags, MS_SYNC);
    EXPECT_FALSE(busy_.exchange(true)) << "two write-backs at a time";
    const std::lock_guard lock(mutex_);
    const auto begin = static_cast<size_t>(static_cast<std::byte*>(address) - view_);
    const bool fails = syncs_to_failure_ != 0 && --syncs_to_failure_ == 0;
    for (size_t at = begin; at < begin + bytes; at += kPageBytes) {
      const bool written = !fails || random_.chance(1, 2);
      written ? write_page(at) : dirty_[at / kPageBytes].store(false);
    }
    if (fails) failed_.store(true);
    busy_.store(false);
    errno = fails ? EIO : 0;
    return fails ? -1 : 0;
  }
  // Other threads write to the page meanwhile, as they do while a kernel writes it back.
  void write_page(size_t at) {
    if (dirty_[at / kPageBytes].exchange(false)) base::racy_load(&disk_[at], view_ + at, kPageBytes);
  }

  static inline Disk* current = nullptr;

  std::mutex mutex_;  // of a write-back and of the power cut
  std::vector<std::byte> disk_;
  std::array<std::atomic<bool>, kPoolBytes / kPageBytes> dirty_{};
  base::Random random_;
  const std::byte* view_ = nullptr;
  uint64_t syncs_to_failure_ = 0;
  std::atomic<bool> failed_{false}, busy_{false};
};

// A plain file's medium, whose disk learns which pages are dirty.
class DirtyMedium final : public base::HookedMedium {
 public:
  DirtyMedium(Disk* disk, const base::Mapping& mapping)
      : HookedMedium(mapping.data(), mapping.bytes()), disk_(disk), file_(mapping, &Disk::sync) {}

  void store8(std::byte* dst, uint64_t value) override {
    file_.store8(dst, value);
    disk_->written(dst, sizeof value);
  }
  void copy(std::byte* dst, const void* src, size_t n) override {
    file_.copy(dst, src, n);
    disk_->written(dst, n);
  }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
    file_.nt_copy(dst, src, n, site);
    disk_->written(dst, n);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& site) override { file_.flush(dst, n, site); }
  bool fence(const base::Site& site) override { return file_.fence(site); }
  [[nodiscard]] Status health() const override { return file_.health(); }

 private:
  Disk* const disk_;
  base::FileMedium file_;
};

// A store over a mapping that is backed by a disk.
class Machine {
 public:
  Machine(Disk* disk, const std::vector<std::byte>& content, const Options& options, bool create) : options_(options) {
    EXPECT_TRUE(base::Mapping::make_in_memory("the pool's file", kPoolBytes, &mapping_).ok());
    std::memcpy(mapping_->data(), content.data(), content.size());
    disk->attach(mapping_->data());
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::make_unique<DirtyMedium>(disk, *mapping_));
    std::unique_ptr<store::Tiers> tiers;
    store::BackgroundThreads threads;
    if (options.background_threads > 0) opened_ = store::BackgroundThreads::reserve(options, &threads);
    if (opened_.ok()) opened_ = store::open_tiers_on(options_, std::move(media), create, &tiers);
    if (opened_.ok()) db_ = std::make_unique<store::DbImpl>(options_, std::move(tiers), std::move(threads));
  }
  [[nodiscard]] const Status& opened() const { return opened_; }
  [[nodiscard]] store::DbImpl* db() const { return db_.get(); }
  // The file's content in the system's memory, once the store is closed.
  [[nodiscard]] std::vector<std::byte> memory() const { return {mapping_->data(), mapping_->data() + kPoolBytes}; }

 private:
  const Options options_;
  std::unique_ptr<base::Mapping> mapping_;
  std::unique_ptr<store::DbImpl> db_;
  Status opened_;
};

inline Options options_of(Durability durability, uint32_t threads) {
  Options options;
  options.pool_bytes = kPoolBytes;
  options.log_bytes = kPoolBytes / 8;
  options.background_threads = threads;
  options.durability = durability;
  options.stall_ms_max = 2000;
  return options;
}

}  // namespace bonsai::testing

#endif  // BONSAI_STORE_TESTING_FAILING_DISK_H_
