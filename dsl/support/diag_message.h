/* diag_message.h - a collected message; for those that print them. */
#ifndef TILE_SUPPORT_DIAG_MESSAGE_H
#define TILE_SUPPORT_DIAG_MESSAGE_H

#include "dsl/support/diag.h"

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE, SEV_HELP } Severity;

typedef struct Message {
	struct Message *next;  /* in order of appearance, or of the notes of one diagnostic */
	struct Message *chain; /* of its hash bucket */
	struct Message *notes, **notes_end;
	Severity severity;
	DiagCode code;
	Loc loc;
	const char *text;
} Message;

const Message *diags_messages(const Diags *d); /* the first */
const char *severity_name(Severity s);

#endif
