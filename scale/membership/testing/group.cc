// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/testing/group.h"

#include <array>
#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "scale/membership/in_sync.h"

namespace bonsai::scale::membership::testing {
namespace {

constexpr size_t kVoters = 3;
constexpr MemberSet kAll = (1u << kVoters) - 1;

Quorum rule_of(const GroupSetup& setup) { return {.needed = setup.needed, .voters = setup.witness ? kVoters : 0}; }
MemberSet members_of(const GroupSetup& setup) { return kAll & ~rule_of(setup).witness_only(); }

struct GroupPage {
  uint64_t epoch = 1, version = 1;
  MemberSet members = 0;

  [[nodiscard]] bool is_newer_than(const GroupPage& other) const {
    return std::pair(epoch, version) > std::pair(other.epoch, other.version);
  }
};

struct GroupState {
  explicit GroupState(const GroupSetup& setup)
      : failures(setup.failures),
        changes(setup.changes),
        openings(setup.openings),
        holds(members_of(setup)),
        in_sync(holds, rule_of(setup), 1) {
    for (GroupPage& page : pages) page.members = holds;
  }

  int failures, changes, openings;
  MemberSet up = kAll;
  MemberSet holds;                                   // every acknowledged update; never the witness
  std::array<GroupPage, kVoters> pages{};            // durable ones
  std::array<uint64_t, kVoters> fenced = {1, 1, 1};  // epochs
  std::array<uint64_t, kVoters> answers{};           // about versions, on their way to the owner
  // The owner.
  uint64_t epoch = 1;
  bool serving = true;  // its first page is in force
  InSync in_sync;
  // The next owner, which is opening.
  MemberSet reached = 0;
  GroupPage newest{0, 0, 0};
};

class GroupExplorer {
 public:
  GroupExplorer(const GroupSetup& setup, uint64_t states_max) : setup_(setup), states_max_(states_max) {}

  GroupExplored run() {
    result_.whole = visit(GroupState(setup_)) && result_.wrong.empty();
    result_.states = visited_.size();
    return result_;
  }

 private:
  // A move: its name, and a function that makes it. The function returns the fault, or an empty text.
  using Make = std::function<std::string(GroupState*)>;
  using Moves = std::vector<std::pair<std::string, Make>>;

  bool visit(const GroupState& state) {
    if (!visited_.insert(digest(state)).second) return true;
    if (visited_.size() > states_max_) return false;
    Moves moves;
    list_owner(state, &moves);
    list_world(state, &moves);
    for (auto& [name, make] : moves) {
      path_.push_back(name);
      GroupState after = state;
      if (const std::string wrong = make(&after); !wrong.empty()) {
        result_.wrong = wrong;
        for (const std::string& each : path_) result_.wrong += "\n  " + each;
        return true;
      }
      if (!visit(after)) return false;
      if (!result_.wrong.empty()) return true;
      path_.pop_back();
    }
    return true;
  }

  // The voters that carry out the owner's requests.
  static MemberSet obedient(const GroupState& state) {
    MemberSet voters = 0;
    for (size_t i = 0; i < kVoters; ++i) voters |= state.fenced[i] == state.epoch ? only(i) : 0;
    return voters & state.up;
  }

  void list_owner(const GroupState& state, Moves* moves) const {
    const MemberSet awaited = state.in_sync.awaited();
    if (state.serving && (awaited & ~obedient(state)) == 0) {
      moves->emplace_back("an update is acknowledged", [awaited](GroupState* s) -> std::string {
        s->holds &= awaited;  // others may have missed it
        return "";
      });
    }
    for (size_t i = 0; i < kVoters; ++i) {
      const bool is_witness = (rule_of(setup_).witness_only() & only(i)) != 0;
      if (!is_witness) list_changes(state, i, moves);
      const MemberSet named = state.in_sync.members();
      const bool gets_pages = is_witness || (named & only(i)) != 0;
      const std::string member = " " + std::to_string(i);
      const GroupPage page = {state.epoch, state.in_sync.version(), named};
      if (gets_pages && (obedient(state) & only(i)) != 0 && page.is_newer_than(state.pages[i])) {
        moves->emplace_back("the page is durable on" + member, [i, page](GroupState* s) -> std::string {
          s->pages[i] = page;
          s->answers[i] = page.version;
          return "";
        });
      }
      if (state.answers[i] != 0) {
        moves->emplace_back("the owner hears of" + member, [i](GroupState* s) -> std::string {
          s->in_sync.durable(i, std::exchange(s->answers[i], 0));
          s->serving = s->serving || !s->in_sync.is_changing();
          const bool stale = !s->in_sync.is_changing() && (s->in_sync.members() & ~s->holds) != 0;
          return stale ? "a page in force names a member that misses an acknowledged update" : "";
        });
      }
    }
  }

