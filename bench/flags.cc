#include "bench/flags.h"

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/status_macros.h"
#include "bench/machine.h"
#include "bonsai/options.h"

DEFINE_uint64(records, 1'000'000, "records to load");
DEFINE_uint64(operations, 1'000'000, "requests per workload");
DEFINE_uint32(threads, 0, "client threads; 0 = one per processor");
DEFINE_uint32(depth, 1, "reads that a thread hands over at once");
DEFINE_uint64(seed, 1, "seed of all random choices");
DEFINE_string(engines, "", "engines, separated by commas");
DEFINE_string(workloads, "load,a,b,c,f,d,e", "workloads, separated by commas");
DEFINE_string(workload_dir, "", "where workload files are looked up");
DEFINE_string(key, "fixed8", "fixed8 or string");
DEFINE_string(value_bytes, "8", "bytes per value, or 'file'");
DEFINE_string(durability, "durable", "durable or buffered");
DEFINE_string(pool_dir, "", "directory for pools");
DEFINE_string(text, "auto", "what is printed: table, ycsb (both) or auto");
DEFINE_string(out, "results/latest", "directory for the results");

namespace bonsai::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRecordsMax = 10'000'000'000;
constexpr uint32_t kThreadsMax = 1024;
constexpr uint32_t kDepthMax = 1024;

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

std::string known_flags() {
  std::string known;
  for (const auto& flag : our_flags()) known.append(" --").append(dashed(flag.name));
  return known;
}

Status set_flag(std::string name, const std::string& value) {
  std::replace(name.begin(), name.end(), '-', '_');
  const auto flags = our_flags();
  const auto flag = std::find_if(flags.begin(), flags.end(), [&](const auto& known) { return known.name == name; });
  if (flag == flags.end()) {
    return Status::InvalidArgument("unknown flag --" + dashed(name) + "; the flags are" + known_flags());
  }
  const bool negative = flag->type != "string" && value.find('-') != std::string::npos;
  if (negative || google::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    return Status::InvalidArgument("--" + dashed(name) + "=" + value + " is no value for it; give " +
                                   (flag->type == "string" ? "text" : "a whole number") + " (" + flag->description +
                                   "), for example --" + dashed(name) + "=" + flag->default_value);
  }
  return Status::OK();
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  size_t start = 0;
  while (start <= list.size()) {
    const size_t end = std::min(list.find(',', start), list.size());
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

Status config_of_flags(RunConfig* config) {
  BONSAI_RETURN_IF_ERROR(check_range("records", FLAGS_records, 1, kRecordsMax));
  BONSAI_RETURN_IF_ERROR(check_range("operations", FLAGS_operations, 1, kRecordsMax));
  BONSAI_RETURN_IF_ERROR(check_range("threads", FLAGS_threads, 0, kThreadsMax));
  BONSAI_RETURN_IF_ERROR(check_range("depth", FLAGS_depth, 1, kDepthMax));
  config->records = FLAGS_records;
  config->operations = FLAGS_operations;
  config->threads = FLAGS_threads != 0 ? FLAGS_threads : processors();
  config->depth = FLAGS_depth;
  config->seed = FLAGS_seed;
  if (FLAGS_key != "fixed8" && FLAGS_key != "string") {
    return Status::InvalidArgument("--key=" + FLAGS_key + " is unknown; give fixed8 or string");
  }
  config->key_form = FLAGS_key == "fixed8" ? KeyForm::kFixed8 : KeyForm::kString;
  if (FLAGS_durability != "durable" && FLAGS_durability != "buffered") {
    return Status::InvalidArgument("--durability=" + FLAGS_durability + " is unknown; give durable or buffered");
  }
  config->buffered = FLAGS_durability == "buffered";
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
      if (fs::is_regular_file(*path)) return Status::OK();
    }
  }
  std::string known = "load";
  for (const auto& row : known_workloads()) known.append(" ").append(row[0]);
  return Status::InvalidArgument("unknown workload '" + word + "'; the workloads are " + known +
                                 ", or give the path of a YCSB property file; files are looked up in " +
                                 workload_directories().front() + " (--workload-dir)");
}

Status read_workload(const std::string& word, RunRequest* request, Workload* workload) {
  std::string path;
  BONSAI_RETURN_IF_ERROR(find_workload_file(word, &path));
  Properties properties;
  BONSAI_RETURN_IF_ERROR(properties.read_file(path));
  std::string name = fs::path(path).filename().string();
  if (name.rfind("workload", 0) == 0 && name.size() > 8) name = name.substr(8);
  return make_workload(name, properties, workload, &request->notes);
}

// A load takes the shape of its records from the workload after it, as in YCSB, where both are given one file.
Status steps_of_flags(RunRequest* request) {
  const std::vector<std::string> words = split(FLAGS_workloads);
  if (words.empty()) return Status::InvalidArgument("--workloads is empty; give for example --workloads=load,a,b");
  for (const std::string& word : words) {
    Step step;
    step.load_only = word == "load";
    if (!step.load_only) BONSAI_RETURN_IF_ERROR(read_workload(word, request, &step.workload));
    request->steps.push_back(std::move(step));
  }
  const Workload* next = nullptr;
  Workload fallback;
  for (auto step = request->steps.rbegin(); step != request->steps.rend(); ++step) {
    if (!step->load_only) {
      next = &step->workload;
      continue;
    }
    if (next == nullptr) {
      BONSAI_RETURN_IF_ERROR(read_workload("a", request, &fallback));
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
    } else if (i + 1 < words.size()) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, words[++i]));
    } else {
      BONSAI_RETURN_IF_ERROR(set_flag(name, ""));
      return Status::InvalidArgument("--" + name + " needs a value; write --" + name + "=value");
    }
  }
  return Status::OK();
}

Status request_of_flags(RunRequest* request) {
  if (FLAGS_text != "auto" && FLAGS_text != "table" && FLAGS_text != "ycsb") {
    return Status::InvalidArgument("--text=" + FLAGS_text + " is unknown; give auto, table or ycsb");
  }
  request->ycsb_text = FLAGS_text == "ycsb" || (FLAGS_text == "auto" && isatty(1) == 0);
  BONSAI_RETURN_IF_ERROR(config_of_flags(&request->config));
  BONSAI_RETURN_IF_ERROR(engines_of_flags(request));
  return steps_of_flags(request);
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
