// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that stop the program amid its work.
#ifndef BONSAI_BENCH_CLI_TESTING_INTERRUPTED_H_
#define BONSAI_BENCH_CLI_TESTING_INTERRUPTED_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/cli/testing/program.h"

namespace bonsai::bench {

class Interrupted : public Program {
 protected:
  void begin(std::vector<std::string> words) {
    words.push_back("--out=" + file("out"));
    words.push_back("--pool-dir=" + directory_);
    start(words);
  }
  [[nodiscard]] size_t runs() const {
    const nlohmann::json results = json_of("out/results.json");
    return results.is_object() ? results.at("runs").size() : 0;
  }
  [[nodiscard]] size_t samples() const {
    const nlohmann::json samples = json_of("out/samples.json");
    return samples.is_object() ? samples.at("samples").size() : 0;
  }
  // Files that a run would leave but should not.
  [[nodiscard]] std::string left_behind() const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::string name = entry.path().filename();
      if (name != "out" && name != "log") return name;
    }
    return {};
  }
  // Expects that each command line is refused, and that the directories keep their contents.
  void expect_untouched(const std::vector<std::vector<std::string>>& command_lines) {
    std::filesystem::create_directories(file("out"));
    std::ofstream(file("out/results.json")) << "mine";
    for (const std::vector<std::string>& words : command_lines) {
      begin(words);
      EXPECT_EQ(wait_for_end(), 2) << words[0] << ": " << log();
      EXPECT_EQ(text_of("out/results.json"), "mine") << words[0];
      const std::filesystem::directory_iterator files(file("out"));
      EXPECT_EQ(std::distance(files, std::filesystem::directory_iterator()), 1) << words[0];
      EXPECT_EQ(left_behind(), "") << words[0];
    }
  }
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_TESTING_INTERRUPTED_H_
