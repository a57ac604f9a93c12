# Makes the container of kops' pod, in a mount namespace of its own, and runs the daemon in
# it as kops does: DIR DAEMON RUNNER VOLUMES FLAGS. RUNNER is the log runner of the image, or
# the word shell. VOLUMES are SOURCE:PLACE, separated by blanks.
dir=$1
daemon=$2
runner=$3
volumes=$4
shift 4
root=$dir/container
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p rootfs proc dev sys run tmp etc/ssl/certs etc/kubernetes/pki/etcd-manager var/log ko-app
mount --rbind / rootfs
mount --rbind /dev dev
mount --rbind /sys sys
mount --bind /proc proc
mount --bind /run run
mount --bind "$dir/pki" etc/kubernetes/pki/etcd-manager
touch etc/hosts var/log/etcd.log
mount --bind "$dir/hosts" etc/hosts
mount --bind "$dir/certs" etc/ssl/certs
mount --bind "$dir/log/etcd.log" var/log/etcd.log
touch ko-app/etcd-manager
mount --bind "$daemon" ko-app/etcd-manager
ln -s ko-app/etcd-manager etcd-manager
[ "$volumes" != none ] || volumes=
for v in $volumes; do
  mkdir -p ".${v#*:}"
  mount --bind "${v%%:*}" ".${v#*:}"
  mount -o remount,bind,ro ".${v#*:}"
done
if [ "$runner" != shell ]; then
  touch go-runner
  mount --bind "$runner" go-runner
  exec chroot . /go-runner --log-file=/var/log/etcd.log --also-stdout /ko-app/etcd-manager "$@"
fi
for d in usr bin sbin lib lib64; do
  if [ -L "/$d" ]; then
    cp -a "/$d" "$d"
  elif [ -d "/$d" ]; then
    mkdir "$d"
    mount --rbind "/$d" "$d"
  fi
done
exec chroot . /bin/sh -c 'mkfifo /tmp/pipe; (tee -a /var/log/etcd.log < /tmp/pipe & ) ; exec /etcd-manager "$@" > /tmp/pipe 2>&1' sh "$@"
