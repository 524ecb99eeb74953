#!/usr/bin/env bash
# Puts each defect of this folder into a copy of the project, one at a time, and
# prints the first seed of the simulation that catches it. It fails when a defect is
# not caught by SEEDS seeds, 1,000 unless told otherwise.
set -euo pipefail
cd "$(dirname "$0")/../../.."
seeds=${SEEDS:-1000}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

missed=0
for patch in test/simulate/defects/*.patch; do
  name=$(basename "$patch" .patch)
  rm -rf "${copy:?}"/*
  git ls-files -z | xargs -0 cp --parents -t "$copy"
  if ! git apply --unsafe-paths --directory="$copy" "$patch" ||
    ! (cd "$copy" && CGO_ENABLED=0 go test -trimpath -c -o simulate.test ./test/simulate); then
    echo "$name: the patch does not fit the code any more, write it anew" >&2
    exit 1
  fi
  found=$(cd "$copy/test/simulate" && timeout 600 "$copy/simulate.test" -test.run TestWhatMustHoldHolds -first 1 -seeds "$seeds" 2>&1 || true)
  if seed=$(grep -o -m1 'seed [0-9]*: replay it' <<<"$found"); then
    printf '%-36s %-10s %s\n' "$name" "${seed%: *}" "$(grep -A1 -m1 'replay it' <<<"$found" | tail -1 | sed 's/^ *[0-9.]*s *//' | cut -c1-160)"
  else
    echo "$name: no seed from 1 to $seeds catches it" >&2
    missed=1
  fi
done
exit $missed
