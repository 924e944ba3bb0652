// SPDX-License-Identifier: Apache-2.0
#include "scale/scrubber.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/nvm/medium.h"
#include "base/probe.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kScrubIdleMs = 1'000;  // between two looks, if nothing is to be done
constexpr int kScrubAttempts = 3;         // to compare blocks of a window that are written meanwhile

base::Probe repaired_by_memory{"group.scrub_repaired_by_memory"};
base::Probe repaired_by_most{"group.scrub_repaired_by_most"};
base::Probe unused_evened_out{"group.scrub_unused_bytes_differed"};
base::Probe written_meanwhile{"group.scrub_block_was_written"};

size_t read(const MemberCopies& copies) {
  return static_cast<size_t>(
      std::count_if(copies.begin(), copies.end(), [](const auto& each) { return each != nullptr; }));
}

// What most of the members hold in a part of a block; null: there is no such thing.
const std::byte* held_by_most(const DifferingBlock& block, uint64_t at, uint64_t n) {
  size_t all = 0;
  for (size_t version = 0; version < block.versions.size(); ++version) all += block.holders(version);
  for (const std::byte* const candidate : block.versions) {
    size_t alike = 0;
    for (size_t version = 0; version < block.versions.size(); ++version) {
      const bool is_alike = std::memcmp(block.versions[version] + at, candidate + at, n) == 0;
      alike += is_alike ? block.holders(version) : 0;
    }
    if (2 * alike > all) return candidate + at;
  }
  return nullptr;
}

// Puts what was flushed of a resident block to `bytes`, which has what this node's memory has: that may have been
// stored and not flushed. So words in which members are alike stay theirs, and others are the memory's if a member has
// that. False: nobody knows a word.
bool take_flushed(const DifferingBlock& block, std::byte* bytes) {
  for (uint64_t at = 0; at < block.bytes; at += sizeof(uint64_t)) {
    const uint64_t n = std::min<uint64_t>(sizeof(uint64_t), block.bytes - at);
    const auto holds = [&](const std::byte* what) {
      return [what, at, n](const std::byte* version) { return std::memcmp(version + at, what, n) == 0; };
    };
    const auto& versions = block.versions;
    const std::byte* const first = versions.front() + at;
    const bool are_alike = std::all_of(versions.begin(), versions.end(), holds(first));
    if (!are_alike && std::any_of(versions.begin(), versions.end(), holds(bytes + at))) continue;
    const std::byte* const right = are_alike ? first : held_by_most(block, at, n);
    if (right == nullptr) return false;
    std::memcpy(bytes + at, right, n);
  }
  return true;
}

}  // namespace

Status Scrubber::start() {
  return base::Thread::start(
      "scrubbing", [this] { run(); }, &thread_);
}

void Scrubber::stop() {
  rounds_.end();
  thread_.join();
}

Status Scrubber::scrub_now(Group* group) {
  ScrubState& state = group->scrub();
  const uint64_t mine = state.asked.fetch_add(1) + 1;
  rounds_.wake();
  for (base::BoundedWait wait("link.scrub", base::kUnboundedMs);; wait.pause()) {
    if (state.served.load() >= mine) return Status::OK();
    if (state.refused.load() >= mine) {
      return Status::Unavailable(
          "fewer than two members of a group are in sync, so there is nothing to compare; see "
          "that their nodes run (bonsai groups), and retry");
    }
    static_cast<void>(wait.expired());
  }
}

void Scrubber::run() {
  while (!rounds_.has_ended()) {
    uint64_t due_ns = base::now_ns() + kScrubIdleMs * base::kNsPerMs;
    size_t number = 0;
    while (Group* const group = rounds_.next(number++)) due_ns = std::min(due_ns, scrub_next(group));
    const uint64_t now_ns = base::now_ns();
    if (due_ns > now_ns) rounds_.await((due_ns - now_ns) / base::kNsPerMs + 1);
  }
}

