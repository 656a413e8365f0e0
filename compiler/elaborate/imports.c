/* imports.c - the files of a program: each is read once, and sees its own declarations and those that it imports. */
#include "compiler/elaborate/elab.h"

#include <string.h>

enum { MAX_IMPORT_DEPTH = 4000 };

/* ---- paths ---- */

static const char *join_path(Elab *E, const char *dir, size_t n, const char *name)
{
	while (name[0] == '.' && name[1] == '/')
		name += 2;
	return n ? arena_printf(E->a, "%.*s/%s", (int)n, dir, name) : name;
}

/* "a/b/../c" is "a/c": one file has one name. */
static const char *tidy_path(Elab *E, const char *path)
{
	char *s = arena_strndup(E->a, path, strlen(path));
	char *up;
	while ((up = strstr(s, "/../")) && up != s) {
		char *from = up;
		while (from > s && from[-1] != '/')
			from--;
		if (!strncmp(from, "../", 3) || !strncmp(from, "./", 2))
			break;
		memmove(from, up + 4, strlen(up + 4) + 1);
	}
	return s;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* ---- files ---- */

/* Files that may be one reached by two paths: of the same length. */
static const char *likeness(Elab *E, size_t len)
{
	return arena_printf(E->a, "%zu", len);
}

static void make_room(Elab *E, unsigned source)
{
	if (source < E->file_room)
		return;
	unsigned room = 2 * source + 8;
	File **more = ARENA_ARRAY(E->a, File *, room);
	if (E->nfiles)
		memcpy(more, E->file_of, sizeof *more * E->nfiles);
	E->file_of = more;
	E->to_follow = ARENA_ARRAY(E->a, File *, room);
	E->file_room = room;
}

static File *new_file(Elab *E, const char *path, uint32_t source)
{
	const Source *text = diags_source(E->d, source);
	const char *like = likeness(E, text ? text->len : 0);
	File *f = ARENA_NEW(E->a, File);
	*f = (File){ .path = path, .source = source, .alike = table_get(E->alike, like) };
	make_room(E, source);
	E->file_of[source] = f;
	E->nfiles = source + 1;
	table_set(E->paths, path, f);
	table_set(E->alike, like, f);
	return f;
}

File *main_file(Elab *E, const char *path, uint32_t source)
{
	E->paths = table_new(E->a);
	E->alike = table_new(E->a);
	return new_file(E, tidy_path(E, path), source);
}

File *file_of(const Elab *E, uint32_t source)
{
	return source < E->nfiles ? E->file_of[source] : NULL;
}

static bool has_word(const char *text, size_t len, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = text, *end = text + len; (p = memchr(p, word[0], (size_t)(end - p))); p++)
		if ((size_t)(end - p) >= n && !memcmp(p, word, n))
			return true;
	return false;
}

/* By two paths one file, or a copy of the same name that means the same: what it imports may be other files there. */
static bool is_one_file(const Elab *E, const char *a, const char *b, const char *text, size_t len)
{
	bool is_copy = !strcmp(base_name(a), base_name(b)) && !(E->o->same_file && has_word(text, len, "import"));
	return is_copy || (E->o->same_file && E->o->same_file(a, b));
}

static File *file_with_text(Elab *E, const char *path, const char *text, size_t len)
{
	for (File *f = table_get(E->alike, likeness(E, len)); f; f = f->alike)
		if (!memcmp(diags_source(E->d, f->source)->text, text, len) && is_one_file(E, path, f->path, text, len))
			return f;
	return NULL;
}

/* ---- what a file sees ---- */

/* Follows the imports; anew after any is added. */
static void find_seen(const Elab *E, File *f)
{
	int n = 0;
	f->sees = bits_new(E->a, (int)E->nfiles);
	f->as_of = E->imports;
	bits_add(&f->sees, (int)f->source);
	for (E->to_follow[n++] = f; n;) {
		for (const Import *i = E->to_follow[--n]->imports; i; i = i->next)
			if (!bits_has(&f->sees, (int)i->file->source)) {
				bits_add(&f->sees, (int)i->file->source);
				E->to_follow[n++] = i->file;
			}
	}
}

bool file_sees(const Elab *E, File *f, uint32_t source)
{
	if (!f->sees.words || f->as_of != E->imports)
		find_seen(E, f);
	return (int)source / 64 < f->sees.words && bits_has(&f->sees, (int)source);
}

/* ---- imports ---- */

static void add_import(Elab *E, File *f)
{
	Import *i = ARENA_NEW(E->a, Import);
	*i = (Import){ E->at.file->imports, f };
	E->at.file->imports = i;
	E->imports++;
}

static void read_file(Elab *E, const Decl *d, const char *path, const char *text, size_t len)
{
	File *f = new_file(E, path, diags_add_source(E->d, path, text, len));
	add_import(E, f);
	if (E->import_depth == MAX_IMPORT_DEPTH) {
		elab_error(E, d->loc, E_LIMIT, "imports are nested more than %d deep", MAX_IMPORT_DEPTH);
		return;
	}
	E->import_depth++;
	const Ast *ast = ast_parse(E->a, E->d, f->source);
	if (ast)
		file_decls(E, ast, f);
	E->import_depth--;
}

/* True when the file at `path` is there; reads it unless it has been read.  *why: it is there but cannot be read. */
static bool try_import(Elab *E, const Decl *d, const char *path, const char **why)
{
	size_t len = 0;
	path = tidy_path(E, path);
	File *f = table_get(E->paths, path);
	const char *text = !f && E->o->read_file ? E->o->read_file(E->o->user, path, &len, why) : NULL;
	if (text)
		f = file_with_text(E, path, text, len);
	if (text && f)
		table_set(E->paths, path, f);
	if (f)
		add_import(E, f);
	else if (text)
		read_file(E, d, path, text, len);
	return f || text;
}

void import_file(Elab *E, const Decl *d)
{
	const char *importer = E->at.file->path, *why = NULL;
	const char *slash = strrchr(importer, '/');
	bool whole = d->name[0] == '/';
	bool found = try_import(E, d, whole ? d->name : join_path(E, importer, slash ? (size_t)(slash - importer) : 0, d->name), &why);
	for (int k = 0; !found && !why && !whole && k < E->o->ninclude_dirs; k++)
		found = try_import(E, d, join_path(E, E->o->include_dirs[k], strlen(E->o->include_dirs[k]), d->name), &why);
	if (found)
		return;
	elab_error(E, d->loc, E_IMPORT, "%s", why ? why : arena_printf(E->a, "there is no file '%s'", d->name));
	if (!why)
		diag_help(E->d, "it is looked for beside the importing file, then in the folders given with -I");
}
