#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# One command for a guest of scripts/testbed.sh, over standard input: the testbed's token, then the command in base64.
export PATH=/bin
read -r token
[ "$token" = "$(cat /token)" ] || exit 1
read -r command
file=/run/command.$$
mkdir -p /host/run
printf '%s' "$command" | base64 -d >"/host$file"
export HOME=/run TMPDIR=/run PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
chroot /host /bin/bash "$file" </dev/null 2>&1
printf '\001exit %d\n' $?