// Compares the group's next window if that is due. Returns when the one after it is.
uint64_t Scrubber::scrub_next(Group* group) {
  ScrubState& state = group->scrub();
  Pass& pass = passes_[group];
  const uint64_t asked = state.asked.load();
  const bool is_asked = asked > std::max(state.served.load(), state.refused.load());
  if (!is_asked && state.bytes_per_s == 0) return UINT64_MAX;
  const auto pause_ns = [&](uint64_t bytes) {
    return is_asked ? 0
                    : static_cast<uint64_t>(1e9 * static_cast<double>(bytes) / static_cast<double>(state.bytes_per_s));
  };
  const uint64_t now_ns = base::now_ns();
  if (pass.due_ns == 0) pass.due_ns = now_ns + pause_ns(WrittenBlocks::kWindowBytes);
  if (!is_asked && now_ns < pass.due_ns) return pass.due_ns;
  if (is_asked && pass.asked < asked) pass = {.asked = asked, .joins = pass.joins};
  if (pass.next == 0) pass.joins_now = group->joins();
  Window window{group, pass.next, std::min(WrittenBlocks::kWindowBytes, group->bytes() - pass.next)};
  const Status status = scrub_window(&window, &pass);
  if (!status.ok()) {
    state.refused.store(pass.asked);
    return pass.due_ns = base::now_ns() + kScrubIdleMs * base::kNsPerMs;
  }
  pass.unsettled += window.unsettled;
  pass.missed += window.missed;
  pass.next += window.bytes;
  if (pass.next == group->bytes()) end_pass(group, &pass);
  state.compared.store(pass.next);
  return pass.due_ns = now_ns + std::max<uint64_t>(1, pause_ns(window.bytes));
}

void Scrubber::end_pass(Group* group, Pass* pass) const {
  ScrubState& state = group->scrub();
  if (pass->unsettled != 0 && state.unsettled.load() != pass->unsettled) {
    group->tell(group->members().front()->state.name() + " and other members of its group differ in " +
                std::to_string(pass->unsettled) +
                " bytes of which nobody knows what is right: they are of no use now, or are damaged (bonsai check)");
  }
  state.unsettled.store(pass->unsettled);
  state.missed.store(pass->missed);
  state.ended_ns.store(base::now_ns());
  state.passes.fetch_add(1);
  state.served.store(pass->asked);
  *pass = {.asked = pass->asked, .joins = pass->joins_now};
}

// Errors: Unavailable (fewer than two members are in sync).
Status Scrubber::scrub_window(Window* window, Pass* pass) {
  Status status;
  for (int attempt = 0; attempt < kScrubAttempts; ++attempt) {
    status = compare(window);
    if (status.ok()) settle(window, *pass);
    if (!status.ok() || window->missed == 0 || rounds_.is_over()) break;
    written_meanwhile.hit();
  }
  for (LinkTarget* const member : window->group->members()) member->scrubbed.ignore();
  return status;
}

// Blocks that were written meanwhile are equal, or missed.
Status Scrubber::compare(Window* window) {
  const Members members = window->group->members();
  const auto is_in_sync = [](const LinkTarget* member) {
    return member->state.state() == TargetState::State::kInSync && member->state.is_in_page();
  };
  if (std::count_if(members.begin(), members.end(), is_in_sync) < 2) return Status::Unavailable("too few are in sync");
  std::vector<bool> compared;
  for (LinkTarget* const member : members) {
    compared.push_back(is_in_sync(member));
    member->scrubbed.watch(window->begin);
  }
  window->differing.clear();
  window->unsettled = 0;
  window->missed = window->bytes;
  if (!writes_.await_earlier(limit_ms_)) return Status::OK();
  window->copies = read_copies(&reads_, members, window->begin, window->bytes, limit_ms_);
  WrittenBlocks::Set written = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (!compared[i] || !is_in_sync(members[i])) window->copies[i].reset();
    written |= members[i]->scrubbed.written();
  }
  if (read(window->copies) < 2) return Status::OK();
  window->missed = 0;
  window->differing = differing_blocks(window->copies, window->begin, window->bytes, /*together=*/false);
  std::erase_if(window->differing, [&](const DifferingBlock& block) {
    const bool is_new =
        (written & WrittenBlocks::blocks_of(window->begin, window->begin + block.begin, block.bytes)) != 0;
    if (is_new) window->missed += block.bytes;
    return is_new;
  });
  return Status::OK();
}

