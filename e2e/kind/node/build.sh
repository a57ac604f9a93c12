#!/usr/bin/env bash
# Builds the image of a kind node, from Go modules and Debian packages alone, and
# prints its name:
#
#   build.sh
#   build.sh cached    builds nothing: succeeds where Kubernetes need not be compiled
#
# It needs Docker, root, mmdebstrap and a Debian mirror; ETCDADM_DEBIAN_MIRROR names
# another one than the default. What takes long is kept in the cache, under the
# hash of all that it was made from.
set -euo pipefail
cd "$(dirname "$0")"
kubernetes=$(<files/kind/version)
key=$(find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum)
key=${key:0:16}
image=etcdadm-kind-node:$key
# The balancer has the name of the image that kind asks for.
balancer=kindest/haproxy:v20230606-42a2262b
say() { echo "kind node: $*" >&2; }

# hash FILE... prints the hash of files, which is where what they make is kept.
hash() {
  local sum
  sum=$(sha256sum "$@" | sha256sum)
  echo "${sum:0:16}"
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/etcdadm/kind
kubernetes_file=$cache/kubernetes-$(hash go.mod go.sum kubernetes/*.go build.sh)
if [[ ${1-} == cached ]]; then
  [[ -s $kubernetes_file ]]
  exit
fi
have() { docker image inspect "$1" >/dev/null 2>&1; }
if have "$image" && have "$balancer"; then
  echo "$image"
  exit
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
work=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$work"' EXIT

export GOWORK=off CGO_ENABLED=0
program() { go build -mod=readonly -trimpath -ldflags='-s -w' -o "$1" "$2"; }

# Compiles Kubernetes. How far it has come is reported, because it takes minutes.
compile() {
  local v=k8s.io/component-base/version all=0 done=0
  local flags="-s -w -X $v.gitVersion=$kubernetes -X $v.gitMajor=1 -X $v.gitMinor=34 -X $v.gitTreeState=clean
    -X $v.gitCommit=0000000000000000000000000000000000000000 -X $v.buildDate=1970-01-01T00:00:00Z"
  say "compile Kubernetes $kubernetes; without a build cache this takes several minutes of all cores"
  all=$(go list -deps ./kubernetes | wc -l)
  GOGC=400 nice go build -v -mod=readonly -trimpath -tags grpcnotrace,notest,selinux -gcflags='all=-N -l' \
    -ldflags="${flags//$'\n'/ }" -o "$1" ./kubernetes 2>&1 | while read -r line; do
    done=$((done + 1))
    if ((done % 100 == 0)); then say "$done of at most $all packages compiled"; fi
    if [[ $line == *[:\ ]* ]]; then echo "$line" >&2; fi
  done
}

if [[ ! -s $kubernetes_file ]]; then
  compile "$work/kubernetes"
  mv "$work/kubernetes" "$kubernetes_file"
fi

base=$cache/base-$(hash base.sh).tar
if [[ ! -s $base ]]; then
  say "make a Debian system with systemd and containerd"
  sh base.sh "$work/base.tar" >&2
  mv "$work/base.tar" "$base"
fi

# layer DIR prints the hash of the archive DIR.tar that it makes.
layer() {
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1" -cf "$1.tar" .
  local sum
  sum=$(sha256sum "$1.tar")
  echo "${sum%% *}"
}

# One image of all programs has the names of all that kubeadm starts.
say "make images"
mkdir -p "$work/root/usr/local/bin" "$work/root/etc" "$work/images"
cp "$kubernetes_file" "$work/root/usr/local/bin/kube-apiserver"
ln -s kube-apiserver "$work/root/usr/local/bin/kube-controller-manager"
ln -s kube-apiserver "$work/root/usr/local/bin/kube-scheduler"
program "$work/root/pause" ./pause
id=$(layer "$work/root")
mv "$work/root.tar" "$work/images/layer.tar"
cat >"$work/images/config.json" <<JSON
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/pause"],
  "Env": ["PATH=/usr/local/bin"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:$id"]}}
JSON
cat >"$work/images/manifest.json" <<JSON
[{"Config": "config.json", "Layers": ["layer.tar"], "RepoTags": [
  "registry.k8s.io/kube-apiserver:$kubernetes", "registry.k8s.io/kube-controller-manager:$kubernetes",
  "registry.k8s.io/kube-scheduler:$kubernetes", "registry.k8s.io/pause:3.10.1"]}]
JSON

mkdir "$work/node"
tar -C "$work/images" -cf "$work/node/images.tar" manifest.json config.json layer.tar
ln "$kubernetes_file" "$work/node/kubernetes"
cp -r files Dockerfile "$work/node/"

say "give them to Docker"
docker import "$base" "etcdadm-kind-base:$key" >/dev/null
DOCKER_BUILDKIT=0 docker build --quiet --network=none --build-arg="BASE=etcdadm-kind-base:$key" --tag="$image" \
  "$work/node" >/dev/null

mkdir -p "$work/lb/bin" "$work/lb/usr/local/etc/haproxy" "$work/lb/tmp"
program "$work/lb/bin/balancer" ./balancer
for name in mkdir cp kill; do ln -s balancer "$work/lb/bin/$name"; done
layer "$work/lb" >/dev/null
docker import --change 'ENTRYPOINT ["/bin/balancer"]' --change 'ENV PATH=/bin' "$work/lb.tar" "$balancer" >/dev/null
echo "$image"
