#!/usr/bin/env bash
# compare_nvcc.sh build TWOPHASE OUT       compiles the rows of a CUDA program, twophase.cu, to the program OUT (nvcc needed, no GPU)
# compare_nvcc.sh run ROWS BENCH [CSV]     runs that program and `bench twophase` by turns on this GPU, and prints the ratios
#
# TWOPHASE is the folder of twophase.cu, which is no part of this repository (README.md).  Everything after `build` needs no tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

build() {
	nvcc -gencode=arch=compute_90a,code=sm_90a -O3 -std=c++17 -cudart static -I "$1" -o "$2" "$here/twophase_rows.cu"
}

run() {
	local rows=$1 bench=$2 csv=${3:-/dev/null} tmp
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' RETURN
	for _ in 1 2; do # by turns, so that the clock treats both alike
		"$rows" "$tmp/csv" | tee -a "$tmp/rows"
		"$bench" --csv "$tmp/csv" ${BENCH_MODULES:+--modules "$BENCH_MODULES"} twophase
	done
	cat "$tmp/csv" >> "$csv"
	if grep -q WRONG "$tmp/rows"; then
		echo "twophase.cu is wrong here: no comparison"
		return 1
	fi
	echo
	printf '%-14s %-20s %10s %10s %8s\n' kernel shape nvcc/us tilec/us ratio
	awk -F, '{
		gsub(/"/, ""); name = $2; key = name; sub(/^nvcc /, "", key); key = key "," $3
		if (name ~ /^nvcc/) { if (!(key in n) || $4 < n[key]) n[key] = $4 }
		else if (!(key in t) || $4 < t[key]) t[key] = $4
	} END {
		for (key in n) { split(key, k, ","); if (key in t) printf "%-14s %-20s %10.1f %10.1f %8.3f\n", k[1], k[2], n[key], t[key], t[key] / n[key]
			else printf "%-14s %-20s %10.1f %10s\n", k[1], k[2], n[key], "-" }
	}' "$tmp/csv" | sort
}

case ${1:-} in
build) [ $# = 3 ] && build "$2" "$3" ;;
run) [ $# -ge 3 ] && run "${@:2}" ;;
*) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
