#!/bin/bash
# Runs a job with weir bench and a peer's command over the same input, one after the other, and prints the ratios.
#
#   tests/bench/peer.sh SPEC.yaml PEER-COMMAND [ARGUMENT…]
#
# The peer's command reads the same topic to its end. If it prints lines with wall=SECONDS and cpu=SECONDS the last of
# them counts (a warm run, say, of several); else the time and CPU of the whole command do.
#
# WEIR is the command (default: bin/weir), BENCH_ARGS are further arguments of weir bench, such as
# "--brokers 127.0.0.1:9092 --runs 2". Of several runs the last counts, as for the peer.
set -euo pipefail

if [ $# -lt 2 ]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
spec=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
weir=${WEIR:-$root/bin/weir}
read -ra args <<<"${BENCH_ARGS:-}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# value NAME FILE: the value of NAME= in the last line of the file that has one.
value() { sed -n "s/.*\b$1=\([0-9.]*\).*/\1/p" "$2" | tail -n 1; }

"$weir" bench "${args[@]}" "$spec" 2>&1 | tee "$work/weir"

TIMEFORMAT='wall=%R user=%U sys=%S'
{ time "$@" >"$work/out" 2>&1; } 2>"$work/time" || { cat "$work/out" >&2; echo "the peer failed" >&2; exit 1; }
cat "$work/out"
if [ -z "$(value cpu "$work/out")" ]; then
    sed -n 's/wall=\(.*\) user=\(.*\) sys=\(.*\)/\1 \2 \3/p' "$work/time" |
        awk '{printf "peer wall=%.2f cpu=%.2f\n", $1, $2 + $3}' | tee -a "$work/out"
fi

awk -v records="$(value records "$work/weir")" -v wall="$(value wall "$work/weir")" -v cpu="$(value cpu "$work/weir")" \
    -v peer_wall="$(value wall "$work/out")" -v peer_cpu="$(value cpu "$work/out")" 'BEGIN {
    printf "\nCPU a record: %.0f ns, peer %.0f ns: the peer takes %.1f times as much\n", cpu / records * 1e9, peer_cpu / records * 1e9, peer_cpu / cpu
    printf "wall: %.2f s, peer %.2f s: %.1f times\n", wall, peer_wall, peer_wall / wall
}'
