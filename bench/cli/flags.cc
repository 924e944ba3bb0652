// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/flags.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "admin/flag_parser.h"
#include "base/status_macros.h"
#include "bench/cli/flag_reader.h"
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
DEFINE_uint32(wait_ms, 0, "milliseconds that a call of bonsai waits for offloading or a node; 0 = the store's bounds");
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
DEFINE_string(record, "", "directory for the requests as traces");
DEFINE_bool(pin, false, "each thread to one processor");
DEFINE_uint32(repeat, 1, "times that everything is run, engines taking turns");
DEFINE_string(P, "", "FILE...|YCSB property files");
DEFINE_string(p, "", "name=value...|YCSB properties");
DEFINE_bool(s, false, "progress as YCSB reports it");
DEFINE_string(out, "results/latest", "directory for the results");

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRecordsMax = 10'000'000'000;
constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kDepthMax = 1024;
constexpr uint32_t kRepeatMax = 1000;
constexpr uint64_t kTargetMax = 1'000'000'000;
constexpr uint64_t kSecondsMax = 86'400;
constexpr uint64_t kIntervalMsMax = 10'000;
constexpr uint32_t kWaitMsMax = 3'600'000;
constexpr uint64_t kOpsPerSecondMax = 20'000'000;  // of one thread; for runs that have a time and no end

// The properties of -P and -p. A later file overrides an earlier one, and -p overrides all files, as in YCSB.
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

std::vector<std::string> workload_directories() {
  if (!FLAGS_workload_dir.empty()) return {FLAGS_workload_dir};
  const std::string program = program_directory();
  return {program + "/../../../conf/workloads", program + "/../share/bonsai/workloads", "conf/workloads"};
}

// YCSB's users stand in its folder, and type workloads/workloada: a file that is not there is looked up by its name.
std::string given_file(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return path;
  for (const std::string& directory : workload_directories()) {
    std::string known = directory + "/" + fs::path(path).filename().string();
    if (fs::is_regular_file(known, error)) return known;
  }
  return path;
}

Status read_given(GivenProperties* given) {
  for (const std::string& path : split(FLAGS_P, admin::kRepeated)) {
    BONSAI_RETURN_IF_ERROR(given->files.read_file(given_file(path)));
    if (given->name.empty()) given->name = workload_name(path);
  }
  for (const std::string& one : split(FLAGS_p, admin::kRepeated)) BONSAI_RETURN_IF_ERROR(given->single.set(one, "-p"));
  return Status::OK();
}

// The number given by a flag, else by a property of -P or -p, else the flag's default.
Status read_number(const char* flag, uint64_t flag_value, const Properties& given, const char* property, uint64_t low,
                   uint64_t high, uint64_t* number) {
  *number = flag_value;
  if (!admin::flag_given(flag) && given.find(property) != nullptr)
    return read_count(given, property, low, high, number);
  return check_range(flag, flag_value, low, high);
}

// A workload that has a time and no number of operations goes on for that time: its requests are drawn live.
Status read_duration(const Properties& given, RunConfig* config) {
  uint64_t seconds = 0;
  BONSAI_RETURN_IF_ERROR(read_number("seconds", FLAGS_seconds, given, "maxexecutiontime", 0, kSecondsMax, &seconds));
  BONSAI_RETURN_IF_ERROR(check_range("interval-ms", FLAGS_interval_ms, 0, kIntervalMsMax));
  BONSAI_RETURN_IF_ERROR(check_range("interval-samples", FLAGS_interval_samples, 0, kTargetMax));
  BONSAI_RETURN_IF_ERROR(check_range("wait-ms", FLAGS_wait_ms, 0, kWaitMsMax));
  config->wait_ms_max = FLAGS_wait_ms;
  config->seconds_max = static_cast<double>(seconds);
  config->interval_ms = FLAGS_interval_ms;
  config->latency_per_interval = FLAGS_interval_samples;
  if (seconds == 0 || admin::flag_given("operations") || given.find("operationcount") != nullptr) return Status::OK();
  const double rate =
      config->target_ops_per_s > 0 ? config->target_ops_per_s : static_cast<double>(kOpsPerSecondMax) * config->threads;
  config->operations = static_cast<uint64_t>(rate * config->seconds_max);
  if (!admin::flag_given("draw")) config->draw = DrawMode::kLive;
  return Status::OK();
}

