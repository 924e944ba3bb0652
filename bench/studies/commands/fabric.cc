// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench fabric`.
#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "admin/flag_parser.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"
#include "bench/pages/report.h"
#include "bench/report/terminal.h"
#include "bench/results/machine.h"
#include "bench/studies/commands/requests.h"
#include "bench/studies/fabric/report.h"
#include "bench/studies/fabric/run.h"

DEFINE_string(providers, "", "providers of the fabric, separated by commas");
DEFINE_string(serve, "", "address at which to be the far side");
DEFINE_string(peer, "", "address of the far side");
DEFINE_bool(once, false, "serve one node only");
DEFINE_string(requests, "read,write,cas,faa,send", "requests, separated by commas");
DEFINE_string(sizes, "64,512,4096,32768", "bytes of a request, separated by commas");
DEFINE_string(batches, "1,8,32", "requests per doorbell, separated by commas");
DEFINE_string(depths, "1,4,16", "doorbells at once, separated by commas");
DEFINE_uint64(cell_ms, 0, "milliseconds of each measurement");
DEFINE_string(waits, "poll", "poll or block");
DEFINE_string(device, "", "RDMA device");
DEFINE_bool(perftest, true, "compare with perftest");
DECLARE_string(out);

namespace bonsai::bench {
namespace {

constexpr uint64_t kCellMsMax = 600'000;
constexpr unsigned kFabricRuns = 9;

int failed(const char* what, const Status& status, const std::atomic<bool>& interrupted) {
  std::fprintf(stderr, "bonsai-bench: fabric%s: %s\n", what, status.ToString().c_str());
  return interrupted ? kExitInterrupted : kExitFailures;
}

int run_session_of(const FabricRequest& request, const std::atomic<bool>& interrupted) {
  StatusLine line(stderr, isatty(2) == 1);
  const FabricListener listener{.on_progress = [&line](const std::string& doing) { line.show_text(doing); },
                                .on_note =
                                    [&line](const std::string& note) {
                                      line.clear();
                                      std::fprintf(stderr, "note: %s\n", note.c_str());
                                    }};
  if (request.serve) {
    const Status status = serve_fabric(*request.serve, request.config, request.once, interrupted, listener);
    return status.ok() ? 0 : failed(" --serve", status, interrupted);
  }
  FabricReport report;
  describe_machine(&report.manifest);
  report.manifest.flags = flag_values();
  Status status = run_fabric_cells(request.config, interrupted, listener, &report);
  line.clear();
  if (!status.ok()) return failed("", status, interrupted);
  for (const FabricSubject& subject : report.subjects) {
    report.manifest.emulated.push_back(subject.name + ": " + subject.label);
  }
  const nlohmann::ordered_json json = fabric_json(report);
  std::printf("%s", fabric_table(json).c_str());
  status = write_fabric(request.out_dir, json);
  if (status.ok()) status = write_report(request.out_dir);
  if (!status.ok()) return failed("", status, interrupted);
  std::printf("results: %s/fabric.json\nreport: %s/report.html\n", request.out_dir.c_str(), request.out_dir.c_str());
  return 0;
}

int run_words(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  FabricRequest request;
  if (Status status = fabric_of_flags(&request); !status.ok()) return usage_error(status);
  return run_session_of(request, catch_interrupts());
}

constexpr const char* kUse =
    "  bonsai-bench fabric [flags]  measure the fabric's providers, beside perftest where there is an RDMA device\n";

constexpr const char* kExamples = R"(  bonsai-bench fabric
      Times and rates of READ, WRITE, CAS, FAA and SEND by size, batch and depth: on shm between two processes, on sim
      in virtual time, and on this machine's RDMA device if it has one.
  bonsai-bench fabric --serve=10.0.0.2:7000        on one node, and on the other
  bonsai-bench fabric --peer=10.0.0.2:7000 --sizes=64,4096 --depths=1,16
      Between two machines. scripts/fabric-bench.sh does that in two virtual machines with Soft-RoCE.
)";

constexpr const char* kFlags = R"(
The fabric (beside --repeat, of which the default is 9 here, and --out)
  --providers=LIST      of shm, sim and verbs                                        [all that this machine has]
  --serve=ADDR          be the far side there: HOST:PORT of an RDMA network, or FOLDER/NAME for shm. It lets every node
                        of that network read and write memory of its own and start perftest, and no more. With --once
                        it ends when the first node disconnects.
  --peer=ADDR           the far side is there                                        [one is started here]
  --requests=LIST       of read, write, cas, faa, send                               [all]
  --sizes=LIST          bytes of a request                                           [64,512,4096,32768]
  --batches=LIST        requests in one doorbell                                     [1,8,32]
  --depths=LIST         doorbells at once                                            [1,4,16]
                        Each request is measured alone in each size; in the smallest one with each batch, with each
                        depth, and with both at their largest.
  --cell-ms=N           of each measurement              [20 on shm, 200 on verbs, 0.1 of virtual time on sim]
  --waits=HOW           poll: without end; block: at once, woken by the device. verbs and perftest  [poll]
  --device=NAME         the RDMA device                                              [found]
  --perftest=BOOL       run ib_read_lat and the like at both ends, taking turns      [true]
  DIR/fabric.json, .csv, .svg and a section of DIR/report.html: medians (docs/results.md)
)";

