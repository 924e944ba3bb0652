// SPDX-License-Identifier: Apache-2.0
#include "rdma/verbs/device.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/nvm/descriptor.h"
#include "base/status_macros.h"

namespace bonsai::rdma::verbs {
namespace {

constexpr size_t kListsPendingMax = 64;
constexpr uint32_t kInlineBytesWanted = 128;
constexpr uint32_t kReadsInFlightWanted = 64;
constexpr uint32_t kVendorOfSoftware = 0xffffff;  // the vendor of the kernel's software devices

Status no_device(const std::string& what) {
  return Status::NotSupported(what +
                              "; load the driver of the RDMA device, or make a software one on a network device "
                              "(scripts/rxe.sh up); where the kernel has neither, scripts/testbed.sh starts virtual "
                              "machines that do");
}

std::string gid_text(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  in6_addr address;
  static_assert(sizeof address == sizeof gid);
  std::memcpy(&address, &gid, sizeof address);
  if (IN6_IS_ADDR_V4MAPPED(&address)) return inet_ntop(AF_INET, gid.raw + 12, text.data(), text.size());
  return inet_ntop(AF_INET6, &address, text.data(), text.size());
}

// Rank of an entry of the GID table as this node's address; 0: unusable.
int gid_rank(const ibv_gid_entry& entry) {
  in6_addr address;
  std::memcpy(&address, &entry.gid, sizeof address);
  if (entry.gid_type == IBV_GID_TYPE_IB) return 1;  // librdmacm addresses it through IP over InfiniBand
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return 4;
  return IN6_IS_ADDR_LINKLOCAL(&address) ? 2 : 3;
}

const char* atomics_text(ibv_atomic_cap atomics) {
  switch (atomics) {
    case IBV_ATOMIC_GLOB:
      return "atomics also with the processor's";
    case IBV_ATOMIC_HCA:
      return "atomics among devices only (not with the processor's)";
    default:
      return "NO ATOMICS";
  }
}

}  // namespace

uint8_t mtu_code(uint32_t bytes) {
  for (const int code : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (bytes == (128U << code)) return static_cast<uint8_t>(code);
  }
  return 0;
}

Status Device::open(const VerbsOptions& options, std::unique_ptr<Device>* device) {
  if (options.mtu_bytes != 0 && mtu_code(options.mtu_bytes) == 0) {
    return Status::InvalidArgument("an MTU of " + std::to_string(options.mtu_bytes) +
                                   " bytes; RDMA has 256, 512, 1024, 2048 and 4096, or 0 for the path's own");
  }
  int count = 0;
  const base::StandardPlaces occupied;
  ibv_context** const contexts = rdma_get_devices(&count);
  if (contexts == nullptr || count == 0) return no_device("this machine offers no RDMA device");
  std::string refusals;
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<Device> candidate(new Device);
    candidate->options_ = options;
    candidate->context_ = contexts[i];
    candidate->name_ = ibv_get_device_name(contexts[i]->device);
    if (!options.device.empty() && candidate->name_ != options.device) continue;
    ibv_device_attr limits = {};
    if (const int error = ibv_query_device(contexts[i], &limits); error != 0) {
      refusals += ", " + candidate->name_ + ": " + reason(error);
      continue;
    }
    Status status = candidate->choose_port();
    if (status.ok()) status = candidate->size_queues(limits);
    if (status.ok()) {
      candidate->describe(limits);
      *device = std::move(candidate);
      break;
    }
    refusals += ", " + std::string(status.message());
  }
  rdma_free_devices(contexts);
  if (*device != nullptr) return Status::OK();
  if (refusals.empty()) return no_device("there is no RDMA device '" + options.device + "'");
  return no_device("no RDMA device can be used: " + refusals.substr(2));
}

