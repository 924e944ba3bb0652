// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/line_writer.h"

#include <immintrin.h>
#include <unistd.h>

#include "base/check.h"
#include "base/nvm/racy_copy.h"

namespace bonsai::base {
namespace {

// Two equal readings in a row are the content at one moment. A line that changes all the time is accepted after this
// many readings, with words of different moments. Only a test that stores to one line without pause can notice that.
constexpr int kReadingsMax = 1000;

Line read_words(const std::byte* line) {
  Line result;
  for (size_t i = 0; i < result.words.size(); ++i) {
    result.words[i] = word_at(line + 8 * i).load(std::memory_order_acquire);
  }
  return result;
}

__attribute__((target("avx512f"))) void store_line(std::byte* to, const Line& line) {
  _mm512_store_si512(to, _mm512_load_si512(&line));
}

}  // namespace

Line read_line(const std::byte* line) {
  Line last = read_words(line);
  for (int i = 1; i < kReadingsMax; ++i) {
    const Line again = read_words(line);
    if (again == last) break;
    last = again;
  }
  return last;
}

bool LineWriter::machine_stores_lines() { return __builtin_cpu_supports("avx512f") != 0; }

Status LineWriter::make(const Mapping& mapping, bool by_system_call, LineWriter* writer) {
  const bool writable_by_call = mapping.kind() != MediumKind::kDevdax && mapping.kind() != MediumKind::kHugetlb;
  if (by_system_call && !writable_by_call) {
    return Status::NotSupported("a shadow of " + std::string(medium_kind_name(mapping.kind())) +
                                " needs a processor with 64-byte stores (AVX-512): put " + mapping.path() +
                                " on tmpfs or an ordinary file system");
  }
  writer->data_ = mapping.data();
  writer->fd_ = mapping.fd();
  writer->by_system_call_ = by_system_call;
  return Status::OK();
}

void LineWriter::write(size_t offset, const Line& line) const {
  if (by_system_call_) {
    const ssize_t n = ::pwrite(fd_, &line, sizeof line, static_cast<off_t>(offset));
    BONSAI_CHECK(n == static_cast<ssize_t>(sizeof line));  // the space is allocated and the descriptor writable
  } else {
    store_line(data_ + offset, line);
  }
}

}  // namespace bonsai::base
