#!/usr/bin/env bash
# sanitize.sh [TOOL...] - in the folder that pack.sh made, called by run.sh: compute-sanitizer's tools (memcheck racecheck initcheck
# synccheck, all of them when none is named) over one small call of every kind of kernel.  Logs go to $OUT/sanitize, a table of the
# reports by kernel and source lines comes last.  The exit status is 1 when there are some that explained.txt does not explain.
set -uo pipefail
OUT=$(realpath -m "${OUT:-$(dirname "$0")/out}")/sanitize
cd "$(dirname "$0")" || exit 2
mkdir -p "$OUT"
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TILE_TEST_DEVICE=cuda TILE_TEST_MODULES=$PWD/modules
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
[ -n "$sanitizer" ] || { echo "sanitize: there is no compute-sanitizer"; exit 2; }

# NAME COMMAND...: a case a line.
cases() {
	cat <<'END'
vector_add   bin/test_numeric vector_add_of_1*
launch       bin/test_numeric launch_chain_of_dependents
bounds       bin/test_numeric launch_sequences*
math         bin/test_numeric math_*
gemm_1       bin/test_numeric gemm_1_naive_m17*
gemm_2       bin/test_numeric gemm_2_tiled_m130*
gemm_3       bin/test_numeric gemm_3_pipelined_m200*
gemm_4       bin/test_numeric gemm_4_warp_specialised_m300*
gemm_5       bin/test_numeric gemm_5_clusters_m300*
kda_forward  bin/test_numeric kda_gates_bounded
kda_exact    bin/test_numeric kda_gates_of_any_size
kda_shares   bin/test_numeric kda_shares_packed
kda_64       bin/test_numeric kda_k64*
kda_units    bin/test_numeric kda_invariant
kda_backward bin/test_numeric backward_kda_states
kda_b64      bin/test_numeric backward_kda_K64_V64_cut
gdn_backward bin/test_numeric backward_gdn_states
gdn_b64      bin/test_numeric backward_gdn_K64_V128_saved_v_first_same_bits
gdn_f16      bin/test_numeric backward_gdn_f16_1e-6_K40_V56
gdn_b256     bin/test_numeric backward_gdn_K136_V72_grouped_raw
gdn_forward  bin/test_numeric gdn_single
gdn_few      bin/test_numeric gdn_single_of_two_rows
gdn_narrow   bin/test_numeric gdn_gates_mixed_*
gdn_64       bin/test_numeric gdn_k64_v128*
gdn_wide     bin/test_numeric gdn_many_rows*
gdn_options  bin/test_numeric gdn_all_options
gdn_packed   bin/test_numeric gdn_packed_bf16_states*
gdn_256      bin/test_numeric gdn_saves_k256
gdn_saves    bin/test_numeric gdn_saves
gdn_split    bin/test_numeric gdn_split_auto
gdn_join     bin/test_numeric gdn_join_auto_zero
END
}

# TOOL NAME COMMAND...
one() {
	local tool=$1 name=$2 options=()
	shift 2
	case $tool.$name in
	initcheck.kda_shares) set -- bin/test_numeric kda_shares_small ;; # it reports the downloads of what TMA stored, and has room for few
	initcheck.bounds) return ;;      # looks at what it does not write
	initcheck.gdn_forward) return ;; # more states, whose downloads it reports, than it has room for: gdn_few
	esac
	case $tool in
	racecheck) options=(--racecheck-report analysis) ;;
	memcheck) options=(--check-device-heap no) ;;
	initcheck) export TILE_TEST_POISON=0 ;; # memory that a test fills is initialised
	esac
	timeout 170 "$sanitizer" --tool "$tool" "${options[@]}" --print-limit 10000 --show-backtrace no "$@" > "$OUT/$tool.$name.log" 2>&1
	echo $? > "$OUT/$tool.$name.rc"
}
export -f one
export OUT sanitizer

for tool in "${@:-memcheck racecheck initcheck synccheck}"; do
	for t in $tool; do cases | sed "s/^/$t /"; done
done | xargs -P "${JOBS:-8}" -I{} bash -c 'set -f; one {}'

python3 reports.py "$OUT" sources explained.txt > "$OUT/reports.txt"
failed=$?
for rc in "$OUT"/*.rc; do
	name=${rc##*/}
	name=${name%.rc}
	status=$(cat "$rc")
	summary=$(grep -hE 'ERROR SUMMARY|RACECHECK SUMMARY' "$OUT/$name.log" | sed 's/^=* *//' | tail -n 1)
	passed=$(grep -c '^\[       OK' "$OUT/$name.log")
	[ "$status" = 0 ] && [ "$passed" -gt 0 ] || failed=1
	printf '%-24s exit %-3s tests passed %-3s %s\n' "$name" "$status" "$passed" "$summary"
done > "$OUT/summary.txt"
grep -v 'exit 0 ' "$OUT/summary.txt"
grep ' NEW ' "$OUT/reports.txt" | head -n 40 | cut -c1-200
grep -A 100 '^(1)' "$OUT/reports.txt"
echo "sanitize: $(grep -cE 'exit 0 .*: 0 ' "$OUT/summary.txt") of $(wc -l < "$OUT/summary.txt") runs report nothing"
exit $failed
