// SPDX-License-Identifier: Apache-2.0
// `bonsai-bench fabric`.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "bench/cli/session.h"
#include "bench/fabric/report.h"
#include "bench/fabric/run.h"
#include "bench/pages/report.h"
#include "bench/report/terminal.h"
#include "bench/results/machine.h"

namespace bonsai::bench {
namespace {

int failed(const char* what, const Status& status, const std::atomic<bool>& interrupted) {
  std::fprintf(stderr, "bonsai-bench: fabric%s: %s\n", what, status.ToString().c_str());
  return interrupted ? kExitInterrupted : kExitFailures;
}

}  // namespace

int run_fabric(const FabricRequest& request, const std::atomic<bool>& interrupted) {
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

}  // namespace bonsai::bench
