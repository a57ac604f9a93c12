#!/bin/sh
# Written by etcdadm, which replaces the whole file.
# etcdctl for the etcd of this machine.
env_file=/etc/etcd/etcdctl.env
if [ ! -r "$env_file" ]; then
	echo "error: cannot read $env_file" >&2
	echo "hint: run this as root; if the file is missing, 'etcdadm init' or 'etcdadm join' writes it" >&2
	exit 1
fi
. "$env_file"
# etcdctl takes either a flag or its variable.
for arg in "$@"; do
	case $arg in
	--) break ;;
	--endpoints | --endpoints=*) unset ETCDCTL_ENDPOINTS ;;
	--cacert | --cacert=*) unset ETCDCTL_CACERT ;;
	--cert | --cert=*) unset ETCDCTL_CERT ;;
	--key | --key=*) unset ETCDCTL_KEY ;;
	--dial-timeout | --dial-timeout=*) unset ETCDCTL_DIAL_TIMEOUT ;;
	esac
done
exec /opt/bin/etcdctl "$@"
