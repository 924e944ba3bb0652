// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "bench/cli/flags.h"

namespace bonsai::bench {
namespace {

constexpr const char* kUse = R"(bonsai-bench: runs the YCSB workloads on ordered stores, side by side.

  bonsai-bench run [flags]     load the stores, run the workloads, print a table, write DIR/results.json
  bonsai-bench experiment NAME [flags]   measure a figure of a paper, a goal of the project, or a group of them
  bonsai-bench sweep [flags]   throughput, latency, energy and memory by target rate and threads, as MELT
  bonsai-bench fabric [flags]  measure the fabric's providers, beside perftest where there is an RDMA device
  bonsai-bench report --out=DIR  make DIR/report.html anew from the results in DIR
  bonsai-bench list            show the engines, workloads and experiments of this build
  bonsai-bench --help          this text
  bonsai-bench --version       the version

Examples
  bonsai-bench run
      The main job: load 1 M records of 8-byte keys and 8-byte values into bonsai and absl::btree_map, then YCSB's
      A, B, C, F, and after a fresh load each D and E, with one thread per processor. Results go to results/latest.
  bonsai-bench run --records=10000000 --operations=10000000 --threads=2 --out=results/ten-million
      The size of the numbers in docs/design.md.
  bonsai-bench run --workloads=load,c --depth=16
      Loading and reading only, reads submitted 16 at a time.
  bonsai-bench run --key=string --value-bytes=file --workloads=load,a,my/own.properties
      YCSB's own records (keys "user" + number, 10 fields of 100 bytes) and a property file of yours.
  bonsai-bench experiment speed --repeat=5
      Every line of the goals (docs/design.md, section 6) against absl::btree_map: 10 M records of 8 + 8 bytes,
      2 threads, sessions of 32 operations, five rounds in which the stores take turns. Prints ratios with their floors
      and goals, memory and writes. Obeys --records, --operations, --threads and --depth. speed-strings: the same with
      24-byte keys and 100-byte values.
  bonsai-bench experiment index-technique --scale=paper --out=results/paper
      A figure of a paper with as much data as there; writes its table, its picture and a section of
      results/paper/report.html.
  bonsai-bench experiment pipelining-gets --scale=paper
      Throughput by operations in flight, 1 to 1,024, on modelled NVM beside a store in DRAM; a quarter of an hour.
      pipelining-mix: the same with updates. pipelining-ways: none, within a get, and between gets by coroutines or
      by groups, with and without metadata.
  bonsai-bench experiment kiwi --repeat=3
      KiWi's evaluation, all figures, Bonsai beside the maps of the paper: gets, updates and scans alone and side by
      side, lengths of scans, memory, ordered inserts; then what scanner and updater cost each other, 12 threads per
      processor.
      One figure alone: experiment kiwi-order.
  bonsai-bench experiment offloading
      Updates merged in bnodes and written out of place, against updates in place, on modelled NVM; the write reduction
      by skew and by the size of the log.
  bonsai-bench experiment put-tails
      Percentiles of single puts beside full offloading, and what they waited for by the store's counters.
  bonsai-bench experiment write-amplification
      Media bytes per user byte against NVM bytes per record, by the size of the log. Also log-packing, value-staging.
  bonsai-bench experiment synthesis
      Other systems' protocols (RACE-, RCuckoo-, Sherman-like) under YCSB with up to 36 threads, in virtual time on
      modelled devices: rates, costs of an operation, and which orders of them no parameter of the model changes. Obeys
      --records, --operations, --threads and --depth (coroutines a thread). With --scale=paper 0.3 GB, 18.75 M
      records: each system is filled once for each form of keys, without a model of time, and of each cell 50,000
      operations are measured (20,000 over the model's parameters; of E a tenth), loads as the last inserts of the fill.
  bonsai-bench experiment rcuckoo
      RCuckoo against RACE as their draft has it: round trips, messages and bytes by how full the table is, and more.
  bonsai-bench experiment melt
      MELT's figures 9-1 to 9-24 by name (melt-9-2), serial or concurrent, memory, pacing, parameters of hash maps.
  bonsai-bench experiment all --scale=small --out=results/all
      Everything, into one report. Results of the same commit and flags that exist already are not measured again.
  bonsai-bench sweep --engines=hopscotch,libcuckoo --workloads=a,c --key=string --value-bytes=100 --hash=city
      Threads 1 to one per processor, 1 M/s, 2 M/s, ... until a rate is not held: five samples of 30 s each. The
      same command continues where it was interrupted.
  bonsai-bench run --workloads=b --target=1000000 --interval-ms=25 --seconds=30
      For 30 s at 1 M/s, in intervals of 25 ms.
  bonsai-bench run -P conf/workloads/workloada -p recordcount=100000 -p operationcount=500000 -threads 4 -s
      YCSB's own flags: one workload, from property files and properties.
  bonsai-bench run --repeat=5 --warmup=200000 --pin --workloads=load,a,c
      For comparing: medians of five, engines taking turns.
  bonsai-bench run --workloads=c --target=100000
      Latency at a given load: how long requests wait that are due 100,000 times a second.
  bonsai-bench fabric
      Times and rates of READ, WRITE, CAS, FAA and SEND by size, batch and depth: on shm between two processes, on sim
      in virtual time, and on this machine's RDMA device if it has one.
  bonsai-bench fabric --serve=10.0.0.2:7000        on one node, and on the other
  bonsai-bench fabric --peer=10.0.0.2:7000 --sizes=64,4096 --depths=1,16
      Between two machines. scripts/fabric-bench.sh does that in two virtual machines with Soft-RoCE.
  bonsai-bench run --engines=dummy
      The cost of the harness itself.
)";

constexpr const char* kFlags = R"(
What to run
  --engines=LIST        engines, separated by commas                                 [bonsai,absl_btree]
  --workloads=LIST      load, names such as a or workloada, paths of property files, or paths of traces (*.trace:
                        INSERT, READ, UPDATE, SCAN, DELETE, RMW)                     [load,a,b,c,f,d,e]
                        The stores are loaded before the first workload anyway, and again before a workload that
                        finds other keys than those loaded (E after D), or inserts and finds updates (D). A trace
                        that only inserts is a load.
  -P FILE               a YCSB property file; several make one workload, later ones override. Replaces --workloads.
  -p NAME=VALUE         a YCSB property, which overrides those of files; may be repeated.
                        requestdistribution: uniform, zipfian, latest, sequential, hotspot, exponential as in YCSB;
                        plain_zipf is the Zipf over the keys themselves of research codes (plain_zipf_alpha, 0.99).
  --workload-dir=DIR    where workload names are looked up                           [conf/workloads of this tree]
  --seed=N              seed of all random choices; same seed, same requests         [1]

How much
  --records=N           records to load; else recordcount of -P or -p                [1000000]
  --operations=N        requests per workload; else operationcount of -P or -p       [1000000]
  --threads=N           client threads, 0 = one per processor; engines that take only one get one. Else threadcount
                        of -P or -p                                                  [0]
  --depth=N             reads and writes that a thread submits at once, where an engine can         [1]

How it is measured
  --draw=WHEN           ahead: requests are drawn before the clock starts and replayed from memory; live: while it
                        runs, by the thread that executes them                       [ahead]
  --warmup=N            requests of each workload before its clock starts            [0]
  --target=N            operations per second over all threads, of workloads (else target of -P or -p); each then has
                        a due time, and its latency is also measured from that time     [0 = no target]
  --interval-ms=N       keep the target by intervals: the operations of an interval at once, then sleep       [0 = no]
  --interval-samples=N  operations that a thread times in an interval                [1]
  --seconds=N           end a workload after N seconds (else maxexecutiontime of -P or -p); without --operations it
                        runs that long, and requests are drawn live                  [0 = no limit]
  --latency=WHICH       sampled: one operation in 64 is timed; all. With a target all are           [sampled]
  --repeat=N            everything N times, engines taking turns; results are medians               [1]
  --pin                 each thread to one processor
  --record=DIR          writes the requests of each workload as DIR/NAME.trace

Records
  --key=FORM            fixed8: 8-byte big-endian integers; string: "user" + number  [fixed8]
  --value-bytes=N       bytes per value; 'file' takes fieldcount x fieldlength of the workload      [8]
                        Updates write the whole value (YCSB's writeallfields=true).

Where
  --hash=NAME           hash of the hash maps: default, or city (CityHash64)         [default]
  --durability=MODE     durable: every update is durable when it returns; buffered: a few ms may be lost   [durable]
  --pool-dir=DIR        where pools are made and removed     [/dev/shm when they fit, else the --out directory]
                        of bonsai's engines also addresses of bonsaid, a target at each: shm://laptop,rdma://HOST:PORT
  --out=DIR             where the results go                                         [results/latest]

What comes out
  --scale=SIZE          data of an experiment: trial (a moment, only to see that it works), small (seconds) or
                        paper (as much as the paper or the goal has)                 [small]
  --text=WHAT           table: a table at the end; ycsb: each run also as YCSB prints it ([READ], Operations, ...);
                        auto: table on a terminal, else ycsb                         [auto]
  -s                    progress on stderr every 10 s, as YCSB reports it
  DIR/results.json      everything (docs/results.md); DIR/results.csv: one line per run
  DIR/ycsb/*.txt        each run as YCSB prints it
  DIR/hdr/*.hdr         latencies for HdrHistogram's tools

The sweep (beside --engines, --workloads, --records, --threads, the highest number, --interval-ms, here 25, --seconds of
a sample, here 30, and --out)
  --rate-first=N        lowest target, operations per second                         [1000000]
  --rate-step=N         distance between targets                                     [1000000]
  --rate-max=N          highest target; 0 = until the mean of a target's samples misses it by 2 %   [0]
  --samples=N           of each target, each on a fresh store                        [5]
  --idle-seconds=N      rest before each sample, to know the machine's idle power; not without energy counters [5]
  DIR/samples.csv, samples.json: a line per sample (docs/results.md)

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

Reads are verified: each value names its key. Failures are counted, shown and make the exit code 1. Exit codes: 0 all
well, 1 failures or an engine's error, 2 wrong command line or workload file, 130 interrupted.
)";

}  // namespace

const char* help_text() {
  static const std::string kText = std::string(kUse) + kFlags;
  return kText.c_str();
}

}  // namespace bonsai::bench
