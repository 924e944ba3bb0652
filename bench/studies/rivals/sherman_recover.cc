// SPDX-License-Identifier: Apache-2.0
// Recovery: makes a tree of the pages that survived a power cut.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "bench/studies/rivals/sherman.h"
#include "bench/studies/rivals/sherman_scratch.h"

namespace bonsai::bench::rivals::sherman {

namespace {

// Splits see to it that a leaf always has one: an insert needs it.
bool has_free_slot(const Head& head, const Page& page) {
  std::vector<Record> records;
  const bool is_whole = page.read_records(head, &records);
  return is_whole && std::any_of(records.begin(), records.end(), [](const Record& one) { return one.word == 0; });
}

// Gives records of the leaf that a WRITE in flight has torn their checksums, and frees those that are of no use. A
// power cut amid it leaves what it would find again. Returns whether anything was changed.
bool repair(const Layout& layout, const Head& head, Page* page) {
  bool changed = false;
  for (size_t slot = 0; slot < layout.records_max(0); ++slot) {
    Record record{};
    const bool is_whole = page->read_record(head, slot, &record);
    const bool kept = page->salvage(head, slot, &record) && covers(head, record.key);
    if (is_whole && (kept || record.word == 0)) continue;
    static_cast<void>(page->write_record(head, slot, kept ? record : Record{}));
    changed = true;
  }
  return changed;
}

class Recovery {
 public:
  Recovery(const TreeOptions& options, const Memories& memories, std::vector<size_t>* used)
      : options_(options), memories_(memories), used_(used) {}

  // The leaves, from the leftmost on.
  Status walk(const std::function<void(size_t node, size_t offset, size_t bytes)>& flush) {
    for (Address at{0, first_page_at(options_)}; at.offset != 0;) {
      std::byte* const image = bytes_of(at);
      if (image == nullptr) return Status::Corruption("a leaf has a sibling that is outside of the memory");
      Page page(options_.layout, at, image);
      Head head;
      const bool whole = page.read_head(&head) && head.level == 0;
      if (!whole || (!children_.empty() && head.lowest <= children_.back().key)) {
        return Status::Corruption("no whole leaf where the tree has one; was it a tree with durable leaves?");
      }
      if (repair(options_.layout, head, &page)) flush(at.node, at.offset, kPageBytes);
      if (!has_free_slot(head, page)) return Status::Corruption("a leaf without a free record");
      children_.push_back({head.lowest, packed(at)});
      (*used_)[at.node] = std::max<size_t>((*used_)[at.node], at.offset + kPageBytes);
      at = head.sibling;
    }
    return Status::OK();
  }

  // Inner pages above the leaves, in unused memory of node 0, and the root.
  Status build() {
    uint32_t level = 0;
    while (children_.size() > 1) BONSAI_RETURN_IF_ERROR(build_level(++level));
    base::word_at(memories_[0].data() + kRootWord.offset).store(Root::of(level, address_in(children_[0].word)));
    return Status::OK();
  }

 private:
  [[nodiscard]] std::byte* bytes_of(Address page) const {
    if (page.node >= memories_.size() || page.offset % kPageBytes != 0) return nullptr;
    const std::span<std::byte> memory = memories_[page.node];
    return page.offset + kPageBytes <= memory.size() ? memory.data() + page.offset : nullptr;
  }

  Status build_level(uint32_t level) {
    const size_t per_page = std::max<size_t>(2, options_.layout.records_max(level) * 7 / 10);
    std::vector<Record> pages;
    for (size_t first = 0; first < children_.size(); first += per_page) {
      const size_t end = std::min(first + per_page, children_.size());
      const bool last = end == children_.size();
      const Address at{0, (*used_)[0]};
      std::byte* const image = bytes_of(at);
      if (image == nullptr) return Status::NoSpace("no room for the inner pages; give the memory node more memory");
      Head head{.version = 1, .level = level};
      head.lowest = children_[first].key;
      head.highest = last ? Key::none(options_.layout.key_bytes) : children_[end].key;
      head.leftmost = address_in(children_[first].word);
      if (!last) head.sibling = at + kPageBytes;
      Page(options_.layout, at, image)
          .write(head, {children_.begin() + static_cast<ptrdiff_t>(first) + 1,
                        children_.begin() + static_cast<ptrdiff_t>(end)});
      pages.push_back({head.lowest, packed(at)});
      (*used_)[0] += kPageBytes;
    }
    children_ = std::move(pages);
    return Status::OK();
  }

  const TreeOptions& options_;
  const Memories& memories_;
  std::vector<size_t>* const used_;
  std::vector<Record> children_;  // pages of a level, by their lowest keys
};

}  // namespace

Status recover_tree(const TreeOptions& options, const Memories& memories,
                    const std::function<void(size_t node, size_t offset, size_t bytes)>& flush,
                    std::vector<size_t>* fixed_bytes) {
  if (!options.layout.durable()) return Status::InvalidArgument("a tree of volatile leaves cannot be recovered");
  fixed_bytes->assign(memories.size(), sherman::fixed_bytes(options));
  for (const std::span<std::byte> memory : memories) {
    if (memory.size() < sherman::fixed_bytes(options)) return Status::Corruption("less memory than a tree takes");
    std::memset(memory.data() + kFirstLockAt, 0, options.locks_per_node * sizeof(uint64_t));
  }
  Recovery recovery(options, memories, fixed_bytes);
  BONSAI_RETURN_IF_ERROR(recovery.walk(flush));
  return recovery.build();
}

}  // namespace bonsai::bench::rivals::sherman