// Memory for the records that a workload inserts is allocated beforehand.
Status check_duration(const RunRequest& request) {
  const bool open_ended =
      request.config.seconds_max > 0 && request.config.target_ops_per_s == 0 && !admin::flag_given("operations");
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

// The properties of -p apply to every workload, except those removed here, which were used already.
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
  if (admin::flag_given("workloads")) {
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

// A load takes the shape of its records from the workload after it, as in YCSB, where one file describes both.
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

// Fields that -P or -p give are obeyed when --value-bytes says nothing.
Status read_value_bytes(const Properties& given, std::optional<size_t>* value_bytes) {
  value_bytes->reset();
  const bool has_fields = given.find("fieldcount") != nullptr || given.find("fieldlength") != nullptr;
  if (FLAGS_value_bytes == "file" || (has_fields && !admin::flag_given("value_bytes"))) return Status::OK();
  size_t bytes = 0;
  const char* end = FLAGS_value_bytes.data() + FLAGS_value_bytes.size();
  const auto [stop, error] = std::from_chars(FLAGS_value_bytes.data(), end, bytes);
  if (error != std::errc() || stop != end || bytes > kValueBytesMax) {
    return Status::InvalidArgument("--value-bytes=" + FLAGS_value_bytes + " is no size; give 0 to " +
                                   std::to_string(kValueBytesMax) + ", or 'file' for fieldcount x fieldlength");
  }
  *value_bytes = bytes;
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

// Stores are compared at equal threads, unless the user asks for a number.
Status equal_threads(RunRequest* request) {
  GivenProperties given;
  BONSAI_RETURN_IF_ERROR(read_given(&given));
  if (admin::flag_given("threads") || given.all().find("threadcount") != nullptr) return Status::OK();
  const auto one = std::find_if(request->engines.begin(), request->engines.end(),
                                [](const EngineEntry* each) { return !each->make()->capabilities().threads; });
  if (one == request->engines.end() || request->config.threads == 1) return Status::OK();
  request->config.threads = 1;
  if (request->engines.size() == 1) return Status::OK();
  request->notes.push_back("every engine gets one thread, because " + std::string((*one)->name) +
                           " takes no more; --threads=N gives N to those that take them");
  return Status::OK();
}

}  // namespace

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
  if (admin::flag_given("draw")) config->draw = is_live ? DrawMode::kLive : DrawMode::kAhead;
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
  return read_value_bytes(given, &config->value_bytes);
}

Status work_of_flags(RunRequest* request) {
  GivenProperties given;
  BONSAI_RETURN_IF_ERROR(read_given(&given));
  BONSAI_RETURN_IF_ERROR(config_of_flags(given.all(), &request->config));
  BONSAI_RETURN_IF_ERROR(engines_of_flags(request));
  return given.name.empty() ? steps_of_flags(given.single, request) : step_of_files(given, request);
}

Status repeat_of_flags(unsigned* repeat) {
  *repeat = FLAGS_repeat;
  return check_range("repeat", FLAGS_repeat, 1, kRepeatMax);
}

Status read_run_line(const std::vector<std::string>& words) {
  const bool has_engines = !words.empty() && !words[0].starts_with('-');
  BONSAI_RETURN_IF_ERROR(read_flags({words.begin() + (has_engines ? 1 : 0), words.end()}));
  if (!has_engines) return Status::OK();
  if (admin::flag_given("engines")) {
    return Status::InvalidArgument("'" + words[0] + "' and --engines both name engines; give one of them");
  }
  return read_flags({"--engines=" + words[0]});
}

Status request_of_flags(RunRequest* request) {
  if (FLAGS_text != "auto" && FLAGS_text != "table" && FLAGS_text != "ycsb") {
    return Status::InvalidArgument("--text=" + FLAGS_text + " is unknown; give auto, table or ycsb");
  }
  request->ycsb_text = FLAGS_text == "ycsb" || (FLAGS_text == "auto" && isatty(1) == 0);
  BONSAI_RETURN_IF_ERROR(work_of_flags(request));
  BONSAI_RETURN_IF_ERROR(equal_threads(request));
  BONSAI_RETURN_IF_ERROR(repeat_of_flags(&request->repeat));
  request->status = FLAGS_s;
  return check_duration(*request);
}

Status load_of_flags(RunRequest* request) {
  BONSAI_RETURN_IF_ERROR(request_of_flags(request));
  Step& load = request->steps.front();
  if (load.trace != nullptr && !load.load_only) {
    return Status::InvalidArgument("trace " + load.workload.name +
                                   " does more than insert, so it is no load; give bonsai-bench run");
  }
  load.load_only = true;
  request->steps.resize(1);
  return Status::OK();
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
