# check.sh - sourced by tests of command lines; $program is what they run.  Counts in $passed and $failed.
passed=0 failed=0

check() { # NAME CONDITION...
	if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; head -n 20 log | cut -c -200 | sed 's/^/  | /'; fi
}
exits() { # STATUS ARGUMENTS...: the program ends with it
	local want=$1 got; shift
	"$program" "$@" > out 2> log < /dev/null; got=$?
	[ "$got" = "$want" ]
}
holds() { grep -q -e "$2" "$1"; } # FILE TEXT
same() { cmp "$1" "$2" > log 2>&1; }
absent() { [ ! -e "$1" ]; }
summary() { # the last line; fails when something did
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}
