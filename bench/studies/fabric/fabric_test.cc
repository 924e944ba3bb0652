// SPDX-License-Identifier: Apache-2.0
// The fabric beside perftest: what is measured, how the output of others is read, and whole runs on shm and sim.
#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bench/studies/fabric/peer.h"
#include "bench/studies/fabric/perftest.h"
#include "bench/studies/fabric/plan.h"
#include "bench/studies/fabric/probe.h"
#include "bench/studies/fabric/run.h"

namespace bonsai::bench {
namespace {

using rdma::Verb;

// ---- measurements

TEST(FabricPlan, CellsAreAStarAroundTheSmallestSize) {
  const auto cells = fabric_cells({{Verb::kRead}, {4096, 64}, {1, 8}, {1, 4}});
  const std::vector<FabricCell> expected = {{Verb::kRead, 4096, 1, 1},
                                            {Verb::kRead, 64, 1, 1},
                                            {Verb::kRead, 64, 8, 1},
                                            {Verb::kRead, 64, 1, 4},
                                            {Verb::kRead, 64, 8, 4}};
  EXPECT_EQ(cells, expected);
}

TEST(FabricPlan, AtomicsHaveOneSizeAndSendsABoundOfTheirOwn) {
  const auto cells = fabric_cells({{Verb::kCas, Verb::kSend}, {64}, {32}, {1, 16}});
  const std::vector<FabricCell> expected = {{Verb::kCas, 8, 1, 1},   {Verb::kCas, 8, 32, 1},  {Verb::kCas, 8, 1, 16},
                                            {Verb::kCas, 8, 32, 16}, {Verb::kSend, 64, 1, 1}, {Verb::kSend, 64, 32, 1},
                                            {Verb::kSend, 64, 1, 16}};
  EXPECT_EQ(cells, expected) << "512 SENDs at once find no buffers";
  EXPECT_EQ(expected[3].text(), "CAS 8 B, batch 32, depth 16");
}

TEST(FabricPlan, ListsAreReadOrRefusedWithTheRemedy) {
  std::vector<Verb> verbs;
  ASSERT_TRUE(parse_verbs("requests", "read,FAA", &verbs).ok());
  EXPECT_EQ(verbs, (std::vector<Verb>{Verb::kRead, Verb::kFaa}));
  for (const char* bad : {"", "reed", "read,", "flush"}) {
    const Status status = parse_verbs("requests", bad, &verbs);
    EXPECT_TRUE(status.IsInvalidArgument()) << bad;
    EXPECT_NE(status.message().find("read,write,cas,faa,send"), std::string::npos);
  }
  std::vector<uint64_t> counts;
  ASSERT_TRUE(parse_counts("sizes", "8,64", 8, 64, 8, &counts).ok());
  EXPECT_EQ(counts, (std::vector<uint64_t>{8, 64}));
  for (const char* bad : {"", "0", "72", "9", "8,", "8x", "-8", "99999999999999999999"}) {
    const Status status = parse_counts("sizes", bad, 8, 64, 8, &counts);
    EXPECT_TRUE(status.IsInvalidArgument()) << bad;
    EXPECT_NE(status.message().find("multiples of 8 from 8 to 64"), std::string::npos) << status.ToString();
  }
}

TEST(FabricPlan, AddressesTellTheirProvider) {
  FabricAddress address;
  ASSERT_TRUE(parse_fabric_address("peer", "10.66.0.2:7000", &address).ok());
  EXPECT_EQ(address.provider->name, "verbs");
  EXPECT_EQ(address.host(), "10.66.0.2");
  ASSERT_TRUE(parse_fabric_address("peer", "/dev/shm/a:b/far", &address).ok());
  EXPECT_EQ(address.provider->name, "shm");
  EXPECT_EQ(address.folder, "/dev/shm/a:b");
  EXPECT_EQ(address.name, "far");
  for (const char* bad :
       {"", "host", ":70", "host:", "host:0", "host:65536", "host:7x", "host:-1", "/", "/far", "folder/"}) {
    EXPECT_TRUE(parse_fabric_address("peer", bad, &address).IsInvalidArgument()) << bad;
  }
}

TEST(FabricPlan, ProvidersAreKnownByNameAndByTheirFarSide) {
  EXPECT_EQ(fabric_provider_names(), "shm,sim,verbs");
  for (const FabricProvider& each : fabric_providers()) {
    EXPECT_EQ(find_fabric_provider(each.name), &each);
    EXPECT_EQ(&fabric_provider(each.far_side), &each);
    EXPECT_GT(each.cell_ns, 0U);
  }
  EXPECT_EQ(find_fabric_provider("ib"), nullptr);
  EXPECT_EQ(find_fabric_provider(""), nullptr);
}

TEST(FabricPlan, MediansAreOfEachFigure) {
  EXPECT_EQ(median(std::vector<double>{5, 1, 3}), 3);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
  const FabricSample middle =
      median(std::vector<FabricSample>{{1, 30, 100, 4.0}, {2, 10, 300, std::nullopt}, {9, 20, 200, 8.0}});
  EXPECT_EQ(middle.p50_us, 2);
  EXPECT_EQ(middle.p99_us, 20);
  EXPECT_EQ(middle.messages_per_s, 200);
  EXPECT_EQ(middle.one_way_us, 6);
  EXPECT_FALSE(median(std::vector<FabricSample>{{1, 1, 1, {}}}).one_way_us);
}

// ---- perftest

std::string words(const PerftestOrder& order, const std::string& server) {
  std::string text;
  for (const std::string& word : perftest_command(order, "rxe0", server)) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(Perftest, BothEndsRunTheSameProgram) {
  PerftestOrder order{{Verb::kRead, 64, 1, 1}, 1000, 0, 20000};
  EXPECT_EQ(words(order, ""), "ib_read_lat -F -d rxe0 -p 20000 -n 1000 -s 64");
  EXPECT_EQ(words(order, "10.66.0.2"), "ib_read_lat -F -d rxe0 -p 20000 -n 1000 -s 64 10.66.0.2");
  order.blocks = 1;
  EXPECT_EQ(words(order, ""), "ib_read_lat -F -d rxe0 -p 20000 -n 1000 -s 64 -e");
  order = {{Verb::kFaa, 8, 1, 1}, 1000, 0, 20000};
  EXPECT_EQ(words(order, ""), "ib_atomic_lat -F -d rxe0 -p 20000 -n 1000 -A FETCH_AND_ADD");
  order = {{Verb::kCas, 8, 4, 8}, 1024, 0, 20000};
  EXPECT_EQ(words(order, ""), "ib_atomic_bw -F -d rxe0 -p 20000 -n 1024 -A CMP_AND_SWAP -t 32 -Q 4 -l 4");
  order = {{Verb::kSend, 64, 1, 16}, 1024, 0, 20000};
  EXPECT_EQ(words(order, ""), "ib_send_bw -F -d rxe0 -p 20000 -n 1024 -s 64 -t 16 -Q 1");
}

TEST(Perftest, HasNoWriteThatBlocks) {
  EXPECT_FALSE(perftest_measures({Verb::kWrite, 64, 1, 1}, true));
  EXPECT_TRUE(perftest_measures({Verb::kWrite, 64, 1, 1}, false));
  EXPECT_TRUE(perftest_measures({Verb::kWrite, 64, 1, 16}, true));
  EXPECT_TRUE(perftest_measures({Verb::kSend, 64, 1, 1}, true));
}

TEST(Perftest, RunsAsLongAsOursInWholeWindows) {
  EXPECT_EQ(perftest_iterations({Verb::kRead, 64, 1, 1}, 10'000, 200), 2004u);
  EXPECT_GE(perftest_iterations({Verb::kRead, 64, 1, 1}, 1, 200), 100u) << "a median needs some";
  EXPECT_LE(perftest_iterations({Verb::kRead, 64, 1, 1}, 1e9, 1000), 1'100'000u);
  EXPECT_EQ(perftest_iterations({Verb::kRead, 64, 8, 4}, 5'000, 200) % 32, 0u);
}

// As version 6.06 prints them.
constexpr const char* kLatencyOutput =
    "---\n Mtu             : 4096[B]\n---\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% "
    "percentile"
    "[usec]   99.9% percentile[usec] \n"
    " 64      1000          260.36         11996.60      328.03   \t       640.24      \t948.80 \t\t4791.62 \t\t"
    "11996.60\n---\n";
constexpr const char* kRateOutput =
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    " 64         2000             0.80               0.15   \t\t   0.002446\n---\n";

TEST(Perftest, FiguresAreFound) {
  double figure = 0;
  ASSERT_TRUE(parse_perftest({Verb::kRead, 64, 1, 1}, kLatencyOutput, &figure).ok());
  EXPECT_DOUBLE_EQ(figure, 328.03);
  ASSERT_TRUE(parse_perftest({Verb::kRead, 64, 4, 4}, kRateOutput, &figure).ok());
  EXPECT_DOUBLE_EQ(figure, 2446);
  for (const char* bad : {"", "Couldn't connect to 10.66.0.2:18515\n", " #bytes #iterations\n", " 64 1000 1 2 3\n"}) {
    EXPECT_TRUE(parse_perftest({Verb::kRead, 64, 1, 1}, bad, &figure).IsCorruption()) << bad;
  }
}

TEST(Perftest, AListeningPortIsSeen) {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
      "   0: 00000000:4D34 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
      "   1: 0242420A:4D35 0142420A:B000 01 00000000:00000000 00:00000000 00000000     0\n";
  EXPECT_TRUE(is_listening(table, 0x4D34));
  EXPECT_FALSE(is_listening(table, 0x4D35)) << "a connection";
  EXPECT_FALSE(is_listening(table, 0xB000));
  EXPECT_FALSE(is_listening("", 1));
}

TEST(Perftest, OrdersFromTheNetworkAreChecked) {
  const PerftestOrder sound{{Verb::kRead, 64, 1, 1}, 1000, 0, 20000};
  EXPECT_TRUE(is_sound(sound));
  const auto broken = [&](auto breaks) {
    PerftestOrder order = sound;
    breaks(&order);
    return !is_sound(order);
  };
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->cell.verb = static_cast<Verb>(200); }));
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->cell.verb = Verb::kFlush; }));
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->cell.bytes = uint64_t{1} << 40; }));
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->cell.batch = 0; }));
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->cell.depth = 65; }));
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->iterations = 0; }));
  EXPECT_TRUE(broken([](PerftestOrder* order) { order->port = 22; }));
}