// Resident bytes of a member that has joined may have been stored here and never flushed: others do not have them, and
// that is no damage.
void Scrubber::settle(Window* window, const Pass& pass) {
  const Mirror& mirror = *window->group->members().front()->mirror;
  Fixes by_memory, by_others, unused;
  std::vector<const DifferingBlock*> others;
  for (const DifferingBlock& block : window->differing) {
    const base::FarReads::Memory bytes = reads_.memory(block.bytes);
    const bool is_resident = mirror.copy(window->begin + block.begin, block.bytes, bytes.get());
    if (!is_resident) {
      others.push_back(&block);
    } else if (take_flushed(block, bytes.get())) {
      by_memory.push_back({&block, 0, block.bytes, bytes});
      repaired_by_memory.hit();
    } else {
      window->unsettled += block.bytes;
    }
  }
  repair(window, by_memory, pass.joins == pass.joins_now);
  if (!others.empty()) judge(window, others, &by_others, &unused);
  repair(window, by_others, /*is_damage=*/true);
  repair(window, unused, /*is_damage=*/false);
}

void Scrubber::judge(Window* window, std::span<const DifferingBlock* const> blocks, Fixes* damaged,
                     Fixes* unused) const {
  std::vector<ScrubBlock> judged;
  for (const DifferingBlock* const block : blocks) judged.push_back({window->begin + block->begin, block->bytes});
  if (const ScrubJudge& judge = window->group->scrub().judge) judge(judged);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const DifferingBlock& block = *blocks[i];
    const bool most_agree = 2 * block.holders(0) > read(window->copies);
    if (judged[i].verdict == ScrubBlock::Verdict::kMended) {
      even_out(*window, block, judged[i], unused);
    } else if (judged[i].verdict == ScrubBlock::Verdict::kUnknown && most_agree) {
      damaged->push_back(fix(block, 0, block.bytes, block.versions[0]));
      repaired_by_most.hit();
    } else {
      window->unsettled += block.bytes;
    }
  }
}

Scrubber::Fix Scrubber::fix(const DifferingBlock& block, uint64_t begin, uint64_t bytes, const std::byte* right) const {
  Fix fix{&block, begin, bytes, reads_.memory(bytes)};
  std::memcpy(fix.right.get(), right, bytes);
  return fix;
}

// What a check does not cover of the block of what it covers: damage of it harms nobody. It may also be what is left of
// a copy that one member got and another did not (copy_places.h). Any member's will do.
void Scrubber::even_out(const Window& window, const DifferingBlock& block, const ScrubBlock& judged,
                        Fixes* unused) const {
  const uint64_t offset = window.begin + block.begin;
  const uint64_t checked_begin = judged.checked_begin - offset, checked_end = judged.checked_end - offset;
  for (const auto& [begin, end] : {std::pair{uint64_t{0}, checked_begin}, std::pair{checked_end, block.bytes}}) {
    const uint64_t n = end - begin;
    const auto& versions = block.versions;
    const auto is_as_first = [&, at = begin](const std::byte* version) {
      return std::memcmp(version + at, versions.front() + at, n) == 0;
    };
    if (std::all_of(versions.begin(), versions.end(), is_as_first)) continue;
    const std::byte* const most = held_by_most(block, begin, n);
    unused->push_back(fix(block, begin, n, most != nullptr ? most : versions.front() + begin));
    unused_evened_out.hit();
  }
}

// What was written meanwhile beside a fix is left for the next attempt, which compares again.
void Scrubber::repair(Window* window, const Fixes& fixes, bool is_damage) {
  const Members members = window->group->members();
  for (size_t i = 0; i < members.size(); ++i) {
    uint64_t begin = 0, end = 0, bytes = 0;
    for (const Fix& fix : fixes) {
      const size_t version = fix.block->of_member[i];
      if (version == DifferingBlock::kNotRead) continue;
      if (std::memcmp(fix.block->versions[version] + fix.begin, fix.right.get(), fix.bytes) == 0) continue;
      const uint64_t offset = window->begin + fix.block->begin + fix.begin;
      if (writes_.repair_to(members[i], offset, fix.bytes, fix.right) != WriteLanes::Copied::kPosted) {
        window->missed = std::min(window->missed + fix.bytes, window->bytes);
        continue;
      }
      if (bytes == 0) begin = offset;
      end = offset + fix.bytes;
      bytes += fix.bytes;
    }
    if (bytes != 0 && writes_.await_member(members[i], limit_ms_) && is_damage) {
      window->group->note_repair(members[i], begin, end, bytes);
    }
  }
}

}  // namespace bonsai::scale
