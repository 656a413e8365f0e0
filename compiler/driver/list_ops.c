/* list_ops.c - the table of TIR operations as text. */
#include "compiler/driver/emit.h"

void list_ops(FILE *out)
{
	static const char *const effects[] = { "pure", "read", "write", "sync", "control", "decl" };
	static const char *const results[] = { "-", "scalar", "object", "view", "scalar?" };
	fprintf(out, "%-16s %-15s %-8s %-8s %s\n", "operation", "operands", "result", "effect", "meaning");
	for (int i = 0; i < OP_COUNT; i++) {
		const OpInfo *op = op_info((Opcode)i);
		fprintf(out, "%-16s %-15s %-8s %-8s %s%s%s%s\n", op->text, op->operands, results[op->result], effects[op->effect], op->doc,
			*op->attributes ? " {" : "", op->attributes, *op->attributes ? "}" : "");
	}
	fprintf(out, "\n%-16s %s\n", "attribute", "meaning");
	for (int i = 0; i < ATTR_IDS; i++)
		fprintf(out, "%-16s %s\n", attr_info((AttrId)i)->text, attr_info((AttrId)i)->doc);
}
