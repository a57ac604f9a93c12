#!/bin/sh
# systemd reads again which units came or went. Nothing is enabled, started, restarted or
# stopped: etcd ends with its daemon, and who restarts one does so machine by machine.
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
