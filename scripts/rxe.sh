#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Provides an RDMA device on this machine: an existing one, or Soft-RoCE on one of its network devices.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: scripts/rxe.sh up [NETDEV] | down

  up [NETDEV]  names the RDMA devices that are there; without one, makes rxe0 on NETDEV (default: the device of the
               default route). Needs root and a kernel that can load rdma_rxe; where it cannot, says why.
  down         removes the rxe devices that up has made
TEXT
}
fail() {
  echo "rxe: $*" >&2
  exit 1
}
state=${XDG_RUNTIME_DIR:-/tmp}/bonsai-rxe.$UID # the devices that `up` has made, one per line
instead="scripts/testbed.sh up 2 starts virtual machines that have Soft-RoCE, on any machine"
# Tests set another root.
sys=${BONSAI_SYS:-/sys}

devices() { ls "$sys/class/infiniband" 2>/dev/null || true; }

up() {
  local device=${1:-}
  if [[ -n $(devices) ]]; then
    echo "rxe: this machine has RDMA devices: $(devices | paste -sd' ')"
    return
  fi
  ((EUID == 0)) || fail "there is no RDMA device, and making one takes root: sudo scripts/rxe.sh up. Or: $instead"
  command -v rdma >/dev/null || fail "the program rdma is missing (apt-get install iproute2). Or: $instead"
  local said
  if [[ ! -d $sys/module/rdma_rxe ]]; then
    said=$(modprobe rdma_rxe 2>&1) ||
      fail "there is no RDMA device, and this kernel ($(uname -r)) cannot load rdma_rxe: ${said:-no reason given}." \
        "$instead"
  fi
  [[ -n $device ]] || device=$(ip -o route show default | awk '{print $5; exit}')
  [[ -n $device ]] || fail "no network device has the default route; name one: scripts/rxe.sh up NETDEV"
  said=$(rdma link add rxe0 type rxe netdev "$device" 2>&1) || fail "rxe0 cannot be made on $device: $said"
  echo rxe0 >>"$state"
  echo "rxe: rxe0 is up on $device (Soft-RoCE: times are not those of a device); scripts/rxe.sh down removes it"
}

down() {
  [[ -s $state ]] || { echo "rxe: nothing to remove" && return; }
  local device
  while read -r device; do
    rdma link delete "$device" || fail "cannot remove $device"
    echo "rxe: removed $device"
  done <"$state"
  rm -f "$state"
}

case "${1:-}" in
  up) shift && up "$@" ;;
  down) down ;;
  -h | --help) usage ;;
  *) usage >&2 && exit 2 ;;
esac
