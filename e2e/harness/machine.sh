# The first process of a machine. It is given its directory, and the device of its volume
# or nothing. /mnt is a directory of the machine's, what is in its etc is in /etc, and /dev has only what it needs.
dir=$1
loop=$2
mount --bind "$dir/mnt" /mnt
[ ! -d "$dir/etc" ] || mount -t overlay -o "lowerdir=$dir/etc:/etc" overlay /etc
mount -t tmpfs -o mode=755 tmpfs "$dir/dev"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty ${loop:+"$loop"} "$dir/dev"
mkdir -p "$dir/dev/disk/by-id" "$dir/dev/shm"
ln -s /proc/self/fd "$dir/dev/fd"
mount --move "$dir/dev" /dev
echo up
exec cat
