// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/flags.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/status_macros.h"
#include "bench/results/machine.h"
#include "bonsai/options.h"

DEFINE_uint64(records, 1'000'000, "records to load");
DEFINE_uint64(operations, 1'000'000, "requests per workload");
DEFINE_uint32(threads, 0, "client threads; 0 = one per processor");
DEFINE_uint32(depth, 1, "reads and writes that a thread submits at once");
DEFINE_uint64(seed, 1, "seed of all random choices");
DEFINE_string(engines, "", "engines, separated by commas");
DEFINE_string(workloads, "load,a,b,c,f,d,e", "workloads, separated by commas");
DEFINE_string(workload_dir, "", "where workload files are looked up");
DEFINE_string(key, "fixed8", "fixed8 or string");
DEFINE_string(value_bytes, "8", "bytes per value, or 'file'");
DEFINE_string(durability, "durable", "durable or buffered");
DEFINE_string(pool_dir, "", "directory for pools");
DEFINE_string(text, "auto", "what is printed: table, ycsb (both) or auto");
DEFINE_string(draw, "ahead", "ahead or live");
DEFINE_uint64(warmup, 0, "requests of each workload before its clock starts");
DEFINE_string(latency, "sampled", "sampled (one operation in 64) or all");
DEFINE_uint64(target, 0, "operations per second of a workload, over all threads; 0 = as many as go");
DEFINE_uint64(seconds, 0, "seconds of a workload, or of a sample; 0 = until its operations are done");
DEFINE_uint64(interval_ms, 0, "milliseconds of the intervals by which a target is kept; 0 = open loop");
DEFINE_uint64(interval_samples, 1, "operations that a thread times in an interval");
DEFINE_string(hash, "default", "hash of the hash maps: default or city");
DEFINE_uint64(rate_first, 1'000'000, "lowest target of a sweep");
DEFINE_uint64(rate_step, 1'000'000, "how far the targets of a sweep are apart");
DEFINE_uint64(rate_max, 0, "highest target of a sweep; 0 = until one is not held");
DEFINE_uint32(samples, 5, "samples of each configuration of a sweep");
DEFINE_uint64(idle_seconds, 5, "seconds of rest before each sample of a sweep");
DEFINE_string(record, "", "directory for the requests as traces");
DEFINE_bool(pin, false, "each thread to one processor");
DEFINE_uint32(repeat, 1, "times that everything is run, engines taking turns");
DEFINE_string(P, "", "YCSB property files");
DEFINE_string(p, "", "YCSB properties");
DEFINE_bool(s, false, "progress as YCSB reports it");
DEFINE_string(scale, "small", "data of an experiment: trial, small or paper");
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
DEFINE_string(out, "results/latest", "directory for the results");

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRecordsMax = 10'000'000'000;
constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kDepthMax = 1024;
constexpr uint32_t kRepeatMax = 1000;
constexpr uint64_t kCellMsMax = 600'000;
constexpr unsigned kFabricRuns = 9;
constexpr uint64_t kTargetMax = 1'000'000'000;
constexpr uint64_t kSecondsMax = 86'400;
constexpr uint64_t kIntervalMsMax = 10'000;
constexpr uint64_t kOpsPerSecondMax = 20'000'000;  // of one thread; for runs that have a time and no end
constexpr uint64_t kSweepSeconds = 30, kSweepIntervalMs = 25;
constexpr char kListed = '\n';  // between the values of a flag that came more than once