const Registered<Command> kCommand("studies/fabric", []() -> std::vector<Command> {
  return {
      {.name = "fabric", .run = run_words, .use = kUse, .examples = kExamples, .flags = kFlags, .flag = "providers"}};
});

}  // namespace

Status fabric_of_flags(FabricRequest* request) {
  FabricConfig& config = request->config;
  config.providers = split(FLAGS_providers);
  for (const std::string& provider : config.providers) {
    if (provider != "shm" && provider != "sim" && provider != "verbs") {
      return Status::InvalidArgument("--providers=" + FLAGS_providers + ": '" + provider +
                                     "' is unknown; give some of shm,sim,verbs");
    }
  }
  const auto read_address = [](const char* flag, const std::string& text, std::optional<FabricAddress>* address) {
    return text.empty() ? Status::OK() : parse_fabric_address(flag, text, &address->emplace());
  };
  BONSAI_RETURN_IF_ERROR(read_address("serve", FLAGS_serve, &request->serve));
  BONSAI_RETURN_IF_ERROR(read_address("peer", FLAGS_peer, &config.peer));
  if (request->serve && config.peer) return Status::InvalidArgument("--serve and --peer: one end is one of them");
  if (config.peer && !config.providers.empty()) {
    return Status::InvalidArgument("--peer and --providers both select what to measure; give one of them");
  }
  BONSAI_RETURN_IF_ERROR(parse_verbs("requests", FLAGS_requests, &config.grid.verbs));
  BONSAI_RETURN_IF_ERROR(
      parse_counts("sizes", FLAGS_sizes, kFabricBytesMin, kFabricBytesMax, sizeof(uint64_t), &config.grid.sizes));
  BONSAI_RETURN_IF_ERROR(parse_counts("batches", FLAGS_batches, 1, kFabricBatchMax, 1, &config.grid.batches));
  BONSAI_RETURN_IF_ERROR(parse_counts("depths", FLAGS_depths, 1, kFabricDepthMax, 1, &config.grid.depths));
  BONSAI_RETURN_IF_ERROR(check_range("cell-ms", FLAGS_cell_ms, 0, kCellMsMax));
  unsigned repeat = 0;
  BONSAI_RETURN_IF_ERROR(repeat_of_flags(&repeat));
  BONSAI_RETURN_IF_ERROR(read_either("waits", FLAGS_waits, "poll", "block", &config.blocks));
  if (FLAGS_out.empty()) return Status::InvalidArgument("--out is empty; give a directory for the results");
  config.cell_ms = FLAGS_cell_ms;
  config.runs = admin::flag_given("repeat") ? repeat : kFabricRuns;
  request->once = FLAGS_once;
  config.device = FLAGS_device;
  config.perftest = FLAGS_perftest;
  request->out_dir = FLAGS_out;
  return Status::OK();
}

}  // namespace bonsai::bench
