// SPDX-License-Identifier: Apache-2.0
#include "bonsaid/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "admin/text.h"
#include "base/status_macros.h"
#include "scale/fabrics.h"

namespace bonsai::bonsaid {
namespace {

constexpr uint64_t kLitmusMsMax = 10'000;
constexpr size_t kConfigBytesMax = size_t{16} << 10;

enum class Kind : uint8_t { kText, kList, kNumber, kBool };

struct Setting {
  std::string_view name;
  Kind kind;
  Status (*set)(const std::string& text, Config* config);
};

Status add_address(const std::string& text, Config* config) {
  const size_t mark = text.find("://");
  if (mark == std::string::npos || mark == 0 || mark + 3 == text.size() ||
      text.find('/', mark + 3) != std::string::npos) {
    return Status::InvalidArgument("'" + admin::escape(text) + "' is no address; give shm://NAME or " +
                                   "rdma://HOST:PORT");
  }
  const Address address{text.substr(0, mark), text.substr(mark + 3)};
  for (const Address& other : config->listen) {
    if (other.text() == text) return Status::InvalidArgument(text + " is named twice");
  }
  config->listen.push_back(address);
  return Status::OK();
}

Status set_listen(const std::string& text, Config* config) {
  config->listen.clear();
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) BONSAI_RETURN_IF_ERROR(add_address(word, config));
  return Status::OK();
}

Status set_bool(const std::string& text, bool* value) {
  if (text != "true" && text != "false") {
    return Status::InvalidArgument("'" + admin::escape(text) + "' is neither true nor false");
  }
  *value = text == "true";
  return Status::OK();
}

Status set_medium(const std::string& text, TestOptions* test) {
  constexpr std::pair<std::string_view, TestMedium> kMedia[] = {{"auto", TestMedium::kNone},
                                                                {"shadow", TestMedium::kShadow},
                                                                {"shadow-without-flushes", TestMedium::kShadow},
                                                                {"emulator", TestMedium::kEmulator}};
  const auto* const found =
      std::find_if(std::begin(kMedia), std::end(kMedia), [&](const auto& medium) { return medium.first == text; });
  if (found == std::end(kMedia)) {
    return Status::InvalidArgument("'" + admin::escape(text) + "' is not known; give auto, shadow, " +
                                   "shadow-without-flushes or emulator");
  }
  test->medium = found->second;
  test->shadow_drops_flushes = text == "shadow-without-flushes";
  return Status::OK();
}

Status set_litmus(const std::string& text, uint64_t* milliseconds) {
  BONSAI_RETURN_IF_ERROR(admin::parse_number(text, "litmus_ms", milliseconds));
  if (*milliseconds >= 1 && *milliseconds <= kLitmusMsMax) return Status::OK();
  return Status::InvalidArgument("give 1 to " + std::to_string(kLitmusMsMax));
}

constexpr Setting kSettings[] = {
    {"folder", Kind::kText, [](const std::string& text, Config* c) { return c->folder = text, Status::OK(); }},
    {"listen", Kind::kList, set_listen},
    {"domain", Kind::kText, [](const std::string& text, Config* c) { return rdma::parse_domain(text, &c->domain); }},
    {"secret_file", Kind::kText,
     [](const std::string& text, Config* c) { return c->secret_file = text, Status::OK(); }},
    {"open_to_all", Kind::kBool, [](const std::string& text, Config* c) { return set_bool(text, &c->open_to_all); }},
    {"metrics", Kind::kText, [](const std::string& text, Config* c) { return c->metrics = text, Status::OK(); }},
    {"medium", Kind::kText, [](const std::string& text, Config* c) { return set_medium(text, &c->test); }},
    {"litmus_ms", Kind::kNumber, [](const std::string& text, Config* c) { return set_litmus(text, &c->litmus_ms); }},
};

const Setting* find_setting(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kSettings), std::end(kSettings), [&](const Setting& each) { return each.name == name; });
  return found == std::end(kSettings) ? nullptr : found;
}

std::string known_settings() {
  std::string known;
  for (const Setting& setting : kSettings) known += (known.empty() ? "" : ", ") + std::string(setting.name);
  return known;
}

// Converts a value of the file to the text that a flag would have. False: the value has another kind.
bool text_of(const toml::node& value, Kind kind, std::string* text) {
  switch (kind) {
    case Kind::kText:
      if (const auto* const string = value.as_string()) *text = string->get();
      return value.is_string();
    case Kind::kNumber:
      if (const auto* const number = value.as_integer()) *text = std::to_string(number->get());
      return value.is_integer();
    case Kind::kBool:
      if (const auto* const boolean = value.as_boolean()) *text = boolean->get() ? "true" : "false";
      return value.is_boolean();
    case Kind::kList:
      break;
  }
  if (!value.is_array()) return false;
  for (const toml::node& element : *value.as_array()) {
    if (!element.is_string()) return false;
    *text += (text->empty() ? "" : ",") + element.as_string()->get();
  }
  return true;
}

