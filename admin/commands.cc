// SPDX-License-Identifier: Apache-2.0
// The table of commands, and their help.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "admin/command.h"
#include "admin/flags.h"

namespace bonsai::admin {

namespace {

constexpr std::string_view kCreateText =
    "Creates the pool and describes its medium. An existing pool is not changed; that is an error.\n\n"
    "  bonsai create --pool=/dev/shm/a.pool --bytes=64M\n"
    "  bonsai create --pool=/mnt/pmem0/a,/mnt/pmem1/a --bytes=16G --key=fixed8\n"
    "  bonsai create --pool=shm://laptop/fruit --bytes=64M     # on a node: bonsaid --help\n\n"
    "A target with ?role=log stores only the log, and gets the size that the log needs; one with ?role=dnodes\n"
    "stores everything else. Updates then become durable on the first and are offloaded to the second:\n\n"
    "  bonsai create --pool='/mnt/pmem0/a?role=log,shm://laptop/a?role=dnodes' --bytes=16G\n";

constexpr std::string_view kPutText =
    "Returns when the value is durable. The value is VALUE, or the bytes of --value_file.\n\n"
    "  bonsai put --pool=a.pool apple red\n"
    "  bonsai put --pool=new.pool --create --bytes=64M apple red\n"
    "  bonsai put --pool=a.pool photo --value_file=photo.jpg\n"
    "  bonsai put --pool=a.pool --if_absent lock $$ || echo taken   # exit code 1: the condition does not hold\n"
    "  bonsai put --pool=a.pool --if_equals=red apple green\n"
    "  bonsai put --pool=a.pool -- -key-with-a-dash value\n";

constexpr std::string_view kIncrementText =
    "Adds BY, by default 1, to the decimal number that is the value, and prints the sum. No value counts as 0.\n\n"
    "  bonsai increment --pool=a.pool hits\n"
    "  bonsai increment --pool=a.pool stock -- -12\n";

constexpr std::string_view kGetText =
    "Prints the value as it is, and a newline. Exit code 1 and no output: the key has no value.\n\n"
    "  bonsai get --pool=a.pool apple\n"
    "  bonsai get --pool=numbers.pool 42        # a pool made with --key=fixed8\n"
    "  bonsai get --pool=a.pool --hex 6170706c65\n";

constexpr std::string_view kExistsText =
    "Prints nothing. Exit code 0: the key has a value; 1: it has none.\n\n"
    "  bonsai exists --pool=a.pool apple && echo there\n";

constexpr std::string_view kDelText =
    "Exit code 0 also when the key had no value.\n\n"
    "  bonsai del --pool=a.pool apple\n";

constexpr std::string_view kScanText =
    "One record a line: key, tab, value, as of one moment. Bytes that do not print are written \\t \\n \\r \\\\ "
    "\\xHH.\n\n"
    "  bonsai scan --pool=a.pool --limit=10\n"
    "  bonsai scan --pool=a.pool --from=apple --end=banana\n"
    "  bonsai scan --pool=a.pool --after=banana --limit=10    # the ten after it\n";

constexpr std::string_view kCountText =
    "Prints the number of records that scan would print, as of one moment.\n\n"
    "  bonsai count --pool=a.pool\n"
    "  bonsai count --pool=a.pool --from=apple --end=banana\n";

constexpr std::string_view kDeleteRangeText =
    "Deletes the records that scan would print, all at one moment, and prints their number. A range of more records\n"
    "than one batch has is refused, and nothing is deleted: the message has a --limit that fits. Repeat it with that\n"
    "limit until it prints 0.\n\n"
    "  bonsai delete-range --pool=a.pool --from=apple --end=banana\n"
    "  bonsai delete-range --pool=a.pool --from= --limit=10000    # the first ones of all\n";

constexpr std::string_view kStatText =
    "Counters start when this command opens the pool, so they show the cost of opening it.\n\n"
    "  bonsai stat --pool=a.pool\n"
    "  bonsai stat --pool=a.pool --json | jq .data_bytes_used\n";

constexpr std::string_view kListText =
    "Lists the pools of PLACE, a folder or a node: size, last use, and who has them open. Changes nothing. An owner\n"
    "that died is listed until the next one comes; `seen` says when its node saw it last.\n\n"
    "  bonsai list shm://laptop\n"
    "  bonsai list rdma://192.0.2.7:7471 --secret_file=secret\n"
    "  bonsai list /mnt/pmem0 --json\n";

constexpr std::string_view kGroupsText =
    "Says of each target that several nodes hold which members are in sync, and why others are not, as their nodes\n"
    "know it, whoever has the pool open. Takes it from nobody, changes nothing. `away`: updates wait for that member,\n"
    "or it is missed by the next opening; `out`: the others go on without it. See docs/nodes.md, Groups.\n\n"
    "  bonsai groups --pool='rdma://a:7471/p|rdma://b:7471/p|rdma://c:7471/p'\n"
    "  bonsai groups --pool=shm://a/p              # what one node knows\n";

constexpr std::string_view kScrubText =
    "Opens the pool, compares all that the members of its replicated targets hold, and repairs what checks, or most "
    "of\n"
    "three members or more, say is damaged. An open store does this all the time. See docs/nodes.md, Groups.\n\n"
    "  bonsai scrub --pool='rdma://a:7471/p|rdma://b:7471/p|rdma://c:7471/p'\n";

constexpr std::string_view kCheckText =
    "Verifies checksums, the tiling of the key space, overlaps and leaks. Exit code 0: clean; 4: damaged, and each\n"
    "damage is printed with its place and the keys that it may affect.\n\n"
    "  bonsai check --pool=a.pool\n"
    "  bonsai check --pool=a.pool --json\n"
    "  bonsai check --pool=a,b,c --allow-missing       # b is gone: what is left, range by range\n";

constexpr std::string_view kCheckpointText =
    "Copies the records as of one moment into a new pool, whose targets are the operand. The new pool appears once\n"
    "it is complete, and replaces nothing. It is as large as its records need, twice, unless --bytes says otherwise. "
    "A\n"
    "program that has the pool open can make such a copy while it runs: bonsai::Checkpoint().\n\n"
    "  bonsai checkpoint --pool=a.pool backup.pool\n"
    "  bonsai checkpoint --pool=a.pool --bytes=4G roomy.pool\n";

constexpr std::string_view kSalvageText =
    "Copies everything that passes its checks from a damaged pool, which is not changed, into a new one. Lists each\n"
    "loss with the keys that it may affect. Exit code 0: no loss; 4: the copy exists, but something is lost.\n\n"
    "  bonsai salvage --pool=damaged.pool saved.pool\n"
    "  bonsai salvage --pool=a,b,c --allow-missing saved.pool    # b is gone\n";

constexpr std::string_view kGrowText =
    "Enlarges each target to --bytes; the log keeps its size. At most to eight times the size at creation.\n\n"
    "  bonsai grow --pool=a.pool --bytes=2G\n";

constexpr std::string_view kRemoveText =
    "Removes the files of all targets, here and on other nodes. Leaves alone what is not a pool, or only part of\n"
    "one.\n\n"
    "  bonsai remove --pool=a.pool\n"
    "  bonsai remove --pool=shm://laptop/fruit\n";

constexpr std::string_view kDumpText =
    "Prints all records as of one moment as text, one per line, for bonsai load or other programs (docs/dump.md).\n\n"
    "  bonsai dump --pool=a.pool > a.txt\n"
    "  bonsai dump --pool=a.pool | gzip > a.txt.gz\n";

constexpr std::string_view kLoadText =
    "Puts the records of a dump, from FILE or standard input, into the pool; other records stay. A truncated or\n"
    "malformed dump is an error; the records before the bad line are in the pool, but a pool that was made for it is\n"
    "removed again, as it is after HUP, INT, QUIT and TERM. A new pool has the key form of the dump.\n\n"
    "  bonsai load --pool=new.pool --create --bytes=1G a.txt\n"
    "  bonsai load --pool=numbers.pool --create numbers.txt\n"
    "  zcat a.txt.gz | bonsai load --pool=a.pool\n";

constexpr std::string_view kDoctorText =
    "Looks at the processor, memory, NVM, RDMA, kernel modules and energy counters; changes nothing. Exit code 0:\n"
    "Bonsai can run here (though some things may be missing); 3: it cannot.\n\n"
    "  bonsai doctor\n"
    "  bonsai doctor --json\n"
    "  bonsai doctor --pool=shm://laptop/fruit     # and whether this pool can be used from here\n";

constexpr std::string_view kPlanText =
    "Opens nothing. DRAM is an upper bound; the rest is for keys in random order, puts that are made alone, and a log\n"
    "of a tenth of the pool. Puts in groups write less. docs/operating.md, \"How large\", has the formulas.\n\n"
    "  bonsai plan --records=1000000 --key_bytes=16 --value_bytes=100\n"
    "  bonsai plan --records=10000000 --value_bytes=100 --updates_per_second=50000\n"
    "  bonsai plan --records=1000000 --value_bytes=1000 --targets=2 --members=3 --json\n";

std::vector<std::string_view> workload_flags() {
  return {"records", "key_bytes", "value_bytes", "sizes_differ", "updates_per_second", "targets", "members", "json"};
}

// Adds the fabric's flags to commands that name a pool, which may have remote targets.
std::vector<Command> with_fabric_flags(std::vector<Command> commands) {
  for (Command& command : commands) {
    if (std::find(command.flags.begin(), command.flags.end(), "pool") == command.flags.end()) continue;
    command.flags.insert(command.flags.end(), {"secret_file", "fabric_wait_ms_max", "fabric_workers", "take_over"});
  }
  return commands;
}

}  // namespace

std::span<const Command> all_commands() {
  const std::vector<std::string_view> record = {"pool", "key", "domain", "medium", "hex"};
  const std::vector<std::string_view> range = {"pool", "from",   "after",  "end", "limit",
                                               "key",  "domain", "medium", "hex"};
  const std::vector<std::string_view> place = {"json", "secret_file", "fabric_wait_ms_max"};
  const std::vector<std::string_view> updates = {"pool", "key", "durability", "domain", "medium", "hex"};
  std::vector<std::string_view> deletes = updates;
  deletes.insert(deletes.end(), {"if_absent", "if_present", "if_equals"});
  std::vector<std::string_view> puts = deletes;
  puts.insert(puts.end(), {"create", "bytes", "log_bytes", "layout", "unit", "value_file"});
  const std::vector<std::string_view> checks = {"pool", "json", "allow_missing"};
  const std::vector<std::string_view> salvages = {"pool", "bytes",  "log_bytes",    "layout",
                                                  "unit", "domain", "allow_missing"};
  static const std::vector<Command> commands = with_fabric_flags({
      {"create",
       "",
       0,
       0,
       "make an empty pool",
       kCreateText,
       {"pool", "bytes", "log_bytes", "key", "layout", "unit", "domain", "medium"},
       run_create},
      {"put", "KEY [VALUE]", 1, 2, "set the value of a key", kPutText, puts, run_put},
      {"increment", "KEY [BY]", 1, 2, "add to a key's number", kIncrementText, updates, run_increment},
      {"get", "KEY", 1, 1, "print the value of a key", kGetText, record, run_get},
      {"exists", "KEY", 1, 1, "whether a key has a value", kExistsText, record, run_exists},
      {"del", "KEY", 1, 1, "remove a key", kDelText, deletes, run_del},
      {"scan", "", 0, 0, "print records in key order", kScanText, range, run_scan},
      {"count", "", 0, 0, "count records", kCountText, range, run_count},
      {"delete-range", "", 0, 0, "delete records of a range", kDeleteRangeText, range, run_delete_range},
      {"stat", "", 0, 0, "show space, tiers and counters", kStatText, {"pool", "domain", "medium", "json"}, run_stat},
      {"list", "PLACE", 1, 1, "list pools of a folder or node, and owners", kListText, place, run_list},
      {"groups", "", 0, 0, "show the members of replicated targets", kGroupsText, {"pool", "json"}, run_groups},
      {"scrub", "", 0, 0, "compare and repair replicated targets", kScrubText, {"pool", "json"}, run_scrub},
      {"check", "", 0, 0, "verify a closed pool, changing nothing", kCheckText, checks, run_check},
      {"checkpoint",
       "NEW",
       1,
       1,
       "copy a pool into a new one",
       kCheckpointText,
       {"pool", "bytes", "log_bytes", "layout", "unit", "domain", "medium"},
       run_checkpoint},
      {"salvage", "NEW", 1, 1, "copy the sound records of a damaged pool", kSalvageText, salvages, run_salvage},
      {"grow", "", 0, 0, "enlarge a pool", kGrowText, {"pool", "bytes", "domain", "medium"}, run_grow},
      {"remove", "", 0, 0, "remove a closed pool with all its targets", kRemoveText, {"pool"}, run_remove},
      {"dump", "", 0, 0, "print all records as text for load", kDumpText, {"pool", "domain", "medium"}, run_dump},
      {"load",
       "[FILE]",
       0,
       1,
       "put the records of a dump",
       kLoadText,
       {"pool", "create", "bytes", "log_bytes", "key", "layout", "unit", "durability", "domain", "medium"},
       run_load},
      {"plan", "", 0, 0, "say what a workload needs: NVM, log, DRAM, network", kPlanText, workload_flags(), run_plan},
      {"doctor",
       "",
       0,
       0,
       "show what this machine offers, and how to enable what is missing",
       kDoctorText,
       {"pool", "json", "root"},
       run_doctor},
  });
  return commands;
}

std::string program_help() {
  std::string text =
      "bonsai: looks after pools of the Bonsai key-value store\n\n"
      "  bonsai COMMAND --pool=PATH[,PATH...] [FLAGS] [OPERANDS]\n\nCommands:\n";
  for (const Command& command : all_commands()) {
    std::string line = "  " + std::string(command.name);
    line.resize(16, ' ');
    text += line + std::string(command.summary) + "\n";
  }
  return text +
         "  help          show this, or the help of a command: bonsai help put\n"
         "  version       show the version\n\n"
         "Exit codes: 0 done; 1 the key has no value, or a condition does not hold; 2 wrong usage or input; 3 failed; "
         "4 the pool is damaged.\n"
         "Errors go to standard error.\n\n"
         "Try:\n"
         "  bonsai create --pool=/dev/shm/a.pool --bytes=64M\n"
         "  bonsai put --pool=/dev/shm/a.pool apple red\n"
         "  bonsai get --pool=/dev/shm/a.pool apple\n";
}

std::string command_help(const Command& command) {
  std::string text = "bonsai " + std::string(command.name) + ": " + std::string(command.summary) + "\n\n  bonsai " +
                     std::string(command.name);
  const bool needs_pool = std::find(command.flags.begin(), command.flags.end(), "pool") != command.flags.end();
  if (needs_pool && command.name != "doctor") text += " --pool=PATH[,PATH...]";
  text += " [FLAGS]";
  if (!command.operands.empty()) text += " " + std::string(command.operands);
  text += "\n\n" + std::string(command.text) + "\nFlags:\n";
  for (const std::string_view flag : command.flags) text += flag_help(flag);
  return text;
}

Status print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return Status::OK();
  return Status::IoError("standard output cannot be written: " + std::string(std::strerror(errno)) +
                         "; free space there or direct it elsewhere");
}

}  // namespace bonsai::admin
