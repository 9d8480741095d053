#!/usr/bin/env bash
# Build the image where no Docker engine is: build_without_engine.sh [TAG] [WHEELS]
# TAG: its name (localhost/cleanpipe:local); WHEELS: a folder of wheels, for a build without a package index.
# Needs root, buildah, and debootstrap the first time: python:3.11-slim-bookworm cannot be pulled here, so Debian's own Python takes
# its place under its name, and the Dockerfile builds unchanged. CLEANPIPE_MIRROR names a Debian mirror other than apt's.
# pip works inside as it does outside: its index, links and certificates are handed in as build arguments and mounts.
set -euo pipefail
cd "$(dirname "$0")/.."
TAG=${1:-localhost/cleanpipe:local} WHEELS=${2:-}
BASE=localhost/python:3.11-slim-bookworm
[ "$(id -u)" = 0 ] || { echo "build_without_engine.sh: needs root" >&2; exit 2; }
command -v buildah > /dev/null || { echo "build_without_engine.sh: needs buildah (apt-get install buildah)" >&2; exit 2; }

if ! buildah inspect --type image "$BASE" > /dev/null 2>&1; then
  command -v debootstrap > /dev/null || { echo "build_without_engine.sh: needs debootstrap (apt-get install debootstrap)" >&2; exit 2; }
  mirror=${CLEANPIPE_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' | sort -u | head -1)}
  work=$(mktemp -d /var/tmp/cleanpipe-base.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  echo "== the base: Debian with Python, in the place of ${BASE#localhost/}"
  debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates bookworm "$work/rootfs" "$mirror" > "$work/log" 2>&1 \
    || { tail -20 "$work/log" >&2; exit 1; }
  ln -sf python3 "$work/rootfs/usr/bin/python"
  rm -rf "$work"/rootfs/var/cache/apt/archives/*.deb "$work"/rootfs/var/lib/apt/lists/*
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$work/rootfs" / > /dev/null
  buildah config --cmd python3 "$container"
  buildah commit --quiet --rm "$container" "$BASE" > /dev/null
  rm -rf "$work"
  trap - EXIT
fi

setting() {  # of pip: from the environment, else its files; the pip of the wheel-less world may be absent
  local name=PIP_${1^^}
  name=${name//-/_}
  printf '%s' "${!name:-$(python3 -m pip config get "global.$1" 2> /dev/null || true)}"
}
args=()
if [ -n "$WHEELS" ]; then
  args+=(-v "$(realpath "$WHEELS"):/wheels:ro" --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=/wheels)
else
  for name in index-url cert; do
    value=$(setting $name)
    [ -n "$value" ] || continue
    if [ $name = cert ]; then args+=(-v "$value:/run/ca.crt:ro"); value=/run/ca.crt; fi
    args+=(--build-arg "PIP_$(echo $name | tr a-z- A-Z_)=$value")
  done
fi
revision=$(git rev-parse HEAD 2> /dev/null || echo unknown)
echo "== $TAG"
buildah bud --isolation chroot --pull-never --network host --format docker --layers --quiet "${args[@]}" \
  --build-arg "REVISION=$revision" --ignorefile docker/Dockerfile.dockerignore -f docker/Dockerfile -t "$TAG" .
buildah images --format '{{.Name}}:{{.Tag}} {{.Size}}' "$TAG"
