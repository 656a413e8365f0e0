/* elf.c - loads a relocatable ELF64 object for x86-64: sections, symbols, relocations, GOT and stubs. */
#define _DEFAULT_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/abi/cpu_abi.h"
#include "runtime/cpu/jit_debug.h"
#include "runtime/cpu/symbols.h"

/* Sections are laid out in this order, each kind on pages of its own. */
typedef enum PageKind { PAGE_CODE, PAGE_CONST, PAGE_DATA, PAGE_KINDS } PageKind;

enum { STUB_BYTES = 16 };

struct TileCpuImage {
	uint8_t *elf; /* a copy, its section addresses patched */
	uint64_t size;
	Elf64_Shdr *sections;
	uint32_t nsections;
	Elf64_Sym *symbols;
	uint64_t nsymbols;
	const char *names;
	uint64_t names_size;

	uint8_t *memory;
	uint64_t memory_size;
	uint64_t kind_begin[PAGE_KINDS + 1];
	uint8_t *stubs; /* one per symbol: jmp *slot; in the code pages */
	uint64_t *got;  /* one slot per symbol; in the data pages */

	char *error;
	uint32_t error_size;
	JitEntry *jit;
};

__attribute__((format(printf, 2, 3))) static bool fail(TileCpuImage *im, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (im->error_size)
		vsnprintf(im->error, im->error_size, format, args);
	va_end(args);
	return false;
}

static bool inside(const TileCpuImage *im, uint64_t offset, uint64_t bytes)
{
	return offset <= im->size && bytes <= im->size - offset;
}

/* ---- headers ---- */

static bool check_header(TileCpuImage *im)
{
	Elf64_Ehdr h;

	if (im->size < sizeof h)
		return fail(im, "the object is too short for ELF");
	memcpy(&h, im->elf, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
		return fail(im, "not a 64-bit little-endian ELF object");
	if (h.e_type != ET_REL || h.e_machine != EM_X86_64)
		return fail(im, "not a relocatable object for x86-64");
	if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum == 0 || h.e_shoff % 8 || !inside(im, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
		return fail(im, "the object's section table is damaged");
	im->sections = (Elf64_Shdr *)(void *)(im->elf + h.e_shoff);
	im->nsections = h.e_shnum;
	return true;
}

static bool is_loaded(const Elf64_Shdr *s)
{
	return s->sh_type != SHT_NULL && s->sh_flags & SHF_ALLOC && s->sh_size;
}

static bool check_section(TileCpuImage *im, const Elf64_Shdr *s)
{
	if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL && !inside(im, s->sh_offset, s->sh_size))
		return fail(im, "a section of the object lies outside it");
	if (s->sh_type == SHT_NOBITS && s->sh_size > (uint64_t)1 << 32)
		return fail(im, "a section of the object has %llu bytes", (unsigned long long)s->sh_size);
	if (s->sh_addralign & (s->sh_addralign - 1) || s->sh_addralign > 4096)
		return fail(im, "a section of the object has alignment %llu", (unsigned long long)s->sh_addralign);
	if (s->sh_flags & SHF_TLS && s->sh_flags & SHF_ALLOC)
		return fail(im, "the object has thread-local variables");
	return true;
}

static bool find_symbols(TileCpuImage *im)
{
	for (uint32_t i = 0; i < im->nsections; i++) {
		const Elf64_Shdr *s = &im->sections[i], *names;

		if (!check_section(im, s))
			return false;
		if (s->sh_type != SHT_SYMTAB)
			continue;
		if (s->sh_link >= im->nsections || s->sh_offset % 8)
			return fail(im, "the object's symbol table is damaged");
		names = &im->sections[s->sh_link];
		if (names->sh_type != SHT_STRTAB || !inside(im, names->sh_offset, names->sh_size) || names->sh_size == 0
			|| im->elf[names->sh_offset + names->sh_size - 1])
			return fail(im, "the object's symbol names are damaged");
		im->symbols = (Elf64_Sym *)(void *)(im->elf + s->sh_offset);
		im->nsymbols = s->sh_size / sizeof(Elf64_Sym);
		im->names = (const char *)im->elf + names->sh_offset;
		im->names_size = names->sh_size;
	}
	return im->symbols ? true : fail(im, "the object has no symbols");
}

static const char *symbol_name(const TileCpuImage *im, const Elf64_Sym *s)
{
	return s->st_name < im->names_size ? im->names + s->st_name : "";
}

/* ---- memory ---- */

static PageKind page_kind(const Elf64_Shdr *s)
{
	if (s->sh_flags & SHF_EXECINSTR)
		return PAGE_CODE;
	return s->sh_flags & SHF_WRITE ? PAGE_DATA : PAGE_CONST;
}

static uint64_t align_up(uint64_t x, uint64_t to)
{
	return to > 1 ? (x + to - 1) & ~(to - 1) : x;
}

/* Gives each loaded section an offset in memory (in sh_addr) and finds the size of it all. */
static void lay_out(TileCpuImage *im, uint64_t *stubs, uint64_t *got)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0;

	for (int kind = 0; kind < PAGE_KINDS; kind++) {
		im->kind_begin[kind] = at = align_up(at, page);
		for (uint32_t i = 0; i < im->nsections; i++) {
			Elf64_Shdr *s = &im->sections[i];

			if (!is_loaded(s) || page_kind(s) != (PageKind)kind)
				continue;
			s->sh_addr = at = align_up(at, s->sh_addralign);
			at += s->sh_size;
		}
		if (kind == PAGE_CODE) {
			*stubs = at = align_up(at, STUB_BYTES);
			at += im->nsymbols * STUB_BYTES;
		}
	}
	*got = at = align_up(at, 8);
	at += im->nsymbols * 8;
	im->memory_size = im->kind_begin[PAGE_KINDS] = align_up(at, page);
}

