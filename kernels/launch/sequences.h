/* sequences.h - the sequences of a call: rows of a batch or, with offsets, parts of one row (stages/sequences.tile). */
#ifndef TILE_LAUNCH_SEQUENCES_H
#define TILE_LAUNCH_SEQUENCES_H

#include "args.h"

enum { SLOT_TOKENS = 64 /* of a chunk that has a slot */ };

typedef struct Sequences { int64_t batch, tokens, sequences; tilert_ptr cu_seqlens; tilert_dtype dtype; } Sequences;
#define SEQUENCES_OF(p) ((Sequences){ (p)->batch, (p)->tokens, (p)->sequences, (p)->cu_seqlens, (p)->seqlens_dtype })

int64_t sequences_count(Sequences s);
bool sequences_have_tokens(Sequences s); /* some, or capacity for some */
int64_t sequences_slots(Sequences s);
/* heads: of what has slots or runs by sequence, `blocks` of each; their numbers must have 32 bits. */
tilert_status sequences_check(const char *who, Sequences s, int64_t heads, int64_t blocks);
CheckDtype sequences_dtype(Sequences s);
CheckPointer sequences_pointer(Sequences s);
Region sequences_region(Sequences s);
/* cu or cu64, SEQS, tokens. */
void sequences_arguments(Args *a, Sequences s);

#endif
