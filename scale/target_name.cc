// SPDX-License-Identifier: Apache-2.0
#include "scale/target_name.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "scale/membership/lease.h"
#include "scale/volume.h"

namespace bonsai::scale {
namespace {

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '.' ||
         byte == '_' || byte == '-';
}

bool is_scheme(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char byte) { return byte >= 'a' && byte <= 'z'; });
}

constexpr std::string_view kRole = "role=", kCheckedLease = "lease=checked",
                           kReplicasMin = "replicas_min=", kReplace = "replace=", kSameNode = "same_node=allowed",
                           kWitness = "witness=";
constexpr char kMemberMark = '|';  // between the members of a group

// Where the query begins: "?role=..." or "?lease=...".
size_t find_query(const std::string& text) { return std::min(text.find("?role="), text.find("?lease=")); }

bool parse_role(std::string_view text, TargetRole* role) {
  const TargetRole all[] = {TargetRole::kLog, TargetRole::kDnodes, TargetRole::kBoth};
  const auto found =
      std::find_if(std::begin(all), std::end(all), [&](TargetRole each) { return text == role_text(each); });
  if (found == std::end(all)) return false;
  *role = *found;
  return true;
}

// A number of members, or of one of them.
bool parse_count(std::string_view text, size_t* count) {
  if (*count != 0 || text.size() != 1 || text[0] < '1' || text[0] > '9') return false;
  *count = static_cast<size_t>(text[0] - '0');
  return true;
}

// `query` without the question mark, of a group or of another target. False: it is none of its queries.
bool parse_query(std::string_view query, bool is_group, TargetName* name) {
  for (size_t begin = 0; begin <= query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view word = query.substr(begin, end - begin);
    if (word.starts_with(kRole)) {
      if (name->role != TargetRole::kUnsaid || !parse_role(word.substr(kRole.size()), &name->role)) return false;
    } else if (is_group && word.starts_with(kReplicasMin)) {
      if (!parse_count(word.substr(kReplicasMin.size()), &name->replicas_min)) return false;
    } else if (is_group && word.starts_with(kReplace)) {
      if (!parse_count(word.substr(kReplace.size()), &name->replaces)) return false;
    } else if (is_group && word.starts_with(kWitness)) {
      if (!name->witness.empty()) return false;
      name->witness.emplace_back().text = word.substr(kWitness.size());
    } else if (is_group && word == kSameNode) {
      if (std::exchange(name->allows_same_node, true)) return false;
    } else if (word != kCheckedLease || std::exchange(name->checks_lease, true)) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

// Whether the name ends as a query does: "?word=...", or a word that was meant to begin one.
bool has_query(std::string_view text) {
  const size_t mark = text.rfind('?');
  if (mark == std::string_view::npos) return false;
  const std::string_view query = text.substr(mark + 1);
  return query == "role" || query == "lease" || query.find('=') != std::string_view::npos;
}

// Whether the name has several parts, of which one is a pool of a node.
bool is_of_group(std::string_view text) {
  if (text.find(kMemberMark) == std::string_view::npos) return false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kMemberMark, begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t mark = part.find("://");
    if (mark != std::string_view::npos && is_scheme(part.substr(0, mark))) return true;
    begin = end + 1;
  }
  return false;
}

// Makes a name of the text after ?witness=.
Status parse_witness(const std::string& whole, TargetName* group) {
  TargetName& witness = group->witness.front();
  const std::string text = witness.text;
  if (group->members.size() != 2) {
    return Status::InvalidArgument("'" + whole + "' has a witness and " + std::to_string(group->members.size()) +
                                   " members, which decide by themselves; leave the witness out");
  }
  const bool is_name = parse_target_name(text, &witness).ok() && !witness.is_group() && witness.text == text;
  if (!is_name || witness.scheme != group->scheme) {
    return Status::InvalidArgument("'" + whole + "' has the witness '" + text + "', which is no pool of a node of " +
                                   "its members' scheme; write ?witness=" + group->scheme + "://NODE/POOL");
  }
  const auto is_it = [&text](const TargetName& member) { return member.text == text; };
  if (std::none_of(group->members.begin(), group->members.end(), is_it)) return Status::OK();
  return Status::InvalidArgument("'" + whole + "' names " + text +
                                 " as a member and as the witness; name another pool");
}

// The query after a group's '?'.
Status parse_group_query(const std::string& whole, std::string_view query, TargetName* name) {
  if (!parse_query(query, /*is_group=*/true, name)) {
    return Status::InvalidArgument("'" + whole + "' has the query '" + std::string(query) +
                                   "', which is none of a group; write ?replicas_min=N, ?witness=SCHEME://NODE/POOL, " +
                                   "?replace=N, ?same_node=allowed, ?lease=checked, ?role=log, ?role=dnodes or " +
                                   "?role=both, or several with & between");
  }
  if (!name->witness.empty()) BONSAI_RETURN_IF_ERROR(parse_witness(whole, name));
  const size_t voters = name->members.size() + name->witness.size();
  if (name->replaces > voters) {
    return Status::InvalidArgument("'" + whole + "' replaces member " + std::to_string(name->replaces) + " and names " +
                                   std::to_string(voters) + "; write ?replace=1 to " + std::to_string(voters));
  }
  if (name->replicas_min <= name->members.size()) return Status::OK();
  return Status::InvalidArgument("'" + whole + "' wants each update on " + std::to_string(name->replicas_min) +
                                 " members and names " + std::to_string(name->members.size()) +
                                 "; write replicas_min=1 to " + std::to_string(name->members.size()));
}

// One loss would take both.
Status check_nodes(const std::string& whole, const TargetName& group) {
  std::vector<TargetName> all = group.members;
  all.insert(all.end(), group.witness.begin(), group.witness.end());
  for (const TargetName& member : all) {
    const auto is_there = [&member](const TargetName& other) { return other.node == member.node; };
    if (group.allows_same_node || std::count_if(all.begin(), all.end(), is_there) == 1) continue;
    return Status::InvalidArgument("'" + whole + "' names two members on " + member.node +
                                   ", which are lost together; name pools of different nodes, or, if that is meant, " +
                                   "add ?same_node=allowed");
  }
  return Status::OK();
}

Status parse_group(const std::string& whole, TargetName* name) {
  TargetName group;
  const size_t query = std::min(whole.find('?'), whole.size());
  group.text = whole.substr(0, query);
  for (size_t begin = 0; begin <= group.text.size();) {
    const size_t end = std::min(group.text.find(kMemberMark, begin), group.text.size());
    TargetName member;
    if (end == begin) return Status::InvalidArgument("'" + whole + "' names an empty member; write one | between two");
    BONSAI_RETURN_IF_ERROR(parse_target_name(group.text.substr(begin, end - begin), &member));
    begin = end + 1;
    group.scheme = group.members.empty() ? member.scheme : group.scheme;
    if (member.scheme.empty() || member.scheme != group.scheme) {
      return Status::InvalidArgument("'" + whole +
                                     "' is a group, whose members are pools of nodes, all of one scheme; " + "write " +
                                     (group.scheme.empty() ? "shm" : group.scheme) + "://... for " + member.text);
    }
    for (const TargetName& other : group.members) {
      if (other.text != member.text) continue;
      return Status::InvalidArgument("'" + whole + "' names the member " + member.text + " twice; name each once");
    }
    group.members.push_back(std::move(member));
  }
  if (group.members.size() > membership::kMembersMax) {
    return Status::InvalidArgument("'" + whole + "' names " + std::to_string(group.members.size()) +
                                   " members; a group has at most " + std::to_string(membership::kMembersMax));
  }
  if (query < whole.size()) {
    BONSAI_RETURN_IF_ERROR(parse_group_query(whole, std::string_view(whole).substr(query + 1), &group));
  }
  BONSAI_RETURN_IF_ERROR(check_nodes(whole, group));
  *name = std::move(group);
  return Status::OK();
}

}  // namespace

