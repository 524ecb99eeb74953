#!/usr/bin/env bash
# Puts each defect of this folder into a copy of the project, one at a time, and
# prints the first seed of the simulation that catches it. It fails when a defect is
# not caught by SEEDS seeds, 1,000 unless told otherwise, or when that seed fails without
# the defect, too. The head of a patch may name the first of them: "Seeds from 1001."
set -euo pipefail
cd "$(dirname "$0")/../../.."
seeds=${SEEDS:-1000}
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT
CGO_ENABLED=0 go test -trimpath -c -o "$copies/simulate.test" ./test/simulate

# catch PATCH prints the first seed that catches a defect, and fails when there is none.
catch() {
  local name copy found seed first
  name=$(basename "$1" .patch)
  first=$(sed -n 's/^Seeds from \([0-9]*\)\.$/\1/p' "$1")
  first=${first:-1}
  copy=$copies/$name
  mkdir "$copy"
  git ls-files -z | xargs -0 cp --parents -t "$copy"
  if ! git apply --unsafe-paths --directory="$copy" "$1" ||
    ! (cd "$copy" && CGO_ENABLED=0 go test -trimpath -c -o simulate.test ./test/simulate); then
    echo "$name: the patch does not fit the code any more, write it anew" >&2
    return 1
  fi
  found=$(cd "$copy/test/simulate" && timeout 600 "$copy/simulate.test" -test.run TestWhatMustHoldHolds -first "$first" -seeds "$seeds" 2>&1 || true)
  rm -rf "$copy"
  if ! seed=$(grep -o -m1 'seed [0-9]*: replay it' <<<"$found"); then
    echo "$name: none of $seeds seeds from $first on catches it" >&2
    return 1
  fi
  seed=${seed#seed }
  seed=${seed%%:*}
  if ! (cd test/simulate && timeout 600 "$copies/simulate.test" -test.run TestWhatMustHoldHolds -first "$seed" -seeds 1 >/dev/null 2>&1); then
    echo "$name: seed $seed fails without the defect, too" >&2
    return 1
  fi
  printf '%-36s %-10s %s\n' "$name" "seed $seed" "$(grep -A1 -m1 'replay it' <<<"$found" | tail -1 | sed 's/^ *[0-9.]*s *//' | cut -c1-160)"
}

# Each copy is compiled and run on one core.
export copies seeds
export -f catch
printf '%s\0' test/simulate/defects/*.patch | GOMAXPROCS=1 xargs -0 -n 1 -P "$(nproc)" bash -euo pipefail -c 'catch "$0"'
