#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# First process of a guest of scripts/testbed.sh: loads modules, mounts the host's files, makes rxe0, executes commands.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "/modules/$module" 2>/dev/null || echo "testbed: module $module was not loaded"
done </modules.order
k=$(sed 's/.*testbed.k=\([0-9]*\).*/\1/' /proc/cmdline)
share=$(sed 's/.*testbed.share=\([^ ]*\).*/\1/' /proc/cmdline)

options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "ro,cache=none,$options" root /host || { echo "testbed: no host files"; poweroff -f; }
for folder in proc sys dev; do mount --bind "/$folder" "/host/$folder"; done
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=755 run /host/run
mount -t 9p -o "cache=mmap,$options" share "/host$share" || echo "testbed: no share at $share"

ip link set lo up
for path in /sys/class/net/eth*; do
  device=${path##*/}
  case "$(cat "$path/address")" in
    52:54:00:66:*) ip link set "$device" name fabric0 ;;
    *) ip link set "$device" up && ip address add 10.0.2.15/24 dev "$device" ;;
  esac
done
ip link set fabric0 mtu 4200 up
ip address add "10.66.0.$k/24" dev fabric0
ulimit -l unlimited
chroot /host rdma link add rxe0 type rxe netdev fabric0 || echo "testbed: no rxe0"
if [ -e /dev/pmem0 ]; then
  chroot /host ndctl create-namespace -f -e namespace0.0 -m devdax >/dev/null || echo "testbed: no devdax"
fi
echo 1 >/proc/sys/kernel/printk
echo "testbed: ready"
while true; do nc -ll -p 7 -e /agent; done
