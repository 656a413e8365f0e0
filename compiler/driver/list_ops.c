/* list_ops.c - the table of TIR operations as text. */
#include "compiler/driver/emit.h"

void list_ops(FILE *out)
{
	static const char *const effects[] = { "pure", "read", "write", "sync", "control", "decl" };
	static const char *const results[] = { "-", "scalar", "object", "view", "scalar?" };
	fprintf(out, "%-16s %-16s %-8s %-8s %s\n", "operation", "operands", "result", "effect", "meaning (names of operands) {attributes}");
	for (int i = 0; i < OP_COUNT; i++) {
		const OpInfo *op = op_info((Opcode)i);
		fprintf(out, "%-16s %-16s %-8s %-8s %s", op->text, op->operands, results[op->result], effects[op->effect], op->doc);
		for (int k = 0; k < MOST_NAMED && op->name[k] != ARG_NONE; k++)
			fprintf(out, "%s%s%s", k ? ", " : " (", operand_name((OperandId)op->name[k]), k + 1 == MOST_NAMED || op->name[k + 1] == ARG_NONE ? ")" : "");
		fprintf(out, *op->attributes ? " {%s}\n" : "\n", op->attributes);
	}
	/* As the head of ops.def has them. */
	fputs("\noperands: e any scalar, i integer, k i32, c bool, l of the result's type; t tile, g of a tensor, s shared, r of a fragment;\n"
		"  o object, x tensor, S shared tile, f fragment; v var, m mbarrier, b named barrier, a array of either;\n"
		"  < read, > written, & both, ~ through the async proxy, ? may be left out, *n so many, * any more\n", out);
	fprintf(out, "\n%-16s %s\n", "attribute", "meaning");
	for (int i = 0; i < ATTR_IDS; i++)
		fprintf(out, "%-16s %s\n", attr_info((AttrId)i)->text, attr_info((AttrId)i)->doc);
}
