// SPDX-License-Identifier: Apache-2.0
// Two owners of one pool after each other, in virtual time: the first one is cut off from its node, the second one gets
// the pool and updates it. From then on the first one answers no call with what it has in DRAM, and acknowledges
// nothing; neither while it is cut off nor when it is back. The same holds for who only checks a pool. Each check in
// store/ is left out once, and this must notice.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "bonsai/db.h"
#include "scale/fabrics.h"
#include "store/testing/mutants.h"
#include "testing/scratch.h"
#include "testing/sim/store_node.h"

namespace bonsai::testing::sim {
namespace {

const std::string kKey = "k";

struct Call {
  std::string name;
  std::function<Status(DB* db)> run;
};

Status first_row(DB* db, const std::function<Status(const ScanVisitor& visit)>& scan) {
  bool answered = false;
  static_cast<void>(db);
  const Status status = scan([&answered](std::string_view, std::string_view) {
    answered = true;
    return true;
  });
  return answered ? Status::OK() : status;
}

Status seek(DB* db, const std::function<void(Iterator* iterator)>& go) {
  const auto iterator = db->NewIterator(ReadOptions());
  go(iterator.get());
  return iterator->Valid() ? Status::OK() : iterator->status();
}

Status in_session(DB* db, const std::function<void(Session* session, Status* status)>& ask) {
  Status status = Status::IoError("not set");
  const auto session = db->NewSession(8);
  ask(session.get(), &status);
  session->Wait();
  return status;
}

// What the first owner may be asked. OK and NotFound are answers.
std::vector<Call> calls(bool buffered) {
  std::vector<Call> all = {
      {"Get",
       [](DB* db) {
         std::string value;
         return db->Get(kKey, &value);
       }},
      {"Get of no record",
       [](DB* db) {
         std::string value;
         return db->Get("none", &value);
       }},
      {"Exists", [](DB* db) { return db->Exists(kKey); }},
      {"MultiGet",
       [](DB* db) {
         const std::vector<std::string_view> keys = {kKey, "none"};
         std::vector<std::string> values(2);
         std::vector<Status> statuses(2);
         db->MultiGet(ReadOptions(), keys, values, statuses);
         return statuses[0].IsUnavailable() ? statuses[1] : statuses[0];
       }},
      {"Scan",
       [](DB* db) { return first_row(db, [db](const ScanVisitor& visit) { return db->Scan({}, "", visit); }); }},
      {"Count",
       [](DB* db) {
         uint64_t count = 0;
         const Status status = db->Count({}, "", &count);
         return count != 0 ? Status::OK() : status;
       }},
      {"SeekToFirst", [](DB* db) { return seek(db, [](Iterator* iterator) { iterator->SeekToFirst(); }); }},
      {"SeekToLast", [](DB* db) { return seek(db, [](Iterator* iterator) { iterator->SeekToLast(); }); }},
      {"GetSnapshot",
       [](DB* db) {
         std::shared_ptr<const Snapshot> snapshot;
         return db->GetSnapshot(&snapshot);
       }},
      {"Get of a session",
       [](DB* db) {
         std::string value;
         return in_session(db, [&value](Session* session, Status* status) { session->Get(kKey, &value, status); });
       }},
      {"Scan of a session",
       [](DB* db) {
         return first_row(db, [db](const ScanVisitor& visit) {
           return in_session(db, [&visit](Session* session, Status* status) { session->Scan({}, "", visit, status); });
         });
       }},
  };
  if (!buffered) return all;
  // First, since reads that wait give the node up, and then updates are refused.
  const Call put = {"buffered Put", [](DB* db) { return db->Put("mine", "1"); }};
  const Call write = {"buffered Write", [](DB* db) {
                        WriteBatch batch;
                        batch.Put("mine", "2");
                        return db->Write(batch);
                      }};
  all.insert(all.begin(), {put, write});
  return all;
}

// Opens the pool as soon as its last owner's lease has run out.
Status open_when_free(StoreNode* owner, const Options& options) {
  Status opened = Status::Busy("not asked");
  for (int i = 0; i < 1'000 && opened.IsBusy(); ++i) {
    opened = owner->open(options, false);
    base::sleep_ms(10);
  }
  return opened;
}

Options small_options() {
  Options options;
  options.pool_bytes = uint64_t{4} << 20;
  options.background_threads = 0;
  return options;
}

// The calls that the first owner answers though the second one has the pool; a text that is no call if the course is
// another one.
class Course {
 public:
  explicit Course(bool buffered) : buffered_(buffered), wait_ms_(buffered ? 5'000 : 100) {}

  std::string run() {
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = 1, .stack_bytes = size_t{256} << 10});
    scheduler.spawn([this] { live(); }, "owners");
    const Status status = scheduler.run();
    return status.ok() ? found_ : status.ToString();
  }

