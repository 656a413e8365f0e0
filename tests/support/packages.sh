# packages.sh - sourced by tests/run and examples/quickstart: what the build needs, installed with apt where possible.

missing_packages() {
	command -v cc > /dev/null || command -v gcc > /dev/null || echo gcc
	[ -e /usr/include/stdio.h ] || echo libc6-dev
	command -v pkg-config > /dev/null || echo pkg-config
	command -v cmake > /dev/null || echo cmake
	command -v ninja > /dev/null || echo ninja-build
	command -v flex > /dev/null || echo flex
	command -v bison > /dev/null || echo bison
	command -v python3 > /dev/null || echo python3
	python3 -c 'import ensurepip' 2> /dev/null || echo python3-venv
	[ -e /usr/include/cmocka.h ] || echo libcmocka-dev
	[ -d /usr/lib/llvm-22/lib/cmake/llvm ] || [ -n "${LLVM_DIR:-}" ] || echo llvm-22-dev
}

# The packages that are missing; 2 when they cannot be installed.
install_packages() {
	local missing sudo=
	missing=$(missing_packages | tr '\n' ' ')
	[ -z "$missing" ] && return 0
	if [ "$(id -u)" != 0 ]; then
		sudo=sudo
		sudo -n true 2> /dev/null || sudo=none
	fi
	if [ "$sudo" = none ] || ! command -v apt-get > /dev/null; then
		echo "missing packages: $missing" >&2
		echo "(llvm-22-dev is in Debian 12's security archive and on apt.llvm.org; or set LLVM_DIR)" >&2
		return 2
	fi
	echo "installing: $missing"
	# shellcheck disable=SC2086 # packages are words
	$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing > /dev/null && return 0
	echo "could not install: $missing" >&2
	return 2
}

# nvdisasm, which tests/waits wants, where only ptxas is: from PyPI into FOLDER.  Without it that test is left out.
install_nvdisasm() {
	local found
	[ -n "${TILE_NVDISASM:-}" ] || command -v nvdisasm > /dev/null || [ -x /usr/local/cuda/bin/nvdisasm ] && return
	found=$(find "$1" -name nvdisasm -type f 2> /dev/null)
	if [ -z "$found" ]; then
		python3 -m pip install -q --no-deps --disable-pip-version-check --target "$1" nvidia-cuda-nvdisasm==13.2.78 > /dev/null 2>&1
		found=$(find "$1" -name nvdisasm -type f 2> /dev/null)
	fi
	[ -z "$found" ] || export TILE_NVDISASM=$found
}

# Copies a build's output to the file LOG and tells how far it is: ninja's lines begin with [done/all].
build_progress() {
	awk -v log_file="$1" '
		{ print >> log_file; fflush(log_file) }
		match($0, /^\[[0-9]+\/[0-9]+\]/) {
			split(substr($0, 2, RLENGTH - 2), n, "/")
			tenth = int(10 * n[1] / n[2])
			if (n[2] >= 10 && tenth > last) { last = tenth; printf "built %d%% (%d of %d)\n", 10 * tenth, n[1], n[2]; fflush() }
		}'
}
