// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/testing/owner_life.h"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/random.h"

namespace bonsai::scale::membership::testing {
namespace {

using Type = Move::Type;

// ---- all orders

class Explorer {
 public:
  explicit Explorer(uint64_t states_max) : states_max_(states_max) {}

  Explored run(const Setup& setup) {
    World world(setup);
    result_.whole = visit(world) && result_.wrong.empty();
    result_.states = visited_.size();
    if (result_.wrong.empty()) return result_;
    for (const Move& move : path_) {
      result_.wrong += "\n  " + world.describe(move);
      world.make(move);
    }
    return result_;
  }

 private:
  // False: too many states.
  bool visit(const World& world) {
    if (!visited_.insert(world.digest()).second) return true;
    if (visited_.size() > states_max_) return false;
    for (const Move& move : world.moves()) {
      path_.push_back(move);
      World after = world;
      after.make(move);
      result_.wrong = after.wrong();
      if (!result_.wrong.empty()) return true;
      if (!visit(after)) return false;
      if (!result_.wrong.empty()) return true;
      path_.pop_back();
    }
    return true;
  }

  const uint64_t states_max_;
  Explored result_;
  std::unordered_set<uint64_t> visited_;  // by hash: 2^-64 per pair that one is taken for another
  std::vector<Move> path_;
};

// ---- lives

constexpr size_t kStoryMoves = 40;  // that are shown
constexpr int kMany = 1'000'000;

Setup draw_setup(base::Random* random) {
  Setup setup;
  setup.shm = random->chance(1, 3);
  setup.recorded = random->chance(3, 4);
  setup.forced = random->chance(1, 4);
  for (int& drift : setup.drift_percent) drift = static_cast<int>(random->below(3)) - 1;
  setup.lease_ns = kLeaseNsMin + random->below(4) * 700'000'000;
  setup.updates = setup.reads = setup.requests = setup.openings = setup.times = setup.losses = kMany;
  const auto some = [&](uint64_t most) { return static_cast<int>(random->below(most + 1)); };
  setup.breaks = some(6);
  setup.restarts = some(6);
  setup.cuts = setup.shm ? 0 : some(4);
  setup.deaths = some(4);
  setup.leaves = some(4);
  setup.give_ups = some(2);
  setup.duplicates = some(40);
  setup.damages = random->chance(1, 3) ? some(6) : 0;
  setup.records_lost = random->chance(1, 3) ? some(6) : 0;
  return setup;
}

// The relative frequency of a move.
uint64_t weight_of(Type type) {
  switch (type) {
    case Type::kDeliver:
    case Type::kWritten:
    case Type::kEnd:
    case Type::kRecover:
      return 16;
    case Type::kLoseRecord:
    case Type::kDamage:
    case Type::kPut:
    case Type::kRead:
    case Type::kAnswer:
    case Type::kOpen:
    case Type::kConnect:
    case Type::kStart:
      return 8;
    case Type::kAsk:
      return 6;
    case Type::kDuplicate:
    case Type::kLose:
    case Type::kTime:
      return 1;
    default:
      return 2;
  }
}

class Living {
 public:
  Living(uint64_t seed, const Setup& setup, base::Random random)
      : seed_(seed), random_(random), world_(setup), setup_(setup) {}

  Life run() {
    const uint64_t moves = 200 + random_.below(600);
    for (uint64_t i = 0; i < moves && world_.wrong().empty(); ++i) trouble();
    if (world_.wrong().empty()) settle();
    life_.answers = world_.answers();
    life_.digest = world_.digest();
    if (!world_.wrong().empty()) report(world_.wrong());
    return life_;
  }

 private:
  void make(const Move& move) {
    story_.push_back(world_.describe(move));
    if (story_.size() > kStoryMoves) story_.pop_front();
    ++life_.moves;
    world_.make(move);
  }