 private:
  void find(const std::string& what) { found_ += what + "; "; }
  void expect(const Status& status, const std::string& what) {
    if (!status.ok()) find(what + ": " + status.ToString());
  }
  // Each call, on its own, so that it is the first one after the lease.
  void ask(DB* db, const std::string& when) {
    for (const Call& call : calls(buffered_)) {
      const uint64_t begin_ns = base::now_ns();
      const Status status = call.run(db);
      if (!status.IsUnavailable()) find(call.name + when + ": " + status.ToString());
      if (base::now_ns() - begin_ns > 20 * wait_ms_ * base::kNsPerMs) find(call.name + when + " waits for too long");
      if (call.name == "Get") text_ = status.ToString();
    }
  }
  void live() {
    MemoryNode node(&network_, "node", std::filesystem::path(scratch_.file("pool")).parent_path(), 1);
    node.start();
    Options options = small_options();
    options.durability = buffered_ ? Durability::kBuffered : Durability::kDurable;
    StoreNode first(&network_, {{nullptr, &node}}, wait_ms_), second(&network_, {{nullptr, &node}}, wait_ms_);
    expect(first.open(options, true), "the first owner's opening");
    expect(first.db()->Put(kKey, "old"), "its update");
    for (const Call& call : calls(buffered_)) {
      const Status status = call.run(first.db());
      if (!status.ok() && !status.IsNotFound()) find(call.name + " before: " + status.ToString());
    }
    expect(first.db()->Sync(), "its Sync");
    network_.cut(first.fabric(), node.fabric());
    network_.cut(node.fabric(), first.fabric());
    const Status opened = open_when_free(&second, options);
    expect(opened, "the second owner's opening");
    if (opened.ok()) expect(second.db()->Put(kKey, "new"), "its update");
    ask(first.db(), ", cut off");
    network_.heal();
    ask(first.db(), ", back");
    if (text_.find("has got another owner meanwhile: ") == std::string::npos) find("does not say who has it: " + text_);
    std::string value;
    if (opened.ok()) expect(second.db()->Get(ReadOptions(), kKey, &value), "the second owner's get");
    if (value != "new") find("the second owner reads " + value);
    static_cast<void>(first.close());
    expect(second.close(), "the second owner's end");
    node.stop();
  }

  const bool buffered_;
  const uint64_t wait_ms_;  // buffered: so long that the target is not given up when the first update comes
  const ScratchFolder scratch_;
  rdma::SimNetwork network_;
  std::string found_, text_;
};

// Somebody checks a pool. When all of it is read, another owner gets the pool and updates it.
class CheckedPool {
 public:
  // What the check says; `back`: the network is as before by then.
  Status run(bool back) {
    Status checked;
    base::Scheduler scheduler({.pick = base::Scheduler::Pick::kSeeded, .seed = 1, .stack_bytes = size_t{256} << 10});
    scheduler.spawn([&] { checked = check(back); }, "check");
    const Status status = scheduler.run();
    return status.ok() ? checked : status;
  }

 private:
  Status check(bool back) {
    MemoryNode node(&network_, "node", std::filesystem::path(scratch_.file("pool")).parent_path(), 1);
    node.start();
    StoreNode owner(&network_, {{nullptr, &node}}, 1'000);
    EXPECT_EQ("OK", owner.open(small_options(), true).ToString());
    EXPECT_EQ("OK", owner.db()->Put(kKey, "old").ToString());
    EXPECT_EQ("OK", owner.close().ToString());
    std::shared_ptr<rdma::Fabric> fabric;
    scale::register_fabric("checking", [&](std::shared_ptr<rdma::Fabric>* made) {
      *made = fabric = network_.make_fabric();
      return Status::OK();
    });
    bool changed = false;
    const auto change = [&](double) {
      if (std::exchange(changed, true)) return;
      network_.cut(*fabric, node.fabric());
      network_.cut(node.fabric(), *fabric);
      EXPECT_EQ("OK", open_when_free(&owner, small_options()).ToString());
      EXPECT_EQ("OK", owner.db()->Put(kKey, "new").ToString());
      if (back) network_.heal();
    };
    Options options;
    options.fabric_wait_ms_max = 1'000;
    CheckReport report;
    const Status checked = Check("checking://node/" + pool_name(0), &report, change, options);
    EXPECT_TRUE(changed);
    EXPECT_EQ(report.records, 1u) << "all was read";
    network_.heal();
    EXPECT_EQ("OK", owner.close().ToString());
    node.stop();
    return checked;
  }

  const ScratchFolder scratch_;
  rdma::SimNetwork network_;
};

TEST(OwnerSim, ACheckOfAPoolThatGotAnotherOwnerDoesNotCount) {
  for (const bool back : {false, true}) {
    const Status checked = CheckedPool().run(back);
    EXPECT_TRUE(checked.IsUnavailable()) << checked.ToString();
  }
}

TEST(OwnerSim, WhoWasReplacedAnswersNothing) {
  EXPECT_EQ(Course(false).run(), "");
  EXPECT_EQ(Course(true).run(), "");
}

TEST(OwnerSim, TheLossOfEachCheckIsNoticed) {
  const std::vector<std::pair<uint64_t, std::string>> checks = {
      {store::kGetNotChecked, "Get, cut off: OK"},           {store::kMultiGetNotChecked, "MultiGet, cut off: OK"},
      {store::kScanNotChecked, "Scan, cut off: OK"},         {store::kIteratorNotChecked, "SeekToFirst, cut off: OK"},
      {store::kSnapshotNotChecked, "GetSnapshot, back: OK"}, {store::kBufferedNotChecked, "buffered Put, cut off: OK"},
  };
  for (const auto& [check, answered] : checks) {
    mutants_on.store(check);
    const std::string found = Course(check == store::kBufferedNotChecked).run();
    mutants_on.store(0);
    EXPECT_NE(found.find(answered), std::string::npos) << found;
  }
  mutants_on.store(store::kCheckNotConfirmed);
  EXPECT_EQ("OK", CheckedPool().run(false).ToString());
  mutants_on.store(0);
}

}  // namespace
}  // namespace bonsai::testing::sim
