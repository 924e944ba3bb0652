#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# N virtual machines connected by Soft-RoCE, on a machine without RDMA hardware, NVM or KVM. They are emulated: counts
# and behaviour are real, times are not.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: scripts/testbed.sh COMMAND
  up N [--nvm SIZE]   starts N guests (SIZE: an emulated NVDIMM each, as devdax, e.g. 256M) and waits until they answer
  exec K CMD          runs CMD in guest K, prints its output, returns its exit code
  run CMD             runs CMD in all guests at once, output lines marked with the guest
  kill K / restart K  a power cut of guest K, and its next start; its NVDIMM keeps what it held
  cut K L [--one-way] guests K and L do not hear each other (one way: only L does not hear K)
  heal                ends all cuts
  down                stops the guests and removes everything
  fetch               fetches the guests' kernel if that has not been done; up does so, too

Guests boot Debian's own kernel (fetched once with apt-get download, taken apart, never installed), see this machine's
files read-only at the same paths, and may write in /run, /dev/shm and in $BONSAI_TESTBED/share, which is this
machine's folder of that name. Guest K is 10.66.0.K on the fabric's network, device rxe0. Nothing leaves the machine:
the networks are sockets on the loopback device, commands are taken with a secret token only.
  BONSAI_TESTBED        folder of the testbed's state (default /tmp/bonsai-testbed.UID); another folder, another testbed
  BONSAI_TESTBED_CACHE  where the kernel is kept (default ~/.cache/bonsai/testbed)
  BONSAI_TESTBED_PROCESSORS  of each guest (default: 1 or 2, as many as this machine has for each)
