// SPDX-License-Identifier: Apache-2.0
// The commands of every build: run, load, report and list.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"
#include "bench/cli/session.h"
#include "bench/pages/report.h"
#include "bench/report/terminal.h"

namespace bonsai::bench {
namespace {

int run_steps(const std::vector<std::string>& words, Status (*make)(RunRequest*)) {
  if (Status status = read_run_line(words); !status.ok()) return usage_error(status);
  RunRequest request;
  if (Status status = make(&request); !status.ok()) return usage_error(status);
  return run_session(std::move(request), catch_interrupts());
}

int run(const std::vector<std::string>& words) { return run_steps(words, request_of_flags); }
int load(const std::vector<std::string>& words) { return run_steps(words, load_of_flags); }

int report(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  const std::string directory = flag_values().at("out");
  if (Status status = write_report(directory); !status.ok()) return usage_error(status);
  std::printf("report: %s/report.html\n", directory.c_str());
  return 0;
}

int list(const std::vector<std::string>& words) {
  if (Status status = read_flags(words); !status.ok()) return usage_error(status);
  std::printf("engines\n");
  std::vector<std::vector<std::string>> rows;
  for (const EngineEntry& entry : engine_list())
    rows.push_back({"  " + std::string(entry.name), std::string(entry.what)});
  std::printf("%s\nworkloads\n", align(rows, 2).c_str());
  rows = {{"  load", "inserts the records; takes their form from the workload after it"}};
  for (const auto& row : known_workloads()) rows.push_back({"  " + row[0], row[1]});
  std::printf("%s", align(rows, 2).c_str());
  for (const Command& each : Registered<Command>::all()) {
    if (each.listed != nullptr) std::printf("\n%s", each.listed().c_str());
  }
  return 0;
}

constexpr const char* kRunUse = R"(  bonsai-bench run [ENGINE[,ENGINE...]] [flags]
      load the stores, run the workloads, print a table, write DIR/results.json
)";
constexpr const char* kLoadUse = R"(  bonsai-bench load [ENGINE[,ENGINE...]] [flags]
      the same, but the load alone
)";
constexpr const char* kReportUse = R"(  bonsai-bench report --out=DIR
      make DIR/report.html anew from the results in DIR
)";
constexpr const char* kListUse = R"(  bonsai-bench list
      show the engines, workloads and experiments of this build
)";

constexpr const char* kRunExamples = R"(  bonsai-bench run
      The main job: load 1 M records of 8-byte keys and 8-byte values into
      bonsai and absl::btree_map, then YCSB's A, B, C, F, and after a fresh load
      each D and E. Results go to results/latest.
  bonsai-bench run bonsai -P workloads/workloada -p recordcount=10000 -threads 4
      As YCSB's own program: an engine, property files, properties. Each run has
      a fresh store, so it loads the records itself, and removes the store.
  bonsai-bench run --records=10000000 --operations=10000000 --threads=2
      The size of the numbers in docs/design.md.
  bonsai-bench run --workloads=load,c --depth=16
      Loading and reading only, reads submitted 16 at a time.
  bonsai-bench run --key=string --value-bytes=file --workloads=load,a,my/own.dat
      YCSB's own records (keys "user" + number, 10 fields of 100 bytes) and a
      property file of yours.
  bonsai-bench run --workloads=b --target=1000000 --interval-ms=25 --seconds=30
      For 30 s at 1 M/s, in intervals of 25 ms.
  bonsai-bench run --repeat=5 --warmup=200000 --pin --workloads=load,a,c
      For comparing: medians of five, engines taking turns.
  bonsai-bench run --workloads=c --target=100000
      Latency at a given load: how long requests wait that are due 100,000 times
      a second.
  bonsai-bench run dummy
      The cost of the harness itself.
)";

constexpr const char* kLoadExamples =
    R"(  bonsai-bench load bonsai -P workloads/workloada -p recordcount=1000 -threads 4
      Loads the records of YCSB's workload A and removes the store; run loads
      for itself.
  bonsai-bench load rocksdb,bonsai --records=10000000 --key=string
)";
constexpr const char* kLoadFlags = R"(
The flags are those of run: bonsai-bench help run. The records have the form of
the first workload.
)";
constexpr const char* kReportFlags = R"(
  --out=DIR             where the results are [results/latest]
)";

