// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/pactree.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals::pactree {

namespace {

constexpr size_t kRecordBytes = 8;

Status check_shape(std::string_view key, std::string_view value) {
  if (key.size() == kRecordBytes && value.size() == kRecordBytes) return Status::OK();
  return Status::InvalidArgument("a record of " + std::to_string(key.size()) + " + " + std::to_string(value.size()) +
                                 " bytes; the PACTree-like index stores keys and values of 8 bytes");
}

// As a number of the same order.
uint64_t number_of(std::string_view key) {
  uint64_t big_endian = 0;
  std::memcpy(&big_endian, key.data(), sizeof big_endian);
  return __builtin_bswap64(big_endian);
}

uint64_t word_of(std::string_view value) {
  uint64_t word = 0;
  std::memcpy(&word, value.data(), sizeof word);
  return word;
}

Status endless_chain() { return Status::Corruption("the chain of data nodes does not end; was a page lost?"); }

std::string bytes_of(uint64_t word) { return {reinterpret_cast<const char*>(&word), sizeof word}; }

}  // namespace

Status ComputeNode::make(rdma::Fabric* fabric, const PageCache::Options& options, std::unique_ptr<ComputeNode>* node) {
  std::unique_ptr<ComputeNode> made(new ComputeNode);
  BONSAI_RETURN_IF_ERROR(PageCache::make(fabric, options, &made->pages_));
  *node = std::move(made);
  return Status::OK();
}

// As std::map has them: three pointers and a colour, then the pair.
size_t ComputeNode::search_layer_bytes() const {
  const std::shared_lock lock(search_mutex_);
  return search_.size() * (4 * sizeof(void*) + sizeof(std::pair<uint64_t, NodeRef>));
}

uint64_t ComputeNode::data_nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

size_t ComputeNode::lag() const {
  const std::lock_guard lock(mutex_);
  return log_.size();
}

NodeRef ComputeNode::search(uint64_t key) const {
  const std::shared_lock lock(search_mutex_);
  const auto after = search_.upper_bound(key);
  return after == search_.begin() ? 0 : std::prev(after)->second;
}

bool ComputeNode::begin(NodeRef* ref) {
  const std::lock_guard lock(mutex_);
  if (nodes_ > 0) return false;
  *ref = ++nodes_;
  const std::unique_lock search_lock(search_mutex_);
  search_.emplace(0, *ref);
  return true;
}

Status ComputeNode::allocate(NodeRef* ref) {
  const std::lock_guard lock(mutex_);
  if (nodes_ == pages_->pages() * kNodesPerPage) {
    return Status::NoSpace("the memory nodes have no page left; give them more memory");
  }
  *ref = ++nodes_;
  return Status::OK();
}

void ComputeNode::log_split(uint64_t min_key, NodeRef ref) {
  const std::lock_guard lock(mutex_);
  log_.emplace_back(min_key, ref);
}

size_t ComputeNode::apply_log() {
  std::deque<std::pair<uint64_t, NodeRef>> splits;
  {
    const std::lock_guard lock(mutex_);
    splits.swap(log_);
  }
  const std::unique_lock lock(search_mutex_);
  for (const auto& [min_key, ref] : splits) search_.emplace(min_key, ref);
  return splits.size();
}

DataNode* PactreeClient::node_in(const PageCache::Page& page, NodeRef ref) {
  return static_cast<DataNode*>(static_cast<void*>(page.data() + ComputeNode::offset_of(ref)));
}

Status PactreeClient::hold(NodeRef ref, const Limit& limit, PageCache::Page* page) {
  const uint64_t number = ComputeNode::page_of(ref);
  if (page->held() && page->number() == number) return Status::OK();
  return node_->pages().hold(number, &batch_, limit, page);
}

Status PactreeClient::find(uint64_t key, const Limit& limit, PageCache::Page* page, DataNode** node) {
  NodeRef ref = node_->search(key);
  if (ref == 0) return Status::NotFound();
  for (uint64_t walked = 0; walked <= node_->data_nodes(); ++walked) {
    BONSAI_RETURN_IF_ERROR(hold(ref, limit, page));
    *node = node_in(*page, ref);
    if ((*node)->covers(key)) return Status::OK();
    ref = (*node)->next;
    ++counters_.hops;
  }
  return endless_chain();
}

// A page of zeros is an empty last node, so the first node needs no more than its name.
Status PactreeClient::find_or_begin(uint64_t key, const Limit& limit, PageCache::Page* page, DataNode** node) {
  NodeRef first = 0;
  static_cast<void>(node_->begin(&first));
  return find(key, limit, page, node);
}