TEXT
}
fail() {
  echo "testbed: $*" >&2
  exit 1
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${BONSAI_TESTBED:-/tmp/bonsai-testbed.$UID}
cache=${BONSAI_TESTBED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bonsai/testbed}
boot_seconds_max=90
busybox=/bin/busybox
# The modules in order of loading; modprobe finds their dependencies.
modules=(virtio_pci virtio_net virtio_rng 9pnet_virtio 9p crc32_generic crc32-pclmul ib_uverbs rdma_ucm rdma_rxe
  libnvdimm nfit nd_btt nd_pmem dax_pmem device_dax sch_ingress cls_u32 act_gact)

# ---- the kernel and the first file system

fetch_kernel() {
  local package folder=$cache/kernel
  [[ -e $folder/ready ]] && return
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/{print $2; exit}')
  [[ -n $package ]] || fail "apt knows no linux-image-amd64; run apt-get update, or scripts/setup.sh testbed"
  echo "testbed: fetching $package (once, 70 MB)"
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$folder" && apt-get download -q "$package" >fetch.log 2>&1 && dpkg -x ./*.deb .) ||
    fail "the kernel cannot be fetched: $(tail -n 1 "$folder/fetch.log"); is there a network?"
  rm -f "$folder"/*.deb
  depmod -b "$folder" "$(ls "$folder/lib/modules")"
  touch "$folder/ready"
}

make_initramfs() {
  local root=$state/initramfs release module path
  release=$(ls "$cache/kernel/lib/modules")
  mkdir -p "$root"/{bin,modules,proc,sys,dev,host,run}
  cp "$busybox" "$root/bin/busybox"
  cp "$here/testbed/init.sh" "$root/init"
  cp "$here/testbed/agent.sh" "$root/agent"
  chmod +x "$root/init" "$root/agent"
  for module in "${modules[@]}"; do
    modprobe -d "$cache/kernel" -S "$release" --show-depends --ignore-install "$module" 2>/dev/null |
      awk '$1 == "insmod" {print $2}'
  done | awk '!seen[$0]++' >"$state/modules"
  while read -r path; do
    cp "$path" "$root/modules/"
    basename "$path"
  done <"$state/modules" >"$root/modules.order"
  cat "$state/token" >"$root/token"
  (cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$state/initramfs.gz"
  rm -rf "$root"
}

# ---- guests

# KVM is used only if a kernel really boots on it: under nested virtualisation the device may open and then hang.
choose_accelerator() {
  accelerator=tcg,thread=multi
  if [[ -r /dev/kvm && -w /dev/kvm ]]; then
    if timeout 4 qemu-system-x86_64 -accel kvm -machine q35 -m 256 -nodefaults -display none -serial stdio -no-reboot \
      -kernel "$(kernel)" -append "console=ttyS0 panic=-1" 2>/dev/null </dev/null | grep -qm1 "Linux version"; then
      accelerator=kvm
    fi
  fi
  echo "$accelerator" >"$state/accelerator"
}
kernel() { echo "$cache"/kernel/boot/vmlinuz-*; }
alive() { [[ -e $state/$1.pid ]] && kill -0 "$(<"$state/$1.pid")" 2>/dev/null; }
known() { [[ $1 =~ ^[0-9]+$ && -e $state/$1.port ]] || fail "there is no guest '$1' (scripts/testbed.sh up N first)"; }

# tsc=reliable: otherwise an emulated guest reads the time from an emulated HPET, which is thousands of times slower.
start_guest() {
  local k=$1 port group nvdimm=() attempt
  : >"$state/$k.console"
  if [[ -s $state/nvm ]]; then
    [[ -e $state/$k.nvdimm ]] || truncate -s "$(<"$state/nvm")" "$state/$k.nvdimm"
    nvdimm=(-object "memory-backend-file,id=nv0,share=on,mem-path=$state/$k.nvdimm,size=$(<"$state/nvm")"
      -device nvdimm,memdev=nv0)
  fi
  for attempt in {1..20}; do
    port=$((20000 + RANDOM % 12000))
    setsid qemu-system-x86_64 -machine q35,nvdimm=on -accel "$(<"$state/accelerator")" \
      -smp "$(<"$state/processors")" -cpu max,-erms,-fsrm -m 1024,slots=2,maxmem=8G \
      -nodefaults -display none -no-reboot -serial "file:$state/$k.console" \
      -kernel "$(kernel)" -initrd "$state/initramfs.gz" \
      -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable testbed.k=$k testbed.share=$state/share" \
      -fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap" \
      -device virtio-9p-pci,fsdev=root,mount_tag=root \
      -fsdev "local,id=share,path=$state/share,security_model=none,multidevs=remap" \
      -device virtio-9p-pci,fsdev=share,mount_tag=share \
      -netdev "user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:$port-:7" \
      -device virtio-net-pci,netdev=control,romfile= \
      -netdev "socket,id=fabric,mcast=$(<"$state/group"),localaddr=127.0.0.1" \
      -device "virtio-net-pci,netdev=fabric,romfile=,host_mtu=4200,mac=52:54:00:66:00:$(printf %02x "$k")" \
      -device virtio-rng-pci "${nvdimm[@]}" >"$state/$k.log" 2>&1 </dev/null &
    echo $! >"$state/$k.pid"
    echo "$port" >"$state/$k.port"
    sleep 0.3
    if alive "$k"; then
      group=$(<"$state/group")
      python3 "$(dirname "$0")/testbed/widen_socket.py" "$(<"$state/$k.pid")" "${group##*:}" >>"$state/$k.log"
      return
    fi
    grep -q "host forwarding" "$state/$k.log" || fail "guest $k did not start: $(tail -n 2 "$state/$k.log")"
  done
  fail "no free port for guest $k after $attempt attempts"
}

await_guest() {
  local k=$1 end=$((SECONDS + boot_seconds_max))
  until grep -q "testbed: ready" "$state/$k.console"; do
    alive "$k" || fail "guest $k died while it started; its console: $(tail -n 5 "$state/$k.console")"
    ((SECONDS < end)) || fail "guest $k is not ready after $boot_seconds_max s: $(tail -n 5 "$state/$k.console")"
    sleep 0.2
  done
}

stop_guest() {
  alive "$1" && kill -KILL "$(<"$state/$1.pid")"
  rm -f "$state/$1.pid"
}

guests() { for file in "$state"/*.port; do basename "$file" .port; done | sort -n; }

up() {
  local count=${1:-} nvm=
  [[ $count =~ ^[1-9][0-9]?$ ]] || { usage >&2 && fail "up needs a number of guests, 1 to 99"; }
  [[ ${2:-} == --nvm ]] && nvm=${3:?--nvm needs a size, e.g. 256M}
  local tool
  for tool in qemu-system-x86_64 "$busybox" modprobe cpio; do
    command -v "$tool" >/dev/null || fail "$tool is missing; run scripts/setup.sh testbed"
  done
  [[ ! -e $state ]] || fail "there is a testbed in $state already; scripts/testbed.sh down removes it"
  fetch_kernel
  (umask 077 && mkdir -p "$state/share")
  head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$state/token"
  echo "239.66.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)):$((32000 + RANDOM % 700))" >"$state/group"
  printf '%s' "$nvm" >"$state/nvm"
  # Emulated processors that share a real one are slow.
  local processors=$(($(nproc) / count))
  ((processors = processors < 1 ? 1 : processors > 2 ? 2 : processors))
  echo "${BONSAI_TESTBED_PROCESSORS:-$processors}" >"$state/processors"
  make_initramfs
  choose_accelerator
  local k begin=$SECONDS
  for ((k = 1; k <= count; ++k)); do start_guest "$k"; done
  for ((k = 1; k <= count; ++k)); do await_guest "$k"; done
  echo "testbed: $count guests are up after $((SECONDS - begin)) s ($(<"$state/accelerator"), Soft-RoCE, emulated)"
}

# exec_in K CMD: output to stdout, exit code returned; 255 when the guest went away.
exec_in() {
  local k=$1 command=$2 line previous= code=255 socket
  alive "$k" || fail "guest $k is not running; scripts/testbed.sh restart $k starts it"
  exec {socket}<>"/dev/tcp/127.0.0.1/$(<"$state/$k.port")"
  printf '%s\n%s\n' "$(<"$state/token")" "$(base64 -w0 <<<"$command")" >&"$socket"
  while IFS= read -r line <&"$socket"; do
    if [[ $line == $'\001exit '* ]]; then
      code=${line#* }
      break
    fi
    printf '%s\n' "$line"
  done
  exec {socket}>&-
  return "$code"
}

run_in_all() {
  local k pids=() code=0
  for k in $(guests); do
    exec_in "$k" "$1" > >(sed -u "s/^/[$k] /") &
    pids+=($!)
  done
  for k in "${pids[@]}"; do wait "$k" || code=$?; done
  return "$code"
}

# Guest L silently drops packets from K, as a network would: neither end is informed.
mute() {
  exec_in "$2" "tc qdisc replace dev fabric0 clsact && tc filter replace dev fabric0 ingress pref $1 protocol ip u32 \
    match ip src 10.66.0.$1/32 action drop"
}

case "${1:-}" in
  fetch) fetch_kernel ;;
  up) shift && up "$@" ;;
  exec) known "${2:-}" && exec_in "$2" "${*:3}" ;;
  run) [[ -e $state/1.port ]] || fail "no guests" && run_in_all "${*:2}" ;;
  kill) known "${2:-}" && stop_guest "$2" ;;
  restart) known "${2:-}" && stop_guest "$2" && start_guest "$2" && await_guest "$2" ;;
  cut)
    known "${2:-}" && known "${3:-}" && mute "$2" "$3"
    [[ ${4:-} == --one-way ]] || mute "$3" "$2"
    ;;
  heal) for k in $(guests); do alive "$k" && exec_in "$k" "tc qdisc del dev fabric0 clsact 2>/dev/null || true"; done ;;
  down)
    [[ -e $state/token || -e $state/share ]] || { echo "testbed: none is up in $state" && exit 0; }
    for k in $(guests); do [[ -e $state/$k.port ]] && stop_guest "$k" || true; done
    rm -rf "$state"
    ;;
  -h | --help) usage ;;
  *) usage >&2 && exit 2 ;;
esac