static bool load_sections(TileCpuImage *im)
{
	uint64_t stubs = 0, got = 0;
	void *m;

	lay_out(im, &stubs, &got);
	m = mmap(NULL, im->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return false; /* without a sentence: memory is out */
	im->memory = m;
	im->stubs = im->memory + stubs;
	im->got = (uint64_t *)(void *)(im->memory + got);
	for (uint32_t i = 0; i < im->nsections; i++) {
		Elf64_Shdr *s = &im->sections[i];

		if (!is_loaded(s))
			continue;
		if (s->sh_type != SHT_NOBITS)
			memcpy(im->memory + s->sh_addr, im->elf + s->sh_offset, s->sh_size);
		s->sh_addr += (uint64_t)(uintptr_t)im->memory;
	}
	return true;
}

static bool protect(TileCpuImage *im)
{
	static const int access[PAGE_KINDS] = { PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE };

	for (int kind = 0; kind < PAGE_KINDS; kind++) {
		uint64_t begin = im->kind_begin[kind], end = im->kind_begin[kind + 1];

		if (end > begin && mprotect(im->memory + begin, end - begin, access[kind]))
			return fail(im, "the system refuses to make the code executable");
	}
	return true;
}

/* ---- symbols ---- */

static bool resolve(TileCpuImage *im, const Elf64_Sym *s, uint64_t *value)
{
	const char *name = symbol_name(im, s);

	*value = 0;
	if (s->st_shndx == SHN_ABS) {
		*value = s->st_value;
	} else if (s->st_shndx == SHN_COMMON) {
		return fail(im, "'%s' is a common symbol: compile with -fno-common", name);
	} else if (s->st_shndx != SHN_UNDEF) {
		if (s->st_shndx >= im->nsections)
			return fail(im, "symbol '%s' is in no section of the object", name);
		*value = im->sections[s->st_shndx].sh_addr + s->st_value;
	} else if (*name) {
		*value = (uint64_t)(uintptr_t)symbol_address(name);
		/* the name of the GOT itself is used in distances only */
		if (!*value && ELF64_ST_BIND(s->st_info) != STB_WEAK && strcmp(name, "_GLOBAL_OFFSET_TABLE_"))
			return fail(im, "unknown symbol '%s': the CPU device does not provide it", name);
		if (!strcmp(name, "_GLOBAL_OFFSET_TABLE_"))
			*value = (uint64_t)(uintptr_t)im->got;
	}
	return true;
}

/* Fills the GOT, a slot per symbol, and the stubs that jump through it. */
static bool resolve_all(TileCpuImage *im)
{
	for (uint64_t i = 0; i < im->nsymbols; i++) {
		uint8_t *stub = im->stubs + i * STUB_BYTES;
		int32_t distance;

		if (!resolve(im, &im->symbols[i], &im->got[i]))
			return false;
		distance = (int32_t)((uint8_t *)&im->got[i] - (stub + 6));
		memcpy(stub, "\xff\x25", 2); /* jmp *distance(%rip) */
		memcpy(stub + 2, &distance, 4);
	}
	return true;
}

/* ---- relocations ---- */

static bool put64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, 8);
	return true;
}

