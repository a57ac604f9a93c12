#!/bin/sh
# Makes the file system of a kind node without Kubernetes, Debian with systemd and
# containerd, as a tar archive:
#
#   base.sh ARCHIVE
set -eu

# What would act on the kernel that all machines share, or at some time of the
# day: sysctl settings, mounts of kernel file systems, timers, terminals.
masked='systemd-sysctl.service systemd-modules-load.service systemd-remount-fs.service
  dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount sys-kernel-config.mount
  sys-kernel-debug.mount sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
  e2scrub_reap.service fstrim.timer console-getty.service getty.target'
export masked
# shellcheck disable=SC2016 # the hooks get the root directory as $1
mmdebstrap --quiet --variant=minbase \
  --include=systemd,systemd-sysv,containerd,mount,procps,iproute2 \
  --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook='systemctl --quiet --root="$1" mask $masked' \
  --customize-hook='rm -f "$1/etc/machine-id" "$1/etc/hostname"; : >"$1/etc/machine-id"' \
  bookworm "$1" ${ETCDADM_DEBIAN_MIRROR:+"$ETCDADM_DEBIAN_MIRROR"}
