#!/usr/bin/env bash
# Are the kernels here slower than in another commit? guard.sh BASE [PAIRS [OPTION OF gpubench run]...]
# Writes compare.md; the exit status is that of `gpubench compare`.
set -euo pipefail
cd "$(dirname "$0")"
base=$1 pairs=${2:-8}
options=("${@:3}")
here=$PWD
inside=$(git rev-parse --show-prefix)
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/tree" "$base"

if [ ! -e "$work/tree/${inside}run-lists.toml" ]; then
    echo "Nothing to compare with: there are no kernels in $base." | tee compare.md
    exit 0
fi

# Measure a commit by its own kernels and its own study, in a fresh process: times differ more between
# processes than within one. A wrong answer, exit 1, is for the comparison to tell.
measure() {
    local status=0
    gpubench --add "$2/own_kernel" run "$2/run-lists.toml" --out "$work/$1/$pair" "${options[@]}" ||
        status=$?
    [ "$status" -le 1 ] || exit 2
}
for pair in $(seq "$pairs"); do
    if [ $((pair % 2)) -eq 0 ]; then
        measure base "$work/tree/$inside"
        measure head "$here"
    else
        measure head "$here"
        measure base "$work/tree/$inside"
    fi
done
gpubench compare "$work/base" "$work/head" --markdown compare.md