  // One move, or a while without any. Paused owners make none.
  void trouble() {
    if (random_.chance(1, 8)) world_.pass(random_.below(setup_.lease_ns / 50), paused_);
    if (random_.chance(1, 100)) world_.pass(random_.below(2 * setup_.lease_ns), paused_);
    if (random_.chance(1, 40)) paused_[random_.below(kOwners)] ^= true;
    std::vector<std::pair<uint64_t, Move>> drawn;
    uint64_t sum = 0;
    for (const Move& move : world_.moves()) {
      const bool of_owner = move.type >= Type::kOpen && move.type <= Type::kDeath;
      if (of_owner && paused_[move.which] && move.type != Type::kDeath) continue;
      sum += weight_of(move.type);
      drawn.emplace_back(sum, move);
    }
    if (drawn.empty()) return world_.pass(setup_.lease_ns / 10, paused_);
    const uint64_t at = random_.below(sum);
    make(std::find_if(drawn.begin(), drawn.end(), [&](const auto& each) { return at < each.first; })->second);
  }

  // The first possible move of the settling order: messages in flight arrive, then all machines go on.
  bool go_on(size_t survivor) {
    static constexpr std::array kOrder = {Type::kStart,   Type::kDeliver, Type::kWritten, Type::kEnd,   Type::kAnswer,
                                          Type::kRecover, Type::kBreak,   Type::kConnect, Type::kDeath, Type::kOpen};
    const std::vector<Move> moves = world_.moves();
    for (const Type type : kOrder) {
      const bool of_owner = type >= Type::kOpen && type <= Type::kDeath;
      for (const Move& move : moves) {
        if (move.type != type || (of_owner && move.which != survivor)) continue;
        make(move);
        return true;
      }
    }
    return false;
  }

  bool make_first(Type type, size_t survivor) {
    for (const Move& move : world_.moves()) {
      if (move.type != type || move.which != survivor) continue;
      make(move);
      return true;
    }
    return false;
  }

  void settle() {
    const size_t survivor = random_.below(kOwners), other = 1 - survivor;
    Setup calm = world_.setup();
    calm.breaks = calm.restarts = calm.cuts = calm.leaves = calm.give_ups = calm.duplicates = calm.losses = 0;
    calm.records_lost = calm.damages = 0;
    calm.deaths = 2;
    world_.set_budgets(calm);
    // The other owner is gone. The survivor goes on, or its process restarts.
    if (world_.is_alive(other)) make_first(Type::kDeath, other);
    if (world_.is_alive(survivor) && !world_.is_at_work(survivor)) make_first(Type::kDeath, survivor);
    calm.deaths = 0;
    world_.set_budgets(calm);
    const uint64_t begin_ns = world_.real_ns();
    const uint64_t before = world_.acknowledged();
    const bool without_record = setup_.records_lost != 0 || !setup_.recorded;
    const uint64_t longest_ns = (without_record ? kLeaseNsMax : 0) + 3 * setup_.lease_ns;
    for (int i = 0; i < 100'000 && world_.wrong().empty(); ++i) {
      if (world_.acknowledged() > before && world_.owns(survivor)) return;
      if (go_on(survivor)) continue;
      if (world_.owns(survivor) && make_first(Type::kPut, survivor)) continue;
      if (!make_first(Type::kAsk, survivor)) break;
      world_.pass(setup_.lease_ns / 20, {});
      if (world_.real_ns() - begin_ns > longest_ns / 99 * 101) break;
    }
    if (world_.wrong().empty()) report("no service after trouble had ended");
  }

  void report(const std::string& what) {
    life_.wrong = "BONSAI_SEED=" + std::to_string(seed_) + ": " + what;
    for (const std::string& each : story_) life_.wrong += "\n  " + each;
  }

  const uint64_t seed_;
  base::Random random_;
  World world_;
  const Setup setup_;
  std::array<bool, kOwners> paused_{};
  std::deque<std::string> story_;
  Life life_;
};

}  // namespace

Explored explore(const Setup& setup, uint64_t states_max) { return Explorer(states_max).run(setup); }

Life live(uint64_t seed) {
  base::Random random(seed);
  const Setup setup = draw_setup(&random);
  return Living(seed, setup, random).run();
}

Life live_in(Broken broken, uint64_t seed) {
  base::Random random(seed);
  Setup setup = draw_setup(&random);
  if (broken == Broken::kDrift) setup.drift_percent = {-5, -5, 5};
  if (broken == Broken::kClockStands) setup.clocks_stand = true;
  if (broken == Broken::kDiskForgets) {
    setup.disk_lies = true;
    setup.shm = false;
    setup.cuts = 4;
  }
  return Living(seed, setup, random).run();
}

}  // namespace bonsai::scale::membership::testing
