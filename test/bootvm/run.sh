#!/bin/sh
# Boots a virtual machine with the kernel of a Debian package through the engine's boot
# service, in a network of its own. "make boot-vm" runs it.
set -eu
cd "$(dirname "$0")/../.."

missing=
for program in qemu-system-x86_64 dnsmasq ip unshare apt-get dpkg-deb; do
	command -v "$program" >/dev/null || PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
	echo "boot-vm needs$missing. Install Debian's packages qemu-system-x86, ipxe-qemu, dnsmasq-base, iproute2 and util-linux." >&2
	exit 1
fi
PATH=$PATH:/usr/sbin

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ingot/bootvm
package=$(apt-cache depends linux-image-cloud-amd64 | awk '/ Depends: linux-image-/ { print $2; exit }')
if [ -z "$package" ]; then
	echo "apt knows no linux-image-cloud-amd64: run apt-get update" >&2
	exit 1
fi
if [ ! -d "$cache/$package" ]; then
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/new.XXXXXX")
	chmod 755 "$new" # apt's user reads there
	(cd "$new" && apt-get download -q "$package" && dpkg-deb -x ./*.deb tree)
	mv "$new/tree" "$cache/$package"
	rm -r "$new"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/init" ./test/bootvm/init
CGO_ENABLED=0 go test -c -tags bootvm -o "$work/bootvm.test" ./test/bootvm

namespace="unshare --net"
[ "$(id -u)" = 0 ] || namespace="unshare --map-root-user --net"
BOOTVM_SYSTEM="$cache/$package" BOOTVM_INIT="$work/init" $namespace "$work/bootvm.test" -test.v -test.timeout 15m