// Errors, besides those of find(): NotFound.
Status PactreeClient::find_pair(uint64_t key, const Limit& limit, Spot* spot) {
  BONSAI_RETURN_IF_ERROR(find(key, limit, &spot->page, &spot->node));
  spot->slot = spot->node->find(key);
  return spot->slot == kPairsMax ? Status::NotFound() : Status::OK();
}

Status PactreeClient::get(std::string_view key, std::string* value) {
  const Limit limit = limit_of("pactree.get");
  BONSAI_RETURN_IF_ERROR(check_shape(key, std::string_view("12345678")));
  Spot spot;
  BONSAI_RETURN_IF_ERROR(find_pair(number_of(key), limit, &spot));
  *value = bytes_of(spot.pair().value);
  return Status::OK();
}

Status PactreeClient::insert(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("pactree.insert");
  BONSAI_RETURN_IF_ERROR(check_shape(key, value));
  const Pair pair{number_of(key), word_of(value)};
  for (PageCache::Page page;; page.drop()) {
    DataNode* node = nullptr;
    BONSAI_RETURN_IF_ERROR(find_or_begin(pair.key, limit, &page, &node));
    const size_t slot = node->find(pair.key);
    if (slot == kPairsMax && node->size() == kPairsMax) {
      BONSAI_RETURN_IF_ERROR(split(limit, &page, node));
      continue;
    }
    page.mark_dirty();
    if (slot == kPairsMax) {
      node->add(pair);
    } else {
      node->pairs[slot].value = pair.value;
    }
    return Status::OK();
  }
}

Status PactreeClient::update(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("pactree.update");
  BONSAI_RETURN_IF_ERROR(check_shape(key, value));
  Spot spot;
  BONSAI_RETURN_IF_ERROR(find_pair(number_of(key), limit, &spot));
  spot.page.mark_dirty();
  spot.pair().value = word_of(value);
  return Status::OK();
}

Status PactreeClient::remove(std::string_view key) {
  const Limit limit = limit_of("pactree.remove");
  BONSAI_RETURN_IF_ERROR(check_shape(key, std::string_view("12345678")));
  Spot spot;
  BONSAI_RETURN_IF_ERROR(find_pair(number_of(key), limit, &spot));
  spot.page.mark_dirty();
  spot.node->remove(spot.slot);
  return Status::OK();
}

// Half of the pairs go to a new node. Its page comes after the node's, or is the same: pages are held in rising order.
Status PactreeClient::split(const Limit& limit, PageCache::Page* page, DataNode* node) {
  NodeRef ref = 0;
  BONSAI_RETURN_IF_ERROR(node_->allocate(&ref));
  BONSAI_CHECK(ComputeNode::page_of(ref) >= page->number());
  PageCache::Page another;
  const bool same_page = ComputeNode::page_of(ref) == page->number();
  if (!same_page) BONSAI_RETURN_IF_ERROR(hold(ref, limit, &another));
  DataNode* const right = node_in(same_page ? *page : another, ref);
  const std::vector<size_t> slots = node->in_order();
  right->min_key = node->pairs[slots[kPairsMax / 2]].key;
  right->max_key = node->max_key;
  right->current = ref;
  right->next = node->next;
  right->previous = node->current;
  for (size_t i = kPairsMax / 2; i < kPairsMax; ++i) {
    right->add(node->pairs[slots[i]]);
    node->remove(slots[i]);
  }
  node->max_key = right->min_key;
  node->next = ref;
  page->mark_dirty();
  if (!same_page) another.mark_dirty();
  node_->log_split(right->min_key, ref);
  ++counters_.splits;
  return Status::OK();
}

Status PactreeClient::scan(std::string_view from, size_t records_max, std::vector<Found>* found) {
  const Limit limit = limit_of("pactree.scan");
  BONSAI_RETURN_IF_ERROR(check_shape(from, std::string_view("12345678")));
  found->clear();
  if (records_max == 0) return Status::OK();
  const uint64_t first = number_of(from);
  PageCache::Page page;
  DataNode* node = nullptr;
  const Status status = find(first, limit, &page, &node);
  if (!status.ok()) return status.IsNotFound() ? Status::OK() : status;
  for (uint64_t walked = 0; walked <= node_->data_nodes(); ++walked) {
    for (const size_t slot : node->in_order()) {
      const Pair& pair = node->pairs[slot];
      if (pair.key < first) continue;
      found->push_back({bytes_of(__builtin_bswap64(pair.key)), bytes_of(pair.value)});
      if (found->size() == records_max) return Status::OK();
    }
    if (node->last()) return Status::OK();
    const NodeRef next = node->next;
    BONSAI_RETURN_IF_ERROR(hold(next, limit, &page));
    node = node_in(page, next);
  }
  return endless_chain();
}

Status Background::round() {
  node_->apply_log();
  size_t written = 0;
  return node_->pages().write_back(false, &batch_, &written);
}

}  // namespace bonsai::bench::rivals::pactree