// gflags brings flags of its own; ours are those of this file.
std::vector<google::CommandLineFlagInfo> our_flags() {
  std::vector<google::CommandLineFlagInfo> all;
  std::vector<google::CommandLineFlagInfo> ours;
  google::GetAllFlags(&all);
  google::CommandLineFlagInfo one;
  google::GetCommandLineFlagInfo("records", &one);
  std::copy_if(all.begin(), all.end(), std::back_inserter(ours),
               [&](const auto& flag) { return flag.filename == one.filename; });
  return ours;
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string spelt(const std::string& name) { return (name.size() == 1 ? "-" : "--") + dashed(name); }

std::string known_flags() {
  std::string known;
  for (const auto& flag : our_flags()) known.append(" ").append(spelt(flag.name));
  return known;
}

bool is_switch(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  google::CommandLineFlagInfo flag;
  return google::GetCommandLineFlagInfo(name.c_str(), &flag) && flag.type == "bool";
}

bool was_given(const char* name) {
  google::CommandLineFlagInfo flag;
  return google::GetCommandLineFlagInfo(name, &flag) && !flag.is_default;
}

Status set_flag(std::string name, std::string value) {
  std::replace(name.begin(), name.end(), '-', '_');
  const auto flags = our_flags();
  const auto flag = std::find_if(flags.begin(), flags.end(), [&](const auto& known) { return known.name == name; });
  if (flag == flags.end()) {
    return Status::InvalidArgument("unknown flag --" + dashed(name) + "; the flags are" + known_flags());
  }
  if (name == "P" || name == "p") {
    if (value.empty() || value.find_first_of({kListed, '\0'}) != std::string::npos) {
      return Status::InvalidArgument("-" + name + " needs " +
                                     (name == "P" ? "the path of a property file" : "name=value"));
    }
    if (!flag->is_default) value = flag->current_value + kListed + value;
  }
  const bool negative = flag->type != "string" && value.find('-') != std::string::npos;
  if (negative || google::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    const char* kind = flag->type == "string" ? "text" : flag->type == "bool" ? "true or false" : "a whole number";
    return Status::InvalidArgument(spelt(name) + "=" + value + " is no value for it; give " + kind + " (" +
                                   flag->description + "), for example " + spelt(name) + "=" + flag->default_value);
  }
  return Status::OK();
}

std::vector<std::string> split(const std::string& list, char separator = ',') {
  std::vector<std::string> words;
  size_t start = 0;
  while (start <= list.size()) {
    const size_t end = std::min(list.find(separator, start), list.size());
    if (end > start) words.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

Status check_range(const char* flag, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return Status::OK();
  return Status::InvalidArgument("--" + std::string(flag) + "=" + std::to_string(value) + " is out of bounds; give " +
                                 std::to_string(low) + " to " + std::to_string(high));
}

// What -P and -p say. A later file wins over an earlier one and -p over all files, as in YCSB.
struct GivenProperties {
  Properties files;
  Properties single;
  std::string name;  // of the first file

  [[nodiscard]] Properties all() const {
    Properties merged = files;
    merged.merge(single);
    return merged;
  }
};

// "workloada" of "conf/workloads/workloada" is a.
std::string workload_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.rfind("workload", 0) == 0 && name.size() > 8 ? name.substr(8) : name;
}

Status read_given(GivenProperties* given) {
  for (const std::string& path : split(FLAGS_P, kListed)) {
    BONSAI_RETURN_IF_ERROR(given->files.read_file(path));
    if (given->name.empty()) given->name = workload_name(path);
  }
  for (const std::string& one : split(FLAGS_p, kListed)) BONSAI_RETURN_IF_ERROR(given->single.set(one, "-p"));
  return Status::OK();
}

// A number that a flag gives, else a property of -P or -p, else the flag's default.
Status read_number(const char* flag, uint64_t flag_value, const Properties& given, const char* property, uint64_t low,
                   uint64_t high, uint64_t* number) {
  *number = flag_value;
  if (!was_given(flag) && given.find(property) != nullptr) return read_count(given, property, low, high, number);
  return check_range(flag, flag_value, low, high);
}

// A workload that has a time and no number of operations goes on for that time: its requests are drawn live.
Status read_duration(const Properties& given, RunConfig* config) {
  uint64_t seconds = 0;
  BONSAI_RETURN_IF_ERROR(read_number("seconds", FLAGS_seconds, given, "maxexecutiontime", 0, kSecondsMax, &seconds));
  BONSAI_RETURN_IF_ERROR(check_range("interval-ms", FLAGS_interval_ms, 0, kIntervalMsMax));
  BONSAI_RETURN_IF_ERROR(check_range("interval-samples", FLAGS_interval_samples, 0, kTargetMax));
  config->seconds_max = static_cast<double>(seconds);
  config->interval_ms = FLAGS_interval_ms;
  config->latency_per_interval = FLAGS_interval_samples;
  if (seconds == 0 || was_given("operations") || given.find("operationcount") != nullptr) return Status::OK();
  const double rate =
      config->target_ops_per_s > 0 ? config->target_ops_per_s : static_cast<double>(kOpsPerSecondMax) * config->threads;
  config->operations = static_cast<uint64_t>(rate * config->seconds_max);
  if (!was_given("draw")) config->draw = DrawMode::kLive;
  return Status::OK();
}

// The room for what a workload inserts is made beforehand.
Status check_duration(const RunRequest& request) {
  const bool open_ended =
      request.config.seconds_max > 0 && request.config.target_ops_per_s == 0 && !was_given("operations");
  for (const Step& step : request.steps) {
    if (!open_ended || step.load_only || step.trace || step.workload.share(OpKind::kInsert) == 0) continue;
    return Status::InvalidArgument("workload " + step.workload.name +
                                   " inserts, and with --seconds alone nobody knows how "
                                   "much; give --target or --operations, too");
  }
  return Status::OK();
}

Status read_counts(const Properties& given, RunConfig* config) {
  uint64_t threads = 0;
  uint64_t target = 0;
  BONSAI_RETURN_IF_ERROR(read_number("records", FLAGS_records, given, "recordcount", 1, kRecordsMax, &config->records));
  BONSAI_RETURN_IF_ERROR(
      read_number("operations", FLAGS_operations, given, "operationcount", 1, kRecordsMax, &config->operations));
  BONSAI_RETURN_IF_ERROR(read_number("threads", FLAGS_threads, given, "threadcount", 0, kThreadsMax, &threads));
  BONSAI_RETURN_IF_ERROR(read_number("target", FLAGS_target, given, "target", 0, kTargetMax, &target));
  BONSAI_RETURN_IF_ERROR(check_range("depth", FLAGS_depth, 1, kDepthMax));
  BONSAI_RETURN_IF_ERROR(check_range("warmup", FLAGS_warmup, 0, kRecordsMax));
  config->threads = threads != 0 ? static_cast<unsigned>(threads) : processors();
  config->target_ops_per_s = static_cast<double>(target);
  config->depth = FLAGS_depth;
  config->warmup = FLAGS_warmup;
  return read_duration(given, config);
}

// Requests that are drawn ahead are kept in memory.
Status check_memory(const RunConfig& config) {
  if (config.draw == DrawMode::kLive) return Status::OK();
  const RecordShape shape{config.key_form, true, 1, 0};
  const uint64_t key_bytes = config.key_form == KeyForm::kString ? shape.key_bytes_max() : 0;
  const uint64_t requests = std::max(config.records, config.operations + config.warmup);
  const uint64_t bytes = requests * (sizeof(Request) + key_bytes);
  const std::optional<uint64_t> memory = memory_bytes();
  if (!memory || bytes < *memory / 2) return Status::OK();
  return Status::InvalidArgument("drawing " + std::to_string(requests) + " requests ahead takes " +
                                 std::to_string(bytes >> 20) + " MiB, more than half of this machine's memory; give " +
                                 "--draw=live, or fewer --records and --operations");
}

// The value of a flag that has two: false for the first.
Status read_either(const char* flag, const std::string& value, const char* first, const char* second, bool* is_second) {
  *is_second = value == second;
  if (*is_second || value == first) return Status::OK();
  return Status::InvalidArgument("--" + std::string(flag) + "=" + value + " is unknown; give " + first + " or " +
                                 second);
}

Status config_of_flags(const Properties& given, RunConfig* config) {
  BONSAI_RETURN_IF_ERROR(read_counts(given, config));
  config->seed = FLAGS_seed;
  config->pin = FLAGS_pin;
  bool is_string = false;
  bool is_live = false;
  bool times_all = false;
  BONSAI_RETURN_IF_ERROR(read_either("key", FLAGS_key, "fixed8", "string", &is_string));
  BONSAI_RETURN_IF_ERROR(read_either("durability", FLAGS_durability, "durable", "buffered", &config->buffered));
  BONSAI_RETURN_IF_ERROR(read_either("draw", FLAGS_draw, "ahead", "live", &is_live));
  BONSAI_RETURN_IF_ERROR(read_either("latency", FLAGS_latency, "sampled", "all", &times_all));
  config->key_form = is_string ? KeyForm::kString : KeyForm::kFixed8;
  if (was_given("draw")) config->draw = is_live ? DrawMode::kLive : DrawMode::kAhead;
  bool is_city = false;
  BONSAI_RETURN_IF_ERROR(read_either("hash", FLAGS_hash, "default", "city", &is_city));
  if (is_city) config->map.hash = HashKind::kCity;
  config->latency_every = times_all ? 1 : kLatencySampled;
  BONSAI_RETURN_IF_ERROR(check_memory(*config));
  config->record_dir = FLAGS_record;
  if (config->draw == DrawMode::kLive && !FLAGS_record.empty()) {
    return Status::InvalidArgument("--record writes what was drawn ahead; give --draw=ahead, or no --record");
  }
  config->pool_dir = FLAGS_pool_dir;
  config->out_dir = FLAGS_out;
  if (FLAGS_out.empty()) return Status::InvalidArgument("--out is empty; give a directory for the results");
  config->value_bytes.reset();
  if (FLAGS_value_bytes == "file") return Status::OK();
  size_t bytes = 0;
  const char* end = FLAGS_value_bytes.data() + FLAGS_value_bytes.size();
  const auto [stop, error] = std::from_chars(FLAGS_value_bytes.data(), end, bytes);
  if (error != std::errc() || stop != end || bytes > kValueBytesMax) {
    return Status::InvalidArgument("--value-bytes=" + FLAGS_value_bytes + " is no size; give 0 to " +
                                   std::to_string(kValueBytesMax) + ", or 'file' for fieldcount x fieldlength");
  }
  config->value_bytes = bytes;
  return Status::OK();
}

std::vector<std::string> workload_directories() {
  if (!FLAGS_workload_dir.empty()) return {FLAGS_workload_dir};
  const std::string program = program_directory();
  return {program + "/../../../conf/workloads", program + "/../share/bonsai/workloads", "conf/workloads"};
}

// "a" and "workloada" mean the file workloada; a word with a slash or a dot is a path.
Status find_workload_file(const std::string& word, std::string* path) {
  if (word.find_first_of("/.") != std::string::npos) {
    *path = word;
    return Status::OK();
  }
  for (const std::string& directory : workload_directories()) {
    for (const std::string& name : {word, "workload" + word}) {
      *path = directory + "/" + name;
      std::error_code error;  // a name that the system cannot take is the name of no file
      if (fs::is_regular_file(*path, error)) return Status::OK();
    }
  }
  std::string known = "load";
  for (const auto& row : known_workloads()) known.append(" ").append(row[0]);
  return Status::InvalidArgument("unknown workload '" + word + "'; the workloads are " + known +
                                 ", or give the path of a YCSB property file; files are looked up in " +
                                 workload_directories().front() + " (--workload-dir)");
}

// What -p says goes for every workload; its counts have been obeyed and are none of the workload's own.
Status make_workload_of(const std::string& name, Properties properties, const Properties& single, RunRequest* request,
                        Workload* workload) {
  Properties mine = single;
  mine.remove("target");
  mine.remove("maxexecutiontime");
  properties.merge(mine);
  return make_workload(name, properties, workload, &request->notes);
}

bool is_trace(const std::string& word) { return fs::path(word).extension() == ".trace"; }

Status read_workload(const std::string& word, const Properties& single, RunRequest* request, Workload* workload) {
  std::string path;
  BONSAI_RETURN_IF_ERROR(find_workload_file(word, &path));
  Properties properties;
  BONSAI_RETURN_IF_ERROR(properties.read_file(path));
  return make_workload_of(workload_name(path), std::move(properties), single, request, workload);
}

// One workload out of all files of -P.
Status step_of_files(const GivenProperties& given, RunRequest* request) {
  if (was_given("workloads")) {
    return Status::InvalidArgument("-P and --workloads both select what to run; give one of them");
  }
  Properties files = given.files;
  files.remove("target");
  files.remove("maxexecutiontime");
  Step step;
  BONSAI_RETURN_IF_ERROR(make_workload_of(given.name, std::move(files), given.single, request, &step.workload));
  request->steps.push_back(std::move(step));
  return Status::OK();
}

// A load takes the shape of its records from the workload after it, as in YCSB, where both are given one file.
Status steps_of_flags(const Properties& single, RunRequest* request) {
  const std::vector<std::string> words = split(FLAGS_workloads);
  if (words.empty()) return Status::InvalidArgument("--workloads is empty; give for example --workloads=load,a,b");
  for (const std::string& word : words) {
    Step step;
    if (is_trace(word)) {
      Trace trace;
      BONSAI_RETURN_IF_ERROR(read_trace(word, &trace));
      request->steps.push_back(step_of_trace(fs::path(word).stem().string(), std::move(trace)));
      continue;
    }
    step.load_only = word == "load";
    if (!step.load_only) BONSAI_RETURN_IF_ERROR(read_workload(word, single, request, &step.workload));
    request->steps.push_back(std::move(step));
  }
  const Workload* next = nullptr;
  Workload fallback;
  for (auto step = request->steps.rbegin(); step != request->steps.rend(); ++step) {
    if (step->trace) continue;
    if (!step->load_only) {
      next = &step->workload;
      continue;
    }
    if (next == nullptr) {
      BONSAI_RETURN_IF_ERROR(read_workload("a", single, request, &fallback));
      next = &fallback;
    }
    step->workload = *next;
  }
  return Status::OK();
}

Status engines_of_flags(RunRequest* request) {
  std::vector<std::string> words = split(FLAGS_engines);
  if (words.empty()) {
    for (const char* name : {"bonsai", "absl_btree"}) {
      if (find_engine(name) != nullptr) words.emplace_back(name);
    }
  }
  for (const std::string& word : words) {
    const EngineEntry* entry = find_engine(word);
    if (entry == nullptr) {
      std::string known;
      for (const EngineEntry& each : engine_list()) known.append(" ").append(each.name);
      return Status::InvalidArgument("unknown engine '" + word + "'; the engines are" + known);
    }
    request->engines.push_back(entry);
  }
  return Status::OK();
}

}  // namespace

Status read_flags(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t dashes = std::min<size_t>(word.find_first_not_of('-'), word.size());
    if (dashes == 0 || dashes > 2 || dashes == word.size()) {
      return Status::InvalidArgument("'" + word + "' is no flag; write --name=value (--help shows them)");
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(dashes, equals - dashes);
    if (equals != std::string::npos) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, word.substr(equals + 1)));
    } else if (is_switch(name)) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, "true"));
    } else if (i + 1 < words.size()) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, words[++i]));
    } else {
      BONSAI_RETURN_IF_ERROR(set_flag(name, ""));
      return Status::InvalidArgument(spelt(name) + " needs a value; write " + spelt(name) + "=value");
    }
  }
  return Status::OK();
}

