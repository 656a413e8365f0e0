#include "sequences.h"

#include "error.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t sequences_count(Sequences s) { return s.cu_seqlens ? s.sequences : s.batch; }

bool sequences_have_tokens(Sequences s) { return sequences_count(s) > 0 && s.tokens > 0; }

int64_t sequences_slots(Sequences s)
{
	return s.cu_seqlens ? s.tokens / SLOT_TOKENS + s.sequences : s.batch * ceil_div(s.tokens, SLOT_TOKENS);
}

tilert_status sequences_check(const char *who, Sequences s, int64_t heads, int64_t blocks)
{
	const int64_t most = INT32_MAX;
	const CheckExtent extents[] = {
		{ s.cu_seqlens ? "batch (with cu_seqlens)" : "batch", s.batch, s.cu_seqlens ? 1 : 0, s.cu_seqlens ? 1 : most },
		{ "tokens", s.tokens, 0, most }, { "sequences", s.sequences, 0, most },
	};
	tilert_status status = check_extents(who, extents, sizeof extents / sizeof extents[0]);
	if (status != TILERT_OK)
		return status;
	int64_t by_sequence = sequences_count(s) * blocks, slots = sequences_slots(s), per_head = slots > by_sequence ? slots : by_sequence;
	if (heads > 0 && per_head > most / heads)
		return launch_fail(TILERT_EINVAL, "%s: %lld chunks or sequences x %lld heads are more than %lld", who, (long long)per_head, (long long)heads,
			(long long)most);
	return TILERT_OK;
}

CheckDtype sequences_dtype(Sequences s) { return (CheckDtype){ "seqlens_dtype", s.dtype, 2, { TILERT_I32, TILERT_I64 } }; }
CheckPointer sequences_pointer(Sequences s) { return (CheckPointer){ "cu_seqlens", s.cu_seqlens, (unsigned)tilert_dtype_size(s.dtype), false }; }

Region sequences_region(Sequences s)
{
	return (Region){ "cu_seqlens", s.cu_seqlens, (sequences_count(s) + 1) * (int64_t)tilert_dtype_size(s.dtype), 0, 0, false };
}

void sequences_arguments(Args *a, Sequences s)
{
	const int64_t offsets[] = { sequences_count(s) + 1 };
	args_tensor(a, s.dtype == TILERT_I32 ? "cu" : "cu64", s.cu_seqlens, s.dtype, 1, offsets, NULL);
	args_dim(a, "SEQS", sequences_count(s));
	args_integer(a, "tokens", s.tokens);
}
