#!/usr/bin/env bash
# run.sh [SECTION...] - on a GPU machine, in the folder that pack.sh made: runs the numeric tests on the GPU, then the benchmarks.
# Sections: test example startup gemm gdn kda twophase launch sanitize (all but the last when none is named).  Logs and results.csv go to $OUT (default: out);
# a short table comes last.  The exit status is 1 when a test failed or a kernel was wrong.
set -uo pipefail
OUT=$(realpath -m "${OUT:-$(dirname "$0")/out}")
cd "$(dirname "$0")" || exit 2
mkdir -p "$OUT"
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TILE_TEST_DEVICE=cuda TILE_TEST_MODULES=$PWD/modules BENCH_MODULES=$PWD/modules
csv=$OUT/results.csv
echo 'device,what,shape,us,rate,unit,error' > "$csv"
sections=" ${*:-test example startup gemm gdn kda twophase launch} "
failed=0
summary=()

wants() { [[ $sections == *" $1 "* ]]; }

# NAME SECONDS COMMAND...: output to $OUT/NAME.log, one line for the table
step() {
	local name=$1 limit=$2 status line
	shift 2
	timeout "$limit" "$@" > "$OUT/$name.log" 2>&1
	status=$?
	case $status in
	0) line=ok ;;
	124) line="FAILED: more than $limit s" ;;
	*) line="FAILED: exit status $status" ;;
	esac
	if [ $status != 0 ]; then
		failed=1
		echo "== $name: $line"
		tail -n 4 "$OUT/$name.log"
	fi
	summary+=("$(printf '%-22s %s' "$name" "$line")")
}

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv,noheader > "$OUT/gpu.txt" 2>&1
if wants test; then
	for family in $(bin/test_numeric --families); do
		step "test.$family" 150 bin/test_numeric "${family}_*"
	done
fi
if wants example; then
	step example.vector_add 60 bin/vector_add modules/vector_add.tmod
	step example.gemm 60 bin/gemm modules/4_warp_specialised.tmod 4096 4096 4096 cuda
	step example.kda 120 bin/kda_example 1 4096 8 cuda
fi
wants startup && step bench.startup 60 bin/bench --csv "$csv" --modules modules startup
if wants gemm; then
	step bench.gemm 200 bin/bench --csv "$csv" --modules modules gemm
	step bench.cublas 100 env "TILERT=$(echo "$PWD"/lib/libtilert.so.*)" python3 gemm_cublas.py "$OUT/gemm_cublas.csv" modules/[45]_*.tmod
fi
wants gdn && step bench.gdn 400 bin/bench --csv "$csv" --modules modules gdn
wants kda && step bench.kda 300 bin/bench --csv "$csv" --modules modules kda
if wants twophase; then
	if [ -x bin/twophase_rows ]; then
		step bench.twophase 200 ./compare_nvcc.sh run bin/twophase_rows bin/bench "$csv"
	else
		step bench.twophase 200 bin/bench --csv "$csv" --modules modules twophase
	fi
fi
wants launch && step bench.launch 60 bin/bench --csv "$csv" --modules modules launch
wants sanitize && step sanitize 590 ./sanitize.sh

# Where something failed, what it said.
for log in "$OUT"/test.*.log; do
	[ -e "$log" ] && grep -E '^\[  FAILED  \]|ERROR|allowed are|tilert' "$log" | sort -u | head -12
done
grep -h 'NOT TIMED\|WRONG' "$OUT"/bench.*.log "$OUT"/example.*.log 2>/dev/null
awk -F'"?,"?' 'NR > 1 { printf "%-22s %-30s %10s us %9s %s\n", $2, $3, $4, $5, $6 }' "$csv"
[ -e "$OUT/bench.twophase.log" ] && sed -n '/^kernel  /,$p' "$OUT/bench.twophase.log"
[ -e "$OUT/sanitize.log" ] && cat "$OUT/sanitize.log"
printf '%s\n' "${summary[@]}"
exit $failed