constexpr const char* kRunFlags = R"(
What to run
  ENGINE,...            engines, separated by commas; also --engines=LIST
                        [bonsai,absl_btree]
  --workloads=LIST      load, names such as a or workloada, paths of property
                        files, or paths of traces (*.trace: INSERT, READ,
                        UPDATE, SCAN, DELETE, RMW) [load,a,b,c,f,d,e]
                        The stores are loaded before the first workload anyway,
                        and again before a workload that finds other keys than
                        those loaded (E after D), or inserts and finds updates
                        (D). A trace that only inserts is a load.
  -P FILE               a YCSB property file; several make one workload, later
                        ones override. Replaces --workloads. A file that is not
                        there is looked up by its name in --workload-dir.
  -p NAME=VALUE         a YCSB property, which overrides those of files; may be
                        repeated. requestdistribution: uniform, zipfian, latest,
                        sequential, hotspot, exponential as in YCSB; plain_zipf
                        is the Zipf over the keys themselves of research codes
                        (plain_zipf_alpha, 0.99).
  --workload-dir=DIR    where workload names are looked up [conf/workloads of
                        this tree]
  --seed=N              seed of all random choices; same seed, same requests [1]

How much
  --records=N           records to load; else recordcount of -P or -p [1000000]
  --operations=N        requests per workload; else operationcount of -P or -p
                        [1000000]
  --threads=N           client threads, 0 = one per processor; else threadcount
                        of -P or -p. Engines that take only one get one [one per
                        processor; 1 if such an engine is among several]
  --depth=N             reads and writes that a thread submits at once, where an
                        engine can [1]

How it is measured
  --draw=WHEN           ahead: requests are drawn before the clock starts and
                        replayed from memory; live: while it runs, by the thread
                        that executes them [ahead]
  --warmup=N            requests of each workload before its clock starts [0]
  --target=N            operations per second over all threads, of workloads
                        (else target of -P or -p); each then has a due time, and
                        its latency is also measured from that time [0 = no
                        target]
  --interval-ms=N       keep the target by intervals: the operations of an
                        interval at once, then sleep [0 = no]
  --interval-samples=N  operations that a thread times in an interval [1]
  --seconds=N           end a workload after N seconds (else maxexecutiontime of
                        -P or -p); without --operations it runs that long, and
                        requests are drawn live [0 = no limit]
  --latency=WHICH       sampled: one operation in 64 is timed; all. With a
                        target all are [sampled]
  --repeat=N            everything N times, engines taking turns; results are
                        medians [1]
  --pin                 each thread to one processor
  --record=DIR          writes the requests of each workload as DIR/NAME.trace

Records
  --key=FORM            fixed8: 8-byte big-endian integers; string: "user" +
                        number [fixed8]
  --value-bytes=N       bytes per value; 'file' takes fieldcount x fieldlength
                        of the workload [8; file if -P or -p sets one of these]
                        Updates write the whole value (writeallfields=true).

Where
  --hash=NAME           hash of the hash maps: default, or city (CityHash64)
                        [default]
  --durability=MODE     durable: every update is durable when it returns;
                        buffered: a few ms may be lost [durable]
  --wait-ms=N           so long a call of bonsai's engines waits for offloading,
                        or for a node, before it fails: for machines that are
                        slow [0 = the store's own bounds]
  --pool-dir=DIR        where pools are made and removed; of bonsai's engines
                        also addresses of bonsaid, a target at each:
                        shm://laptop,rdma://HOST:PORT [/dev/shm when they fit,
                        else the --out directory]
                        A run that was killed leaves its pools. The next one
                        there removes them; on nodes it only names them.
  --out=DIR             where the results go [results/latest]

What comes out
  --text=WHAT           table: a table at the end; ycsb: each run also as YCSB
                        prints it ([READ], Operations, ...); auto: table on a
                        terminal, else ycsb [auto]
  -s                    progress on stderr every 10 s, as YCSB reports it
  DIR/results.json      everything (docs/results.md)
  DIR/results.csv       one line per run
  DIR/ycsb/*.txt        each run as YCSB prints it
  DIR/hdr/*.hdr         latencies for HdrHistogram's tools
)";

const Registered<Command> kCommands("core", []() -> std::vector<Command> {
  return {{.name = "run", .run = run, .use = kRunUse, .examples = kRunExamples, .flags = kRunFlags, .flag = "records"},
          {.name = "load", .run = load, .use = kLoadUse, .examples = kLoadExamples, .flags = kLoadFlags},
          {.name = "report", .run = report, .use = kReportUse, .flags = kReportFlags},
          {.name = "list", .run = list, .use = kListUse}};
});

}  // namespace
}  // namespace bonsai::bench