  static void list_changes(const GroupState& state, size_t i, Moves* moves) {
    const bool in = (state.in_sync.members() & only(i)) != 0;
    const std::string member = " " + std::to_string(i);
    if (state.changes > 0 && state.serving) {
      moves->emplace_back((in ? "a page without" : "a page with") + member, [i](GroupState* s) -> std::string {
        --s->changes;
        // The owner knows which members hold everything: those that it has brought up to date, and those that it
        // awaits.
        static_cast<void>(s->in_sync.begin(s->in_sync.members() ^ only(i), s->holds));
        return "";
      });
    }
    if (!in && (obedient(state) & only(i)) != 0 && (state.holds & only(i)) == 0) {
      moves->emplace_back("brings up to date" + member, [i](GroupState* s) -> std::string {
        s->holds |= only(i);
        return "";
      });
    }
  }

  void list_world(const GroupState& state, Moves* moves) {
    for (size_t i = 0; i < kVoters; ++i) {
      const std::string member = " " + std::to_string(i);
      const bool is_up = (state.up & only(i)) != 0;
      if (is_up ? state.failures > 0 : true) {
        moves->emplace_back((is_up ? "fails" : "comes back") + member, [i, is_up](GroupState* s) -> std::string {
          s->failures -= is_up ? 1 : 0;
          s->up ^= only(i);
          return "";
        });
      }
      if (is_up && state.openings > 0 && (state.reached & only(i)) == 0) {
        moves->emplace_back("the next owner fences" + member, [i](GroupState* s) -> std::string {
          s->reached |= only(i);
          s->fenced[i] = s->epoch + 1;
          if (s->pages[i].is_newer_than(s->newest)) s->newest = s->pages[i];
          return "";
        });
      }
    }
    if (state.reached == 0 || !may_open(state.newest.members, state.reached, rule_of(setup_))) return;
    moves->emplace_back("it opens", [this](GroupState* s) { return open(s); });
  }

  std::string open(GroupState* s) {
    ++result_.openings;
    const MemberSet members = s->newest.members & s->reached;
    if ((members & ~s->holds) != 0) return "an opening uses a member that misses an acknowledged update";
    --s->openings;
    ++s->epoch;
    s->answers = {};
    s->in_sync = InSync(s->newest.members, rule_of(setup_), s->newest.version);
    s->serving = false;
    if (!s->in_sync.begin(members, members)) return "an opening with too few members was allowed";
    s->reached = 0;
    s->newest = {0, 0, 0};
    return "";
  }

  static uint64_t digest(const GroupState& state) {
    std::string all;
    const auto add = [&](auto... values) {
      const uint64_t words[] = {static_cast<uint64_t>(values)...};
      all.append(reinterpret_cast<const char*>(words), sizeof words);
    };
    add(state.failures, state.changes, state.openings, state.up, state.holds, state.epoch, state.serving);
    add(state.reached, state.newest.epoch, state.newest.version, state.newest.members);
    add(state.in_sync.awaited(), state.in_sync.members(), state.in_sync.version(), state.in_sync.durable_on());
    for (size_t i = 0; i < kVoters; ++i) {
      const GroupPage& page = state.pages[i];
      add(page.epoch, page.version, page.members, state.fenced[i], state.answers[i]);
    }
    return std::hash<std::string_view>()(all);
  }

  const GroupSetup setup_;
  const uint64_t states_max_;
  GroupExplored result_;
  std::unordered_set<uint64_t> visited_;  // by hash: 2^-64 per pair that one is taken for another
  std::vector<std::string> path_;
};

}  // namespace

GroupExplored explore_group(const GroupSetup& setup, uint64_t states_max) {
  return GroupExplorer(setup, states_max).run();
}

}  // namespace bonsai::scale::membership::testing
