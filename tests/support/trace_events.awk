# trace_events.awk - is a file of `tilerun --trace` what Perfetto's importer of trace events takes, one event a line?
#   awk -f trace_events.awk FILE     prints what is wrong; the last line counts threads and intervals
function bad(what) { if (wrong++ < 5) print "line " NR ": " what ": " $0 }
function field(key,   at, rest) { # the value of a key, without quotes
	at = index($0, "\"" key "\":")
	if (!at)
		return ""
	rest = substr($0, at + length(key) + 3)
	sub(/^"/, "", rest)
	sub(/["},].*/, "", rest)
	return rest
}
NR == 1 { if ($0 != "{\"traceEvents\":[") bad("no head"); next }
$0 == "]}" { if (ended) bad("a second end"); ended = NR; next }
{
	if (closed)
		bad("no comma before it")
	closed = $0 !~ /,$/
	if ($0 !~ /^\{"ph":"[BEM]".*\},?$/)
		bad("no event")
	ph = field("ph"); pid = field("pid"); tid = field("tid"); ts = field("ts")
	if (pid !~ /^[1-9][0-9]*$/ || tid !~ /^[1-9][0-9]*$/)
		bad("0 is the idle process, others are whole numbers")
	if (ph == "M") {
		if (named[field("name"), tid]++)
			bad("named twice")
		next
	}
	if (tid in process && process[tid] != pid)
		bad("a thread of two processes")
	if (tid == pid)
		bad("the name of a process is that of this thread, too")
	process[tid] = pid
	if (ts !~ /^[0-9]+\.[0-9][0-9][0-9]$/)
		bad("no time in microseconds")
	if (tid in last && ts + 0 < last[tid] + 0)
		bad("earlier than the event before it")
	last[tid] = ts
	depth[tid] += ph == "B" ? 1 : -1
	if (depth[tid] != (ph == "B"))
		bad("intervals of a warp follow each other")
	if (ph == "B" && field("name") == "")
		bad("no name")
	intervals += ph == "B"
}
END {
	for (t in process) {
		threads++
		if (depth[t])
			bad("thread " t " is left open")
		if (!named["thread_name", t] || !named["process_name", process[t]])
			bad("thread " t " or its process has no name")
	}
	if (ended != NR)
		bad("it goes on behind its end, or has none")
	print threads " threads, " intervals " intervals, " wrong + 0 " wrong"
	exit wrong > 0
}
