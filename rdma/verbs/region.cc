// SPDX-License-Identifier: Apache-2.0
#include "rdma/verbs/region.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <vector>

#include "base/nvm/medium_kind.h"
#include "base/nvm/os_file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "rdma/provider.h"

namespace bonsai::rdma::verbs {
namespace {

constexpr uint64_t kDecoysMax = 31;

struct MappingText {
  std::string kind;  // e.g. "fsdax, /mnt/pool"
  bool writable = true;
};

// Describes the mapping at `address`, from the process's own list of mappings.
MappingText describe_mapping(const std::byte* address) {
  const auto wanted = reinterpret_cast<uint64_t>(address);
  std::string text_of_maps;
  static_cast<void>(base::read_text("/proc/self/maps", SIZE_MAX, &text_of_maps));
  std::istringstream maps(text_of_maps);
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    char access[5] = {};
    int path_at = 0;
    const int fields =
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &begin, &end, access, &path_at);
    if (fields < 3 || wanted < begin || wanted >= end) continue;
    MappingText text{"anonymous memory", access[1] == 'w'};
    const std::string path = line.substr(static_cast<size_t>(path_at));
    if (path.empty() || path[0] != '/') return text;
    const base::OsFile file = base::open_file(path, O_RDONLY | O_NONBLOCK);
    base::MediumKind kind;
    const bool known = file.is_open() && base::detect_medium_kind(file.fd(), path, &kind).ok();
    text.kind = (known ? std::string(base::medium_kind_name(kind)) : "a mapped file") + ", " + path;
    return text;
  }
  return {"not mapped", true};
}

int access_flags(Rights rights) {
  return IBV_ACCESS_LOCAL_WRITE | (rights.read ? IBV_ACCESS_REMOTE_READ : 0) |
         (rights.write ? IBV_ACCESS_REMOTE_WRITE : 0) | (rights.atomic ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

}  // namespace

Status explain_refusal(const std::string& device, std::span<const std::byte> memory, int error) {
  const MappingText mapping = describe_mapping(memory.data());
  const std::string text =
      device + " cannot register " + std::to_string(memory.size()) + " bytes (" + mapping.kind + "): " + reason(error);
  switch (error) {
    case ENOMEM:
    case EAGAIN:
      return Status::NoSpace(text + "; raise the limit of locked memory (ulimit -l, or LimitMEMLOCK of the service)");
    case EOPNOTSUPP:
    case EFAULT:
    case EINVAL:
      if (!mapping.writable) return Status::NotSupported(text + "; it is mapped read-only, map it for writing");
      return Status::NotSupported(text +
                                  "; devices without on-demand paging need memory that stays where it is: devdax, "
                                  "tmpfs, hugetlb or anonymous memory, not fsdax and, on newer kernels, not files on "
                                  "disk");
    default:
      return Status::IoError(text);
  }
}

// Devices assign keys nearly in order. Up to kDecoysMax keys are used up before one that other nodes receive, so that
// one key does not reveal the next. The decoys are kept until then, or the device might assign one of them again.
std::vector<MemoryRegion> use_up_keys(const Device& device, std::byte* byte) {
  std::vector<MemoryRegion> decoys;
  constexpr int access = IBV_ACCESS_LOCAL_WRITE;
  uint64_t dice = 0;
  base::random_secret(std::as_writable_bytes(std::span(&dice, 1)));
  for (uint64_t left = dice % (kDecoysMax + 1); left > 0; --left) {
    decoys.emplace_back(ibv_reg_mr(device.domain(), byte, 1, access));
    if (decoys.back() == nullptr) break;  // no keys are left: goes on without decoys
  }
  return decoys;
}

VerbsRegion::VerbsRegion(std::span<std::byte> memory, Rights rights, MemoryRegion registered)
    : Region(memory, rights, {registered->rkey, reinterpret_cast<uintptr_t>(memory.data()), memory.size()}),
      registered_(std::move(registered)) {}

Status VerbsRegion::make(const Device& device, std::span<std::byte> memory, Rights rights,
                         std::unique_ptr<Region>* region) {
  BONSAI_RETURN_IF_ERROR(check_registration(memory, rights));
  const bool is_shown = rights.read || rights.write || rights.atomic;
  const std::vector<MemoryRegion> decoys = is_shown ? use_up_keys(device, memory.data()) : std::vector<MemoryRegion>();
  MemoryRegion registered(ibv_reg_mr(device.domain(), memory.data(), memory.size(), access_flags(rights)));
  if (registered == nullptr) return explain_refusal(device.name(), memory, errno);
  region->reset(new VerbsRegion(memory, rights, std::move(registered)));
  return Status::OK();
}

}  // namespace bonsai::rdma::verbs