bool is_pool_name(std::string_view name) {
  return !name.empty() && name.size() <= kPoolNameBytesMax && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), is_name_byte);
}

std::string_view role_text(TargetRole role) {
  switch (role) {
    case TargetRole::kUnsaid:
      return "";
    case TargetRole::kLog:
      return "log";
    case TargetRole::kDnodes:
      return "dnodes";
    case TargetRole::kBoth:
      return "both";
  }
  return "";
}

Status parse_target_name(const std::string& whole, TargetName* name) {
  if (is_of_group(whole)) return parse_group(whole, name);
  TargetName parsed;
  const std::string text = whole.substr(0, find_query(whole));
  parsed.text = text;
  const bool is_query =
      text.size() == whole.size() || parse_query(whole.substr(text.size() + 1), /*is_group=*/false, &parsed);
  if (!is_query || has_query(text)) {
    return Status::InvalidArgument("'" + whole + "' ends in a query that is none of a target; write ?role=log, " +
                                   "?role=dnodes or ?role=both, and for a pool of another node also ?lease=checked " +
                                   "(?role=log&lease=checked), or give a file of that name another one");
  }
  if (text.empty()) return Status::InvalidArgument("'" + whole + "' is a query, but names no target before it");
  const size_t mark = text.find("://");
  if (mark == std::string::npos || !is_scheme(std::string_view(text).substr(0, mark))) {
    if (parsed.checks_lease) {
      return Status::InvalidArgument("'" + whole +
                                     "' asks for leases, but a file of this machine has none: its owner " +
                                     "holds a lock; leave ?lease=checked out");
    }
    *name = std::move(parsed);
    return Status::OK();
  }
  parsed.scheme = text.substr(0, mark);
  const size_t begin = mark + 3;
  const size_t slash = text.find('/', begin);
  if (slash == std::string::npos || slash == begin || !is_pool_name(std::string_view(text).substr(slash + 1))) {
    return Status::InvalidArgument("'" + text + "' names no remote target; write " + parsed.scheme +
                                   (parsed.scheme == "rdma" ? "://HOST:PORT/POOL" : "://NODE/POOL") +
                                   ", where POOL is one file name of letters, digits, '.', '_' and '-'");
  }
  parsed.node = text.substr(begin, slash - begin);
  parsed.pool = text.substr(slash + 1);
  *name = std::move(parsed);
  return Status::OK();
}

Status parse_target_names(const std::string& list, std::vector<TargetName>* names) {
  names->clear();
  for (size_t begin = 0; begin <= list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    if (comma == begin) {
      return Status::InvalidArgument(list.empty() ? "the pool's path is empty; name a file, e.g. /dev/shm/my.pool"
                                                  : "a part of the path list '" + list +
                                                        "' is empty; name one file per target, with one comma between");
    }
    TargetName name;
    BONSAI_RETURN_IF_ERROR(parse_target_name(list.substr(begin, comma - begin), &name));
    for (const TargetName& other : *names) {
      if (other.text == name.text) {
        return Status::InvalidArgument(name.text + " is named twice; name each target once");
      }
    }
    names->push_back(std::move(name));
    begin = comma + 1;
  }
  if (names->size() > kTargetsMax) {
    return Status::InvalidArgument("a pool has at most " + std::to_string(kTargetsMax) + " targets, " +
                                   std::to_string(names->size()) + " were named");
  }
  return Status::OK();
}

}  // namespace bonsai::scale
