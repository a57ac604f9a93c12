#!/usr/bin/env bash
# Prepares a Debian machine, as root, for the scenarios in kind: Docker with a
# daemon of its own, which leaves another one of this machine alone.
#
#   eval "$(setup.sh)"    installs what is missing, starts the daemon, prints DOCKER_HOST
#   setup.sh stop         deletes the machines that are left, and ends the daemon
#
# Where Docker runs anyway and may start privileged containers, it is not needed.
set -euo pipefail
dir=/run/etcdadm-kind
log=/var/log/etcdadm-kind-dockerd.log
data=${XDG_CACHE_HOME:-$HOME/.cache}/etcdadm/kind/docker
export DOCKER_HOST=unix://$dir/docker.sock
answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

stop() {
  local pid
  [[ -s $dir/docker.pid ]] || return 0
  pid=$(<"$dir/docker.pid")
  if [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]]; then
    docker ps --all --quiet --filter=label=io.x-k8s.kind.cluster | xargs --no-run-if-empty \
      timeout 60 docker rm --force --volumes >/dev/null || echo "machines are left in $data" >&2
    kill "$pid"
    for ((i = 0; i < 300; i++)); do
      [[ -e /proc/$pid ]] || break
      sleep 0.1
    done
  fi
}

packages() {
  local missing=()
  command -v dockerd >/dev/null || missing+=(docker.io)
  command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
  command -v iptables >/dev/null || missing+=(iptables)
  if ((${#missing[@]})); then
    echo "install ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
}

# A machine may withhold CAP_SYS_RESOURCE. Docker asks for it for privileged
# containers, and runc refuses to start them: this runtime asks without it.
runtime() {
  cat >"$dir/runtime" <<'SH'
#!/bin/bash
args=("$@")
for ((i = 0; i < ${#args[@]}; i++)); do
  case ${args[i]} in
  --bundle | -b) file=${args[i + 1]}/config.json ;;
  --bundle=*) file=${args[i]#*=}/config.json ;;
  --process | -p) file=${args[i + 1]} ;;
  --process=*) file=${args[i]#*=} ;;
  esac
done
[[ -n ${file-} && -e $file ]] && sed -i 's/"CAP_SYS_RESOURCE",//g' "$file"
exec runc "$@"
SH
  chmod 0755 "$dir/runtime"
}

daemon() {
  answers && return
  mkdir -p "$dir" "$data"
  local runtime=()
  if ! has_resource; then
    runtime
    runtime=(--add-runtime="withheld=$dir/runtime" --default-runtime=withheld)
  fi
  setsid dockerd --host="$DOCKER_HOST" --pidfile="$dir/docker.pid" --exec-root="$dir/exec" --data-root="$data" \
    --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false --bridge=none "${runtime[@]}" \
    </dev/null >"$log" 2>&1 &
  for ((i = 0; i < 300; i++)); do
    if answers; then
      echo "started Docker's daemon, process $(<"$dir/docker.pid")" >&2
      return
    fi
    sleep 0.1
  done
  tail -n 20 "$log" >&2
  exit 1
}

# CAP_SYS_RESOURCE is bit 24 of the bounding set.
has_resource() {
  local set
  set=$(awk '/^CapBnd/ {print $2}' /proc/self/status)
  (((16#$set >> 24) & 1))
}

case ${1:-start} in
start)
  packages
  daemon
  echo "export DOCKER_HOST=$DOCKER_HOST"
  ;;
stop) stop ;;
*)
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
