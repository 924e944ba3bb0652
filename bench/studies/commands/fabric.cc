// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench fabric`, the far side of the experiment `fabric`; and the flags of both.
#include <gflags/gflags.h>

#include <cstdio>

#include "admin/flag_parser.h"
#include "base/status_macros.h"
#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"
#include "bench/studies/commands/requests.h"
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

namespace bonsai::bench {
namespace {

constexpr uint64_t kCellMsMax = 600'000;

int serve(const ServeRequest& request, const std::atomic<bool>& interrupted) {
  const RunListener listener{
      .on_phase = {},
      .on_progress = {},
      .on_result = {},
      .on_note = [](const std::string& note) { std::fprintf(stderr, "note: %s\n", note.c_str()); },
      .on_left_out = {}};
  const Status status = serve_fabric(request.address, request.config, request.once, interrupted, listener);
  if (status.ok()) return 0;
  std::fprintf(stderr, "bonsai-bench: fabric --serve: %s\n", status.ToString().c_str());
  return interrupted ? kExitInterrupted : kExitFailures;
}

int run_words(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  ServeRequest request;
  if (Status status = serve_of_flags(&request); !status.ok()) return usage_error(status);
  return serve(request, catch_interrupts());
}

constexpr const char* kUse = R"(  bonsai-bench fabric --serve=ADDR [--once]
      be the far side of the experiment `fabric`, for another node
)";

constexpr const char* kExamples = R"(  bonsai-bench experiment fabric
      Times and rates of READ, WRITE, CAS, FAA and SEND by size, batch and
      depth: on shm between two processes, on sim in virtual time, and on this
      machine's RDMA device, beside perftest, if it has one.
  bonsai-bench fabric --serve=10.0.0.2:7000        on one node, and on the other
  bonsai-bench experiment fabric --peer=10.0.0.2:7000 --sizes=64,4096
      Between two machines. scripts/fabric-bench.sh does that in two virtual
      machines with Soft-RoCE.
)";

constexpr const char* kFlags = R"(
The experiment fabric (beside --repeat, of which the default is 9 here, and
--out)
  --providers=LIST      of shm, sim and verbs [all that this machine has]
  --peer=ADDR           the far side is there: HOST:PORT of an RDMA network, or
                        FOLDER/NAME for shm [one is started here]
  --requests=LIST       of read, write, cas, faa, send [all]
  --sizes=LIST          bytes of a request [64,512,4096,32768]
  --batches=LIST        requests in one doorbell [1,8,32]
  --depths=LIST         doorbells at once [1,4,16]
                        Each request is measured alone in each size; in the
                        smallest one with each batch, with each depth, and with
                        both at their largest.
  --cell-ms=N           of each measurement [20 on shm, 200 on verbs, 0.1 of
                        virtual time on sim]
  --waits=HOW           poll: without end; block: at once, woken by the device.
                        verbs and perftest [poll]
  --device=NAME         the RDMA device [found]
  --perftest=BOOL       run ib_read_lat and the like at both ends, taking turns
                        [true]
Its far side, bonsai-bench fabric (beside --waits and --device)
  --serve=ADDR          the address to serve, as for --peer. Every node of that
                        network may then read and write memory of this program's
                        own and start perftest, and no more.
  --once                end when the first node disconnects
)";

const Registered<Command> kCommand("studies/fabric", []() -> std::vector<Command> {
  return {
      {.name = "fabric", .run = run_words, .use = kUse, .examples = kExamples, .flags = kFlags, .flag = "providers"}};
});

// What both ends have.
Status read_end(FabricConfig* config) {
  config->device = FLAGS_device;
  return read_either("waits", FLAGS_waits, "poll", "block", &config->blocks);
}

}  // namespace

Status serve_of_flags(ServeRequest* request) {
  if (FLAGS_serve.empty()) {
    return Status::InvalidArgument(
        "no address to serve; give --serve=ADDR to be the far side, or measure by bonsai-bench experiment fabric "
        "[flags]");
  }
  if (!FLAGS_peer.empty()) return Status::InvalidArgument("--serve and --peer: one end is one of them");
  BONSAI_RETURN_IF_ERROR(parse_fabric_address("serve", FLAGS_serve, &request->address));
  request->once = FLAGS_once;
  return read_end(&request->config);
}

Status fabric_of_flags(FabricConfig* config) {
  if (!FLAGS_serve.empty()) {
    return Status::InvalidArgument("--serve is for the far side: bonsai-bench fabric --serve=" + FLAGS_serve +
                                   " there, and --peer here");
  }
  for (const std::string& name : split(FLAGS_providers)) {
    config->providers.push_back(find_fabric_provider(name));
    if (config->providers.back() == nullptr) {
      return Status::InvalidArgument("--providers=" + FLAGS_providers + ": '" + name + "' is unknown; give some of " +
                                     fabric_provider_names());
    }
  }
  if (!FLAGS_peer.empty()) {
    BONSAI_RETURN_IF_ERROR(parse_fabric_address("peer", FLAGS_peer, &config->peer.emplace()));
  }
  if (config->peer && !config->providers.empty()) {
    return Status::InvalidArgument("--peer and --providers both select what to measure; give one of them");
  }
  FabricGrid& grid = config->grid;
  BONSAI_RETURN_IF_ERROR(parse_verbs("requests", FLAGS_requests, &grid.verbs));
  BONSAI_RETURN_IF_ERROR(
      parse_counts("sizes", FLAGS_sizes, kFabricBytesMin, kFabricBytesMax, sizeof(uint64_t), &grid.sizes));
  BONSAI_RETURN_IF_ERROR(parse_counts("batches", FLAGS_batches, 1, kFabricBatchMax, 1, &grid.batches));
  BONSAI_RETURN_IF_ERROR(parse_counts("depths", FLAGS_depths, 1, kFabricDepthMax, 1, &grid.depths));
  BONSAI_RETURN_IF_ERROR(check_range("cell-ms", FLAGS_cell_ms, 0, kCellMsMax));
  config->cell_ms = FLAGS_cell_ms;
  config->perftest = FLAGS_perftest;
  if (admin::flag_given("repeat")) BONSAI_RETURN_IF_ERROR(repeat_of_flags(&config->runs));
  return read_end(config);
}

}  // namespace bonsai::bench