Status Device::choose_port() {
  std::vector<ibv_gid_entry> table(256);
  const ssize_t entries = ibv_query_gid_table(context_, table.data(), table.size(), 0);
  if (entries < 0) return Status::NotSupported(name_ + " does not list its addresses: " + reason(int(-entries)));
  table.resize(static_cast<size_t>(entries));
  int best = 0;
  for (const ibv_gid_entry& entry : table) {
    if (options_.port != 0 && entry.port_num != options_.port) continue;
    if (options_.gid_index >= 0 && entry.gid_index != static_cast<uint32_t>(options_.gid_index)) continue;
    ibv_port_attr state = {};
    if (ibv_query_port(context_, static_cast<uint8_t>(entry.port_num), &state) != 0) continue;
    const int rank = gid_rank(entry);
    if (state.state != IBV_PORT_ACTIVE || rank <= best) continue;
    best = rank;
    port_ = entry.port_num;
    port_state_ = state;
    gid_ = gid_text(entry.gid);
    host_ = entry.gid_type == IBV_GID_TYPE_IB ? std::string() : gid_;
  }
  if (best != 0) return Status::OK();
  return Status::NotSupported(name_ + " has no active port with a usable address" +
                              (options_.port != 0 || options_.gid_index >= 0 ? " among those asked for" : "") +
                              " (rdma link; ip address)");
}

Status Device::size_queues(const ibv_device_attr& limits) {
  domain_.reset(ibv_alloc_pd(context_));
  if (domain_ == nullptr) return Status::IoError(name_ + " gives no protection domain: " + reason(errno));
  if (limits.max_srq == 0) return Status::NotSupported(name_ + " has no shared receive queues, which are needed");
  receives_max_ = std::min({options_.receive_buffers_max, uint32_t(limits.max_srq_wr), uint32_t(limits.max_cqe) / 2});
  const uint32_t sends = std::min(uint32_t(limits.max_qp_wr), uint32_t(limits.max_cqe) - receives_max_);
  capabilities_.messages_waiting_max = receives_max_;
  capabilities_.lists_pending_max = std::min(kListsPendingMax, sends / WorkList::kRequestsMax);
  if (receives_max_ == 0 || capabilities_.lists_pending_max == 0) {
    return Status::NotSupported(name_ + " has queues too short for one work list");
  }
  const int reads = std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom);
  reads_in_flight_max_ = static_cast<uint8_t>(std::clamp<int>(reads, 1, kReadsInFlightWanted));
  capabilities_.inline_bytes_max = probe_inline_bytes();
  return Status::OK();
}

uint32_t Device::sends_max() const {
  return static_cast<uint32_t>(capabilities_.lists_pending_max * WorkList::kRequestsMax);
}

// Devices do not report how much they can send inline; a queue pair does.
uint32_t Device::probe_inline_bytes() const {
  const CompletionQueue queue(ibv_create_cq(context_, 1, nullptr, nullptr, 0));
  if (queue == nullptr) return 0;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = queue.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {
      .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = kInlineBytesWanted};
  const QueuePair pair(ibv_create_qp(domain_.get(), &attributes));
  return pair == nullptr ? 0 : std::min(attributes.cap.max_inline_data, kInlineBytesWanted);
}

void Device::describe(const ibv_device_attr& limits) {
  capabilities_.emulated = limits.vendor_id == kVendorOfSoftware;
  capabilities_.atomics_with_cpu = limits.atomic_cap == IBV_ATOMIC_GLOB;
  capabilities_.message_bytes_max = port_state_.max_msg_sz;
  const uint32_t mtu = std::min(128U << port_state_.active_mtu, options_.mtu_bytes == 0 ? 4096U : options_.mtu_bytes);
  std::string& text = capabilities_.text;
  text = "verbs, " + name_ + (capabilities_.emulated ? " (software RDMA: times are not those of a device)" : "") +
         ", port " + std::to_string(port_) + ", " + gid_ + ", MTU " + std::to_string(mtu) + "; " +
         atomics_text(limits.atomic_cap);
  text += capabilities_.inline_bytes_max != 0
              ? "; up to " + std::to_string(capabilities_.inline_bytes_max) + " bytes sent inline"
              : "; nothing sent inline (every payload is fetched by the device)";
  text += limits.max_mw != 0 ? "; memory windows" : "; no memory windows (keys are those of whole regions)";
  text += "; no RDMA FLUSH (remote persistence by agent or read-after-write)";
}

}  // namespace bonsai::rdma::verbs