Status request_of_flags(RunRequest* request) {
  if (FLAGS_text != "auto" && FLAGS_text != "table" && FLAGS_text != "ycsb") {
    return Status::InvalidArgument("--text=" + FLAGS_text + " is unknown; give auto, table or ycsb");
  }
  request->ycsb_text = FLAGS_text == "ycsb" || (FLAGS_text == "auto" && isatty(1) == 0);
  GivenProperties given;
  BONSAI_RETURN_IF_ERROR(read_given(&given));
  BONSAI_RETURN_IF_ERROR(config_of_flags(given.all(), &request->config));
  BONSAI_RETURN_IF_ERROR(check_range("repeat", FLAGS_repeat, 1, kRepeatMax));
  request->repeat = FLAGS_repeat;
  request->status = FLAGS_s;
  BONSAI_RETURN_IF_ERROR(engines_of_flags(request));
  BONSAI_RETURN_IF_ERROR(given.name.empty() ? steps_of_flags(given.single, request) : step_of_files(given, request));
  return check_duration(*request);
}

Status sweep_of_flags(SweepRequest* request) {
  RunRequest run;
  GivenProperties given;
  BONSAI_RETURN_IF_ERROR(read_given(&given));
  BONSAI_RETURN_IF_ERROR(config_of_flags(given.all(), &run.config));
  BONSAI_RETURN_IF_ERROR(engines_of_flags(&run));
  BONSAI_RETURN_IF_ERROR(given.name.empty() ? steps_of_flags(given.single, &run) : step_of_files(given, &run));
  SweepPlan& plan = request->plan;
  for (const EngineEntry* engine : run.engines) plan.engines.emplace_back(engine->name);
  for (const Step& step : run.steps) {
    if (step.trace) return Status::InvalidArgument("a sweep draws its requests; give workloads, not traces");
    if (!step.load_only) plan.workloads.push_back(step.workload);
  }
  plan.threads_max = run.config.threads;
  plan.rate_first = static_cast<double>(FLAGS_rate_first);
  plan.rate_step = static_cast<double>(FLAGS_rate_step);
  plan.rate_max = static_cast<double>(FLAGS_rate_max);
  plan.samples = FLAGS_samples;
  plan.each.records = run.config.records;
  plan.each.seconds = static_cast<double>(was_given("seconds") ? FLAGS_seconds : kSweepSeconds);
  plan.each.idle_seconds = static_cast<double>(FLAGS_idle_seconds);
  plan.each.interval_ms = was_given("interval_ms") ? FLAGS_interval_ms : kSweepIntervalMs;
  plan.each.latency_per_interval = FLAGS_interval_samples;
  plan.each.map = run.config.map;
  request->config = run.config;
  request->notes = run.notes;
  return check_sweep(plan);
}

