#!/usr/bin/env bash
# Prepares a Debian machine, as root, for the tests on machines with systemd:
# Docker, a running daemon, and the archive that the machines are made from.
#
#   setup.sh         installs what is missing, starts Docker's daemon if none answers
#   setup.sh stop    ends the daemon that setup.sh started
#
# A daemon that is started here touches no firewall rules and has no default
# network: the tests make their own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pidfile=/run/etcdadm-dockerd.pid
log=/var/log/etcdadm-dockerd.log
answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

stop() {
  [[ -s $pidfile ]] || return 0
  local pid
  pid=$(<"$pidfile")
  if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]]; then
    kill "$pid"
    for ((i = 0; i < 300; i++)); do
      [[ -e /proc/$pid ]] || break
      sleep 0.1
    done
  fi
  rm -f "$pidfile"
}

packages() {
  local missing=()
  command -v docker >/dev/null && { answers || command -v dockerd >/dev/null; } || missing+=(docker.io)
  command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
  if ((${#missing[@]})); then
    echo "install ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
}

daemon() {
  answers && return
  if [[ -d /run/systemd/system ]]; then
    echo "Docker's daemon does not answer: systemctl start docker" >&2
    exit 1
  fi
  setsid dockerd --pidfile="$pidfile" --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false --bridge=none \
    </dev/null >"$log" 2>&1 &
  for ((i = 0; i < 300; i++)); do
    if answers; then
      echo "started Docker's daemon, process $(<"$pidfile")"
      return
    fi
    sleep 0.1
  done
  tail -n 20 "$log" >&2
  exit 1
}

# The folder is named after the recipe, as image.go has it.
archive() {
  local key dir
  key=$(sha256sum "$here/image.sh")
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/etcdadm/machines/${key:0:16}
  [[ -s $dir/machine.tar ]] && return
  echo "make $dir/machine.tar"
  mkdir -p "$dir"
  sh "$here/image.sh" "$dir/new.tar"
  mv "$dir/new.tar" "$dir/machine.tar"
}

case ${1:-start} in
start)
  packages
  daemon
  archive
  ;;
stop) stop ;;
*)
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