static bool put32(TileCpuImage *im, const Elf64_Sym *s, uint8_t *at, int64_t value, bool fits)
{
	uint32_t low = (uint32_t)value;

	if (!fits)
		return fail(im, "'%s' is too far for a 32-bit relocation: compile with -fPIC", symbol_name(im, s));
	memcpy(at, &low, 4);
	return true;
}

static bool is_int32(int64_t x)
{
	return x == (int32_t)x;
}

/* Calls beyond 2 GB go through the symbol's stub. */
static bool relocate_pc32(TileCpuImage *im, const Elf64_Sym *s, uint8_t *at, uint64_t value, int64_t addend, bool call)
{
	int64_t distance = (int64_t)(value + (uint64_t)addend - (uint64_t)(uintptr_t)at);

	if (!is_int32(distance) && (call || ELF64_ST_TYPE(s->st_info) == STT_NOTYPE))
		distance = (int64_t)((uint64_t)(uintptr_t)im->stubs + (uint64_t)(s - im->symbols) * STUB_BYTES + (uint64_t)addend - (uint64_t)(uintptr_t)at);
	return put32(im, s, at, distance, is_int32(distance));
}

static uint32_t relocation_bytes(uint32_t type)
{
	switch (type) {
	case R_X86_64_NONE: return 0;
	case R_X86_64_64:
	case R_X86_64_PC64:
	case R_X86_64_GOTOFF64:
	case R_X86_64_GOTPC64: return 8;
	default: return 4;
	}
}

static bool relocate(TileCpuImage *im, uint64_t number, uint32_t type, uint8_t *at, int64_t addend)
{
	const Elf64_Sym *s = &im->symbols[number];
	uint64_t value = im->got[number], here = (uint64_t)(uintptr_t)at, got = (uint64_t)(uintptr_t)im->got;
	int64_t sum = (int64_t)(value + (uint64_t)addend);

	switch (type) {
	case R_X86_64_NONE: return true;
	case R_X86_64_64: return put64(at, (uint64_t)sum);
	case R_X86_64_PC64: return put64(at, (uint64_t)sum - here);
	case R_X86_64_GOTOFF64: return put64(at, (uint64_t)sum - got);
	case R_X86_64_GOTPC64: return put64(at, got + (uint64_t)addend - here);
	case R_X86_64_32: return put32(im, s, at, sum, sum == (uint32_t)sum);
	case R_X86_64_32S: return put32(im, s, at, sum, is_int32(sum));
	case R_X86_64_PC32: return relocate_pc32(im, s, at, value, addend, false);
	case R_X86_64_PLT32: return relocate_pc32(im, s, at, value, addend, true);
	case R_X86_64_GOTPC32: return put32(im, s, at, (int64_t)(got - here) + addend, true);
	case R_X86_64_GOTPCREL:
	case R_X86_64_GOTPCRELX:
	case R_X86_64_REX_GOTPCRELX: return put32(im, s, at, (int64_t)((uint64_t)(uintptr_t)&im->got[number] - here) + addend, true);
	default: return fail(im, "relocation type %u (of '%s') is not supported", type, symbol_name(im, s));
	}
}