Status experiment_of_flags(const std::string& name, ExperimentRequest* request) {
  request->experiments = find_experiments(name);
  if (request->experiments.empty()) {
    std::string known;
    for (const Experiment& each : experiment_list()) {
      const std::string_view word = each.group.empty() ? each.name : each.group;
      if (!known.ends_with(word)) known.append(" ").append(word);
    }
    return Status::InvalidArgument((name.empty() ? "no experiment is named" : "unknown experiment '" + name + "'") +
                                   "; write bonsai-bench experiment NAME [flags]; the experiments are" + known +
                                   ", or all");
  }
  if (FLAGS_scale != "trial" && FLAGS_scale != "small" && FLAGS_scale != "paper") {
    return Status::InvalidArgument("--scale=" + FLAGS_scale + " is unknown; give trial, small or paper");
  }
  BONSAI_RETURN_IF_ERROR(check_range("repeat", FLAGS_repeat, 1, kRepeatMax));
  BONSAI_RETURN_IF_ERROR(config_of_flags(Properties(), &request->plan.config));
  request->plan.scale = FLAGS_scale == "paper" ? Scale::kPaper : FLAGS_scale == "small" ? Scale::kSmall : Scale::kTrial;
  request->plan.repeat = FLAGS_repeat;
  request->resumes = name == kAllExperiments;
  request->plan.threads_max = request->plan.config.threads;
  AskedFor& asked = request->plan.asked;
  if (was_given("records")) asked.records = FLAGS_records;
  if (was_given("operations")) asked.operations = FLAGS_operations;
  if (was_given("threads") && FLAGS_threads > 0) asked.threads = FLAGS_threads;
  if (was_given("depth")) asked.depth = FLAGS_depth;
  return Status::OK();
}

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
  BONSAI_RETURN_IF_ERROR(check_range("repeat", FLAGS_repeat, 1, kRepeatMax));
  BONSAI_RETURN_IF_ERROR(read_either("waits", FLAGS_waits, "poll", "block", &config.blocks));
  if (FLAGS_out.empty()) return Status::InvalidArgument("--out is empty; give a directory for the results");
  config.cell_ms = FLAGS_cell_ms;
  config.runs = was_given("repeat") ? FLAGS_repeat : kFabricRuns;
  request->once = FLAGS_once;
  config.device = FLAGS_device;
  config.perftest = FLAGS_perftest;
  request->out_dir = FLAGS_out;
  return Status::OK();
}

std::map<std::string, std::string> flag_values() {
  std::map<std::string, std::string> values;
  for (const auto& flag : our_flags()) values[dashed(flag.name)] = flag.current_value;
  return values;
}

std::vector<std::vector<std::string>> known_workloads() {
  std::map<std::string, std::vector<std::string>> found;
  for (const std::string& directory : workload_directories()) {
    std::error_code error;
    for (const auto& file : fs::directory_iterator(directory, error)) {
      const std::string name = file.path().filename().string();
      if (name.rfind("workload", 0) != 0 || name.size() == 8 || found.count(name)) continue;
      std::ifstream in(file.path());
      std::string first;
      std::getline(in, first);
      const size_t text = first.find(": ");
      found[name] = {name.substr(8),
                     first.rfind("#", 0) == 0 && text != std::string::npos ? first.substr(text + 2) : ""};
    }
    if (!found.empty()) break;
  }
  std::vector<std::vector<std::string>> rows;
  for (auto& [name, row] : found) rows.push_back(std::move(row));
  return rows;
}

}  // namespace bonsai::bench