const char* form_of(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return "a string in quotes";
    case Kind::kNumber:
      return "a whole number";
    case Kind::kBool:
      return "true or false";
    case Kind::kList:
      return "a list of strings";
  }
  return "";
}

Status apply(const std::string& path, const toml::key& key, const toml::node& value, Config* config) {
  const std::string place = path + ", line " + std::to_string(value.source().begin.line) + ": ";
  const Setting* const setting = find_setting(key.str());
  if (setting == nullptr) {
    return Status::InvalidArgument(place + "unknown setting '" + admin::escape(key.str()) +
                                   "'; known: " + known_settings());
  }
  std::string text;
  if (!text_of(value, setting->kind, &text)) {
    return Status::InvalidArgument(place + std::string(setting->name) + " must be " + form_of(setting->kind));
  }
  const Status status = setting->set(text, config);
  if (status.ok()) return status;
  return Status::InvalidArgument(place + std::string(setting->name) + ": " + std::string(status.message()));
}

// The parser recurses into the parts of a dotted key and into nested values. A part takes at least two bytes, so the
// length bounds the depth, far below the room of a stack.
Status check_bytes(const std::string& path, const std::string& text) {
  if (text.size() <= kConfigBytesMax) return Status::OK();
  return Status::InvalidArgument(path + ", line 1: the file has more than " + std::to_string(kConfigBytesMax) +
                                 " bytes, which no configuration needs; see conf/bonsaid.toml for one to start from");
}

}  // namespace

std::vector<std::string_view> setting_names() {
  std::vector<std::string_view> names;
  for (const Setting& setting : kSettings) names.push_back(setting.name);
  return names;
}

Status set(std::string_view name, const std::string& text, Config* config) {
  const Setting* const setting = find_setting(name);
  if (setting != nullptr) return setting->set(text, config);
  return Status::InvalidArgument("unknown setting '" + admin::escape(name) + "'; known: " + known_settings());
}

Status read_config(const std::string& path, Config* config) {
  std::ifstream in(path);
  if (!std::filesystem::is_regular_file(path) || !in) {
    return Status::IoError("the configuration " + path +
                           " cannot be read; see conf/bonsaid.toml for one to start from");
  }
  try {
    std::string text(kConfigBytesMax + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    BONSAI_RETURN_IF_ERROR(check_bytes(path, text));
    const toml::table table = toml::parse(text, path);
    for (const auto& [key, value] : table) BONSAI_RETURN_IF_ERROR(apply(path, key, value, config));
  } catch (const toml::parse_error& error) {
    return Status::InvalidArgument(path + ", line " + std::to_string(error.source().begin.line) + ": " +
                                   std::string(error.description()));
  }
  return Status::OK();
}

std::string fixed_settings_that_differ(const Config& a, const Config& b) {
  std::string names;
  const auto add = [&names](bool differs, const char* name) {
    if (differs) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  add(a.folder != b.folder, "folder");
  add(a.listen != b.listen, "listen");
  add(a.domain != b.domain, "domain");
  add(a.test.medium != b.test.medium || a.test.shadow_drops_flushes != b.test.shadow_drops_flushes, "medium");
  add(a.metrics != b.metrics, "metrics");
  add(a.litmus_ms != b.litmus_ms, "litmus_ms");
  return names;
}

Status check(const Config& config) {
  if (config.folder.empty()) {
    return Status::InvalidArgument("no folder was named; add --folder=FOLDER, in which pools are files");
  }
  if (config.listen.empty()) {
    return Status::InvalidArgument("no address was named; add --listen=shm://NAME, or --listen=rdma://HOST:PORT");
  }
  if (config.domain == rdma::RemoteDomain::kUnknown) {
    return Status::InvalidArgument(
        "the persistence domain is not declared, so that a write could be lost after it was acknowledged; add "
        "--domain=adr if written bytes rest in the processor's caches (right everywhere, slower on better machines), "
        "adr-direct if they go past them, eadr if the caches survive a power cut");
  }
  const bool reaches_out = std::any_of(config.listen.begin(), config.listen.end(), [](const Address& address) {
    return scale::fabric_reach(address.scheme) == scale::FabricReach::kNetwork;
  });
  if (reaches_out && config.secret_file.empty() && !config.open_to_all) {
    return Status::InvalidArgument(
        "other machines could reach the pools without a secret; add --secret_file=FILE, made by (umask 077; openssl "
        "rand -hex 32 >FILE) and copied to the nodes that may, or --open_to_all on a network of your own");
  }
  if (!config.secret_file.empty() && config.open_to_all) {
    return Status::InvalidArgument("secret_file and open_to_all contradict each other; give one of them");
  }
  return Status::OK();
}

}  // namespace bonsai::bonsaid
