#!/bin/sh
# Makes the file system of a machine, Debian with systemd, as a tar archive:
#
#   image.sh ARCHIVE
#
# It needs root, mmdebstrap and a Debian mirror; ETCDADM_DEBIAN_MIRROR names
# another one than the default. The tests keep the archive under the hash of
# this script, so whatever is in the machines has to be said here.
set -eu

# What would act on the kernel that all machines share, or at some time of the
# day: sysctl settings, mounts of kernel file systems, timers, terminals.
masked='systemd-sysctl.service systemd-modules-load.service systemd-remount-fs.service
  dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount sys-kernel-config.mount
  sys-kernel-debug.mount sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
  e2scrub_reap.service fstrim.timer console-getty.service getty.target'

export masked

# cloud-init is there and off: a test gives it user data and switches it on. It has
# nothing to do with the network, the disks, the host name and the accounts, which
# are Docker's.
CLOUD=$(mktemp)
export CLOUD
trap 'rm -f "$CLOUD"' EXIT
cat >"$CLOUD" <<'CFG'
datasource_list: [NoCloud]
network: {config: disabled}
preserve_hostname: true
manage_etc_hosts: false
users: []
growpart: {mode: "off"}
resize_rootfs: false
ssh_deletekeys: false
ssh_genkeytypes: []
locale: false
output:
  all: ">>/var/log/cloud-init-stages.log"
  final: [">>/var/log/cloud-init-output.log", ">>/var/log/cloud-init-errors.log"]
CFG
# shellcheck disable=SC2016 # the hooks get the root directory as $1
mmdebstrap --quiet --variant=minbase \
  --include=systemd,systemd-sysv,dbus,iproute2,ca-certificates,procps,curl,adduser,cloud-init \
  --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook='systemctl --quiet --root="$1" mask $masked' \
  --customize-hook='mkdir -p "$1/var/log/journal" "$1/etc/systemd/journald.conf.d"' \
  --customize-hook='printf "[Journal]\nStorage=persistent\nSystemMaxUse=64M\nRateLimitBurst=0\n" >"$1/etc/systemd/journald.conf.d/machine.conf"' \
  --customize-hook='cp "$CLOUD" "$1/etc/cloud/cloud.cfg.d/90-machine.cfg"; : >"$1/etc/cloud/cloud-init.disabled"' \
  --customize-hook='rm -f "$1/etc/machine-id" "$1/etc/hostname"; : >"$1/etc/machine-id"' \
  --customize-hook='cat >"$1/sbin/machine-init"; chmod 0755 "$1/sbin/machine-init"' \
  bookworm "$1" ${ETCDADM_DEBIAN_MIRROR:+"$ETCDADM_DEBIAN_MIRROR"} <<'INIT'
#!/bin/sh
# Docker mounts the control groups read-only where a container is not
# privileged; systemd needs those of its own namespace.
for dir in /sys/fs/cgroup /sys/fs/cgroup/*; do
  if mountpoint -q "$dir"; then
    mount -o remount,bind,rw "$dir"
  fi
done
exec /sbin/init
INIT