static bool relocate_section(TileCpuImage *im, const Elf64_Shdr *r)
{
	const Elf64_Shdr *target;

	if (r->sh_info >= im->nsections)
		return fail(im, "a relocation section of the object is damaged");
	target = &im->sections[r->sh_info];
	if (!is_loaded(target))
		return true; /* of debug information: the debugger applies them */
	for (uint64_t i = 0; i < r->sh_size / sizeof(Elf64_Rela); i++) {
		uint64_t bytes;
		Elf64_Rela x;

		memcpy(&x, im->elf + r->sh_offset + i * sizeof x, sizeof x);
		bytes = relocation_bytes(ELF64_R_TYPE(x.r_info));
		if (ELF64_R_SYM(x.r_info) >= im->nsymbols || x.r_offset > target->sh_size || bytes > target->sh_size - x.r_offset)
			return fail(im, "a relocation of the object is damaged");
		if (!relocate(im, ELF64_R_SYM(x.r_info), ELF64_R_TYPE(x.r_info), (uint8_t *)(uintptr_t)target->sh_addr + x.r_offset, x.r_addend))
			return false;
	}
	return true;
}

static bool relocate_all(TileCpuImage *im)
{
	for (uint32_t i = 0; i < im->nsections; i++) {
		if (im->sections[i].sh_type == SHT_REL)
			return fail(im, "relocations without addends are not supported");
		if (im->sections[i].sh_type == SHT_RELA && !relocate_section(im, &im->sections[i]))
			return false;
	}
	return true;
}

/* ---- interface ---- */

static bool load(TileCpuImage *im)
{
	return check_header(im) && find_symbols(im) && load_sections(im) && resolve_all(im) && relocate_all(im) && protect(im);
}

TileCpuImage *tilecpu_image_load(const void *elf, uint64_t size, char *error, uint32_t error_size)
{
	TileCpuImage *im = calloc(1, sizeof *im);

	if (error_size)
		error[0] = '\0';
	if (!im)
		return NULL;
	im->error = error;
	im->error_size = error_size;
	im->size = size;
	im->elf = malloc(size ? size : 1);
	if (im->elf)
		memcpy(im->elf, elf, size);
	if (!im->elf || !load(im)) {
		tilecpu_image_free(im);
		return NULL;
	}
	im->jit = jit_debug_add(im->elf, im->size);
	return im;
}

static void *global_symbol(const TileCpuImage *im, const char *name)
{
	for (uint64_t i = 0; i < im->nsymbols; i++) {
		const Elf64_Sym *s = &im->symbols[i];

		if (s->st_shndx != SHN_UNDEF && ELF64_ST_BIND(s->st_info) != STB_LOCAL && !strcmp(symbol_name(im, s), name))
			return (void *)(uintptr_t)im->got[i];
	}
	return NULL;
}

TileCpuKernel tilecpu_image_symbol(const TileCpuImage *im, const char *name)
{
	void *address = global_symbol(im, name);
	TileCpuKernel kernel;

	memcpy(&kernel, &address, sizeof kernel);
	return kernel;
}

const char *tilecpu_image_files(const TileCpuImage *im)
{
	return global_symbol(im, TILE_CPU_FILES);
}

const TileCpuTile *tilecpu_image_tiles(const TileCpuImage *im, const char *kernel)
{
	char symbol[sizeof TILE_CPU_TILES_PREFIX + 255]; /* names have at most 255 characters: meta.c */

	snprintf(symbol, sizeof symbol, TILE_CPU_TILES_PREFIX "%s", kernel);
	return global_symbol(im, symbol);
}

void tilecpu_image_free(TileCpuImage *im)
{
	if (!im)
		return;
	jit_debug_remove(im->jit);
	if (im->memory)
		munmap(im->memory, im->memory_size);
	free(im->elf);
	free(im);
}
