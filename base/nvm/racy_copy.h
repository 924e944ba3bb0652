// SPDX-License-Identifier: Apache-2.0
// Copies between private memory and NVM that several threads access at once.
//
// Readers may copy bytes while a writer changes them, and find out afterwards (by checksum, version or bound) whether
// their copy is valid. Each aligned 8-byte part of the shared bytes is read or written whole, by one relaxed atomic
// access. memcpy does not guarantee this: for large copies glibc uses `rep movsb`, which tears words on current
// processors (racy_copy_test.cc shows it where it happens).
//
// Memory ordering: relaxed. Order comes from the word that publishes the bytes (store8, a release store).
#ifndef BONSAI_BASE_NVM_RACY_COPY_H_
#define BONSAI_BASE_NVM_RACY_COPY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define BONSAI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BONSAI_TSAN 1
#endif
#endif
#ifndef BONSAI_TSAN
#define BONSAI_TSAN 0
#endif

namespace bonsai::base {

// The 8-byte word at p. Requires 8-byte alignment.
inline std::atomic_ref<uint64_t> word_at(const std::byte* p) {
  return std::atomic_ref<uint64_t>(*static_cast<uint64_t*>(static_cast<void*>(const_cast<std::byte*>(p))));
}

namespace nvm_internal {

inline std::atomic_ref<unsigned char> byte_at(const std::byte* p) {
  return std::atomic_ref<unsigned char>(*reinterpret_cast<unsigned char*>(const_cast<std::byte*>(p)));
}

// Splits [shared, shared + n) into aligned words and single bytes, calling word(offset) and byte(offset) in order.
template <class Word, class Byte>
void each_part(const std::byte* shared, size_t n, Word&& word, Byte&& byte) {
  size_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(shared + i) % 8 != 0; ++i) byte(i);
  for (; n - i >= 8; i += 8) word(i);
  for (; i < n; ++i) byte(i);
}

}  // namespace nvm_internal

// Copies private bytes to shared ones.
inline void racy_store(std::byte* shared, const void* source, size_t n) {
  const auto* from = static_cast<const unsigned char*>(source);
  nvm_internal::each_part(
      shared, n,
      [&](size_t i) {
        uint64_t value;
        std::memcpy(&value, from + i, sizeof value);
        word_at(shared + i).store(value, std::memory_order_relaxed);
      },
      [&](size_t i) { nvm_internal::byte_at(shared + i).store(from[i], std::memory_order_relaxed); });
}

// Copies shared bytes to private ones.
inline void racy_load(void* target, const std::byte* shared, size_t n) {
  auto* to = static_cast<unsigned char*>(target);
  nvm_internal::each_part(
      shared, n,
      [&](size_t i) {
        const uint64_t value = word_at(shared + i).load(std::memory_order_relaxed);
        std::memcpy(to + i, &value, sizeof value);
      },
      [&](size_t i) { to[i] = nvm_internal::byte_at(shared + i).load(std::memory_order_relaxed); });
}

// Copies shared bytes to shared ones. Words are copied whole if both addresses are equal modulo 8, else as in
// racy_store().
inline void racy_copy(std::byte* to, const std::byte* from, size_t n) {
  if ((reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % 8 != 0) return racy_store(to, from, n);
  nvm_internal::each_part(
      to, n,
      [&](size_t i) {
        word_at(to + i).store(word_at(from + i).load(std::memory_order_relaxed), std::memory_order_relaxed);
      },
      [&](size_t i) {
        nvm_internal::byte_at(to + i).store(nvm_internal::byte_at(from + i).load(std::memory_order_relaxed),
                                            std::memory_order_relaxed);
      });
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_RACY_COPY_H_
