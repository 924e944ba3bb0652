// SPDX-License-Identifier: Apache-2.0
#include "scale/target_name.h"

#include <algorithm>

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

constexpr std::string_view kRoleMark = "?role=";
constexpr char kMemberMark = '|';  // between the members of a group

Status parse_role(const std::string& text, TargetRole* role) {
  const std::string_view said = std::string_view(text).substr(text.find(kRoleMark) + kRoleMark.size());
  for (const TargetRole known : {TargetRole::kLog, TargetRole::kDnodes, TargetRole::kBoth}) {
    if (said != role_text(known)) continue;
    *role = known;
    return Status::OK();
  }
  return Status::InvalidArgument("'" + text + "' has no role of a target; write ?role=log, ?role=dnodes or ?role=both");
}

// Whether the name ends as a query does: "?word=...", or a word that was meant to be the role.
bool has_query(std::string_view text) {
  const size_t mark = text.rfind('?');
  if (mark == std::string_view::npos) return false;
  const std::string_view query = text.substr(mark + 1);
  return query == "role" || query.find('=') != std::string_view::npos;
}

// The queries after a group's '?'.
Status parse_group_queries(const std::string& whole, std::string_view queries, TargetName* name) {
  for (size_t begin = 0; begin <= queries.size();) {
    const size_t end = std::min(queries.find('&', begin), queries.size());
    const std::string_view query = queries.substr(begin, end - begin);
    begin = end + 1;
    constexpr std::string_view kReplicas = "replicas_min=";
    if (query.starts_with("role=")) {
      BONSAI_RETURN_IF_ERROR(parse_role("?" + std::string(query), &name->role));
    } else if (query.starts_with(kReplicas) && query.size() == kReplicas.size() + 1 && query.back() >= '1' &&
               query.back() <= '9') {
      name->replicas_min = static_cast<size_t>(query.back() - '0');
    } else {
      return Status::InvalidArgument("'" + whole + "' has the query '" + std::string(query) +
                                     "', which is none of a group; write ?replicas_min=N, ?role=..., or both with & " +
                                     "between");
    }
  }
  if (name->replicas_min <= name->members.size()) return Status::OK();
  return Status::InvalidArgument("'" + whole + "' wants each update on " + std::to_string(name->replicas_min) +
                                 " members and names " + std::to_string(name->members.size()) +
                                 "; write replicas_min=1 to " + std::to_string(name->members.size()));
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
                                     group.scheme + "://... for " + member.text);
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
    BONSAI_RETURN_IF_ERROR(parse_group_queries(whole, std::string_view(whole).substr(query + 1), &group));
  }
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
  if (const size_t mark = whole.find("://"); mark != std::string::npos &&
                                             whole.find(kMemberMark) != std::string::npos &&
                                             is_scheme(std::string_view(whole).substr(0, mark))) {
    return parse_group(whole, name);
  }
  TargetName parsed;
  const std::string text = whole.substr(0, whole.find(kRoleMark));
  parsed.text = text;
  if (text.size() != whole.size()) BONSAI_RETURN_IF_ERROR(parse_role(whole, &parsed.role));
  if (text.empty()) return Status::InvalidArgument("'" + whole + "' has a role, but names no target before it");
  if (has_query(text)) {
    return Status::InvalidArgument("'" + whole + "' ends in a query that is none of a target; write ?role=log, " +
                                   "?role=dnodes or ?role=both, or give a file of that name another one");
  }
  const size_t mark = text.find("://");
  if (mark == std::string::npos || !is_scheme(std::string_view(text).substr(0, mark))) {
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
