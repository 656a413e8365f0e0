#!/usr/bin/env bash
# pack.sh BUILD OUT [TWOPHASE] - gathers in the folder OUT what run.sh needs on a GPU machine without build tools: programs, shared
# libraries, modules and, where nvcc is there and TWOPHASE, the folder of twophase.cu (kernels/bench/README.md), the rows of that CUDA program.
#
#     cmake --preset release && cmake --build --preset release
#     tests/gpu/pack.sh build/release build/gpu
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/modules"
cp "$build"/bin/{test_numeric,bench,gemm,vector_add,kda_example} "$out/bin/"
cp "$build"/examples/*.tmod "$build"/kernels/bench/*.tmod "$build"/tests/numeric/kernels/*.tmod "$out/modules/"
# Libraries that the machine may lack: the project's own and CMocka.
for program in "$out"/bin/*; do
	ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -E 'cmocka|tile' || true
done | sort -u | xargs -r cp -L -t "$out/lib"
cp "$here/run.sh" "$here"/{sanitize.sh,reports.py,explained.txt} "$here/../../kernels/bench/compare_nvcc.sh" "$here"/../../kernels/bench/{gemm_cublas,tilert}.py "$out/"
if [ $# -ge 3 ]; then
	"$here/../../kernels/bench/compare_nvcc.sh" build "$3" "$out/bin/twophase_rows"
fi
# The sources, for the lines that compute-sanitizer names.
mkdir "$out/sources"
find "$here/../../kernels" "$here/../numeric" -name '*.tile' -printf '%P %p\n' | while read -r name path; do install -D "$path" "$out/sources/$name"; done
du -sh "$out"