// ---- other programs

TEST(Perftest, TellsWhatTheProgramPrintedAndHowItEnded) {
  const testing::TempFolder folder;
  const std::string out = folder.file("out");
  std::unique_ptr<base::ChildProcess> child;
  std::string output;
  ASSERT_TRUE(base::ChildProcess::start({"sh", "-c", "echo out; echo err >&2"}, {.out = out}, &child).ok());
  EXPECT_TRUE(finish(child.get(), out, 10'000, &output).ok());
  EXPECT_EQ(output, "out\nerr\n");
  ASSERT_TRUE(base::ChildProcess::start({"sh", "-c", "echo why; exit 3"}, {.out = out}, &child).ok());
  const Status failed = finish(child.get(), out, 10'000, &output);
  EXPECT_TRUE(failed.IsIoError());
  EXPECT_NE(failed.message().find("exit code 3: why"), std::string::npos) << failed.ToString();
  ASSERT_TRUE(base::ChildProcess::start({"sleep", "1000"}, {.out = out}, &child).ok());
  EXPECT_TRUE(finish(child.get(), out, 20, &output).IsUnavailable());
}

// ---- a run

RunListener silent_fabric() {
  return {.on_phase = [](const std::string&, const std::string&, uint64_t) {},
          .on_progress = {},
          .on_result = {},
          .on_note = [](const std::string&) {},
          .on_left_out = {}};
}

FabricConfig small(const std::string& provider) {
  FabricConfig config;
  config.providers = {find_fabric_provider(provider)};
  config.grid = {{Verb::kRead, Verb::kWrite, Verb::kCas, Verb::kFaa, Verb::kSend}, {64, 4096}, {1, 4}, {1, 2}};
  config.runs = 3;
  return config;
}

void expect_whole(const FabricFigures& figures, const FabricConfig& config) {
  ASSERT_EQ(figures.rows.size(), fabric_cells(config.grid).size());
  for (const FabricRow& row : figures.rows) {
    ASSERT_EQ(row.samples.size(), config.runs) << row.cell.text();
    const bool answered = row.cell.alone() && (row.cell.verb == Verb::kWrite || row.cell.verb == Verb::kSend);
    for (const FabricSample& sample : row.samples) {
      EXPECT_GT(sample.messages_per_s, 0) << row.cell.text();
      EXPECT_LE(sample.p50_us, sample.p99_us) << row.cell.text();
      EXPECT_EQ(sample.one_way_us.has_value(), answered) << row.cell.text();
    }
  }
}

TEST(FabricRun, InVirtualTimeABatchCostsOneRoundTrip) {
  const FabricConfig config = small("sim");
  FabricFigures figures;
  const std::atomic<bool> stop{false};
  const Status status = run_fabric_cells(config, stop, silent_fabric(), &figures);
  ASSERT_TRUE(status.ok()) << status.ToString();
  expect_whole(figures, config);
  double alone_us = 0, batch_us = 0;
  for (const FabricRow& row : figures.rows) {
    if (row.cell == FabricCell{Verb::kRead, 64, 1, 1}) alone_us = median(row.samples).p50_us;
    if (row.cell == FabricCell{Verb::kRead, 64, 4, 1}) batch_us = median(row.samples).p50_us;
  }
  EXPECT_GT(alone_us, 1) << "two flights of 0.5 us or more";
  EXPECT_LT(batch_us, 2 * alone_us) << "four round trips would take four times as long";
  EXPECT_NE(figures.subjects.at(0).label.find("SIMULATED"), std::string::npos);
}

TEST(FabricRun, AFarSideThatTakesMessagesSlowlyIsNotOverrun) {
  const auto network = std::make_shared<rdma::SimNetwork>(
      rdma::SimOptions{.late_chance = 0, .torn_chance = 0, .lost_chance = 0, .ghost_chance = 0, .retries_max = 0});
  const FabricChoice choice{
      .provider = &fabric_provider(FarSide::kSameThread), .folder = {}, .device = {}, .sim = network};
  std::unique_ptr<FabricEnd> far_end, end;
  ASSERT_TRUE(FabricEnd::open(choice, &far_end).ok());
  ASSERT_TRUE(FabricEnd::open(choice, &end).ok());
  std::unique_ptr<FabricPeer> far;
  ASSERT_TRUE(FabricPeer::make(far_end.get(), "far", &far).ok());
  uint64_t looks = 0, calls = 0;
  const auto clock = [&] {
    looks = 0;
    return ++calls * 3 * base::kNsPerUs;
  };
  const auto pump =
      [&] {  // when the near side has nothing left to do, the far one takes as many as it figuress at once
        for (uint64_t i = 0; looks > 90 && i < FabricEnd::kSlots / 4; ++i) far->step(0);
        looks = looks > 90 ? 0 : looks + 1;
      };
  std::unique_ptr<FabricProbe> probe;
  ASSERT_TRUE(FabricProbe::connect(end.get(), "far", {pump, clock}, 10'000, &probe).ok());
  for (uint64_t us = 900; us < 1'000; ++us) {  // some of them end when the far side has no buffer left
    FabricSample sample;
    const Status status = probe->measure({Verb::kSend, 64, 2, 1}, us * base::kNsPerUs, &sample);
    ASSERT_TRUE(status.ok()) << us << ": " << status.ToString();
  }
}

TEST(FabricRun, EndsBetweenCellsWhenItIsInterrupted) {
  std::atomic<bool> stop{false};
  RunListener listener = silent_fabric();
  unsigned phases = 0;
  listener.on_phase = [&](const std::string&, const std::string&, uint64_t) { stop = ++phases == 3; };
  FabricFigures figures;
  EXPECT_TRUE(run_fabric_cells(small("sim"), stop, listener, &figures).IsUnavailable());
  EXPECT_EQ(phases, 3U) << "one opens, and the second cell is the last";
  EXPECT_TRUE(run_fabric_cells(small("sim"), stop, listener, &figures).IsUnavailable());
  EXPECT_EQ(phases, 3U) << "nothing is opened";
}

// The far side on a thread of this process.
class Served : public ::testing::Test {
 protected:
  Served() {
    // This thread goes on when the other has opened its files: shm looks through those of the process.
    far_ = base::Thread("far", [this] {
      RunListener listener = silent_fabric();
      listener.on_note = [this](const std::string&) { serves_.signal(); };
      served_ = serve_fabric(address(), {}, false, stop_, listener);
    });
    EXPECT_TRUE(serves_.wait_for(10'000));
  }
  ~Served() override {
    stop_ = true;
    far_.join();
    EXPECT_TRUE(served_.ok()) << served_.ToString();
  }

  [[nodiscard]] FabricAddress address() const { return {&fabric_provider(FarSide::kProcess), folder_.path(), "far"}; }
  Status open_end(std::unique_ptr<FabricEnd>* end) const {
    return FabricEnd::open({.provider = address().provider, .folder = folder_.path(), .device = {}}, end);
  }

  testing::TempFolder folder_;
  std::atomic<bool> stop_{false};
  base::Event serves_;
  Status served_;
  base::Thread far_;
};

TEST_F(Served, ARunMeasuresEachCell) {
  FabricConfig config = small("shm");
  config.providers.clear();
  config.peer = address();
  config.cell_ms = 2;
  FabricFigures figures;
  const Status status = run_fabric_cells(config, stop_, silent_fabric(), &figures);
  ASSERT_TRUE(status.ok()) << status.ToString();
  expect_whole(figures, config);
  EXPECT_NE(figures.subjects.at(0).litmus.find("lost additions 0 of"), std::string::npos);
}

TEST_F(Served, OneNodeAfterTheOther) {
  std::unique_ptr<FabricEnd> end;
  ASSERT_TRUE(open_end(&end).ok());
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<FabricProbe> probe;
    const Status status = FabricProbe::connect(end.get(), "far", {nullptr, base::now_ns}, 10'000, &probe);
    ASSERT_TRUE(status.ok()) << status.ToString();
    FabricSample sample;
    ASSERT_TRUE(probe->measure({Verb::kWrite, 64, 1, 1}, base::kNsPerMs, &sample).ok());
    EXPECT_TRUE(probe->start_perftest({}).IsNotSupported()) << "shm has no device";
  }
}

// A near side that does not run for a while between two pings, for longer than the far one waits at a time.
TEST_F(Served, APingThatComesLateIsAnswered) {
  uint64_t calls = 0, stalled_call = 0;
  const auto clock = [&] {  // of its own, so that both runs are the same
    if (++calls == stalled_call) base::sleep_ms(2 * FabricPeer::kPatienceMs);
    return calls * base::kNsPerUs;
  };
  std::unique_ptr<FabricEnd> end;
  ASSERT_TRUE(open_end(&end).ok());
  std::unique_ptr<FabricProbe> probe;
  ASSERT_TRUE(FabricProbe::connect(end.get(), "far", {nullptr, clock}, 10'000, &probe).ok());
  const auto measure = [&] {
    FabricSample sample;
    const Status status = probe->measure({Verb::kWrite, 64, 1, 1}, 100 * base::kNsPerUs, &sample);
    EXPECT_TRUE(status.ok()) << status.ToString();
  };
  measure();
  stalled_call = 2 * calls - 10;  // in the midst of the next run's last pings
  measure();
  EXPECT_GT(calls, stalled_call);
}

}  // namespace
}  // namespace bonsai::bench
